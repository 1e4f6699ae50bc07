# call_every: a task that returns to the wheel after each run.

cdef enum Missed:
    MISSED_SKIP
    MISSED_BURST
    MISSED_DELAY

cdef tuple MISSED_NAMES = ("skip", "burst", "delay")     # in the order of Missed

cdef object system_random = None    # random.SystemRandom().random, created at its first use


@cython.trashcan(True)      # a task may be an argument of the next one: a chain of any length
cdef class PeriodicTask(TermsTask):
    """The TimerTask that `call_every` returns. It runs again and again until it is cancelled."""


# --- creating ----------------------------------------------------------------------------------------------------


cdef bint periodic_set_interval(PeriodicTask self, object interval, object missed_ticks) except False:
    seconds_argument(interval, "interval", &self.interval)
    if self.interval.ms < 0 or (self.interval.ms == 0 and self.interval.ns == 0):
        raise ValueError(f"interval must be positive, got {interval!r}")
    if not isinstance(missed_ticks, str) or missed_ticks not in MISSED_NAMES:
        raise ValueError(f'missed_ticks must be "skip", "burst" or "delay", got {missed_ticks!r}')
    self.missed = MISSED_NAMES.index(missed_ticks)
    self.interval_ns = instant_ns(&self.interval)
    return True


cdef bint periodic_set_call(PeriodicTask self, object context, object callback, tuple args) except False:
    callback_argument(callback)
    if context is not None:
        callback, args = context_run(context, callback), (callback, *args)
    task_set_call(self, callback, args, None)
    self.task.flags |= TASK_REPEATS
    return True


cdef object system_draw():
    """Return the function that draws from the system's source of random numbers."""
    global system_random
    if system_random is None:
        from random import SystemRandom
        created = SystemRandom().random
        # Two threads must end up with the same object, because dump() recognizes it by identity.
        orphans_lock_without_gil()
        if system_random is None:
            system_random = created
        orphans_unlock_without_gil()
    return system_random


cdef bint periodic_set_jitter(PeriodicTask self, object jitter, object random) except False:
    """Set the jitter: each run is postponed by a random part of it. The grid of intervals stays.

    The default source is the system's. It has no state that a forked child would share with its parent, and it leaves the
    program's own random numbers alone.
    """
    cdef Instant length
    cdef object draw = None
    term_argument(jitter, "jitter", &length)
    if random is not None:
        draw = getattr(random, "random", None)
        if not PyCallable_Check(draw):
            raise TypeError(f"random must have a method random(), like random.Random, got {type(random).__name__}")
    self.jitter_ns = instant_ns(&length)
    if self.jitter_ns:
        self.draw = system_draw() if draw is None else draw
    return True


cdef bint core_start_periodic(BaseTimer self, PeriodicTask task) except False:
    """Add a new task of call_every, whose settings are complete."""
    cdef Deadline deadline
    core_ensure_started(self)
    timer_read_clock(self.timer, &deadline.now)
    deadline.delay = task.interval
    task.next_ns = instant_ns(&deadline.now) + task.interval_ns
    if task.draw is not None:
        instant_set_ns(&deadline.delay, task.interval_ns + jitter_drawn(task))
    task_own(task, self.timer)
    core_schedule(self, task, &deadline)
    task.task.delay_ms = task.interval.ms + (1 if task.interval.ns else 0)
    return True


# --- running -----------------------------------------------------------------------------------------------------


cdef object periodic_run(TimerTask self):
    """Run the callback once, unless the task was cancelled after it was handed out."""
    cdef object callback, arguments
    cdef int32_t flags
    with cython.critical_section(self):
        callback = self.callback_
        arguments = self.arguments
        flags = self.task.flags
    if callback is not None:
        (<PeriodicTask>self).runner = PyThread_get_thread_ident()
        try:
            task_call(callback, arguments, flags)
        finally:
            (<PeriodicTask>self).runner = 0


# --- the next run ------------------------------------------------------------------------------------------------


cdef object jitter_drawn(PeriodicTask self):
    """Draw the jitter: by how many nanoseconds to postpone the next run."""
    part = self.draw()
    if not isinstance(part, float) or not 0 <= part <= 1:
        raise ValueError(f"random() must return a float from 0 to 1, got {part!r}")
    return int(self.jitter_ns * part)


cdef object periodic_next_ns(PeriodicTask self):
    cdef object next_ns
    with cython.critical_section(self):
        next_ns = self.next_ns
    return next_ns


cdef bint periodic_next(PeriodicTask self, const Instant* now, object later_ns, Instant* delay_out) except False:
    """Advance on the grid, and compute the delay until the next run, postponed by later_ns.

    If there is no memory, the delay is an interval and the grid does not advance.
    """
    cdef object now_ns, next_ns
    delay_out[0] = self.interval
    now_ns = instant_ns(now)
    if self.missed == MISSED_DELAY:
        next_ns = now_ns + self.interval_ns
    else:
        next_ns = periodic_next_ns(self) + self.interval_ns
        if self.missed == MISSED_SKIP and next_ns + later_ns <= now_ns:
            next_ns += ((now_ns - next_ns) // self.interval_ns + 1) * self.interval_ns
    instant_set_ns(delay_out, next_ns + later_ns - now_ns)
    with cython.critical_section(self):
        self.next_ns = next_ns
    return True


cdef bint periodic_end(Timer* timer, PeriodicTask self) except -1:
    """End a task whose timer is closed. dump() still writes it, so then it stays in Timer.resting."""
    if not hw_peek(&timer.dumping):
        task_cancel(self)
    return False


cdef object periodic_delay(Timer* timer, PeriodicTask self, Deadline* deadline):
    """Compute the delay until the next run. Return an error to raise once the task is back, or None.

    No error ends the task. If the clock fails, its last reading is used; without memory, the plain interval; if the source of
    random numbers fails, the time without jitter. Only TimerClosed is raised.
    """
    cdef object failed = None
    cdef object later_ns = 0
    try:
        timer_read_clock(timer, &deadline.now)
    except TimerClosed:
        raise
    except BaseException as error:
        failed = error
        lock_with_gil(timer)
        deadline.now = timer.latest_reading
        lock_release(timer)
    try:
        if self.draw is not None:
            later_ns = jitter_drawn(self)
    except BaseException as error:
        failed = error
    try:
        periodic_next(self, &deadline.now, later_ns, &deadline.delay)
    except MemoryError as error:
        failed = error
    return failed


cdef bint periodic_restart(Timer* timer, PeriodicTask self) except -1:
    """Add a task for its next run. Return False if it was cancelled or the timer closed during the run.

    A run that takes longer than the interval misses times of the grid: "skip" continues at the next time in the future, "burst"
    makes up for each one, "delay" waits a whole interval from now.
    """
    cdef Deadline deadline
    cdef object failed = None
    cdef bint back
    try:
        failed = periodic_delay(timer, self, &deadline)
        if not deadline_set(&deadline, timer) or not deadline_postpone(&deadline, timer, &self.terms.slack):
            raise OverflowError("the deadline of the next run does not fit into 64 bits of milliseconds")
        hw_poke64(&self.task.deadline_ms, deadline.deadline_ms)
        back = task_schedule(timer, self, deadline.expiration_ms, TAKE_DUE) == OK
    except TimerClosed:
        failed = None
        back = periodic_end(timer, self)
    if failed is not None:
        raise failed
    return back
