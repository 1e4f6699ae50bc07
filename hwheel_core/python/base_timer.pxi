# TimerFace: what users of a SystemTimer or ManualTimer call, as far as it has to be fast.


cdef bint core_set_up(TimerFace self) except False:
    if self.timer is NULL:
        raise RuntimeError("this timer has not been set up: call super().__init__()")
    return True


cdef inline bint core_ready(TimerFace self) except False:
    """Before an add: threads run."""
    if self.timer is NULL or not self.timer.started:
        core_set_up(self)
        self._start()
    return True


cdef inline bint instants_due(Timer* timer, const Instant* now, const Instant* delay, int64_t* deadline_ms_out,
                              int64_t* expiration_ms_out) except False:
    if not timer_due(timer, now, delay, deadline_ms_out, expiration_ms_out):
        raise OverflowError(f"the deadline does not fit into 64 bits of milliseconds: now + {delay.ms} ms")
    return True


cdef inline bint core_schedule(TimerFace self, TimerTask task, const Instant* now, const Instant* delay) except False:
    """Sets a task's times and puts it into the wheel."""
    cdef int64_t deadline_ms, expiration_ms
    instants_due(self.timer, now, delay, &deadline_ms, &expiration_ms)
    if task.task.state == TASK_NEW:
        task.task.delay_ms = delay.ms + (1 if delay.ns else 0)
    elif task.task.state == TASK_PENDING:
        raise ValueError("the task is pending already")
    task.task.deadline_ms = deadline_ms
    schedule_task(self.timer, task, expiration_ms, when_due(self.timer, delay))
    heed_clock(self.timer, now)
    return True


cdef inline TimerTask add_call(TimerFace self, const Instant* now, const Instant* delay, object callback,
                               PyObject** args, Py_ssize_t count):
    """Makes a task of a call and puts it into the wheel."""
    cdef int64_t deadline_ms, expiration_ms
    cdef TimerTask task
    instants_due(self.timer, now, delay, &deadline_ms, &expiration_ms)
    task = new_call(self.timer, callback, args, count)
    task.task.delay_ms = delay.ms + (1 if delay.ns else 0)
    task.task.deadline_ms = deadline_ms
    link_task(self.timer, task, expiration_ms, when_due(self.timer, delay))
    heed_clock(self.timer, now)
    return task


# The common way into call_later and call_at: positional arguments, and no tuple made of them.


cdef TimerTask add_call_later(TimerFace self, object delay, object callback, PyObject** args, Py_ssize_t count):
    """call_later, for any way in which its arguments come."""
    cdef Instant now, length
    seconds_argument(delay, "delay", &length)
    callback_argument(callback)
    core_ready(self)
    read_clock(self.timer, &now)
    return add_call(self, &now, &length, callback, args, count)


cdef TimerTask add_call_at(TimerFace self, object when, object callback, PyObject** args, Py_ssize_t count):
    """call_at, for any way in which its arguments come."""
    cdef Instant now, length
    seconds_argument(when, "when", &length)
    callback_argument(callback)
    core_ready(self)
    read_clock(self.timer, &now)
    # The way from now to then; neither is beyond a quarter of what fits, or the sum of both is refused.
    if hw_add_overflows(length.ms, -now.ms, &length.ms):
        raise OverflowError(f"when does not fit into 64 bits of milliseconds: {when!r}")
    length.ns -= now.ns
    if length.ns < 0:
        length.ns += NS_PER_MS
        length.ms -= 1
    return add_call(self, &now, &length, callback, args, count)


