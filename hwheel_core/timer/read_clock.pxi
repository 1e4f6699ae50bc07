# The clock of a Timer: reading it, and the precautions for a callable one. A callable is Python code and never runs under the
# lock.


cdef bint timer_read_clock(Timer* timer, Instant* now_out) except False:
    cdef Reading reading
    if timer.clock <= CLOCK_KIND_BOOTTIME:
        clock_read(timer.clock, now_out)
    elif timer.clock == CLOCK_KIND_CALLABLE:
        timer_read_callable(timer, &reading)
        now_out[0] = reading.now
    else:
        lock_with_gil(timer)
        if timer.clock == CLOCK_KIND_MANUAL:
            now_out[0] = timer.latest_reading
        else:
            now_out[0] = Instant(timer.wheel.levels[0].current_time_ms, 0)
        lock_release(timer)
    return True


cdef bint timer_read_callable(Timer* timer, Reading* reading_out) except False:
    """Read a callable clock.

    The reaper computes its sleep from its own reading. If the clock is set forward during the sleep, only another reading shows
    it. So each reading wakes a reaper whose time has come.
    """
    cdef object clock = None
    lock_with_gil(timer)
    if timer.clock_object is not NULL:
        clock = <object>timer.clock_object
    lock_release(timer)
    if clock is None:
        raise TimerClosed("the timer is closed")
    clock_argument(clock(), &reading_out.shown)
    lock_with_gil(timer)
    if instant_before(&timer.latest_reading, &reading_out.shown):
        timer.latest_reading = reading_out.shown
    reading_out.now = timer.latest_reading
    if timer.reaper_until_ms <= reading_out.now.ms:
        timer_wake_reaper_locked(timer)
    lock_release(timer)
    return True


cdef bint clock_argument(object value, Instant* time_out) except False:
    """Convert the milliseconds that a callable clock returned."""
    cdef double ms
    if isinstance(value, float):
        ms = finite_argument(value, "the clock's time")
        if not -9.2e18 < ms < 9.2e18:
            raise OverflowError(f"the clock's time does not fit into 64 bits of milliseconds: {ms}")
        time_out.ms = <int64_t>floor(ms)
        time_out.ns = <int32_t>((ms - floor(ms)) * 1e6)
    else:
        time_out[0] = Instant(integer_argument(value, "the clock's time"), 0)
    if time_out.ms < 0:
        raise ValueError(f"the clock's time must not be negative, got {value}")
    return True


cdef void timer_drop_clock(Timer* timer) noexcept:
    """Release the callable, which may be part of a reference cycle with the timer."""
    cdef void* clock
    lock_with_gil(timer)
    clock = timer.clock_object
    timer.clock_object = NULL
    lock_release(timer)
    if clock is not NULL:
        Py_DECREF(<object>clock)        # the reference of BaseTimer.__init__


# --- deadlines ---------------------------------------------------------------------------------------------------

cdef int64_t WARN_AHEAD_MS = 315_576_000_000     # ten years; not an enum: C may store enums in 32 bits


cdef inline bint deadline_set_or_raise(Deadline* self, const Timer* timer) except False:
    if not deadline_set(self, timer):
        raise OverflowError(f"the deadline does not fit into 64 bits of milliseconds: now + {self.delay.ms} ms")
    return True


cdef inline bint deadline_count_from_now(Deadline* self, Timer* timer, object when) except False:
    """Read the clock, and turn the time in `delay` into the delay until that time."""
    timer_read_clock(timer, &self.now)
    if not deadline_set_delay_until(self, self.delay.ms, self.delay.ns):
        return milliseconds_overflow("when", when)
    if self.delay.ms > WARN_AHEAD_MS and timer.clock <= CLOCK_KIND_BOOTTIME:
        warn_far_ahead(self, when)
    return True


cdef bint warn_far_ahead(const Deadline* self, object when) except False:
    """Warn about call_at(time.time() + 5): the clocks of timers do not count from 1970."""
    years = self.delay.ms // (WARN_AHEAD_MS // 10)
    PyErr_WarnEx(RuntimeWarning, f"when={when!r} is {years} years ahead on the timer's clock, which is not time.time(); "
                                 "use timer.time() + delay, or call_later(delay)".encode(), 1)
    return True
