# LoopTimers: the timers of one event loop, on a wheel, above one timer of the loop itself.
#
# The loop's time, a float of seconds, is cut into ticks of 1/4096 s: a power of two, so that going from one to the
# other is exact. A handle stands in the bucket of the tick that its deadline lies in. Of the loop itself one timer is
# wanted at a time (`alarm`): for the latest deadline within the earliest tick that holds anything. When it rings,
# everything that is due runs, in order of deadline, then of insertion. So nothing runs early, the order is that of the
# exact deadlines, and the resolution only says how long a deadline may wait for others of its tick: up to 1/4 ms.
#
# What is due when it is asked for is left to the loop's own `call_at`: it knows best what "in the next pass" means.
#
# A pass. asyncio says: what is added while a pass runs waits for the next one. When the alarm rings, this pass began
# after `alarm_s`; so what was added before `alarm_s` was added before this pass. The rest waits, at the cost of one
# more pass, and so does everything behind it, since order comes first.
#
# Threads. A loop is used by one thread. All that is done to its Timer is done with the GIL held throughout (without a
# GIL: attached to the interpreter), so that the garbage collector always finds the wheel at rest.

cdef enum:
    TICKS_PER_S = 4096
    RUN_LIMIT = 64              # callbacks that one pass runs at most
    SCAN_LIMIT = 64             # entries that are looked at for the latest deadline of a tick
    MAX_ALARM_S = 86400         # how far ahead the loop itself is asked for an alarm

cdef object time_module = time
cdef object genuine_monotonic = time.monotonic
cdef double LAST_TICK = 1 << 50         # 8,700 years; math.inf is placed there


cdef inline int64_t tick_of(double time_s) noexcept nogil:
    cdef double ticks = floor(time_s * TICKS_PER_S)
    return <int64_t>(ticks if ticks < LAST_TICK else LAST_TICK)


cdef class LoopTimers:
    """LoopTimers(loop, call_at, call_later, monotonic=False): the timers of `loop`.

    Arguments:
        call_at: the loop's own, through which its own timers are reached.
        call_later: the loop's own; called only where `call_at` asks `loop.call_later` in its turn, as uvloop's does,
            and finds us there.
        monotonic: loop.time() is time.monotonic() and nothing else, where that reads CLOCK_MONOTONIC. (Tests that
            replace time.monotonic are respected.)

    A subclass brings what need not be fast: `_show(handle)`, `_report(handle, error)`, and for debug mode
    `_check_call(callback)`, `_stack()` and `_time_call(handle, seconds)`.
    """
    cdef Timer* timer
    cdef Entry running          # what is due and has still to run, in order
    cdef readonly object loop   # None once closed
    cdef object call_base       # the loop's own call_at; None once closed
    cdef object call_base_later # its own call_later
    cdef readonly bint asking   # call_base is at work
    cdef object alarm           # its handle for the next wake-up, or None
    cdef double alarm_s         # when that is
    cdef int64_t alarm_tick     # its tick; INT64_MAX while there is none
    cdef bint reads_clock       # loop.time() is time.monotonic(), which is CLOCK_MONOTONIC
    cdef object no_context      # for the alarm: the caller's context is none of its business
    cdef bint hides             # the loop runs: what is pending is hidden from the garbage collector
    cdef public bint debug      # whether calls are checked and timed, as in asyncio's debug mode
    cdef object __weakref__

    def __cinit__(self, loop, call_at, call_later, bint monotonic=False):
        list_init(&self.running)
        self.timer = new_timer(1, DEFAULT_WHEEL_SIZE, 0, CLOCK_KIND_MANUAL, False)
        self.alarm_tick = INT64_MAX
        self.loop = loop
        self.call_base = call_at
        self.call_base_later = call_later
        self.reads_clock = monotonic
        self.no_context = PyContext_New()
        debug_count(LIVE_TIMERS, 1)

    def __dealloc__(self):
        if self.timer is not NULL:
            timers_drop_all(self)
            timer_release(self.timer)
            debug_count(LIVE_TIMERS, -1)

    def call_later(self, delay, callback, *args, context=None):
        """Calls `callback(*args)` in `delay` seconds, as asyncio's `loop.call_later` does. Returns the handle.

        Arguments:
            delay: seconds; zero or less: in the next pass of the loop.
            context: the contextvars.Context to run in; None: a copy of the current one.
        Raises:
            TypeError: delay is None or no number. RuntimeError: the loop is closed.

        Runtime complexity: O(1).
        Thread-safety: none, as asyncio's: call it in the thread of the loop.
        """
        cdef double now
        if delay is None:
            raise TypeError("delay must not be None")
        if self.asking:
            return self.call_base_later(delay, callback, *args, context=context)
        timers_check_open(self)
        now = timers_time(self)
        if PyFloat_CheckExact(delay):
            return timers_add(self, now, now + PyFloat_AS_DOUBLE(delay), callback, args, context)
        return timers_add(self, now, now + delay, callback, args, context)

    def call_at(self, when, callback, *args, context=None):
        """Calls `callback(*args)` at a time on the clock of `loop.time()`. Otherwise as `call_later`."""
        if when is None:
            raise TypeError("when cannot be None")
        if self.asking:
            return self.call_base(when, callback, *args, context=context)
        timers_check_open(self)
        return timers_add(self, timers_time(self), when, callback, args, context)

    def __len__(self):
        """How many handles are pending."""
        return self.timer.pending

    def __bool__(self):
        return True

    def close(self):
        """Lets go of everything that is pending, and of the loop. Further calls are a RuntimeError."""
        alarm = self.alarm
        self.loop = None
        self.call_base = None
        self.call_base_later = None
        self.alarm = None
        self.alarm_tick = INT64_MAX
        timers_drop_all(self)
        if alarm is not None:
            alarm.cancel()

    def hide(self):
        """The loop starts to run: nothing of it can be garbage, and what is added from now on need not be looked at."""
        self.hides = True

    def show(self):
        """The loop has stopped: it may be dropped unclosed, and the garbage collector has to see all of it."""
        self.hides = False
        timers_show_all(self)

    def _ring(self):
        """What the loop calls when the alarm goes off."""
        cdef double alarm_s = self.alarm_s
        cdef double now
        self.alarm = None
        self.alarm_tick = INT64_MAX
        if self.loop is None:
            return
        now = timers_time(self)
        if now < alarm_s:
            # A loop may be early by what its clock cannot tell (uvloop: half a millisecond).
            timers_set_alarm(self, max(alarm_s, now + 0.001))
            return
        if list_is_empty(&self.running):
            timers_take_due(self, now, alarm_s)
        if timers_prefetch(self):
            timers_set_alarm(self, now)
        else:
            timers_set_next_alarm(self, now)
        timers_run(self)


