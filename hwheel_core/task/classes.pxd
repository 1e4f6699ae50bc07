# Fields of the task classes.

cdef class TimerTask:
    cdef Task task
    cdef object callback_
    cdef object arguments       # None, the only argument (TASK_ONE_ARGUMENT), or a tuple that no other object refers to

cdef class Awaited:
    cdef object callback        # the task's own; None: it has none
    cdef list waiters           # of (loop, future)

cdef struct Terms:
    # When a task may run, apart from its deadline. A field of zero: no such term.
    Instant slack           # the deadline may be postponed by this much
    Instant max_lateness    # the task is skipped if it would start more than this after its deadline
    int64_t put_off_ms      # by how much the slack has postponed the deadline

cdef class TermsTask(TimerTask):
    cdef Terms terms

cdef class PeriodicTask(TermsTask):
    cdef object interval_ns     # Python ints, because nanoseconds over many years exceed 64 bits
    cdef object next_ns         # the next time on the grid of intervals
    cdef Instant interval       # the same as a C struct, for a restart without memory for Python ints
    cdef object jitter_ns       # each run is postponed by a random part of this
    cdef object draw            # a function that returns the part, a float from 0 to 1; None: there is no jitter
    cdef uintptr_t runner       # the thread that runs the task; 0: none
    cdef int32_t missed         # Missed
