"""The core's structs, and the rules for touching them. Everything that has a lock is explained here and nowhere else.

Locking
=======
Each `Timer` (one behind every TimingWheel, SystemTimer and ManualTimer) has two mutexes:

`lock`       guards every field of the Timer, of its Wheel, of every Task and Entry that it owns and of every Batch
             of it, except where a comment below says otherwise.
`turnstile`  guards nothing. Whoever finds `lock` taken waits for it while holding `turnstile`; a cascade that gives
             `lock` up in between comes back through `turnstile`, behind whoever waits there. So an add that meets a
             cascade waits for one slice of it, not for the whole.

Two process-wide mutexes exist besides: `orphans` (state of tasks that no timer owns yet; the first look at an
operation's lock after a fork, and its `waiting`) and `registry` (the list of all Timers, for fork).

Order: registry, then turnstile, then lock, then orphans. No thread ever holds two of them but a turnstile's and its own
lock, and the fork handlers, which hold all.

Under `lock` there is no Python code, no callback, no reference count reaching zero, no allocation and no waiting. What
has to be allocated is allocated before, what has to be released is moved out and released after. Whoever holds the GIL
tries `lock`, and if it is taken gives the GIL up before it waits, and does not come back to the GIL until `lock` is
free again: nobody waits for the GIL with a mutex held. (`orphans` and `registry` are held for a few instructions, which
need nothing else: for these one waits with the GIL.)

Names of functions that want `lock` held end in `_locked`. `wheel_*`, `bucket_*`, `queue_*` and `entry_*` are plain
algorithm and want the same from their caller.

In the child of a fork every lock is made anew, and each Timer is marked `forked`: what was the parent's is dropped or kept
by the first to come, the fork handler or an add (timer_core.pxi). `generation` tells a thread that has forked inside a
callback, and so is the child's main thread, that the rest is other threads' business.

`timer_step_locked` may be called by any thread: everything that an unfinished cascade needs stands in the Wheel, so
two threads that advance one wheel at once continue each other's work.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint64_t, uintptr_t

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass


cdef extern from "native.h" nogil:
    ctypedef struct hw_divisor:
        pass


# --- what hangs in a wheel ---------------------------------------------------------------------------------------

cdef struct Entry:
    # A node of a circular doubly linked list; a list is an Entry that stands for its own head. next is NULL while the
    # entry is in no list. This is all that a cascade touches: 32 bytes, of which two fill a cache line.
    Entry* prev
    Entry* next
    int64_t expiration_ms   # as it is placed by; the deadline rounded up where the timer is never early
    int32_t hint            # how far away, in 8 bytes, the entry is that a walk reaches HINT_DISTANCE steps later
    int32_t place           # of a batch's entry: its index; else one of these

cdef enum:
    ENTRY_OF_TASK = -1
    ENTRY_OF_BATCH = -2     # Batch.node
    MAX_BATCH_LENGTH = 0x7FFFFFFF

cdef enum TaskState:
    TASK_NEW                # never added, never cancelled
    TASK_PENDING            # linked: in a bucket, in Wheel.flush, in Wheel.due or in Timer.ready
    TASK_EXPIRED            # handed out to be run
    TASK_CANCELLED

cdef enum TaskFlags:
    TASK_HAD_CALLBACK = 1   # spent once it has expired
    TASK_OWN_RUN = 2        # a subclass with a run() of its own: may be added again
    TASK_ONE_ARGUMENT = 4   # `arguments` is the only argument itself and no tuple
    TASK_KEYWORDS = 8       # the last item of `arguments` is a dict of keywords
    TASK_REPEATS = 16       # call_every: goes back into the wheel after it ran

cdef struct Task:
    Entry entry
    uintptr_t owner         # Timer*, or 0; set once and stays until the task dies (read without lock)
    int64_t delay_ms
    int64_t deadline_ms
    int32_t state           # TaskState
    int32_t flags           # TaskFlags; constant after construction


# --- the wheel ---------------------------------------------------------------------------------------------------

cdef enum:
    HINT_DISTANCE = 16      # how many nodes ahead of the walk the prefetch hint points
    MAX_LEVELS = 64         # of wheel_size 2 in 64 bits

cdef struct Lead:
    # For hints that have to be written into older nodes of a growing list.
    Entry* entry            # the node whose hint names what comes next to the list: HINT_DISTANCE before it
    int64_t removals        # Wheel.removals when it was set: with a higher count the node may be gone
    int32_t count           # how many nodes there are between

cdef struct Bucket:
    # Two cache lines, the second for hints.
    Entry entries           # the list. Its head's expiration_ms is the bucket's, and means nothing while not queued; its
                            # place is the bucket's index, virtual_id % wheel_size
    int32_t queue_index     # where in the delay queue, -1 when not in it
    int16_t level           # from 1, as Kafka's texts count
    int16_t recent_index    # where in `recent` the next append goes
    Lead pushed             # for pushes to the front
    uint32_t recent[16]     # the last appends, as numbers for hints (entry_number)

cdef struct Level:
    int64_t current_time_ms
    int64_t tick_ms
    uint64_t interval_ms    # tick_ms * wheel_size, or UINT64_MAX where that does not fit
    hw_divisor by_tick      # division by tick_ms
    Bucket* buckets
    int32_t current_index   # the bucket of current_time_ms

cdef struct Wheel:
    int32_t wheel_size
    int32_t level_count
    int32_t queue_length
    Bucket** queue          # binary heap by (expiration_ms, level); holds every non-empty bucket
    Entry flush             # what a cascade has taken off a bucket and not yet placed again
    Entry due               # what is due at the tick of the level 1 clock, in order
    int64_t taken_ms        # expiration of the bucket taken last
    int64_t removals        # entries taken out by something else than a cascade: remembered nodes may be gone
    int64_t cascaded
    Level levels[64]        # MAX_LEVELS

cdef enum AddStatus:
    ADD_PENDING             # in a bucket
    ADD_DUE                 # not added: the caller runs it
    ADD_NEEDS_LEVEL         # not added: wheel_grow and try again


# --- operations that wait for keys -------------------------------------------------------------------------------
#
# What guards these is said in operation.pxi, purgatory_core.pxi and reentrant_lock.pxi: they are Python's objects'.

cdef struct ReentrantLock:
    uintptr_t owner         # the thread that has it; 0: nobody has
    int64_t depth           # how many times; its owner's alone
    void* waiting           # a list of the locks that threads wait on, a reference; NULL: nobody ever waited
    uintptr_t process       # which the rest is said of; see reentrant_lock.pxi

cdef struct WatchNode:
    WatchNode* prev
    WatchNode* next         # NULL: in no list, not yet or no more
    Watcher* watcher        # a reference while in a list
    void* watch_list        # the WatchList; not a reference, its nodes leave it before it dies

cdef struct Watcher:
    int64_t references
    void* operation         # see watch_list.pxi; NULL from its completion on, or when it was withdrawn
    Watcher* next           # in PurgatoryCore.to_purge
    WatchNode* nodes        # one for each key, in the same block of memory
    int32_t count
    int32_t linked          # how many of them are in lists
    int delayed             # counted as one whose timeout is to come


# --- the timer around it -----------------------------------------------------------------------------------------

cdef enum:
    LATENESS_BUCKETS = 976  # 16 steps for each power of two of microseconds: within 6 %

cdef struct Lateness:
    int64_t count
    int64_t max_us
    int64_t buckets[976]

cdef enum ClockKind:
    CLOCK_KIND_MONOTONIC
    CLOCK_KIND_BOOTTIME
    CLOCK_KIND_CALLABLE     # Timer.clock_object: Python code
    CLOCK_KIND_MANUAL       # Timer.manual_now
    CLOCK_KIND_WHEEL        # the level 1 clock of a bare wheel

cdef struct Instant:
    # A point or a length of time: whole milliseconds, and 0 to 999,999 ns on top.
    int64_t ms
    int32_t ns

cdef struct Timer:
    pthread_mutex_t lock
    pthread_mutex_t turnstile
    pthread_cond_t work     # the executor's own thread waits here for `ready`
    Timer* registry_prev    # guarded by `registry`
    Timer* registry_next
    int64_t references      # its Python object and every task that was ever added (hw_count_add)
    Wheel wheel
    Entry ready             # what fell due and waits for the executor, in order; batches stand in it as one node each
    Lead delivered          # for hints in `ready`
    int32_t fetched_ahead   # how many of the next in `ready` have been prefetched
    Batch* batches          # those with anything pending
    Entry resting           # tasks of call_every that were handed out and have not come back yet
    int64_t resting_count   # how many; each keeps its place under max_pending
    int64_t max_pending
    int64_t pending         # tasks and batch entries in the wheel or waiting in `ready`
    int64_t added
    int64_t expired
    int64_t cancelled
    int64_t returned        # by close()
    int64_t wakeups
    Lateness lateness
    int64_t reaper_until_ms # the latest time that a sleeper sleeps for: INT64_MAX for ever, INT64_MIN: no need to wake any
    int32_t sleepers        # threads that sleep until then, or are on their way out of that sleep
    int woken               # wake_fds can be read, until the last of the sleepers has come back
    int32_t clock           # ClockKind; constant
    int never_early         # constant
    int64_t round_up_ms     # what is added to a deadline so that its tick is not before it; constant
    void* clock_object      # CLOCK_KIND_CALLABLE: a reference to the callable; NULL once closed
    Instant manual_now      # CLOCK_KIND_MANUAL: the time; CLOCK_KIND_CALLABLE: the reading of the last cascade
    int wake_fds[2]         # constant while any thread is reaping
    int alarm_fd
    int reaping             # threads inside timer_reap
    int has_worker          # hand-out is by a thread that waits on `work`, not by the reaper itself
    int started             # adds need not ask for threads any more (read without lock)
    int forked              # the process was forked, and what was the parent's is still here
    int64_t generation      # of processes: one more after each fork (read without lock)
    int roles[2]            # for each role whether a thread has taken it: RoleState
    uintptr_t starters[2]   # who is starting a thread for it
    int closed              # adds are refused
    int stopping            # threads shall end at once
    int draining            # threads shall end when nothing is ready any more
    int adding              # bulk adds under way, which give the lock up in between

cdef enum:                  # Roles
    ROLE_REAPER = 0
    ROLE_EXECUTOR = 1

cdef enum RoleState:
    ROLE_FREE
    ROLE_STARTING
    ROLE_TAKEN

cdef enum:
    DUE_CANCELLED = -1      # index of a Due whose timer was cancelled after it had fallen due

cdef struct Due:
    # What is kept of a batch's timer that fell due, so that handing it out reads one array from front to end and does
    # not come back to entries scattered over memory.
    int64_t index
    int64_t expiration_ms

cdef struct Batch:
    Entry node              # stands in Timer.ready for what waits in `due`; the first field: see entry_batch
    Entry* entries          # a block that holds both arrays, freed when nothing is pending any more; its [-2] is this
    Due* due                # which of the entries fell due, in order: room for all of them, each falls due once
    int64_t due_begin       # what stands before it has been handed out
    int64_t due_end
    int64_t due_cancelled   # between the two
    Timer* timer
    Batch* prev             # in Timer.batches
    Batch* next
    void* object            # the TimerBatch, one reference, while in Timer.batches
    int64_t length
    int64_t pending
    int64_t adding          # entries, the last ones, that a batch_add under way has still to link
    int64_t handing_out     # threads that have popped `node` and not taken what is due: they need the object alive
