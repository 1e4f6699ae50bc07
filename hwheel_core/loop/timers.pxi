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
# loop_clock.pxi reads the time, loop_alarm.pxi asks for the alarm, loop_pass.pxi is what happens when it rings,
# loop_method.pxi has the methods that a loop class gets.
#
# Threads. A loop is used by one thread. All that is done to its Timer is done with the GIL held throughout (without a
# GIL: attached to the interpreter), so that the garbage collector always finds the wheel at rest.

cdef enum:
    TICKS_PER_S = 4096
    RUN_LIMIT = 64              # callbacks that one pass runs at most
    SCAN_LIMIT = 64             # entries that are looked at for the latest deadline of a tick
    MAX_ALARM_S = 86400         # how far ahead the loop itself is asked for an alarm

cdef double LAST_TICK = 1 << 50         # 8,700 years; math.inf is placed there


cdef inline int64_t tick_of(double time_s) noexcept nogil:
    cdef double ticks = floor(time_s * TICKS_PER_S)
    if not ticks < LAST_TICK:           # also NaN
        ticks = LAST_TICK
    return <int64_t>ticks if ticks > 0 else 0       # before time began: due in any case


cdef inline bint tick_is_of_all(int64_t tick) noexcept nogil:
    """A tick of all times before, or after, those that are cut into ticks: by it they cannot be told apart."""
    return tick <= 0 or tick >= LAST_TICK


cdef class LoopTimers:
    """LoopTimers(loop, base): the timers of `loop`.

    Arguments:
        base: where the loop's own `call_at`, `call_later` and `call_soon` are found at each call: the loop, or super() of
            a class that overrides them. (Some loops' `call_at` asks `loop.call_later` in its turn, as uvloop's does, and
            finds us there: then it is sent on.)

    A subclass brings what need not be fast: `_show(handle)`, `_report(handle, error)`, and for debug mode
    `_check_call(callback)`, `_stack()` and `_name(asked, handle)`; see loop_call.pxi.
    """

    def __cinit__(self, loop, base):
        list_init(&self.running)
        list_init(&self.offered)
        self.timer = new_timer(1, DEFAULT_WHEEL_SIZE, 0, CLOCK_KIND_MANUAL, False)
        timers_forget_alarm(self)
        self.pass_s = -INFINITY
        self.early_s = -INFINITY
        self.loop = loop
        self.base = base
        attributes = getattr(loop, "__dict__", None)
        self.attributes = attributes if isinstance(attributes, dict) else {}
        self.is_loops = base is not loop
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
        if not timers_are_own(self):
            return timers_delegate(self, loop_call_later, NAME_CALL_LATER, (delay, callback, *args), context)
        return timers_call_later(self, delay, callback, args, context)

    def call_at(self, when, callback, *args, context=None):
        """Calls `callback(*args)` at a time on the clock of `loop.time()`. Otherwise as `call_later`."""
        if not timers_are_own(self):
            return timers_delegate(self, loop_call_at, NAME_CALL_AT, (when, callback, *args), context)
        return timers_call_at(self, when, callback, args, context)

    def __len__(self):
        """How many handles are pending."""
        return self.timer.pending

    def __bool__(self):
        return True

    def close(self):
        """Lets go of everything that is pending, and of the loop. Further calls are a RuntimeError."""
        alarm = self.alarm
        self.loop = None
        self.base = None
        self.attributes = {}
        timers_forget_alarm(self)
        timers_drop_all(self)
        if alarm is not None:
            alarm.cancel()

    def run(self, run_loop):
        """Runs the loop by `run_loop()`.

        While a loop runs nothing of it can be garbage, and what is added need not be looked at. Afterwards it may be
        dropped unclosed, and the garbage collector has to see all of it again. (Compiled, because an interrupt between
        two lines of Python would leave it hidden.)
        """
        if self.interrupted:
            timers_recover(self)
        self.hides += 1
        try:
            run_loop()
        except:
            self.interrupted = True
            raise
        finally:
            self.hides -= 1
            if self.hides == 0:         # else a loop that runs was asked to run, and refused
                timers_show_all(self)

    def _ring(self, int64_t number):
        """What the loop calls when the alarm goes off."""
        timers_ring(self, number)


# --- adding and moving -------------------------------------------------------------------------------------------

cdef inline object timers_call_later(LoopTimers self, object delay, object callback, tuple args, object context):
    cdef double now
    if delay is None:
        raise TypeError("delay must not be None")
    if self.asking:
        return self.base.call_later(delay, callback, *args, context=context)
    timers_check_open(self)
    now = timers_time(self)
    if PyFloat_CheckExact(delay):
        return timers_add(self, now, now + PyFloat_AS_DOUBLE(delay), callback, args, context)
    return timers_add(self, now, now + delay, callback, args, context)


cdef inline object timers_call_at(LoopTimers self, object when, object callback, tuple args, object context):
    cdef double now
    if when is None:
        raise TypeError("when cannot be None")
    if self.asking:
        return self.base.call_at(when, callback, *args, context=context)
    timers_check_open(self)
    try:
        now = timers_time(self)
    except Exception:
        # The loop's own needs no clock to take it.
        return timers_ask(self, when, callback, args, context)
    return timers_add(self, now, when, callback, args, context)


cdef inline object timers_add(LoopTimers self, double now, double when, object callback, tuple args, object context):
    cdef LoopHandle handle
    if self.debug:
        self._check_call(callback)
    if not when > now or now < 0:       # also NaN, about which the loop may think what it likes
        return timers_ask(self, when, callback, args, context)
    handle = LoopHandle.__new__(LoopHandle)
    handle.timers = self
    handle.deadline = when
    handle.first_deadline = handle.deadline
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
    cdef int64_t tick = tick_of(handle.deadline), now_tick
    cdef Status status
    if timer.pending == 0:
        now_tick = tick_of(now)
        if now_tick < timer.wheel.levels[0].current_time_ms:
            timers_turn_back(self, now_tick)
        else:
            lock_with_gil(timer)
            wheel_advance_clock(&timer.wheel, now_tick)
            lock_release(timer)
    timers_note_tick(self, tick, now)
    Py_INCREF(handle)                   # the wheel's; dropped by who takes the handle out
    handle.task.owner = <uintptr_t>timer
    handle.task.entry.place = ENTRY_OF_TASK
    debug_count(LIVE_TASKS, 1)
    while True:
        lock_with_gil(timer)
        status = task_add_locked(timer, &handle.task, tick, TAKE_DUE)
        lock_release(timer)
        if status == OK:
            break
        if not timers_make_room(timer, status):
            Py_DECREF(handle)
            raise MemoryError
    try:
        timers_want_alarm(self, tick, handle.deadline, now)
    except:
        handle.cancel()
        raise
    return True


cdef bint timers_move(LoopTimers self, LoopHandle handle, double now, double when) except -1:
    cdef Timer* timer = self.timer
    cdef int64_t tick = tick_of(when)
    cdef Status status
    timers_note_tick(self, tick, now)
    while True:
        lock_with_gil(timer)
        status = task_reschedule_locked(timer, &handle.task, tick, 0, 0, TAKE_DUE)
        if status == OK:
            handle.deadline = when
            handle.added = now
            handle.offered = False
        lock_release(timer)
        if not timers_make_room(timer, status):
            break
    if status == OK:
        try:
            timers_want_alarm(self, tick, when, now)
        except:
            timers_ensure_alarm(self)
            raise
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
    list_move_to_end(&self.offered, &dropped)
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
