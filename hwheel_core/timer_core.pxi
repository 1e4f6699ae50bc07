# TimerCore: what SystemTimer and ManualTimer have in common, and the loops of their threads. Threads themselves, what
# becomes of an exception, and everything else that need not be fast is Python, in src/hwheel.


cdef class TimerCore:
    """The compiled part of a timer. Subclasses bring `_start()` (start threads; called before the first add),
    `_report(task_or_batch, exception)`, and a way to run what is ready."""
    cdef Timer* timer
    cdef bint started
    cdef object __weakref__

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
                if start_ms is None:
                    wheel_advance_clock(&timer.wheel, now.ms)
                    timer.wheel.taken_ms = timer.wheel.levels[0].current_time_ms
                elif start_ms > now.ms:
                    raise ValueError(f"start_ms is ahead of the clock: {start_ms} > {now.ms}")
        except:
            drop_clock(timer)
            timer_release(timer)
            raise
        timer.max_pending = limit
        self.timer = timer
        debug_count(LIVE_TIMERS, 1)

    def __dealloc__(self):
        if self.timer is not NULL:
            drop_all(self.timer)
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
        cdef bint claimed
        if task.task.state == TASK_CANCELLED:
            return task
        core_ready(self)
        read_clock(self.timer, &now)
        claimed = task_claim(task, self.timer)
        try:
            core_schedule(self, task, &now, &delay)
        except:
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
        cdef TimerTask task
        cdef Instant now, length
        seconds_argument(delay, "delay", &length)
        callback_argument(callback)
        core_ready(self)
        read_clock(self.timer, &now)
        task = TimerTask.__new__(TimerTask)
        task_set_call(task, callback, args, None)
        task_own(task, self.timer)
        core_schedule(self, task, &now, &length)
        return task

    def call_at(self, when, callback, *args):
        """Calls `callback(*args)` at a time on the timer's clock, in seconds as `time()` gives them.

        A time that is over runs at once, on the executor. Otherwise as `call_later`.
        """
        cdef TimerTask task
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
        task = TimerTask.__new__(TimerTask)
        task_set_call(task, callback, args, None)
        task_own(task, self.timer)
        core_schedule(self, task, &now, &length)
        return task

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

    @property
    def size(self):
        """How many timers are pending, each of a batch counted. O(1)."""
        core_set_up(self)
        return self.timer.pending

    def __len__(self):
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
        """True from close() on."""
        core_set_up(self)
        return self.timer.closed != 0

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

    # --- for the threads -----------------------------------------------------------------------------------------

    def _prepare(self, bint has_worker):
        """Called before the threads start (again)."""
        cdef Timer* timer = self.timer
        cdef bint closed, opened = False
        with nogil:
            lock_wait(timer)
            closed = timer.closed
            if not closed:
                opened = timer_open_fds(timer)
                timer.has_worker = has_worker
            lock_release(timer)
        if closed:
            raise TimerClosed("the timer is closed")
        if not opened:
            raise OSError("no descriptor could be opened to wake the reaper with")

    def _set_started(self, started):
        self.started = started

    def _reap(self):
        """The reaper's wait. True: hand out what is ready; False: end."""
        cdef Instant now
        cdef ReapStatus status
        while not hw_flag(&self.timer.stopping):
            if self.timer.clock == CLOCK_KIND_CALLABLE:
                read_clock(self.timer, &now)
                with nogil:
                    status = timer_reap(self.timer, &now, -1, False)
            else:
                with nogil:
                    status = timer_reap(self.timer, NULL, -1, False)
            if status == REAP_STOPPED:
                return False
            if status == REAP_READY:
                return True
        return False

    def _is_stopping(self):
        return hw_flag(&self.timer.stopping) != 0

    def _advance_clock(self, int64_t timeout_ns):
        """One turn of a reaper that the caller is: True if a bucket was taken, or something is ready."""
        cdef Instant start, now
        cdef int64_t left_ns = timeout_ns
        cdef ReapStatus status
        clock_read(CLOCK_KIND_MONOTONIC, &start)
        while True:
            if self.timer.clock == CLOCK_KIND_CALLABLE:
                read_clock(self.timer, &now)
                with nogil:
                    status = timer_reap(self.timer, &now, left_ns, True)
            else:
                with nogil:
                    status = timer_reap(self.timer, NULL, left_ns, True)
            if status == REAP_READY or status == REAP_TAKEN:
                return True
            if status == REAP_NOTHING or status == REAP_STOPPED:
                return False
            PyErr_CheckSignals()
            clock_read(CLOCK_KIND_MONOTONIC, &now)
            left_ns = timeout_ns - (now.ms - start.ms) * NS_PER_MS - (now.ns - start.ns)
            if left_ns < 0:
                left_ns = 0

    def _await_work(self):
        """The executor thread's wait. True: run what is ready; False: end."""
        cdef bint go_on
        with nogil:
            go_on = timer_await_work(self.timer)
        return go_on

    def _run_ready(self):
        """Runs everything that is ready, here and now, in order."""
        cdef Timer* timer = self.timer
        cdef Instant now
        cdef Entry* entry
        while not hw_flag(&timer.stopping):
            read_hand_out_clock(timer, &now)
            entry = pop(timer, &now)
            if entry is NULL:
                return
            run_entry(self, entry, &now)

    def _pop_ready(self):
        """Takes the next of what is ready, to be run elsewhere: (source, indices, callback, args, kwargs), where source
        is a task and indices None, or source is a batch. None when there is nothing."""
        cdef Instant now
        cdef Entry* entry
        cdef TimerTask task
        cdef TimerBatch batch
        while not hw_flag(&self.timer.stopping):
            read_hand_out_clock(self.timer, &now)
            entry = pop(self.timer, &now)
            if entry is NULL:
                return None
            if entry.owner & OWNER_IS_BATCH:
                batch = <TimerBatch>entry_batch(entry).object
                callback = batch.callback_      # before the last index is out and somebody may release it
                indices = take_indices(batch, &now)
                if batch.batch.pending == 0:
                    batch.callback_ = None
                if len(indices):
                    return batch, indices, callback, (indices,), {}
                continue
            task = entry_task(entry)
            Py_DECREF(task)             # the wheel's reference, of schedule_task
            if task_has_attributes(task):
                task_track(task)
                if not task.task.flags & TASK_REPEATS:
                    return task, None, task.run, (), {}
            call = (task, None, no_operation if task.callback_ is None else task.callback_, task.args or (),
                    task.kwargs or {})
            if not task.task.flags & TASK_REPEATS:
                task_let_go(task)
            return call
        return None

    def _take_back(self, source, indices, callback, args, kwargs):
        """Undoes _pop_ready for close(): what was handed out was not run."""
        cdef Timer* timer = self.timer
        cdef TimerTask task
        cdef int64_t count = 1
        if indices is not None:
            (<TimerBatch>source).remaining = indices
            (<TimerBatch>source).callback_ = callback
            count = len(indices)
        else:
            task = source
            if not task_has_attributes(task) and callback is not no_operation:
                task_set_call(task, callback, args, kwargs)
        lock_with_gil(timer)
        timer.expired -= count
        timer.returned += count
        if indices is None:
            task.task.state = TASK_CANCELLED
        lock_release(timer)
        return source

    def _restart(self, source):
        """After a run: puts a task of call_every back. Anything else stays as it is."""
        cdef PeriodicTask task
        if isinstance(source, PeriodicTask):
            task = source
            try:
                periodic_restart(self.timer, task)
            except BaseException as error:
                task.cancel()
                self._report(task, error)

    def _advance_by(self, ms):
        """A ManualTimer's advance: lives through every tick of the next ms in which something happens."""
        cdef Timer* timer = self.timer
        cdef int64_t target_ms
        cdef int64_t next_ms = 0
        cdef bint ready, more
        if hw_add_overflows(timer.manual_now.ms, integer_argument(ms, "ms"), &target_ms):
            raise OverflowError(f"the time does not fit into 64 bits of milliseconds: now + {ms} ms")
        while not hw_flag(&timer.stopping):
            lock_with_gil(timer)
            more = timer_next_locked(timer, &next_ms) and next_ms <= target_ms
            ready = not list_is_empty(&timer.ready)
            if not ready and not more:
                timer.manual_now.ms = max(target_ms, timer.manual_now.ms)
                lock_release(timer)
                return
            lock_release(timer)
            if not ready:               # what is ready belongs to the tick that it is now
                with nogil:
                    timer_advance(timer, next_ms)
                lock_with_gil(timer)
                if not list_is_empty(&timer.ready):
                    timer.manual_now.ms = max(next_ms, timer.manual_now.ms)
                lock_release(timer)
            self._run_ready()

    def _close(self):
        """Refuses adds from now on. False if it was closed before."""
        cdef bint first
        with nogil:
            first = timer_close(self.timer)
        return first

    def _make_all_ready(self):
        """Everything that is pending is ready at once, in order."""
        with nogil:
            timer_advance(self.timer, INT64_MAX)

    def _stop(self, bint drain):
        with nogil:
            timer_stop(self.timer, drain)

    def _drop_all(self):
        """What has not run, cancelled, in order of its time."""
        cdef list dropped = drop_all(self.timer)
        drop_clock(self.timer)
        return dropped

    def _reset_after_fork(self, keep):
        """In the child: no thread of the timer is there. keep: what was pending stays so."""
        self.started = False
        settle_batches(self.timer)
        if not keep:
            cancel_all(self.timer)