# --- the alarm ---------------------------------------------------------------------------------------------------

cdef inline bint timers_check_open(LoopTimers self) except False:
    if self.loop is None:
        raise RuntimeError("Event loop is closed")
    return True


cdef inline double timers_time(LoopTimers self) except? -1:
    """What loop.time() says, without the way there if it would only read the clock."""
    cdef timespec now
    if self.reads_clock and time_module.monotonic is genuine_monotonic:
        clock_gettime(CLOCK_MONOTONIC, &now)
        return <double>(<int64_t>now.tv_sec * 1000000000 + now.tv_nsec) / 1e9      # rounded as time.monotonic() does
    return self.loop.time()


cdef object timers_ask(LoopTimers self, object when, object callback, tuple args, object context):
    """Asks the loop itself for a timer."""
    self.asking = True
    try:
        return self.call_base(when, callback, *args, context=context)
    finally:
        self.asking = False


cdef bint timers_set_alarm(LoopTimers self, double when) except False:
    """Asks the loop for a wake-up, in place of the one that it was asked for before."""
    earlier = self.alarm
    self.alarm = timers_ask(self, when, self._ring, (), self.no_context)
    self.alarm_s = when
    self.alarm_tick = tick_of(when)
    if earlier is not None:
        earlier.cancel()
    return True


cdef bint timers_set_next_alarm(LoopTimers self, double now) except False:
    """The alarm for what is pending now, unless there is one that is early enough."""
    cdef double when
    lock_with_gil(self.timer)
    when = timers_next_locked(self)
    lock_release(self.timer)
    if isinf(when):
        return True
    # What is due already and had to wait: everything that was added up to now may run when this rings.
    when = min(max(when, now), now + MAX_ALARM_S)
    if tick_of(when) < self.alarm_tick:
        timers_set_alarm(self, when)
    return True


cdef double timers_next_locked(LoopTimers self) noexcept:
    """The latest deadline of the earliest tick, or when a coarse bucket has to be looked into. Infinity: never."""
    cdef const Bucket* bucket
    if not list_is_empty(&self.timer.ready):
        return list_latest(&self.timer.ready)
    bucket = queue_first(&self.timer.wheel)
    if bucket is NULL:
        return INFINITY
    if bucket.level == 1:
        return list_latest(&bucket.entries)
    return <double>bucket.entries.expiration_ms / TICKS_PER_S


