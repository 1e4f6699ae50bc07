# The timer around the wheel, and the rules for its locks.
#
# Locking
# =======
# Each `Timer` (behind every TimingWheel, SystemTimer, ManualTimer, and LoopTimers) has two mutexes:
#
# `lock`       guards every field of the Timer, of its Wheel, of its Batches, and of the Tasks and Entries that it owns, except
#              where a comment below says otherwise.
# `turnstile`  guards no data. A thread that finds `lock` taken waits for it while holding `turnstile`. A cascade that releases
#              `lock` between two slices reacquires it through `turnstile`, behind the waiting thread. So an add waits for one
#              slice of a cascade, never for all of it.
#
# Two mutexes exist once per process:
#
# `registry`   guards the list of all Timers, for fork.
# `orphans`    guards the state of tasks that no timer owns yet, and a ReentrantLock when it is first used after a fork. Without
#              a GIL it also guards a few short reads (gc_track, key_item, operation_purgatory).
#
# The GIL, or without a GIL the object's critical section, guards the data of Python objects: callbacks, arguments, and the
# wheels of containers. docs/locks.md has the full list.
#
# Without a GIL, an added task may wait in an inbox, which has a lock of its own: see inbox.pxi.
#
# Order of acquisition, as in docs/locks.md: registry, turnstile, lock, locks of inboxes, orphans. A thread holds at most a
# turnstile and its lock, or a lock and the locks of its inboxes. Only the fork handlers hold all of them.
#
# Rules under `lock`:
#   - No Python code, no callback, no reference count that reaches zero, no allocation, no free, no wait. Allocate before taking
#     the lock. Move the things to release into a local list, and release them after the lock.
#   - No thread waits for the GIL while it holds a mutex. A thread that has the GIL tries `lock`; if that fails it releases the
#     GIL, waits, and releases `lock` again before it reacquires the GIL (lock_with_gil), or it works without the GIL.
#     Exception: a thread may wait for `orphans` and `registry` with the GIL, because their holders need nothing else.
#
# Names: `*_locked` functions require `lock`. `wheel_*`, `bucket_*`, `queue_*`, and `entry_*` are plain algorithm and require
# that the caller guards the wheel. "Plain C" means `noexcept nogil` and no Python object.
#
# Reads without the lock: hw_peek and hw_poke access a field that is written under the lock and read without it. Such a read is
# whole but may be stale. hw_load and hw_store also order the memory around them.
#
# Fork. The fork handlers take all locks, so no data is half changed in the child. In the child every lock is initialized again,
# and each Timer is marked `forked`, until core_after_fork drops or keeps the parent's tasks. Usually the Python fork handler
# calls that function, otherwise the first add. `generation` counts forks. A thread that forks inside a callback is the main
# thread of the child. The changed generation tells this thread to leave its loop: the remaining work belongs to the parent.
#
# Any thread may call `timer_step_locked`: the Wheel holds the whole state of an unfinished cascade, so two threads that advance
# one wheel continue each other's work.

cdef enum:
    LATENESS_BUCKETS = 976  # 16 for each power of two of microseconds: exact to 6 %

cdef struct Lateness:
    int64_t count
    int64_t max_us
    int64_t buckets[976]

cdef struct Occupancy:
    # The result of timer_measure_occupancy: how full the buckets of each level are.
    Level levels[64]        # MAX_LEVELS; a copy from the beginning of the walk
    int32_t filled[64]      # number of non-empty buckets of each level
    int64_t widths[64]      # buckets per column: the least power of two with which all non-empty buckets have a column
    int32_t level_count
    int32_t columns         # an even number
    int64_t* counts         # `columns` numbers of entries for each level, from the bucket of the level's clock on
    int64_t ready           # number of expired timers that wait for the executor
    int ready_is_more       # there are more than `ready`; the walk stopped
    Lateness lateness

