# Fields of the task classes.

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
