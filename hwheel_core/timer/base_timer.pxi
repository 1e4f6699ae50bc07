# BaseTimer: a timer as Python sees it, with what its threads call. The threads themselves, what becomes of an exception, and
# everything else that need not be fast is Python, in src/hwheel.
#
# Interruptions. Python code can be interrupted after any instruction, by Ctrl-C; what is compiled cannot. So whatever has
# to be done as a whole is done here, or in the functions that this calls: who closes, who advances, who starts a thread; what
# close() has taken out and not returned yet; what was taken out to be handed out.


cdef class BaseTimer:
    """What SystemTimer and ManualTimer have in common. It is not made by itself.

    All that takes one of the two takes a BaseTimer.
    """

    def __dealloc__(self):
        if self.timer is not NULL:
            timer_let_go(self.timer)
            timer_drop_clock(self.timer)
            if HW_INBOXES:
                inboxes_end(self.timer)
            timer_release(self.timer)
            debug_count(LIVE_TIMERS, -1)

    # --- adding --------------------------------------------------------------------------------------------------

    def add(self, TimerTask task not None):
        """Adds a task, to run `task.delay_ms` from now. Returns it. A cancelled one is left alone.
        ValueError: it is pending, another timer's, or a callback task that has expired. O(1).
        """
        cdef Instant delay = Instant(hw_peek64(&task.task.delay_ms), 0)
        cdef Instant now
        cdef int64_t deadline_before
        cdef bint claimed
        if task_flags(&task.task) & TASK_REPEATS:
            raise ValueError("a task of call_every goes back into its timer by itself")
        if task_state(&task.task) == TASK_CANCELLED:
            return task
        core_ready(self)
        timer_read_clock(self.timer, &now)
        claimed = task_claim(task, self.timer)
        deadline_before = hw_peek64(&task.task.deadline_ms)
        try:
            core_schedule(self, task, &now, &delay)
        except:
            if task_state(&task.task) != TASK_PENDING:
                hw_poke64(&task.task.deadline_ms, deadline_before)
            if claimed:
                task_disown(task, self.timer)
            raise
        return task

    def call_later(self, delay, callback, *args, slack=0, max_lateness=None, context=None):
        """Calls `callback(*args)` in `delay` seconds. Returns the TimerTask, to cancel or reschedule.
        Zero or less: at once, but never in the caller. O(1). context: the one it runs in, or empty.
        slack: by so many seconds it may be put off, to a tick at which others run, too; then that
        is its deadline. max_lateness: later than that after its deadline it is not run: see missed.
        """
        if context is not None:
            callback, args = context_run(context, callback), (callback, *args)
        if terms_are_asked_for(slack, max_lateness):
            return core_call_on_terms(self, None, delay, True, callback, args, slack, max_lateness)
        return core_call_later(self, delay, callback, hw_tuple_items(<PyObject*>args), len(args))

    def call_at(self, when, callback, *args, slack=0, max_lateness=None, context=None):
        """The same at a time on the timer's clock, in seconds as `time()` gives them. O(1)."""
        if context is not None:
            callback, args = context_run(context, callback), (callback, *args)
        if terms_are_asked_for(slack, max_lateness):
            return core_call_on_terms(self, None, when, False, callback, args, slack, max_lateness)
        return core_call_at(self, when, callback, hw_tuple_items(<PyObject*>args), len(args))

    def call_every(self, interval, callback, *args, missed_ticks="skip", slack=0, jitter=0, random=None, max_lateness=None,
                   context=None):
        """Calls `callback(*args)` every `interval` seconds, first in one interval, until cancelled.
        Times stand on a grid; no run starts while the one before it goes on. Of those that a long
        run misses "skip" leaves out all, "burst" none, and "delay" starts a new grid at its end.
        Returns the TimerTask, pending between two runs; each counts as one added and one expired.
        `cancel()`, also in the callback, or `close()` ends it, no exception does; `reschedule()`
        moves the next run alone. ValueError: the interval is not positive. O(1) a run. slack and
        max_lateness: of each run. jitter: each is later by a random time of at most so many
        seconds, by random.random(), a random.Random say, or the system. Neither moves the grid.
        """
        cdef PeriodicTask task = PeriodicTask.__new__(PeriodicTask)
        periodic_set_interval(task, interval, missed_ticks)
        periodic_set_call(task, context, callback, args)
        periodic_set_jitter(task, jitter, random)
        terms_argument(slack, max_lateness, &task.terms)
        core_start_periodic(self, task)
        return task

    def call_many(self, delays_ms, callback):
        """Adds a timer for each delay, with no Python object for any. Returns a TimerBatch. O(1) each.
        delays_ms is a one-dimensional buffer of int64 (NumPy, Arrow without nulls, array("q")), in
        ms; it is copied, and the GIL released. `callback(indices)` gets an array("q") of those that
        fell due, in order: all that are due when the executor comes to it (ManualTimer: a tick's).
        Among other tasks it stands where its first index stood. TimerFull: nothing was added.
        """
        core_ready(self)
        return timer_batch_add(self, delays_ms, callback)

    def group(self):
        """A new TimerGroup: timers that belong together, of one connection, say, to cancel at once."""
        return core_group(self)

    # --- looking -------------------------------------------------------------------------------------------------

    def __len__(self):
        """How many timers are pending, each of a batch counted. O(1)."""
        core_set_up(self)
        return timer_count(self.timer)

    def __bool__(self):
        """True, also with nothing pending."""
        return True

    def pending(self):
        """The pending tasks, in the order in which they will run, without batches. O(n log n)."""
        core_set_up(self)
        return timer_pending(self.timer)

    def time(self):
        """The time on the timer's clock, in seconds: that of time.monotonic(), if not told otherwise."""
        cdef Instant now
        core_set_up(self)
        timer_read_clock(self.timer, &now)
        return (<object>now.ms * NS_PER_MS + now.ns) / 1e9

    def stats(self):
        """A TimerStats: all counters at one moment."""
        *counters, missed, p50, p99, worst = self._counters()
        return TimerStats(*counters, Lateness_(p50, p99, worst), missed)

    @property
    def next_deadline(self):
        """Nothing runs before this, in seconds on the timer's clock; None: nothing is pending. O(1).
        To the tick for what is due within wheel_size ticks, else when its bucket begins.
        """
        cdef int64_t next_ms = 0
        cdef bint found
        cdef Instant now
        core_set_up(self)
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
        """True from close() on, and for a timer that was never set up."""
        return self.timer is NULL or hw_peek(&self.timer.closed) != 0

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
        """added, expired, cancelled, cascaded, wakeups, pending, levels, missed, and lateness p50, p99, max in ms."""
        cdef Timer* timer = self.timer
        cdef int64_t added, expired, cancelled, cascaded, wakeups, pending, missed
        cdef int32_t levels
        cdef double p50, p99, worst
        core_set_up(self)
        lock_with_gil(timer)
        added, expired, cancelled = timer.added, timer.expired, timer.cancelled
        cascaded, wakeups, pending = timer.wheel.cascaded, timer.wakeups, timer.pending
        levels, missed = timer.wheel.level_count, timer.missed
        p50 = lateness_quantile_ms(&timer.lateness, 0.5)
        p99 = lateness_quantile_ms(&timer.lateness, 0.99)
        worst = timer.lateness.max_us / 1000.0
        lock_release(timer)
        return added, expired, cancelled, cascaded, wakeups, pending, levels, missed, p50, p99, worst

    def _look(self, int32_t columns):
        """For a live page: (_counters(), timers that fell due and wait for the executor, whether they are more than that,
        [(us late at most, how many)], and of each level (tick_ms, interval_ms, how many buckets hold something, buckets to
        a column, [timers of each column]), the columns from the level's clock on, `columns` at most, an even number).

        The counters are of one moment; the rest is counted after it, in slices, with lock and GIL given up in between.
        O(pending + levels * wheel_size).
        """
        if not 2 <= columns <= 4096 or columns % 2:
            raise ValueError(f"columns must be even, from 2 to 4096, not {columns}")
        counters = self._counters()
        return (counters, *timer_occupancy(self.timer, counters[6], columns))

    def __repr__(self):
        if self.timer is NULL:
            return f"<{type(self).__name__}, not set up>"
        state = "closed" if self.closed else f"{len(self)} pending"
        return f"<{type(self).__name__} {self.name!r}, {state}>"

    # --- the end -------------------------------------------------------------------------------------------------

    def close(self, *, run_pending=False, timeout=None):
        """Refuses timers from now on, ends the threads, and returns what had not run, in order.
        That is tasks, cancelled but with callback and args, and batches, once each: `indices()`.
        run_pending: first runs all that is pending, before its time, on the executor. timeout: how
        many seconds to wait for running callbacks; None: until they end. Inside a callback there is
        no wait for that one. Closing again returns an empty list; but where a close() was
        interrupted, or a callback raised in it, it goes on, and returns what the first would have.
        """
        timeout = check_timeout(timeout)
        if self.timer is NULL or not core_begin_close(self):
            return []                   # never set up, or another close() returns what there is
        return core_close(self, bool(run_pending), timeout, None)

    def dump(self, *, timeout=None, now=None):
        """Closes as close(timeout=timeout) does, and returns what had not run as bytes for load().
        DumpError: something cannot be pickled; nothing has changed then. now: the seconds since
        1970 that it is, time.time() by itself. What an executor has been given runs there.
        """
        # What is written does not pass through Python code, where an interruption could come, before the caller has it.
        timeout = check_timeout(timeout)
        core_set_up(self)
        write = self._begin_dump(now)
        if not core_begin_close(self):
            raise TimerClosed("the timer is closed")
        hw_poke(&self.timer.dumping, True)
        return core_close(self, False, timeout, write)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def _facts(self, TimerTask task not None):
        """For dump(): what task_facts says of a task."""
        return task_facts(task)

    def _writable(self, bint anew):
        """For dump(): what is pending, or runs and comes back, and was not given to _set_writable. anew: all of it."""
        core_set_up(self)
        return core_writable(self, anew)

    def _set_writable(self, TimerTask task not None):
        task_mark(task, TASK_WRITABLE, True)

    def _has_batches(self):
        """Whether anything is pending of a batch."""
        cdef bint has_batches
        core_set_up(self)
        lock_with_gil(self.timer)
        has_batches = self.timer.batches is not NULL
        lock_release(self.timer)
        return has_batches

    def _close_if_writable(self):
        """For dump(): closes the timer if all that is pending at this moment was given to _set_writable. Whether it did."""
        core_set_up(self)
        return core_close_if_writable(self)

    def _begin_dump(self, now):
        """For subclasses: closes the timer when all can be written. Returns the function that writes what had not run."""
        raise NotImplementedError

    def _add_records(self, list records not None, list tasks not None):
        """For load(): adds a task for each (callback, args, kwargs, random, ns from now, terms, repeats), all or none, and
        appends them to the empty list."""
        core_set_up(self)
        if tasks:
            raise ValueError("the list for the tasks must be empty")
        core_add_records(self, records, tasks)

    def _close(self, bint finishing=False):
        """Refuses adds from now on. False if it was closed before. finishing: but for alarms of containers, until the next
        _close(), unless that has been already."""
        cdef bint first
        core_set_up(self)
        with nogil:
            first = timer_close(self.timer, finishing)
        return first

    def _is_finishing(self):
        """Whether it is between _close(True) and _close()."""
        core_set_up(self)
        return hw_peek(&self.timer.finishing) != 0

    def _left(self):
        """How many are pending, and how many alarms of containers were taken and have not been set again yet, if they are to
        be. Both of one moment, because an alarm goes to and fro between the two."""
        cdef int64_t pending, ringing
        core_set_up(self)
        lock_with_gil(self.timer)
        pending, ringing = self.timer.pending, self.timer.ringing
        lock_release(self.timer)
        return pending, ringing

    def _give_back(self, tasks):
        """For subclasses: close() is about to return these. It may come more than once, if it is interrupted."""

    def _take_back(self, HandedOut handed not None):
        """For close(): what was handed out and not begun is among what it returns. False if it was begun."""
        return handed.timer is self and handed_take_back(handed)

    def _make_all_ready(self):
        """Everything that is pending is ready at once, in order."""
        core_set_up(self)
        hw_poke(&self.timer.hurried, True)
        with nogil:
            timer_advance(self.timer, INT64_MAX)

    def _stop(self, bint drain):
        core_set_up(self)
        with nogil:
            timer_stop(self.timer, drain)

    # --- threads -------------------------------------------------------------------------------------------------

    def _set_up(self, tick_ms, wheel_size, start_ms, clock, never_early, max_pending):
        """clock: "monotonic", "boottime", "manual", or a callable returning milliseconds."""
        core_make(self, tick_ms, wheel_size, start_ms, clock, never_early, max_pending)

    def _check_new(self):
        """A second __init__ must not take a timer apart that is in use."""
        core_check_new(self)

    def _prepare(self, bint has_worker):
        """Called before the threads start (again)."""
        core_prepare(self, has_worker)

    def _start_role(self, int role, start):
        """Calls start(), which starts a thread, unless the role is taken."""
        core_start_role(self, role, start)

    def _take_role(self, int role):
        """The generation of the process if the calling thread is the one for the role from now on; else None."""
        cdef int64_t generation
        core_set_up(self)
        role_check(role)
        with nogil:
            generation = timer_take_role(self.timer, role)
        return None if generation < 0 else generation

    def _leave_role(self, int role, int64_t generation):
        core_set_up(self)
        role_check(role)
        with nogil:
            timer_leave_role(self.timer, role, generation)

    def _be_started(self):
        """Calls _start(), if need be, as before an add."""
        core_ready(self)

    def _set_started(self):
        """Adds need not call _start() any more."""
        core_set_up(self)
        hw_poke(&self.timer.started, True)

    def _generation(self):
        """How often the process has been forked since the timer was made."""
        core_set_up(self)
        return self.timer.generation

    def _reap(self, int64_t generation):
        """The reaper's wait. True: hand out what is ready; False: end."""
        return core_reap(self, generation)

    def _is_stopping(self):
        core_set_up(self)
        return hw_flag(&self.timer.stopping) != 0

    def _advance_clock(self, int64_t timeout_ns):
        """One turn of a reaper that the caller is: True if a bucket was taken, or something is ready."""
        return core_advance_clock(self, timeout_ns)

    def _await_work(self, int64_t generation):
        """The executor thread's wait. True: run what is ready; False: end."""
        cdef bint go_on
        core_set_up(self)
        with nogil:
            go_on = timer_await_work(self.timer, generation)
        return go_on

    def _start(self):
        """For subclasses: starts the threads."""
        raise NotImplementedError

    def _end_threads(self, run_pending, timeout):
        """For subclasses: the part of close() that waits."""
        raise NotImplementedError

    def _report(self, source, error):
        """For subclasses: a callback of a task or batch has raised this."""
        raise NotImplementedError

    def _miss(self, task):
        """For subclasses: a task was too late to run."""

    def _after_fork(self):
        """In a forked child: no thread of the timer is there, and what was pending is dropped or kept. It comes by itself,
        or else before the first add."""
        core_set_up(self)
        core_after_fork(self)

    def _keeps_at_fork(self):
        """Whether what is pending stays so in a forked child."""
        return True

    # --- handing out ---------------------------------------------------------------------------------------------

    def _run_ready(self, bint in_caller=False):
        """Runs everything that is ready, here and now, in order.

        in_caller: this is a thread of the user's: a Ctrl-C ends it, also between callbacks that are compiled.
        """
        core_set_up(self)
        core_run_ready(self, in_caller)

    def _hand_out(self, dict registry, again, submit, bint in_caller):
        """Takes out what is ready, each as a HandedOut, and calls submit(handed_out) for it."""
        core_hand_out(self, registry, again, submit, in_caller)

    def _restart(self, source):
        """After a run: puts a task of call_every back. Anything else stays as it is."""
        cdef PeriodicTask task
        core_set_up(self)
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
                self._report(task, error)

    def _advance_by(self, seconds):
        """ManualTimer.advance."""
        core_advance_by(self, seconds)

    def _advance_to(self, when):
        """ManualTimer.advance_to."""
        core_advance_to(self, when)


hw_set_name(<PyObject*>BaseTimer, "hwheel.types.BaseTimer")     # see task.pxi
