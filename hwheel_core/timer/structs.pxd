# The timer around the wheel, and the rules for touching it.
#
# Locking
# =======
# Each `Timer` (one behind every TimingWheel, SystemTimer and ManualTimer) has two mutexes:
#
# `lock`       guards every field of the Timer, of its Wheel, of every Task and Entry that it owns and of every Batch
#              of it, except where a comment below says otherwise.
# `turnstile`  guards nothing. Whoever finds `lock` taken waits for it while holding `turnstile`; a cascade that gives
#              `lock` up in between comes back through `turnstile`, behind whoever waits there. So an add that meets a
#              cascade waits for one slice of it, not for the whole.
#
# Two process-wide mutexes exist besides: `orphans` (state of tasks that no timer owns yet; the first look at a
# ReentrantLock after a fork, and its `waiting`; and, where there is no GIL, looks of a few instructions, whose places say so:
# gc_track, key_item, operation_purgatory) and `registry` (the list of all Timers, for fork).
#
# What Python objects hold beside their Timer, callbacks, arguments, a container's wheel, is guarded by the GIL; where there is
# none, by the object's critical section. docs/locks.md has the list.
#
# Where there is no GIL, what threads add may stand in an inbox for a while, which has a lock of its own: timer/inbox.pxi.
#
# Order: registry, then turnstile, then lock, then those of its inboxes, then orphans. No thread ever holds two of them but a
# turnstile's and its own lock, a lock and its inboxes', and the fork handlers, which hold all.
#
# Under `lock` there is no Python code, no callback, no reference count reaching zero, no allocation and no waiting. What
# has to be allocated is allocated before, what has to be released is moved out and released after. Whoever holds the GIL
# tries `lock`, and if it is taken gives the GIL up before it waits, and does not come back to the GIL until `lock` is
# free again: nobody waits for the GIL with a mutex held. (`orphans` and `registry` are held for a few instructions, which
# need nothing else: for these one waits with the GIL.)
#
# Names of functions that want `lock` held end in `_locked`. `wheel_*`, `bucket_*`, `queue_*` and `entry_*` are plain
# algorithm and want the same from their caller.
#
# In the child of a fork every lock is made anew, and each Timer is marked `forked`: what was the parent's is dropped or kept
# by the first to come, the fork handler or an add (timer/after_fork.pxi). `generation` tells a thread that has forked inside a
# callback, and so is the child's main thread, that the rest is other threads' business.
#
# `timer_step_locked` may be called by any thread: everything that an unfinished cascade needs stands in the Wheel, so
# two threads that advance one wheel at once continue each other's work.

cdef enum:
    LATENESS_BUCKETS = 976  # 16 steps for each power of two of microseconds: within 6 %

cdef struct Lateness:
    int64_t count
    int64_t max_us
    int64_t buckets[976]

cdef struct Look:
    # What timer_look finds: how many entries are in the buckets of each level.
    Level levels[64]        # MAX_LEVELS; as they were when the look began
    int32_t filled[64]      # how many buckets of the level hold something
    int64_t widths[64]      # buckets to a column: the least power of two with which all that is filled has a column
    int32_t level_count
    int32_t columns         # an even number
    int64_t* counts         # `columns` for each level, from the bucket of the level's clock on
    int64_t ready           # timers that fell due and wait for the executor
    int ready_is_more       # they are more than it has counted
    Lateness lateness

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

cdef enum:
    INBOXES = 8
    INBOX_ROOM = 128
    INBOX_REFERENCES = 128  # are taken at once

cdef struct Letter:
    Task* task              # NULL: it was cancelled
    int64_t added_ns        # what the clock said when it was added; in an inbox none is less than the one before

cdef struct Inbox:
    char before[64]         # so that no two share a cache line
    hw_mutex lock           # guards the rest
    int32_t number
    int32_t length          # of letters; the last one is no cancelled one
    int32_t moved           # how many the wheel has already, while the inbox is emptied
    int64_t from_ms         # it takes what expires from here on, INT64_MAX: nothing,
    int64_t until_ms        # and before this
    int64_t last_ns
    int64_t pending         # of these three, what the timer has not counted yet
    int64_t added
    int64_t cancelled
    int64_t references      # to the timer, which nobody has: for tasks that are made. No lock; see timer_keep
    Letter letters[128]     # INBOX_ROOM
    char after[64]

