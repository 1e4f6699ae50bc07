# The timers of an event loop: one LoopTimers per loop, one LoopHandle per timer.
#
# Threads. One thread uses a loop. During every change of the loop's Timer, it holds the GIL. (Without a GIL, it is attached to
# the interpreter.) So the garbage collector always finds the wheel in a consistent state.
#
# Units. A loop's wheel counts in ticks of 1/4096 s, not in milliseconds: see entries.pxi.

cdef class LoopTimers

cdef class Timeout

cdef class LoopHandle:
    cdef Task task
    cdef double deadline        # seconds on the loop's clock
    cdef double first_deadline  # hashed, because a hash must not change when the handle moves
    cdef double added           # when the handle was added or last moved, on the loop's clock
    cdef LoopTimers timers
    cdef object callback_       # None once it has run or is cancelled
    cdef tuple arguments
    cdef object context         # None: the handle of a Timeout, which cancels a task and runs no other code
    cdef object source_traceback
    cdef str shown              # repr() of a handle that was cancelled in debug mode
    cdef bint is_cancelled
    cdef bint when_is_int       # call_at() was given an int, which when() returns
    cdef bint offered           # the loop was asked to call this handle, which has not moved since: see run.pxi
    cdef object __weakref__

cdef struct LoopVersions:
    PyTypeObject* type
    uint64_t type_version
    uint64_t attributes_version
    uint64_t time_version
    uint64_t asyncio_version

cdef class LoopTimers:
    cdef Timer* timer
    cdef Entry running          # due handles that the current pass still has to run, in order
    cdef Entry offered          # due handles that the loop itself was asked to call: see run.pxi
    cdef readonly object loop   # None once closed
    cdef object base            # None once closed
    cdef dict attributes        # the loop's __dict__
    cdef bint is_loops          # True: overrides of call_later and call_at on the loop count; False: a Timeouts beside a loop
    cdef int delegating         # a bit for call_later and for call_at: an override is running and may call back
    cdef bint uses_own_calls    # call_later and call_at are not overridden
    cdef bint genuine_clock     # loop.time() reads CLOCK_MONOTONIC: see clock.pxi
    cdef object time_method     # the time() of the loop's class, or None: look loop.time up
    cdef LoopVersions versions  # of the objects that the three fields above depend on
    cdef readonly bint asking   # the loop's own call_at is running
    cdef object wakeup          # the loop's handle of the next wake-up, or None
    cdef int64_t wakeup_number  # 0: no wake-up is set
    cdef int64_t last_number    # of all wake-ups requested so far
    cdef int64_t wakeup_tick    # the wake-up's tick, SOON, or NEVER if no wake-up is set
    cdef double wakeup_s        # the requested time; handles added before it may run at the wake-up
    cdef object wakeup_context  # of the next wake-up, so that it does not inherit a caller's context
    cdef double pass_s          # the loop's time at the start of the last pass
    cdef double offered_s       # the loop's time when it was last asked for a call
    cdef double early_s         # the loop's time at the last early wake-up
    cdef int early_times        # early wake-ups in a row at that time
    cdef int64_t behind         # number of handles placed while the loop's clock was behind the wheel's: see clock.pxi
    cdef bint unsorted          # Timer.ready may be out of order
    cdef object stop_iteration  # the exception that ended the last __aenter__(), used again; or None
    cdef object running_mark    # asyncio's own object for "this loop runs in this thread": see running.pxi
    cdef int hides              # nested run() calls; while positive, handles are hidden from the collector
    cdef Entry idle             # in the list of loops that are not running: see collector.pxi
    cdef bint interrupted       # the last run() ended with an exception
    cdef public bint debug      # asyncio's debug mode
    cdef object __weakref__

cdef class LoopCall:
    cdef LoopHandle handle
    cdef object callback

cdef enum TimeoutState:
    TIMEOUT_CREATED
    TIMEOUT_ACTIVE
    TIMEOUT_EXPIRING            # the task is cancelled, but the block has not ended yet
    TIMEOUT_EXPIRED
    TIMEOUT_FINISHED

cdef class Timeout:
    cdef TimeoutState state
    cdef object cancelling      # task.cancelling() when the block was entered
    cdef double when_s          # the deadline on the loop's clock
    cdef object given           # the deadline as given; NotImplemented: build it from when_s; None: no deadline
    cdef double delay_s         # of an idle_timeout(), whose deadline is this time after the entry; otherwise 0
    cdef object task            # the asyncio task, while the block runs
    cdef object handle          # the timer, or the call in the next pass; None: neither
    cdef double timer_s         # the time for which `handle` is set
    cdef object __weakref__

cdef class TimeoutStep:         # what __aenter__() and __aexit__() return; an await enters or leaves
    cdef Timeout timeout        # None once awaited
    cdef bint enters
    cdef object error_type
    cdef object error
