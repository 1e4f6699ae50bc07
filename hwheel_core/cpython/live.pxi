# A debug build (HWHEEL_DEBUG=1 when compiling) counts live objects; a release build does not.


cdef enum:
    LIVE_TIMERS
    LIVE_TASKS              # tasks that were ever added
    LIVE_BATCHES
    LIVE_WATCHERS           # entries of a purgatory's watch lists


cdef int64_t live[4]


cdef inline void debug_count(int what, int64_t change) noexcept nogil:
    if HW_DEBUG:
        hw_count_add(&live[what], change)
