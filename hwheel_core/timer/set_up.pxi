# Construction of a timer, and the start of its threads before the first add.


cdef bint core_check_set_up(BaseTimer self) except False:
    if self.timer is NULL:
        raise RuntimeError("this timer has not been set up: call super().__init__()")
    return True


cdef inline bint core_ensure_started(BaseTimer self) except False:
    """Start the threads before an add, unless they run already."""
    if self.timer is NULL or not hw_peek(&self.timer.started):
        core_check_set_up(self)
        self._start_threads()
    return True


cdef bint core_check_new(BaseTimer self) except False:
    if self.timer is not NULL:
        raise ValueError("this timer has been set up already")
    return True


cdef int32_t clock_kind(object clock) except -1:
    cdef dict kinds = {"monotonic": CLOCK_KIND_MONOTONIC, "boottime": CLOCK_KIND_BOOTTIME, "manual": CLOCK_KIND_MANUAL}
    if not isinstance(clock, str) or clock not in kinds:
        if callable(clock):
            return CLOCK_KIND_CALLABLE
        raise ValueError(f'clock must be "monotonic", "boottime" or a callable returning milliseconds, got {clock!r}')
    if clock == "boottime" and not HW_HAS_BOOTTIME:
        raise ValueError('there is no "boottime" clock on this platform')
    return kinds[clock]


cdef int64_t limit_argument(object limit, str name) except -1:
    """Convert a positive int; None: no limit, INT64_MAX."""
    cdef int64_t count = INT64_MAX
    if limit is not None:
        count = integer_argument(limit, name)
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
    return count


cdef bint timer_start_clock(Timer* timer, object clock, object start_ms) except False:
    """Set the callable and the latest reading of a new timer, and the clocks of its wheel."""
    cdef Instant now
    if timer.clock == CLOCK_KIND_CALLABLE:
        Py_INCREF(clock)
        timer.clock_object = <void*>clock       # dropped by timer_drop_clock
        timer.latest_reading = Instant(0, 0)        # no reading yet
    if timer.clock != CLOCK_KIND_MANUAL:
        timer_read_clock(timer, &now)
        timer.latest_reading = now
        if start_ms is None:
            wheel_advance_clock(&timer.wheel, now.ms)
            timer.wheel.taken_ms = timer.wheel.levels[0].current_time_ms
        elif start_ms > now.ms:
            raise ValueError(f"start_ms is ahead of the clock: {start_ms} > {now.ms}")
    return True


cdef bint core_set_up(BaseTimer self, object tick_ms, object wheel_size, object start_ms, object clock, bint never_early,
                    object max_pending) except False:
    """Set up a timer. clock: "monotonic", "boottime", "manual", or a callable that returns milliseconds."""
    cdef int32_t kind
    cdef int64_t limit
    cdef Timer* timer
    core_check_new(self)
    kind = clock_kind(clock)
    limit = limit_argument(max_pending, "max_pending")
    timer = timer_from_arguments(tick_ms, wheel_size, 0 if start_ms is None else start_ms, kind, never_early)
    try:
        timer_start_clock(timer, clock, start_ms)
        core_check_new(self)        # the conversion of an argument may have run Python code that set this timer up
    except:
        timer_drop_clock(timer)
        timer_release(timer)
        raise
    timer.max_pending = limit
    self.timer = timer
    debug_count(LIVE_TIMERS, 1)
    return True
