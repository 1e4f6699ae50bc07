# What the objects hold that Python sees: the fields of their classes. Their methods stand in the files of their names.

cdef struct ReentrantLock:
    uintptr_t owner         # the thread that has it; 0: nobody has
    int64_t depth           # how many times; its owner's alone
    uintptr_t waiting       # a list of the locks that threads wait on, a reference; 0: nobody ever waited
    uintptr_t process       # which the rest is said of; see reentrant_lock.pxi

cdef class RLock:
    cdef ReentrantLock mutex

cdef class TimerTask:
    cdef Task task
    cdef object callback_
    cdef object arguments       # None, the only argument (TASK_ONE_ARGUMENT), or a tuple that nobody else has

cdef class Awaited:
    cdef object callback        # in whose place it stands; None: the task has none
    cdef list waiters           # (loop, future, process) of those who wait

cdef struct Terms:
    # When a task may run, besides its deadline. A length of zero is none.
    Instant slack           # by so much it may be put off
    Instant max_lateness    # later than so much after its deadline it does not run any more
    int64_t put_off_ms      # by so much its deadline has been

cdef class TermsTask(TimerTask):
    cdef Terms terms

cdef class PeriodicTask(TermsTask):
    cdef object interval_ns     # Python ints: exact over any time, and not on the hot path
    cdef object next_ns         # the next time on the grid of intervals
    cdef Instant interval       # for want of memory
    cdef object jitter_ns       # each run is later by a part of this
    cdef object draw            # which part: a function that returns a float from 0 to 1. None: there is no jitter
    cdef uintptr_t runner       # the thread that runs it; 0: none
    cdef int32_t missed

cdef class GroupTask(TimerTask):
    cdef Member member

cdef class GroupTermsTask(TermsTask):
    cdef Member member

cdef class GroupPeriodicTask(PeriodicTask):
    cdef Member member

cdef extern from *:
    """
    /* The Arrow C data interface: a stable ABI, defined by its specification, made to be declared by who uses it. */
    #ifndef ARROW_C_DATA_INTERFACE
    #define ARROW_C_DATA_INTERFACE
    struct ArrowSchema {
        const char *format, *name, *metadata;
        int64_t flags, n_children;
        struct ArrowSchema **children, *dictionary;
        void (*release)(struct ArrowSchema *);
        void *private_data;
    };
    struct ArrowArray {
        int64_t length, null_count, offset, n_buffers, n_children;
        const void **buffers;
        struct ArrowArray **children, *dictionary;
        void (*release)(struct ArrowArray *);
        void *private_data;
    };
    #endif
    """
    cdef struct ArrowSchema:
        const char* format
        ArrowSchema* dictionary
        void (*release)(ArrowSchema*) noexcept
    cdef struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        const void** buffers
        void (*release)(ArrowArray*) noexcept

cdef class Int64Buffer:
    cdef const char* data
    cdef int64_t count
    cdef Py_ssize_t stride      # in bytes
    cdef object keeper          # a memoryview
    cdef ArrowArray arrow       # or what was taken out of a capsule; its release is NULL: nothing was

cdef class TimerBatch:
    cdef Batch* batch
    cdef object owner           # a weak reference to the BaseTimer: that, and not the batch, is what a pending batch's timer is of
    cdef object callback_
    cdef object remaining       # after close(): the indices that had not run, in order of their time

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

cdef class TimerGroup:
    cdef readonly BaseTimer timer
    cdef Group* group
    cdef object __weakref__

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