cdef class TimerFace:
    """Adding to a timer and looking into it. TimerCore brings the rest."""

    def _set_up(self, tick_ms, wheel_size, start_ms, clock, never_early, max_pending):
        """clock: "monotonic", "boottime", "manual", or a callable returning milliseconds."""
        cdef dict kinds = {"monotonic": CLOCK_KIND_MONOTONIC, "boottime": CLOCK_KIND_BOOTTIME,
                           "manual": CLOCK_KIND_MANUAL}
        cdef int32_t kind
        cdef Timer* timer
        cdef Instant now
        cdef int64_t limit = INT64_MAX
        if self.timer is not NULL:
            raise ValueError("this timer has been set up already")
        if isinstance(clock, str) and clock in kinds:
            kind = kinds[clock]
        elif callable(clock):
            kind = CLOCK_KIND_CALLABLE
        else:
            raise ValueError(f'clock must be "monotonic", "boottime" or a callable returning milliseconds, not {clock!r}')
        if kind == CLOCK_KIND_BOOTTIME and HW_BOOTTIME < 0:
            raise ValueError('there is no "boottime" clock on this platform')
        if max_pending is not None:
            limit = integer_argument(max_pending, "max_pending")
            if limit < 1:
                raise ValueError(f"max_pending must be at least 1, not {limit}")
        timer = new_timer(tick_ms, wheel_size, 0 if start_ms is None else start_ms, kind, never_early)
        try:
            if kind == CLOCK_KIND_CALLABLE:
                Py_INCREF(clock)
                timer.clock_object = <void*>clock       # dropped by drop_clock
            if kind != CLOCK_KIND_MANUAL:
                read_clock(timer, &now)
                timer.manual_now = now
                if start_ms is None:
                    wheel_advance_clock(&timer.wheel, now.ms)
                    timer.wheel.taken_ms = timer.wheel.levels[0].current_time_ms
                elif start_ms > now.ms:
                    raise ValueError(f"start_ms is ahead of the clock: {start_ms} > {now.ms}")
            if self.timer is not NULL:      # by an argument's own Python code
                raise ValueError("this timer has been set up already")
        except:
            drop_clock(timer)
            timer_release(timer)
            raise
        timer.max_pending = limit
        self.timer = timer
        debug_count(LIVE_TIMERS, 1)

    def _check_new(self):
        """A second __init__ must not take a timer apart that is in use."""
        if self.timer is not NULL:
            raise ValueError("this timer has been set up already")

    def __dealloc__(self):
        if self.timer is not NULL:
            drop_all(self.timer, [])
            drop_clock(self.timer)
            timer_release(self.timer)
            debug_count(LIVE_TIMERS, -1)

    # --- adding --------------------------------------------------------------------------------------------------

    def add(self, TimerTask task not None):
        """Adds a task; it runs `task.delay_ms` from now. Returns the task.

        A delay of zero or less runs at once, on the executor, never in the caller. A task that was cancelled before
        is left alone.

        Raises:
            ValueError: the task is pending, belongs to another timer, or is a callback task that has expired.
            OverflowError: the deadline does not fit into 64 bits of milliseconds.
            TimerClosed, TimerFull.

        Runtime complexity: O(1).
        Thread-safety: any thread.
        """
        cdef Instant delay = Instant(task.task.delay_ms, 0)
        cdef Instant now
        cdef int64_t deadline_before
        cdef bint claimed
        if task.task.flags & TASK_REPEATS:
            raise ValueError("a task of call_every goes back into its timer by itself")
        if task.task.state == TASK_CANCELLED:
            return task
        core_ready(self)
        read_clock(self.timer, &now)
        claimed = task_claim(task, self.timer)
        deadline_before = task.task.deadline_ms
        try:
            core_schedule(self, task, &now, &delay)
        except:
            if task.task.state != TASK_PENDING:
                task.task.deadline_ms = deadline_before
            if claimed:
                task_disown(task, self.timer)
            raise
        return task

    def call_later(self, delay, callback, *args):
        """Calls `callback(*args)` in `delay` seconds. Returns the TimerTask, to cancel or reschedule it.

        Arguments:
            delay: seconds, an int or a float; zero or less runs at once, on the executor, never in the caller.
        Raises:
            TypeError: delay is no number (a bool is none), or callback is not callable.
            ValueError: delay is NaN or infinite.
            OverflowError: the deadline does not fit into 64 bits of milliseconds.
            TimerClosed, TimerFull.

        Runtime complexity: O(1).
        Thread-safety: any thread.
        """
        return add_call_later(self, delay, callback, hw_tuple_items(<PyObject*>args), len(args))

    def call_at(self, when, callback, *args):
        """Calls `callback(*args)` at a time on the timer's clock, in seconds as `time()` gives them.

        A time that is over runs at once, on the executor. Otherwise as `call_later`.
        """
        return add_call_at(self, when, callback, hw_tuple_items(<PyObject*>args), len(args))

    def call_every(self, interval, callback, *args, missed="skip"):
        """Calls `callback(*args)` every `interval` seconds, first in one interval, until the task is cancelled.

        Times stand on a grid and do not drift. A run is never started while the one before it is still going; what
        happens with the times that a long run misses is said by `missed`: "skip" leaves them out, "burst" makes up for
        each one, "delay" starts a new grid: a whole interval from the end of the run.

        Returns the TimerTask. Between two runs it is pending; each run counts as one added and one expired timer.
        `cancel()`, also inside the callback, ends it, and so does `close()`. An exception in a run is reported and does
        not end it.

        Raises:
            ValueError: the interval is not positive, NaN or infinite, or missed is none of the three.
            Otherwise as `call_later`.

        Runtime complexity: O(1) a run.
        """
        cdef PeriodicTask task
        cdef Instant now, length
        cdef dict modes = {"skip": MISSED_SKIP, "burst": MISSED_BURST, "delay": MISSED_DELAY}
        seconds_argument(interval, "interval", &length)
        callback_argument(callback)
        if length.ms < 0 or (length.ms == 0 and length.ns == 0):
            raise ValueError(f"interval must be positive, not {interval!r}")
        if not isinstance(missed, str) or missed not in modes:
            raise ValueError(f'missed must be "skip", "burst" or "delay", not {missed!r}')
        core_ready(self)
        read_clock(self.timer, &now)
        task = PeriodicTask.__new__(PeriodicTask)
        task_set_call(task, callback, args, None)
        task.task.flags |= TASK_REPEATS
        task.missed = modes[missed]
        task.interval_ns = instant_ns(&length)
        task.next_ns = instant_ns(&now) + task.interval_ns
        task_own(task, self.timer)
        core_schedule(self, task, &now, &length)
        return task

    def call_many(self, delays_ms, callback):
        """Adds a timer for each delay, with no Python object for any. Returns a TimerBatch.

        `callback(indices)` gets an `array.array("q")` of the indices into delays_ms that fell due, in order: once a
        poll, that is, with everything that was due by the time that the executor came to it (in a ManualTimer: once a
        tick). Among other tasks of the same poll it stands where the first of its indices stood.

        Arguments:
            delays_ms: a one-dimensional buffer of int64 (a NumPy or Arrow array, array.array("q")), in ms. It is copied.
        Raises:
            TypeError: delays_ms is no such buffer, or callback is not callable.
            OverflowError: one of the deadlines does not fit into 64 bits.
            ValueError: an Arrow array has nulls.
            TimerClosed, TimerFull: all or nothing.

        Runtime complexity: O(1) a timer. The GIL is released.
        Thread-safety: any thread.
        """
        core_ready(self)
        return add_batch(self.timer, delays_ms, callback)

    # --- looking -------------------------------------------------------------------------------------------------

    def time(self):
        """The time on the timer's clock, in seconds: what `call_at` takes.

        For a timer that runs on the monotonic clock it is the time of `time.monotonic()`.
        """
        cdef Instant now
        core_set_up(self)
        read_clock(self.timer, &now)
        return (<object>now.ms * NS_PER_MS + now.ns) / 1e9

    def __len__(self):
        """How many timers are pending, each of a batch counted. O(1)."""
        core_set_up(self)
        return self.timer.pending

    def __bool__(self):
        return True         # also with nothing pending

    def pending(self):
        """The pending tasks, a list in the order in which they will run. Batches are not among them.

        Runtime complexity: O(n log n). Adds wait while the wheel is walked.
        """
        core_set_up(self)
        return inspect_pending(self.timer)

    @property
    def closed(self):
        """True from close() on, and for a timer that was never set up."""
        return self.timer is NULL or self.timer.closed != 0

    @property
    def tick_ms(self):
        """The length of a tick, in ms."""
        core_set_up(self)
        return self.timer.wheel.levels[0].tick_ms

    @property
    def wheel_size(self):
        """Buckets a level."""
        core_set_up(self)
        return self.timer.wheel.wheel_size

    def _counters(self):
        """added, expired, cancelled, cascaded, wakeups, pending, levels, and lateness p50, p99, max in ms."""
        cdef Timer* timer = self.timer
        cdef int64_t added, expired, cancelled, cascaded, wakeups, pending
        cdef int32_t levels
        cdef double p50, p99, worst
        core_set_up(self)
        lock_with_gil(timer)
        added, expired, cancelled = timer.added, timer.expired, timer.cancelled
        cascaded, wakeups, pending = timer.wheel.cascaded, timer.wakeups, timer.pending
        levels = timer.wheel.level_count
        p50 = lateness_quantile_ms(&timer.lateness, 0.5)
        p99 = lateness_quantile_ms(&timer.lateness, 0.99)
        worst = timer.lateness.max_us / 1000.0
        lock_release(timer)
        return added, expired, cancelled, cascaded, wakeups, pending, levels, p50, p99, worst
