# An event loop's timers: one LoopTimers a loop, a LoopHandle a timer.
#
# Threads. A loop is used by one thread. All that is done to its Timer is done with the GIL held throughout (without a
# GIL: attached to the interpreter), because the garbage collector has to find the wheel at rest at any time.

cdef class LoopTimers

cdef class LoopHandle:
    cdef Task task
    cdef double deadline        # seconds on the loop's clock
    cdef double first_deadline  # by which it is hashed, because a hash must not change when the handle is moved
    cdef double added           # when it was added, or moved last
    cdef LoopTimers timers
    cdef object callback_       # None once it has run or was cancelled
    cdef tuple arguments
    cdef object context
    cdef object source_traceback
    cdef str shown              # repr() of a handle that was cancelled in debug mode
    cdef bint is_cancelled
    cdef bint offered           # the loop has been asked to call it, and it was not moved since: see offer.pxi
    cdef object __weakref__

cdef struct LoopVersions:
    PyTypeObject* type
    uint64_t type_version
    uint64_t attributes_version
    uint64_t time_version
    uint64_t asyncio_version

cdef class LoopTimers:
    cdef Timer* timer
    cdef Entry running          # what is due and has still to run, in order
    cdef Entry offered          # the same, each a call that the loop itself has been asked for; see offer.pxi
    cdef readonly object loop   # None once closed
    cdef object base            # None once closed
    cdef dict attributes        # the loop's __dict__: what has been put on the loop itself
    cdef bint is_loops          # the loop calls these its own: what is put in their place on it or its class counts
    cdef int delegating         # to what stands in their place, which may come back here: a bit for each of the two
    cdef bint own_calls         # nothing does
    cdef bint genuine_clock     # see genuine.pxi
    cdef LoopVersions versions  # of what these two depend on
    cdef readonly bint asking   # the loop's own call_at is at work
    cdef object alarm           # its handle for the next wake-up, or None
    cdef int64_t alarm_number   # 0: there is none
    cdef int64_t last_number    # of the alarms that were asked for
    cdef int64_t alarm_tick     # when it rings: a tick, or SOON, or NEVER while there is none
    cdef double alarm_s         # what it was asked for; what was added before that may run when it rings
    cdef object alarm_context   # for the next alarm: the caller's context is none of its business
    cdef double pass_s          # the loop's time when a pass last looked for what is due
    cdef double offered_s       # the loop's time when it was asked for a call last
    cdef double early_s         # the loop's time when an alarm was last early, and how often it has been at that time
    cdef int early_times
    cdef int64_t behind         # what was added for a time that the wheel's clock has passed: see clock.pxi
    cdef bint unsorted          # Timer.ready may be out of order
    cdef int hides              # how many run() there are: what is pending is hidden from the garbage collector
    cdef Entry at_rest          # in the list of loops that have run and stand still: see at_rest.pxi
    cdef bint interrupted       # the last run() ended by an exception
    cdef public bint debug      # whether calls are checked and timed, as in asyncio's debug mode
    cdef object __weakref__

cdef class LoopCall:
    cdef LoopHandle handle
    cdef object callback
