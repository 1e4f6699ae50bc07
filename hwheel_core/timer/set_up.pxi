# Construction of a timer, and the start of its threads before the first add.


cdef bint core_set_up(BaseTimer self) except False:
    if self.timer is NULL:
        raise RuntimeError("this timer has not been set up: call super().__init__()")
    return True


cdef inline bint core_ready(BaseTimer self) except False:
    """Start the threads before an add, unless they run already."""
    cdef int64_t generation
    if self.timer is NULL or not hw_peek(&self.timer.started):
        core_set_up(self)
        while True:
            generation = self.timer.generation
            self._start_threads()
            if self.timer.generation == generation:
                break                   # otherwise a signal handler has forked, and this is the child: start its threads
    return True


cdef bint core_check_new(BaseTimer self) except False:
    if self.timer is not NULL:
        raise ValueError("this timer has been set up already")
    return True


cdef bint core_make(BaseTimer self, object tick_ms, object wheel_size, object start_ms, object clock, bint never_early,
                    object max_pending) except False:
    """Set up a timer. clock: "monotonic", "boottime", "manual", or a callable that returns milliseconds."""
    cdef dict kinds = {"monotonic": CLOCK_KIND_MONOTONIC, "boottime": CLOCK_KIND_BOOTTIME,
                       "manual": CLOCK_KIND_MANUAL}
    cdef int32_t kind
    cdef Timer* timer
    cdef Instant now
    cdef int64_t limit = INT64_MAX
    core_check_new(self)
    if isinstance(clock, str) and clock in kinds:
        kind = kinds[clock]
    elif callable(clock):
        kind = CLOCK_KIND_CALLABLE
    else:
        raise ValueError(f'clock must be "monotonic", "boottime" or a callable returning milliseconds, not {clock!r}')
    if kind == CLOCK_KIND_BOOTTIME and not HW_HAS_BOOTTIME:
        raise ValueError('there is no "boottime" clock on this platform')
    if max_pending is not None:
        limit = integer_argument(max_pending, "max_pending")
        if limit < 1:
            raise ValueError(f"max_pending must be at least 1, not {limit}")
    timer = timer_from_arguments(tick_ms, wheel_size, 0 if start_ms is None else start_ms, kind, never_early)
    try:
        if kind == CLOCK_KIND_CALLABLE:
            Py_INCREF(clock)
            timer.clock_object = <void*>clock       # dropped by timer_drop_clock
        if kind != CLOCK_KIND_MANUAL:
            timer_read_clock(timer, &now)
            timer.manual_now = now
            if start_ms is None:
                wheel_advance_clock(&timer.wheel, now.ms)
                timer.wheel.taken_ms = timer.wheel.levels[0].current_time_ms
            elif start_ms > now.ms:
                raise ValueError(f"start_ms is ahead of the clock: {start_ms} > {now.ms}")
        core_check_new(self)        # the conversion of an argument may have run Python code that did it
    except:
        timer_drop_clock(timer)
        timer_release(timer)
        raise
    timer.max_pending = limit
    self.timer = timer
    debug_count(LIVE_TIMERS, 1)
    return True
