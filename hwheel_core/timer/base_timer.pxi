# BaseTimer: a timer as Python sees it, and the interface between the core and its faces, SystemTimer and ManualTimer in
# src/hwheel/timers. A face is Python code: threads, executors, error reports. The class has three parts:
#
#   - the public methods, which the faces inherit;
#   - "Hooks that a face implements": the core calls them;
#   - "Services for faces": they call into the core.
#
# Interruptions. Ctrl-C can interrupt Python code after any instruction, but not compiled code. So every operation that must not
# be left half done is compiled: claiming a close or an advance, starting a thread, and taking out tasks.


cdef class BaseTimer:
    """Common base class of SystemTimer and ManualTimer, for annotations and isinstance(). Do not instantiate it directly."""

    def __dealloc__(self):
        if self.timer is not NULL:
            timer_cancel_rest(self.timer)
            timer_drop_clock(self.timer)
            if HW_INBOXES:
                inboxes_end(self.timer)
            timer_release(self.timer)
            debug_count(LIVE_TIMERS, -1)

    # --- adding --------------------------------------------------------------------------------------------------

    def add(self, TimerTask task not None):
        """Add a task, to run ``task.delay_ms`` milliseconds from now.

        Args:
            task: A new task, or an expired one with its own run(). A cancelled task is left alone.

        Returns:
            The task.

        Raises:
            ValueError: The task is pending, belongs to another timer, or has a callback and has expired.
            TimerClosed: The timer is closed.
            TimerFull: ``max_pending`` timers are pending.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import ManualTimer, TimerTask
            >>> timer = ManualTimer()
            >>> task = timer.add(TimerTask(1500, print, "hello"))
            >>> timer.advance(1.5)
            hello
        """
        cdef Deadline deadline
        cdef int64_t deadline_before
        cdef bint claimed
        if task_flags(&task.task) & TASK_REPEATS:
            raise ValueError("a task of call_every must not be added again: it adds itself after each run")
        if task_state(&task.task) == TASK_CANCELLED:
            return task
        core_ensure_started(self)
        deadline.delay = Instant(hw_peek64(&task.task.delay_ms), 0)
        timer_read_clock(self.timer, &deadline.now)
        claimed = task_claim(task, self.timer)
        deadline_before = hw_peek64(&task.task.deadline_ms)
        try:
            core_schedule(self, task, &deadline)
        except:
            if task_state(&task.task) != TASK_PENDING:
                hw_poke64(&task.task.deadline_ms, deadline_before)
            if claimed:
                task_disown(task, self.timer)
            raise
        return task

    def call_later(self, delay, callback, *args, slack=0, max_lateness=None, context=None):
        """Call ``callback(*args)`` after ``delay`` seconds.

        A delay of zero or less runs the callback at the next dispatch, never inside this call.

        Args:
            delay: Seconds from now, an int or a float.
            callback: Called with ``args``, and released after the call.
            slack: Seconds by which the call may be postponed, to share a wake-up with other timers. The postponed time is then
                the deadline.
            max_lateness: Skip the callback if it would start more than this many seconds after its deadline; ``on_missed``
                then receives the task.
            context: The ``contextvars.Context`` to run in. Default: an empty one.

        Returns:
            A TimerTask, which can cancel or reschedule the call, and can be awaited.

        Raises:
            TypeError: ``delay`` is not a number, or ``callback`` is not callable.
            ValueError: ``delay`` is NaN or infinite.
            OverflowError: The deadline does not fit into 64 bits of milliseconds.
            TimerClosed: The timer is closed.
            TimerFull: ``max_pending`` timers are pending.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> task = timer.call_later(1.5, print, "hello")
            >>> timer.advance(1.5)
            hello
        """
        if context is not None:
            callback, args = context_run(context, callback), (callback, *args)
        if terms_are_asked_for(slack, max_lateness):
            return core_call_on_terms(self, None, delay, True, callback, args, slack, max_lateness)
        return core_call_later(self, delay, callback, hw_tuple_items(<PyObject*>args), len(args))

    def call_at(self, when, callback, *args, slack=0, max_lateness=None, context=None):
        """Call ``callback(*args)`` at a time on the timer's clock.

        Args:
            when: Seconds on the clock that ``time()`` reads, which is usually not ``time.time()``. On a system clock, a time
                more than ten years ahead raises a RuntimeWarning.
            callback: As in call_later(), like the other arguments.

        Returns:
            A TimerTask.

        Raises:
            The errors of call_later().

        O(1). Thread-safe.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> task = timer.call_at(timer.time() + 2, print, "two seconds")
            >>> timer.advance(2)
            two seconds
        """
        if context is not None:
            callback, args = context_run(context, callback), (callback, *args)
        if terms_are_asked_for(slack, max_lateness):
            return core_call_on_terms(self, None, when, False, callback, args, slack, max_lateness)
        return core_call_at(self, when, callback, hw_tuple_items(<PyObject*>args), len(args))

    def call_every(self, interval, callback, *args, missed_ticks="skip", slack=0, jitter=0, random=None, max_lateness=None,
                   context=None):
        """Call ``callback(*args)`` every ``interval`` seconds, for the first time after one interval, until it is cancelled.

        The runs follow a grid of intervals, and never overlap. An exception does not end the series; cancel(), also inside the
        callback, and close() do. reschedule() moves the next run only.

        Args:
            interval: Seconds between two runs, positive.
            callback: Called with ``args``.
            missed_ticks: The treatment of grid times that a long run has missed. ``"skip"`` leaves them out, ``"burst"`` runs
                once for each, and ``"delay"`` starts a new grid at the end of the run.
            slack: As in call_later(), for each run.
            jitter: Delay each run by a random time of up to this many seconds. The grid does not move.
            random: The source of the jitter, an object with a random() method. Default: the system's random numbers.
            max_lateness: As in call_later(), for each run.
            context: As in call_later().

        Returns:
            A TimerTask, pending between two runs. Each run counts as one added and one expired timer.

        Raises:
            ValueError: ``interval`` is not positive, or another argument is out of range.
            TimerClosed: The timer is closed.
            TimerFull: ``max_pending`` timers are pending.

        O(1) for each run. Thread-safe.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> task = timer.call_every(10, lambda: print(timer.time()))
            >>> timer.advance(25)
            10.0
            20.0
            >>> task.cancel()
            True
        """
        cdef PeriodicTask task = PeriodicTask.__new__(PeriodicTask)
        periodic_set_interval(task, interval, missed_ticks)
        periodic_set_call(task, context, callback, args)
        periodic_set_jitter(task, jitter, random)
        terms_argument(slack, max_lateness, &task.terms)
        core_start_periodic(self, task)
        return task

    def call_many(self, delays_ms, callback):
        """Add a timer for each delay, without creating a Python object for any of them.

        ``callback(indices)`` receives an ``array("q")`` of the indices that have expired, in order: all that are due when the
        executor reaches the batch (in a ManualTimer, those of one tick). Among other tasks, the call has the place of its
        first index.

        Args:
            delays_ms: Delays in milliseconds, a one-dimensional buffer of int64: a NumPy or Arrow array without nulls, or an
                ``array("q")``. It is copied, and the GIL is released.
            callback: Called with the expired indices.

        Returns:
            A TimerBatch, which can cancel, reschedule, and extend the timers.

        Raises:
            TypeError: ``delays_ms`` is not such a buffer, or ``callback`` is not callable.
            TimerClosed: The timer is closed.
            TimerFull: More than ``max_pending`` timers would be pending. Nothing was added.

        O(1) for each delay. Thread-safe.

        Example:
            >>> from array import array
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> batch = timer.call_many(array("q", [20, 10]), lambda indices: print(list(indices)))
            >>> timer.advance(0.02)
            [1]
            [0]
        """
        core_ensure_started(self)
        return timer_batch_add(self, delays_ms, callback)

    def group(self):
        """Return a new TimerGroup: timers that can be cancelled together, such as those of one connection. O(1).

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> connection = timer.group()
            >>> task = connection.call_later(30, print, "idle")
            >>> connection.cancel()
            1
        """
        return core_group(self)

    # --- inspection ----------------------------------------------------------------------------------------------

    def __len__(self):
        """Return the number of pending timers, including those of batches. O(1)."""
        core_check_set_up(self)
        return timer_count(self.timer)

    def __bool__(self):
        """Return True, also if no timer is pending."""
        return True

    def pending(self):
        """Return the pending tasks in the order in which they will run, without batches. O(n log n). Thread-safe.

        Other threads run in between. The list contains each task that stays pending during the call and is not rescheduled. A
        task that is added, rescheduled, or ends during the call may be missing.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> later, sooner = timer.call_later(2, print), timer.call_later(1, print)
            >>> timer.pending() == [sooner, later]
            True
        """
        core_check_set_up(self)
        return timer_pending(self.timer)

    def census(self):
        """Group the pending tasks by callback: which code has set these timers?

        Bound methods are grouped by function and type of their object, partials and decorated functions by the wrapped
        function. All closures of one function form a group. Other callables, and tasks with their own run(), are grouped by
        class. Each pending timer of a batch counts as a task, with the age of the batch.

        Other threads run in between. A task that is added, rescheduled, or ends during the call may be missing or counted twice.
        O(pending): about 0.1 s of processor time for a million tasks. Thread-safe.

        Returns:
            A list of CallbackGroup, the largest one first.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> tasks = [timer.call_later(30, print, number) for number in range(3)]
            >>> timer.advance(10)
            >>> group = timer.census()[0]
            >>> group.qualname, group.pending, group.oldest, group.nearest
            ('print', 3, 10.0, 20.0)
        """
        core_check_set_up(self)
        rows = core_census(self)
        return census_of(rows, self.time())

    def time(self):
        """Return the time on the timer's clock in seconds. By default this is the clock of ``time.monotonic()``.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> timer.advance(1.5)
            >>> timer.time()
            1.5
        """
        cdef Instant now
        core_check_set_up(self)
        timer_read_clock(self.timer, &now)
        return (<object>now.ms * NS_PER_MS + now.ns) / 1e9

    def stats(self):
        """Return a TimerStats with all counters, read at one moment. O(1). Thread-safe.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> task = timer.call_later(1, print, "ran")
            >>> timer.advance(1)
            ran
            >>> timer.stats().added, timer.stats().expired, timer.stats().pending
            (1, 1, 0)
        """
        core_check_set_up(self)
        *counters, missed, p50, p99, worst = core_counters(self)
        return TimerStats(*counters, Lateness_(p50, p99, worst), missed)

    @property
    def next_deadline(self):
        """Time in seconds, on the timer's clock, before which nothing runs; None if nothing is pending. O(1).

        Exact to the tick for deadlines within wheel_size ticks. For later ones it is the beginning of their bucket.
        """
        cdef int64_t next_ms = 0
        cdef bint found
        cdef Instant now
        core_check_set_up(self)
        if timer_count(self.timer) == 0:
            return None
        timer_read_clock(self.timer, &now)
        lock_with_gil(self.timer)
        if list_is_empty(&self.timer.ready):
            found = timer_next_locked(self.timer, &next_ms)
        else:
            found = True
            next_ms = timer_ready_tick_locked(self.timer)
        lock_release(self.timer)
        return max(next_ms, now.ms) / 1e3 if found else None

    @property
    def closed(self):
        """True after close(), and for a timer whose __init__() was not called."""
        return self.timer is NULL or hw_peek(&self.timer.closed) != 0

    @property
    def tick_ms(self):
        """Length of a tick in milliseconds."""
        core_check_set_up(self)
        return self.timer.wheel.levels[0].tick_ms

    @property
    def wheel_size(self):
        """Number of buckets per level."""
        core_check_set_up(self)
        return self.timer.wheel.wheel_size

    def __repr__(self):
        if self.timer is NULL:
            return f"<{type(self).__name__}, not set up>"
        state = "closed" if self.closed else f"{len(self)} pending"
        return f"<{type(self).__name__} {self.name!r}, {state}>"

    # --- closing -------------------------------------------------------------------------------------------------

    def close(self, *, run_pending=False, timeout=None):
        """Refuse new timers, end the threads, and return the tasks and batches that had not run.

        Inside a callback, close() waits for no callback. Calls that wait in the queue of an executor still run there. A second
        close() returns an empty list. If a close() was interrupted, or a callback raised in it, the next one continues and
        returns the tasks that the first one would have returned.

        Args:
            run_pending: First run everything that is pending on the executor, before its deadline.
            timeout: Seconds to wait for running callbacks. Default: until they end.

        Returns:
            A list in the order of the deadlines. Tasks are cancelled but keep their callbacks and arguments. A batch appears
            once; its ``indices()`` are those that had not run.

        O(pending). Thread-safe.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> task = timer.call_later(30, print, "save")
            >>> timer.close() == [task]
            True
            >>> task.run()
            save
        """
        timeout = check_timeout(timeout)
        if self.timer is NULL or not core_begin_close(self):
            return []                   # never set up, closed, or being closed by another thread
        return core_close(self, bool(run_pending), timeout, None)

    def dump(self, *, timeout=None, now=None):
        """Close the timer like close(), and return the tasks that have not run as bytes for load().

        Tasks that an executor has received still run there.

        Args:
            timeout: Seconds to wait for running callbacks. Default: until they end.
            now: Seconds since 1970. Default: ``time.time()``.

        Raises:
            DumpError: A task cannot be pickled, or a batch is pending. The timer is unchanged.
            TimerClosed: The timer is closed.

        O(pending). Thread-safe.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> task = timer.call_later(30, print, "restored")
            >>> data = timer.dump(now=1000)
            >>> restarted = ManualTimer()
            >>> loaded = restarted.load(data, now=1010)
            >>> restarted.advance(20)
            restored
        """
        # The bytes reach the caller without passing through Python code, where an interruption could lose them.
        timeout = check_timeout(timeout)
        core_check_set_up(self)
        write = self._begin_dump(now)
        if not core_begin_close(self):
            raise TimerClosed("the timer is closed")
        hw_poke(&self.timer.dumping, True)
        return core_close(self, False, timeout, write)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    # --- Hooks that a face implements ----------------------------------------------------------------------------

    def _start_threads(self):
        """Start the threads, in the first add and in the first add after a fork. Must call _set_started()."""
        raise NotImplementedError

    def _end_threads(self, run_pending, timeout):
        """Stop the threads and wait for running callbacks, as a part of close()."""
        raise NotImplementedError

    def _report_error(self, source, error):
        """Report an exception that the callback of a task or batch has raised."""
        raise NotImplementedError

    def _report_missed(self, task):
        """Report a task that was too late to run. Does nothing by default."""

    def _begin_dump(self, now):
        """Close the timer once all pending tasks can be written. Return the function that writes tasks as bytes."""
        raise NotImplementedError

    def _before_return(self, tasks):
        """Receive the tasks that close() is about to return. After an interruption, the next close() passes them again.

        Does nothing by default.
        """

    def _keeps_at_fork(self):
        """Return True if pending tasks stay pending in a forked child, which is the default."""
        return True

    # --- Services for faces: construction and threads ------------------------------------------------------------

    def _check_new(self):
        """Raise ValueError if __init__() was called before."""
        core_check_new(self)

    def _set_up(self, tick_ms, wheel_size, start_ms, clock, never_early, max_pending):
        """Create the timer. clock: "monotonic", "boottime", "manual", or a callable that returns milliseconds."""
        core_set_up(self, tick_ms, wheel_size, start_ms, clock, never_early, max_pending)

    def _open_waker(self, bint has_worker):
        """Prepare for threads. has_worker: an executor's thread calls _await_work()."""
        core_open_waker(self, has_worker)

    def _start_role(self, int role, start):
        """Call start(), which starts a thread, unless the role is taken. Role 0 is the reaper, 1 the executor."""
        core_start_role(self, role, start)

    def _run_thread(self, int role, turn, on_forked):
        """Take the role, and call turn(generation) until it returns False. No error ends this, not even one from outside.

        generation: how often the process has been forked. on_forked: called at the end in a child that turn has forked.
        """
        core_run_thread(self, role, turn, on_forked)

    def _ensure_started(self):
        """Call _start_threads() if necessary, as before an add."""
        core_ensure_started(self)

    def _set_started(self):
        """Record that the threads run, so that adds need not call _start_threads()."""
        core_check_set_up(self)
        hw_poke(&self.timer.started, True)

    def _generation(self):
        """Return how often the process has been forked since the timer was created."""
        core_check_set_up(self)
        return self.timer.generation

    def _after_fork(self):
        """Drop or keep the pending tasks in a forked child. Does nothing elsewhere, or if it was called before."""
        core_check_set_up(self)
        core_after_fork(self)

    # --- Services for faces: waiting and running -----------------------------------------------------------------

    def _reap(self, int64_t generation):
        """Wait as the reaper. Return True to dispatch the ready entries, False to end the thread."""
        return core_reap(self, generation)

    def _await_work(self, int64_t generation):
        """Wait as the executor's thread. Return True to run the ready entries, False to end the thread."""
        cdef bint go_on
        core_check_set_up(self)
        with nogil:
            go_on = timer_await_work(self.timer, generation)
        return go_on

    def _advance_clock(self, int64_t timeout_ns):
        """Do one step of the reaper in the caller's thread. Return True if a bucket was taken or an entry is ready."""
        return core_advance_clock(self, timeout_ns)

    def _advance_by(self, seconds):
        """Implement ManualTimer.advance."""
        core_advance_by(self, seconds)

    def _advance_to(self, when):
        """Implement ManualTimer.advance_to."""
        core_advance_to(self, when)

    def _run_ready(self, bint in_caller=False):
        """Run everything that is ready, in order, in this thread.

        in_caller: this is a thread of the user, where Ctrl-C must also stop a series of compiled callbacks.
        """
        core_check_set_up(self)
        core_run_ready(self, in_caller)

    def _dispatch(self, dict registry, again, submit, bint in_caller):
        """Take out everything that is ready, and call submit(handed_out) for each HandedOut.

        registry: receives each HandedOut until it is finished. again: a deque of those whose submit() was interrupted.
        """
        core_dispatch(self, registry, again, submit, in_caller)

    def _restart(self, source):
        """Add a task of call_every again after its run. Ignore any other source."""
        cdef PeriodicTask task
        core_check_set_up(self)
        if isinstance(source, PeriodicTask):
            task = source
            if task.task.owner != <uintptr_t>self.timer:
                raise ValueError("the task belongs to another timer")
            try:
                periodic_restart(self.timer, task)
            except BaseException as error:
                if task_state(&task.task) != TASK_PENDING:
                    task_cancel(task)
                if self._raises:
                    raise
                self._report_error(task, error)

    # --- Services for faces: closing -----------------------------------------------------------------------------

    def _close(self, bint finishing=False):
        """Refuse adds from now on. Return False if the timer was closed before.

        finishing: still accept alarms of containers, until the next _close().
        """
        cdef bint first
        core_check_set_up(self)
        with nogil:
            first = timer_close(self.timer, finishing)
        return first

    def _close_at_exit(self):
        """Refuse adds, but let containers accept entries without an alarm, as a dict does while the interpreter exits."""
        core_check_set_up(self)
        if not hw_peek(&self.timer.closed):
            hw_poke(&self.timer.exiting, True)
        self._close()

    def _is_finishing(self):
        """Return True between _close(True) and _close()."""
        core_check_set_up(self)
        return hw_peek(&self.timer.finishing) != 0

    def _outstanding(self):
        """Return the number of pending timers, and of container alarms that have expired and may be set again.

        Both are read at one moment, because an alarm alternates between the two.
        """
        cdef int64_t pending, alarms_running
        core_check_set_up(self)
        lock_with_gil(self.timer)
        pending, alarms_running = self.timer.pending, self.timer.alarms_running
        lock_release(self.timer)
        return pending, alarms_running

    def _make_all_ready(self):
        """Make everything that is pending ready now, in order."""
        core_check_set_up(self)
        hw_poke(&self.timer.hurried, True)
        with nogil:
            timer_advance(self.timer, INT64_MAX)

    def _stop(self, bint drain):
        """Tell the threads to end: now, or with `drain` once nothing is ready."""
        core_check_set_up(self)
        with nogil:
            timer_stop(self.timer, drain)

    def _is_stopping(self):
        """Return True after _stop(False)."""
        core_check_set_up(self)
        return hw_flag(&self.timer.stopping) != 0

    def _take_back(self, HandedOut handed not None):
        """Add a HandedOut whose run has not begun to the result of close(). Return False if it has begun."""
        return handed.timer is self and handed_take_back(handed)

    # --- Services for faces: dump, load, and the live view -------------------------------------------------------

    def _task_facts(self, TimerTask task not None):
        """Return the fields of a task that dump() writes; None if the task cannot be written."""
        return task_facts(task)

    def _unmarked_tasks(self, bint clear_marks):
        """Return the pending tasks and the running tasks of call_every that were not passed to _mark_writable().

        clear_marks: first undo all _mark_writable() of these tasks.
        """
        core_check_set_up(self)
        return core_unmarked_tasks(self, clear_marks)

    def _mark_writable(self, TimerTask task not None):
        """Record that dump() can write a task."""
        task_mark(task, TASK_WRITABLE, True)

    def _has_batches(self):
        """Return True if timers of a batch are pending."""
        cdef bint has_batches
        core_check_set_up(self)
        lock_with_gil(self.timer)
        has_batches = self.timer.batches is not NULL
        lock_release(self.timer)
        return has_batches

    def _close_if_writable(self):
        """Close the timer if all pending tasks are marked at this moment. Return whether it did."""
        core_check_set_up(self)
        return core_close_if_writable(self)

    def _add_records(self, records, list tasks not None):
        """Add a task for each record of load(), all or none, and append them to the empty list `tasks`.

        A record is (callback, args, kwargs, random, ns from now, terms, repeats).
        """
        core_check_set_up(self)
        if tasks:
            raise ValueError("the list for the tasks must be empty")
        core_add_records(self, records, tasks)

    def _occupancy(self, int32_t columns):
        """Measure for the live view how full the buckets are.

        Returns:
            A tuple: the counters of core_counters(); the number of ready timers, and whether there are more; a list of
            (lateness in us, number of timers); a list with a tuple for each level. The tuple of a level is (tick_ms, interval_ms,
            non-empty buckets, buckets per column, [timers of each column]). Columns begin at the level's clock; there are at
            most `columns`.

        The counters are of one moment. The rest is counted later, in slices, with lock and GIL released in between.
        O(pending + levels * wheel_size).
        """
        if not 2 <= columns <= 4096 or columns % 2:
            raise ValueError(f"columns must be an even number from 2 to 4096, got {columns}")
        core_check_set_up(self)
        counters = core_counters(self)
        return (counters, *timer_occupancy(self.timer, counters[6], columns))


cdef tuple core_counters(BaseTimer self):
    """Return (added, expired, cancelled, cascaded, wakeups, pending, levels, missed, p50, p99, and maximum lateness in ms)."""
    cdef Timer* timer = self.timer
    cdef int64_t added, expired, cancelled, cascaded, wakeups, pending, missed
    cdef int32_t levels
    cdef double p50, p99, worst
    lock_with_gil(timer)
    added, expired, cancelled = timer.added, timer.expired, timer.cancelled
    cascaded, wakeups, pending = timer.wheel.cascaded, timer.wakeups, timer.pending
    levels, missed = timer.wheel.level_count, timer.missed
    p50 = lateness_quantile_ms(&timer.lateness, 0.5)
    p99 = lateness_quantile_ms(&timer.lateness, 0.99)
    worst = timer.lateness.max_us / 1000.0
    lock_release(timer)
    return added, expired, cancelled, cascaded, wakeups, pending, levels, missed, p50, p99, worst


hw_set_name(<PyObject*>BaseTimer, "hwheel.types.BaseTimer")     # see task/timer_task.pxi