def no_operation():
    """Run for a task that has neither a callback nor a run() of its own."""


cdef bint core_set_up(TimerCore self) except False:
    if self.timer is NULL:
        raise RuntimeError("this timer has not been set up: call super().__init__()")
    return True


cdef inline bint core_ready(TimerCore self) except False:
    """Before an add: threads run."""
    if not self.started:
        core_set_up(self)
        self._start()
    return True


cdef inline bint core_schedule(TimerCore self, TimerTask task, const Instant* now, const Instant* delay) except False:
    """Sets a task's times and puts it into the wheel; on an exception the task is as before."""
    cdef int64_t deadline_ms, expiration_ms
    cdef int64_t deadline_before = task.task.deadline_ms
    if not timer_due(self.timer, now, delay, &deadline_ms, &expiration_ms):
        raise OverflowError(f"the deadline does not fit into 64 bits of milliseconds: now + {delay.ms} ms")
    if task.task.state == TASK_NEW:
        task.task.delay_ms = delay.ms + (1 if delay.ns else 0)
    elif task.task.state == TASK_PENDING:
        raise ValueError("the task is pending already")
    task.task.deadline_ms = deadline_ms
    try:
        schedule_task(self.timer, task, expiration_ms, True)
    except:
        task.task.deadline_ms = deadline_before
        raise
    return True


cdef inline bint run_entry(TimerCore self, Entry* entry, const Instant* now) except False:
    cdef TimerTask task
    cdef TimerBatch batch
    if entry.owner & OWNER_IS_BATCH:
        batch = <TimerBatch>entry_batch(entry).object
        callback = batch.callback_      # before the last index is out and somebody may release it
        indices = take_indices(batch, now)
        if batch.batch.pending == 0:
            batch.callback_ = None
        if len(indices):
            try:
                callback(indices)
            except BaseException as error:
                self._report(batch, error)
    else:
        task = entry_task(entry)
        Py_DECREF(task)                 # the wheel's reference, of schedule_task
        run_task(self, task)
    return True


cdef inline bint run_task(TimerCore self, TimerTask task) except False:
    try:
        if not task_has_attributes(task):
            task_call_once(task)
        elif task.task.flags & TASK_REPEATS:
            task_track(task)
            periodic_run(task)
        else:
            task_track(task)
            task.run()
    except BaseException as error:
        self._report(task, error)
    if task.task.flags & TASK_REPEATS:
        self._restart(task)
    return True
