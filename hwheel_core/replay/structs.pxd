# A log of timers, and what its way through a wheel in virtual time needs. There is no lock, because
# each replay has a wheel of its own.

cdef enum ReplayStatus:
    REPLAY_OK
    REPLAY_NO_MEMORY
    REPLAY_UNSORTED             # a row starts before the one above it
    REPLAY_BAD_ORDER            # no row has this number, or it ends before the one above it
    REPLAY_OVERFLOW             # a time beyond 64 bits, or a negative one

cdef enum Outcome:
    OUTCOME_FIRED
    OUTCOME_CANCELLED

cdef struct ReplayColumn:
    # int64, in somebody else's memory
    const char* data
    int64_t stride              # in bytes

cdef struct ReplayLog:
    int64_t count
    ReplayColumn starts_ms      # ascending
    ReplayColumn timeouts_ms
    ReplayColumn ends_ms
    int64_t end_count           # how many were ever cancelled
    ReplayColumn end_order      # their rows, by ends_ms

cdef struct ReplaySlab:
    ReplaySlab* next
    Entry* entries

cdef struct Replay:
    Wheel wheel
    ReplaySlab* slabs
    Entry* free                 # linked by next. Entries are used again and again: in memory is what is pending
    Entry** by_row              # the pending timers; NULL: not started yet, or over
    int8_t* outcomes            # what is found out, by row
    int64_t* at_ms
    int64_t ended               # how far `end_order` has been lived through
    int64_t pending
    int64_t peak
    int64_t fired
    int64_t wakeups
    bint sleeps                 # the reaper: until a time that comes. False: for ever, until something is added
    int64_t sleeps_until_ms     # an earlier add wakes it, a cancel does not
    Lateness lateness