cdef enum ClockKind:
    CLOCK_KIND_MONOTONIC
    CLOCK_KIND_BOOTTIME
    CLOCK_KIND_CALLABLE     # Timer.clock_object: Python code
    CLOCK_KIND_MANUAL       # Timer.latest_reading
    CLOCK_KIND_WHEEL        # the level 1 clock of a TimingWheel

cdef struct Instant:
    # A point in time or a duration: milliseconds, plus 0 to 999,999 nanoseconds.
    int64_t ms
    int32_t ns

cdef struct Turn:
    # The time for which an operation over all entries may hold the GIL: see turn.pxi.
    int64_t end_ns
    int32_t steps           # number of entries before the next look at the clock

cdef struct Sighting:
    # A pending task, a timer of a batch, or a loop's handle, as a walk over the timer has found it.
    PyObject* task          # or batch or handle; with a reference. NULL: the task was found again later
    int64_t expiration_ms   # sightings_sort replaces it by the number of the tick
    int64_t bucket_ms
    int32_t level           # from 1; 0: in no bucket, because it is due
    int32_t index           # of the bucket in its level
    int64_t number          # position in the walk; of a batch: the number of timers that this sighting counts

cdef struct Sightings:
    # All pending tasks. The walk goes from coarser levels to finer ones and to due tasks, in each list from its end.
    Sighting* items
    int64_t count
    int64_t capacity
    Py_ssize_t entry_offset # of the entry in a task or handle
    bint has_batches        # also add the timers of batches
    bint is_of_loop         # the timer belongs to a loop

cdef struct Reading:
    # A reading of a callable clock.
    Instant now             # the timer's time, which stops while the clock is behind an earlier reading
    Instant shown           # the reading itself

cdef struct Deadline:
    # A deadline on its way from the caller into the wheel.
    Instant now             # reading of the timer's clock
    Instant delay           # from `now`
    int64_t deadline_ms     # `now` plus `delay`, rounded up, plus a part of the slack
    int64_t expiration_ms   # the time by which the wheel places the task: its tick does not begin before the deadline

cdef enum:
    INBOXES = 8
    INBOX_CAPACITY = 128
    INBOX_REFERENCES = 128  # number of references that a thread takes at once

cdef struct InboxEntry:
    Task* task              # NULL: cancelled
    int64_t added_ns        # reading of the clock at the add; never decreases within an inbox

cdef struct Inbox:
    char before[64]         # keeps two inboxes off the same cache line
    hw_mutex lock           # guards the rest, except `references`
    int32_t number
    int32_t length          # number of letters; the last one is never a cancelled one
    int32_t moved           # while the inbox is emptied: number of letters that are in the wheel already, or cancelled
    int64_t from_ms         # accepts tasks that expire from here on (INT64_MAX: none) ...
    int64_t until_ms        # ... and before this
    int64_t last_ns         # added_ns of the last letter
    int64_t pending         # not in the timer's counters yet, like the next two
    int64_t added
    int64_t cancelled
    int64_t references      # spare references to the timer, for new tasks: see timer_keep
    InboxEntry letters[128]     # INBOX_CAPACITY
    char after[64]

