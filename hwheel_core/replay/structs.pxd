# A log of timers, and the state of its replay. There is no lock, because each replay has a wheel of its own.

cdef enum ReplayStatus:
    REPLAY_OK
    REPLAY_NO_MEMORY
    REPLAY_UNSORTED             # a row starts before the previous one
    REPLAY_BAD_ORDER            # an item of end_order is no row, or its end is before that of the previous item
    REPLAY_OVERFLOW             # a time is negative or beyond 64 bits

cdef enum Outcome:
    OUTCOME_FIRED
    OUTCOME_CANCELLED

cdef struct ReplayColumn:
    # A column of int64, borrowed from the caller.
    const char* data
    int64_t stride              # in bytes

cdef struct ReplayLog:
    int64_t count
    ReplayColumn starts_ms      # ascending
    ReplayColumn timeouts_ms
    ReplayColumn ends_ms
    int64_t end_count           # the number of cancelled timers
    ReplayColumn end_order      # the rows of the cancelled timers, by ends_ms

cdef struct ReplaySlab:
    ReplaySlab* next
    Entry* entries

cdef struct Replay:
    Wheel wheel
    ReplaySlab* slabs
    Entry* free                 # entries to reuse, linked by next
    Entry** by_row              # the pending timers; NULL before the start and after the end
    int8_t* outcomes            # by row
    int64_t* at_ms              # by row: the time of the outcome
    int64_t ended               # number of items of end_order that have been replayed
    int64_t pending
    int64_t peak
    int64_t fired
    int64_t wakeups
    bint sleeps                 # the reaper sleeps until sleeps_until_ms; False: until the next add
    int64_t sleeps_until_ms     # an add of an earlier timer moves this, a cancel does not
    Lateness lateness
