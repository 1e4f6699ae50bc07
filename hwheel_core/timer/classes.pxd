# Fields of TimingWheel, BaseTimer, and HandedOut.

cdef class TimingWheel:
    cdef Timer* timer
    cdef int32_t depth          # 0: the wheel itself; otherwise a view of this level
    cdef object __weakref__
    cdef object upper           # the view of the next level, created on first access

cdef class BaseTimer:           # its functions are named core_*
    cdef Timer* timer
    cdef object __weakref__
    cdef uintptr_t closer       # the thread that is inside close(); 0: none
    cdef int is_over            # a close() has finished
    cdef list not_run           # tasks that close() has taken out and not returned yet
    cdef int64_t advancing      # 1 + the generation of the process while an advance is under way; 0: none
    cdef public bint _raises    # exceptions of callbacks propagate to the caller of advance()

cdef class HandedOut:           # a run that a timer has passed to its executor
    cdef readonly BaseTimer timer
    cdef readonly object source         # a task or a batch
    cdef readonly object indices        # of a batch
    cdef readonly object callback, args, kwargs
    cdef readonly int64_t generation    # of the process
    cdef object number                  # the key in `registry`
    cdef dict registry                  # the dispatcher's dict of unfinished runs
    cdef object future                  # the result of the executor's submit(), if it can be cancelled
    cdef public object finish_signal    # a lock that is released when the run has finished
    cdef bint claimed                   # the run has begun, or close() has taken it back
    cdef readonly bint is_taken_back    # by close(), or close() is trying to
    cdef bint is_finished
    cdef uintptr_t caller               # the user's thread that is submitting this; 0: none