cdef struct Timer:
    hw_mutex lock
    hw_mutex turnstile
    hw_cond work            # the executor's own thread waits here for `ready`
    hw_cond all_awake       # a woken thread waits here until the others have returned from their sleep
    Timer* registry_prev    # guarded by `registry`
    Timer* registry_next
    int64_t references      # of its Python objects, of its batches, and of every task that it owns (hw_count_add)
    Wheel wheel
    Entry ready             # expired entries that wait for the executor, in order; of a batch, only the heads of runs
    Lead ready_lead         # for hints in `ready`
    int32_t fetched_ahead   # number of entries to take before the next prefetch of callbacks
    Batch* batches          # those with pending entries or with holders
    Entry resting           # tasks of call_every whose run is under way
    int64_t resting_count   # their number; each keeps its place under max_pending
    int64_t max_pending
    int64_t pending         # tasks and batch entries in the wheel or in `ready`
    int64_t added
    int64_t expired
    int64_t cancelled
    int64_t returned        # by close()
    int64_t wakeups
    int64_t missed          # expired tasks that were too late to run
    Lateness lateness
    int64_t reaper_until_ms # the latest end of a sleep; INT64_MAX: forever; INT64_MIN: no thread needs a wake-up
    int64_t added_before_sleep  # value of `added` when the last sleep began
    int32_t sleepers        # number of threads that sleep, or are about to return from their sleep
    int woken               # `waker` is signaled, until the last sleeper has returned
    int32_t clock           # ClockKind; constant
    int never_early         # constant
    int64_t round_up_ms     # added to a deadline so that its tick does not begin before it; constant
    void* clock_object      # CLOCK_KIND_CALLABLE: a reference to the callable; NULL once closed
    Instant latest_reading      # CLOCK_KIND_MANUAL: the time; CLOCK_KIND_CALLABLE: the latest reading so far
    hw_waker waker          # constant while any thread is reaping
    int reaping             # number of threads inside timer_reap
    int has_worker          # a thread that waits on `work` runs the callbacks, not the reaper
    int started             # the threads are started, so that an add need not do it (read without lock)
    int forked              # the process was forked, and the parent's tasks are still here
    int64_t generation      # number of forks since the timer was created (read without lock)
    int roles[2]            # RoleState of each role
    uintptr_t starters[2]   # the thread that is starting a thread for the role
    int closed              # adds are refused, except for those that `exiting` and `finishing` allow
    int exiting             # the interpreter exits: containers still accept entries, which no alarm expires
    int finishing           # between drain() and close(): alarms of containers are accepted
    int alarms_running      # number of alarms of containers that have expired and may still be set again
    int hurried             # close() runs pending tasks before their deadline
    int stopping            # threads must end now
    int dumping             # dump() will write the tasks that close() takes out, including those of call_every under way
    int draining            # threads must end as soon as `ready` is empty
    uintptr_t inboxes       # Inbox*, an array of INBOXES; 0: none yet. See inbox.pxi
    int mail                # a bit for each inbox with uncounted letters (hw_peek, hw_set_bits, hw_clear_bits)
    int met                 # number of waits for the lock, up to HW_MEETINGS (read without lock)
    int adding              # number of batches that are being placed, which release the lock in between

cdef enum:                  # roles of threads
    ROLE_REAPER = 0
    ROLE_EXECUTOR = 1

cdef enum RoleState:
    ROLE_FREE
    ROLE_STARTING
    ROLE_TAKEN

cdef enum Status:
    STATUS_ERROR = -1       # a Python exception is set
    OK
    WAS_DUE                 # a TimingWheel does not accept a task that is due
    NEEDS_LEVEL             # call timer_grow, then try again
    NEEDS_MEMORY            # call batch_memory_new, then try again
    CLOSED
    GROUP_CLOSED
    FULL
    WAS_CANCELLED
    WAS_PENDING
    SPENT                   # the task has expired and its callback is released
    NOT_PENDING
    TRY_AGAIN               # the lock was taken, or another thread has changed the state
    DISOWNED                # a concurrent add of the same task failed and gave up its claim: call task_claim, then try again

cdef enum WhenDue:
    # The treatment of an entry that is due when it is added.
    REFUSE_DUE              # the caller keeps it: WAS_DUE
    TAKE_DUE                # it goes to `ready`

cdef enum ReapStatus:
    REAP_READY              # this thread must hand out the entries of `ready`
    REAP_TAKEN              # buckets were taken; the executor's own thread has the expired entries
    REAP_NOTHING            # the time limit has passed; inside reaper.pxi also: there is nothing to do
    REAP_STOPPED
    REAP_SIGNAL             # the wait was interrupted: check for signals
    REAP_READ_CLOCK         # woken up: read the clock, which only Python code can do, and call again
    REAP_AGAIN              # internal to reaper.pxi: look for due buckets again
