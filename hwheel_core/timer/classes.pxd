# Fields of the timer classes.

cdef class TimingWheel:
    cdef Timer* timer
    cdef int32_t depth          # 0: the wheel itself; else how many levels up this view looks
    cdef object __weakref__
    cdef object upper           # the view of the next level, once asked for

cdef class BaseTimer:           # whose functions are called core_...
    cdef Timer* timer
    cdef object __weakref__
    cdef uintptr_t closer       # the thread whose close() is under way; 0: none
    cdef int is_over            # a close() has come to its end
    cdef list not_run           # what close() has taken out, until it returns it
    cdef int64_t advancing      # 1 + the generation of the process in which an advance is under way; 0: none is
    cdef public bint _raises    # an exception in a callback that runs in its caller's thread is the caller's

cdef class HandedOut:
    cdef readonly BaseTimer timer
    cdef readonly object source         # a task or a batch
    cdef readonly object indices        # of a batch
    cdef readonly object callback, args, kwargs
    cdef readonly int64_t generation    # of the process
    cdef object number                  # its key in `registry`, of its HandOver, as long as it is not over
    cdef dict registry
    cdef object future                  # what the executor's submit() returned, if it can be cancelled
    cdef public object finish_signal          # a lock that is released when it is finished
    cdef bint begun
    cdef readonly bint is_taken_back    # or is about to be
    cdef bint is_finished
    cdef uintptr_t caller               # the user's own thread, while it submits this; else 0