cdef double list_latest(const Entry* head) noexcept:
    """The latest deadline in a list, of its first SCAN_LIMIT entries. (What is later than that gets another alarm.)"""
    cdef const Entry* entry = head.next
    cdef double latest = -INFINITY
    cdef int count = 0
    while entry is not head and count < SCAN_LIMIT:
        latest = max(latest, entry_deadline(entry))
        entry = entry.next
        count += 1
    return latest


cdef inline double entry_deadline(const Entry* entry) noexcept:
    return (<LoopHandle><PyObject*>(<const char*>entry - loop_entry_offset)).deadline


# --- adding and moving -------------------------------------------------------------------------------------------

cdef inline object timers_add(LoopTimers self, double now, double when, object callback, tuple args, object context):
    cdef LoopHandle handle
    if self.debug:
        self._check_call(callback)
    if not when > now or now < 0:       # also NaN, about which the loop may think what it likes
        return timers_ask(self, when, callback, args, context)
    handle = LoopHandle.__new__(LoopHandle)
    handle.timers = self
    handle.deadline = when
    handle.added = now
    handle.callback_ = callback
    handle.arguments = args
    handle.context = PyContext_CopyCurrent() if context is None else context
    if self.debug:
        handle.source_traceback = self._stack()
    if self.hides:
        handle_hide(handle, context is None)
    timers_insert(self, handle, now)
    return handle


cdef bint timers_insert(LoopTimers self, LoopHandle handle, double now) except False:
    cdef Timer* timer = self.timer
    cdef int64_t tick = tick_of(handle.deadline)
    cdef Status status
    Py_INCREF(handle)                   # the wheel's; dropped by who takes the handle out
    handle.task.owner = <uintptr_t>timer
    handle.task.entry.place = ENTRY_OF_TASK
    debug_count(LIVE_TASKS, 1)
    while True:
        lock_with_gil(timer)
        if timer.pending == 0:
            wheel_advance_clock(&timer.wheel, tick_of(now))
        status = task_add_locked(timer, &handle.task, tick, TAKE_DUE)
        lock_release(timer)
        if status == OK:
            break
        if not timers_make_room(timer, status):
            Py_DECREF(handle)
            raise MemoryError
    if tick < self.alarm_tick:
        try:
            timers_set_alarm(self, min(handle.deadline, now + MAX_ALARM_S))
        except:
            handle.cancel()
            raise
    return True


cdef bint timers_move(LoopTimers self, LoopHandle handle, double now, double when) except -1:
    cdef Timer* timer = self.timer
    cdef int64_t tick = tick_of(when)
    cdef Status status
    while True:
        lock_with_gil(timer)
        status = task_reschedule_locked(timer, &handle.task, tick, 0, 0, TAKE_DUE)
        if status == OK:
            handle.deadline = when
            handle.added = now
        lock_release(timer)
        if not timers_make_room(timer, status):
            break
    if status == OK and tick < self.alarm_tick:
        timers_set_alarm(self, min(when, now + MAX_ALARM_S))
    return status == OK


cdef bint timers_make_room(Timer* timer, Status status) noexcept:
    """As make_room(), with the GIL kept. False: that was not what was missing, or there is no memory."""
    return status == NEEDS_LEVEL and timer_grow(timer)


# --- the end -----------------------------------------------------------------------------------------------------

cdef void timers_drop_all(LoopTimers self) noexcept:
    """Drops the wheel's reference to everything that is pending. The handles count as neither run nor cancelled."""
    cdef Timer* timer = self.timer
    cdef Entry dropped
    cdef Entry* entry
    list_init(&dropped)
    lock_with_gil(timer)
    while timer_step_locked(timer, INT64_MAX):
        pass
    list_move_to_end(&self.running, &dropped)
    list_move_to_end(&timer.ready, &dropped)
    entry = dropped.next
    while entry is not &dropped:
        (<Task*>entry).state = TASK_EXPIRED
        entry = entry.next
    lock_release(timer)
    while not list_is_empty(&dropped):
        entry = dropped.next
        lock_with_gil(timer)
        wheel_remove(&timer.wheel, entry)
        timer.pending -= 1
        timer.returned += 1
        lock_release(timer)
        Py_DECREF(entry_handle(entry))  # the wheel's reference, of timers_insert
