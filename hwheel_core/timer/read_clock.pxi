# Reading a Timer's clock, whichever it is. The callable is Python code: never under the lock.


cdef bint timer_read_clock(Timer* timer, Instant* now_out) except False:
    if timer.clock <= CLOCK_KIND_BOOTTIME:
        clock_read(timer.clock, now_out)
    elif timer.clock == CLOCK_KIND_CALLABLE:
        timer_read_callable(timer, now_out)
    else:
        lock_with_gil(timer)
        if timer.clock == CLOCK_KIND_MANUAL:
            now_out[0] = timer.manual_now
        else:
            now_out[0] = Instant(timer.wheel.levels[0].current_time_ms, 0)
        lock_release(timer)
    return True


cdef bint timer_read_callable(Timer* timer, Instant* now_out) except False:
    cdef object clock = None
    cdef double ms
    lock_with_gil(timer)
    if timer.clock_object is not NULL:
        clock = <object>timer.clock_object
    lock_release(timer)
    if clock is None:
        raise TimerClosed("the timer is closed")
    value = clock()
    if isinstance(value, float):
        ms = finite_argument(value, "the clock's time")
        if not -9.2e18 < ms < 9.2e18:
            raise OverflowError(f"the clock's time does not fit into 64 bits of milliseconds: {ms}")
        now_out.ms = <int64_t>floor(ms)
        now_out.ns = <int32_t>((ms - floor(ms)) * 1e6)
    else:
        now_out.ms = integer_argument(value, "the clock's time")
        now_out.ns = 0
    if now_out.ms < 0:
        raise ValueError(f"the clock's time must not be negative, but is {value}")
    return True


cdef void timer_drop_clock(Timer* timer) noexcept:
    """Lets go of the callable, which may be part of a cycle with the timer."""
    cdef void* clock
    lock_with_gil(timer)
    clock = timer.clock_object
    timer.clock_object = NULL
    lock_release(timer)
    if clock is not NULL:
        Py_DECREF(<object>clock)        # the reference of BaseTimer.__init__


cdef inline WhenDue timer_when_due(const Timer* timer, const Instant* delay) noexcept nogil:
    """What has to wait must not run just because a callable clock was set back behind the wheel's."""
    if timer.clock == CLOCK_KIND_CALLABLE and (delay.ms > 0 or (delay.ms == 0 and delay.ns > 0)):
        return ASK_WHEN_DUE
    return TAKE_DUE


cdef inline void timer_heed_clock(Timer* timer, const Instant* now) noexcept:
    """After an add by this reading of the clock. The reaper waits for the real time that a callable clock was short of; if
    that was set forward meanwhile, by hand or because it had been set back for a moment, somebody has to tell it; also if
    it has read the clock before that and is about to lie down."""
    if timer.clock == CLOCK_KIND_CALLABLE:
        lock_with_gil(timer)
        if timer.reaper_until_ms <= now.ms:
            timer.heeded_ms = max(timer.heeded_ms, now.ms)      # of two adds the one with the older reading may come last
            timer_wake_reaper_locked(timer)
        lock_release(timer)