cdef struct Timer:
    hw_mutex lock
    hw_mutex turnstile
    hw_cond work            # the executor's own thread waits here for `ready`
    Timer* registry_prev    # guarded by `registry`
    Timer* registry_next
    int64_t references      # its Python object and every task that was ever added (hw_count_add)
    Wheel wheel
    Entry ready             # what fell due and waits for the executor, in order; of a batch's entries those that head a run
    Lead ready_lead          # for hints in `ready`
    int32_t fetched_ahead   # how many of the next in `ready` have been prefetched
    Batch* batches          # those with anything pending, or with holders
    Entry resting           # tasks of call_every that were handed out and have not come back yet
    int64_t resting_count   # how many; each keeps its place under max_pending
    int64_t max_pending
    int64_t pending         # tasks and batch entries in the wheel or waiting in `ready`
    int64_t added
    int64_t expired
    int64_t cancelled
    int64_t returned        # by close()
    int64_t wakeups
    int64_t missed          # of what has expired: they were too late to run
    Lateness lateness
    int64_t reaper_until_ms # the latest time that a sleeper sleeps for: INT64_MAX for ever, INT64_MIN: no need to wake any
    int64_t heeded_ms       # by a callable clock, what an add has read since somebody lay down; INT64_MIN: there was none
    int64_t added_before_sleep  # `added` when the last of the sleepers lay down
    int32_t sleepers        # threads that sleep until then, or are on their way out of that sleep
    int woken               # `waker` has a wake-up, until the last of the sleepers has come back
    int32_t clock           # ClockKind; constant
    int never_early         # constant
    int64_t round_up_ms     # what is added to a deadline so that its tick is not before it; constant
    void* clock_object      # CLOCK_KIND_CALLABLE: a reference to the callable; NULL once closed
    Instant manual_now      # CLOCK_KIND_MANUAL: the time; CLOCK_KIND_CALLABLE: the reading of the last cascade
    hw_waker waker          # constant while any thread is reaping
    int reaping             # threads inside timer_reap
    int has_worker          # hand-out is by a thread that waits on `work`, not by the reaper itself
    int started             # adds need not ask for threads any more (read without lock)
    int forked              # the process was forked, and what was the parent's is still here
    int64_t generation      # of processes: one more after each fork (read without lock)
    int roles[2]            # for each role whether a thread has taken it: RoleState
    uintptr_t starters[2]   # who is starting a thread for it
    int closed              # adds are refused,
    int finishing           # but drain() lets alarms of containers be set again, until close()
    int ringing             # alarms that were taken and have not been set again yet, if they are to be
    int hurried             # close() runs what is ready, due or not
    int stopping            # threads shall end at once
    int dumping             # what close() takes out is to be written: a task of call_every is not over when it cannot come back
    int draining            # threads shall end when nothing is ready any more
    uintptr_t inboxes       # Inbox*, INBOXES of them; 0: there are none (yet). See inbox.pxi
    int mail                # a bit for each inbox of which the timer has not counted all (hw_peek, hw_set_bits, hw_clear_bits)
    int met                 # how often a thread had to wait for the lock, up to HW_MEETINGS (read without lock)
    int adding              # batches that are being placed, which give the lock up in between

cdef enum:                  # Roles
    ROLE_REAPER = 0
    ROLE_EXECUTOR = 1

cdef enum RoleState:
    ROLE_FREE
    ROLE_STARTING
    ROLE_TAKEN

cdef enum Status:
    STATUS_ERROR = -1       # an exception is set
    OK
    WAS_DUE                 # a bare wheel does not take what is due
    NEEDS_LEVEL             # timer_grow, then again
    NEEDS_ROOM              # batch_room_make, then again
    NOT_YET                 # due by the wheel's clock, perhaps not by the timer's: timer_set_back, then again
    CLOSED
    GROUP_CLOSED
    FULL
    WAS_CANCELLED
    WAS_PENDING
    SPENT                   # a callback task that has expired
    NOT_PENDING
    TRY_AGAIN               # the lock was taken; or another thread was faster, and what was found out before is not so any more
    DISOWNED                # another add of the same task, which had claimed it, failed meanwhile: task_claim, then again

cdef enum WhenDue:
    # What becomes of an entry that is due when it is added.
    REFUSE_DUE              # it is the caller's: WAS_DUE
    TAKE_DUE                # it goes to `ready`
    ASK_WHEN_DUE            # NOT_YET: the clock may have been set back since the wheel was advanced

cdef enum ReapStatus:
    REAP_READY              # something waits in ready for this thread to hand it out
    REAP_TAKEN              # buckets were taken; the executor's own thread has what fell due
    REAP_NOTHING            # give_up_ns is over
    REAP_STOPPED
    REAP_SIGNAL             # the wait was interrupted: check for signals
    REAP_LOOK               # woken up: read the clock, which only Python code can, and come again
