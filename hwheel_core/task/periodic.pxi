# call_every: a task that goes back into the wheel after each run.

cdef enum Missed:
    MISSED_SKIP
    MISSED_BURST
    MISSED_DELAY


cdef tuple MISSED_NAMES = ("skip", "burst", "delay")     # in this order


@cython.trashcan(True)      # one may be the argument of the next, and so on
cdef class PeriodicTask(TermsTask):
    """What `call_every` returns: a TimerTask that runs again and again until it is cancelled."""


cdef object periodic_run(TimerTask self):
    """One run. A cancel that came after the task was handed out still keeps it from running."""
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


cdef object periodic_next_ns(PeriodicTask self):
    cdef object next_ns
    with cython.critical_section(self):
        next_ns = self.next_ns
    return next_ns


cdef bint periodic_next(PeriodicTask self, const Instant* now, object later_ns, Instant* delay_out) except False:
    """How far away the next run is, when it comes so much later than its time on the grid. Where there is no memory to
    reckon with: an interval, and the grid stays."""
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
    """The timer is closed, and the task does not come back. Where that was dump(), it stays among those that rest, and is
    written."""
    if not hw_peek(&timer.dumping):
        task_cancel(self)
    return False


cdef bint periodic_restart(Timer* timer, PeriodicTask self) except -1:
    """Puts the task back for its next run; False if it has been cancelled or the timer closed meanwhile.

    A run that takes longer than the interval misses the times in between: "skip" goes on at the next time of the grid
    that is yet to come, "burst" makes up for each one, "delay" waits a whole interval from now. A clock that fails does not
    end it, the last reading will do; nor does a lack of memory, an interval will do; nor a source of random numbers, the time
    of the grid will do. The error is raised when the task is back.
    """
    cdef Instant now, delay
    cdef int64_t deadline_ms, expiration_ms
    cdef object failed = None
    cdef object later_ns = 0
    try:
        timer_read_clock(timer, &now)
    except TimerClosed:
        return periodic_end(timer, self)
    except BaseException as error:
        failed = error
        lock_with_gil(timer)
        now = timer.manual_now
        lock_release(timer)
    try:
        if self.draw is not None:
            later_ns = jitter_drawn(self)
    except BaseException as error:
        failed = error
    try:
        periodic_next(self, &now, later_ns, &delay)
    except MemoryError as error:
        failed = error
    if not timer_due_within(timer, &now, &delay, &self.terms.slack, &deadline_ms, &expiration_ms):
        raise OverflowError("the next run is beyond 64 bits of milliseconds")
    hw_poke64(&self.task.deadline_ms, deadline_ms)
    try:
        # With a clock that fails it is not asked again whether what is due is really due.
        back = task_schedule(timer, self, expiration_ms, timer_when_due(timer, &delay) if failed is None else TAKE_DUE) == OK
    except TimerClosed:
        return periodic_end(timer, self)
    timer_heed_clock(timer, &now)
    if failed is not None:
        raise failed
    return back


# Jitter: each run of a call_every comes later than its time on the grid by a random part of a length, so that what was begun
# together does not go on together. The grid stays.


cdef object system_random = None    # the function random.SystemRandom().random, once it is needed


cdef object system_draw():
    global system_random
    if system_random is None:
        from random import SystemRandom
        made = SystemRandom().random
        # Of two threads that come at once both take the first one's, because dump() knows it by that.
        if HW_FREE_THREADED:
            hw_mutex_lock(&orphans)
        if system_random is None:
            system_random = made
        if HW_FREE_THREADED:
            hw_mutex_unlock(&orphans)
    return system_random


cdef tuple jitter_argument(object jitter, object random):
    """(its length in ns, what draws a part of it), or (0, None).

    By itself it is the system's source: it has no state, which the child of a fork would share with its parent, to do the
    same at the same times, and nobody's own random numbers come out otherwise because of it.
    """
    cdef Instant length
    term_argument(jitter, "jitter", &length)
    draw = None
    if random is not None:
        draw = getattr(random, "random", None)
        if not PyCallable_Check(draw):
            raise TypeError("random must have a method random(), as random.Random has, "
                            f"but is of type {type(random).__name__}")
    if length.ms == 0 and length.ns == 0:
        return 0, None
    return instant_ns(&length), system_draw() if draw is None else draw


cdef object jitter_drawn(PeriodicTask self):
    """How much later than its time the next run is to come, in ns."""
    part = self.draw()
    if not isinstance(part, float) or not 0 <= part <= 1:
        raise ValueError(f"random() has to return a float from 0 to 1, not {part!r}")
    return int(self.jitter_ns * part)


cdef PeriodicTask core_call_every(BaseTimer self, TimerGroup group, object interval, object callback, tuple args,
                                  object missed_ticks, object slack, object jitter, object random, object max_lateness,
                                  object context):
    """BaseTimer.call_every; with a group, TimerGroup.call_every."""
    cdef PeriodicTask task
    cdef Instant now, length, delay
    cdef Terms terms
    seconds_argument(interval, "interval", &length)
    callback_argument(callback)
    if length.ms < 0 or (length.ms == 0 and length.ns == 0):
        raise ValueError(f"interval must be positive, not {interval!r}")
    if not isinstance(missed_ticks, str) or missed_ticks not in MISSED_NAMES:
        raise ValueError(f'missed_ticks must be "skip", "burst" or "delay", got {missed_ticks!r}')
    terms_argument(slack, max_lateness, &terms)
    jitter_ns, draw = jitter_argument(jitter, random)
    if context is not None:
        callback, args = context_run(context, callback), (callback, *args)
    core_ready(self)
    timer_read_clock(self.timer, &now)
    task = PeriodicTask.__new__(PeriodicTask) if group is None else GroupPeriodicTask.__new__(GroupPeriodicTask)
    task_set_call(task, callback, args, None)
    task.task.flags |= TASK_REPEATS
    if group is not None:
        member_init(&task.task, &(<GroupPeriodicTask>task).member, group.group)
    task.missed = MISSED_NAMES.index(missed_ticks)
    task.interval = length
    task.interval_ns = instant_ns(&length)
    task.next_ns = instant_ns(&now) + task.interval_ns
    task.terms = terms
    task.jitter_ns, task.draw = jitter_ns, draw
    delay = length
    if draw is not None:
        instant_set_ns(&delay, task.interval_ns + jitter_drawn(task))
    task_own(task, self.timer)
    core_schedule(self, task, &now, &delay)
    task.task.delay_ms = length.ms + (1 if length.ns else 0)
    return task
