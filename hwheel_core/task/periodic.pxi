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
