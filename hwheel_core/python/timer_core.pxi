# TimerCore: the face of a timer with the loops of its threads. Threads themselves, what becomes of an exception, and
# everything else that need not be fast is Python, in src/hwheel.
#
# Interruptions. Python code can be interrupted after any instruction, by Ctrl-C; what is compiled cannot. So whatever has
# to be done as a whole is done here: who closes, who advances, who starts a thread; what close() has taken out and not
# returned yet; what was taken out to be handed out.


cdef bint role_check(int role) except False:
    if not 0 <= role <= ROLE_EXECUTOR:
        raise ValueError(f"there is no such role: {role}")
    return True


cdef bint core_after_fork(TimerCore self) except False:
    cdef Timer* timer = self.timer
    cdef Entry* entry
    cdef PeriodicTask task
    cdef list resting = []
    if not timer.forked:
        return True
    if self.closer != PyThread_get_thread_ident():
        self.closer = 0                 # it was another thread's
    timer_finish_batches(timer)
    lock_with_gil(timer)
    entry = timer.resting.next
    while entry is not &timer.resting:
        resting.append(entry_task(entry))
        entry = entry.next
    lock_release(timer)
    if self._keeps_at_fork():
        # Their threads are not here to put them back, but for the one that has forked.
        for task in resting:
            if task.runner != PyThread_get_thread_ident():
                task.runner = 0
                self._restart(task)
    else:
        for task in resting:
            task_cancel(task)
        timer_cancel_all(timer)
    timer.forked = False
    return True


cdef enum:
    START_PATIENCE = 50         # ms that a thread is waited for which another one starts


cdef class TimerCore(TimerFace):
    """The compiled part of a timer. Subclasses bring `_start()` (start threads; called before the first add),
    `_end_threads(run_pending, timeout)` (called by close), and `_report(task_or_batch, exception)`."""

    # --- threads -------------------------------------------------------------------------------------------------

    def _prepare(self, bint has_worker):
        """Called before the threads start (again)."""
        cdef Timer* timer = self.timer
        cdef bint closed, opened = False
        core_set_up(self)
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

    def _start_role(self, int role, start):
        """Calls start(), which starts a thread, unless the role is taken. A thread that another one is starting is waited
        for, but not for long: that one may be interrupted, or wait for this one. One too many does no harm."""
        cdef Timer* timer = self.timer
        cdef uintptr_t me = PyThread_get_thread_ident()
        cdef bint ask_again = True
        cdef bint begin = False
        cdef int tries = 0
        core_set_up(self)
        role_check(role)
        while ask_again:
            with nogil:
                begin = timer_start_role(timer, role, me, tries < START_PATIENCE, &ask_again)
            if ask_again:
                tries += 1
                time.sleep(0.001)
        if begin:
            try:
                start()
            except:
                timer_not_started(timer, role, me)
                raise

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
        self.timer.started = True

    def _generation(self):
        """How often the process has been forked since the timer was made."""
        core_set_up(self)
        return self.timer.generation

    def _reap(self, int64_t generation):
        """The reaper's wait. True: hand out what is ready; False: end."""
        cdef Instant now
        cdef ReapStatus status
        core_set_up(self)
        while not hw_flag(&self.timer.stopping) and self.timer.generation == generation:
            if self.timer.clock == CLOCK_KIND_CALLABLE:
                timer_read_clock(self.timer, &now)
                with nogil:
                    status = timer_reap(self.timer, &now, -1, False)
            else:
                # With the GIL, if there is something to do at once: whoever waits for the GIL has 5 ms to wait before it may
                # ask for it, and begins to count anew at each time that it is given up for a moment.
                if timer_is_ready_at_once(self.timer):
                    return True
                with nogil:
                    status = timer_reap(self.timer, NULL, -1, False)
            if status == REAP_STOPPED:
                return False
            if status == REAP_READY:
                return True
        return False

    def _is_stopping(self):
        core_set_up(self)
        return hw_flag(&self.timer.stopping) != 0

    def _advance_clock(self, int64_t timeout_ns):
        """One turn of a reaper that the caller is: True if a bucket was taken, or something is ready."""
        cdef Instant start, now
        cdef int64_t left_ns = timeout_ns
        cdef ReapStatus status
        core_set_up(self)
        clock_read(CLOCK_KIND_MONOTONIC, &start)
        while True:
            if self.timer.clock == CLOCK_KIND_CALLABLE:
                timer_read_clock(self.timer, &now)
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

    def _await_work(self, int64_t generation):
        """The executor thread's wait. True: run what is ready; False: end."""
        cdef bint go_on
        core_set_up(self)
        with nogil:
            go_on = timer_await_work(self.timer, generation)
        return go_on

    # --- handing out ---------------------------------------------------------------------------------------------

    def _run_ready(self, bint in_caller=False):
        """Runs everything that is ready, here and now, in order.

        in_caller: this is a thread of the user's: a Ctrl-C ends it, also between callbacks that are compiled.
        """
        core_set_up(self)
        core_run_ready(self, in_caller)

    def _hand_out(self, dict registry, again, submit, bint in_caller):
        """Takes out what is ready, each as a HandedOut, and calls submit(handed_out) for it.

        again: a deque of what was taken out before, but whose submit() was interrupted.
        """
        cdef HandedOut handed
        core_set_up(self)
        while True:
            if again:
                handed = again.popleft()
            else:
                handed = core_hand_out_next(self, registry)
                if handed is None:
                    return
            handed.caller = PyThread_get_thread_ident() if in_caller else 0
            try:
                submit(handed)
            except:
                if not handed.is_begun:
                    again.appendleft(handed)
                raise
            finally:
                handed.caller = 0
            if in_caller:
                PyErr_CheckSignals()

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
                if task.task.state != TASK_PENDING:
                    task_cancel(task)
                self._report(task, error)

    def _advance_by(self, seconds):
        """ManualTimer.advance."""
        cdef int64_t ms, target_ms
        core_set_up(self)
        ms = whole_milliseconds(seconds, "seconds")
        if hw_add_overflows(self.timer.manual_now.ms, ms, &target_ms):
            raise OverflowError(f"the time does not fit into 64 bits of milliseconds: now + {seconds} s")
        self._live_until(target_ms)

    def _advance_to(self, when):
        """ManualTimer.advance_to."""
        cdef int64_t target_ms
        core_set_up(self)
        target_ms = whole_milliseconds(when, "when")
        if target_ms < self.timer.manual_now.ms:
            raise ValueError(f"the clock does not go back: it stands at {self.time()} s, and when is {when} s")
        self._live_until(target_ms)

    def _live_until(self, int64_t target_ms):
        """Lives through every tick up to a time in which something happens."""
        cdef Timer* timer = self.timer
        cdef int64_t next_ms = 0, mine
        cdef bint ready, more
        core_set_up(self)
        if timer.closed:
            raise TimerClosed("the timer is closed")
        mine = timer.generation + 1
        if self.advancing == mine:
            raise RuntimeError("an advance is under way already")
        self.advancing = mine
        try:
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
                        timer_live_until(timer, next_ms)
                PyErr_CheckSignals()
                core_run_ready(self, True)
        finally:
            self.advancing = 0

    # --- the end -------------------------------------------------------------------------------------------------

    def _close(self):
        """Refuses adds from now on. False if it was closed before."""
        cdef bint first
        core_set_up(self)
        with nogil:
            first = timer_close(self.timer)
        return first

    def close(self, *, run_pending=False, timeout=None):
        """Refuses timers from now on, ends the threads, and returns what had not run, in order of its time: tasks, which are
        cancelled but still carry callback and args, and batches, each once, with `batch.indices()`.

        Arguments:
            run_pending: run everything that is pending at once, before its time, on the executor; what did not get to run
                within the timeout is returned.
            timeout: how long to wait for running callbacks, in seconds; None: until they are done. Inside a callback of this
                timer there is no wait for that callback. (In a ManualTimer there is nothing to wait for.)

        Closing again returns an empty list; but where a close() was interrupted, by Ctrl-C for instance, or a callback raised
        in it, the next one goes on, and returns what the first would have.
        """
        cdef list not_run
        check_timeout(timeout)
        if self.timer is NULL or self.is_over or self.closer != 0:
            return []                   # never set up, or another close() returns what there is
        self.closer = PyThread_get_thread_ident()
        try:
            core_after_fork(self)
            self._close()
            self._end_threads(bool(run_pending), timeout)
            core_return(self, [])
            timer_return_all(self.timer, self.not_run)
            self._give_back(self.not_run)
            timer_drop_clock(self.timer)
            self.is_over = True
            not_run, self.not_run = self.not_run, None
            return not_run
        finally:
            self.closer = 0

    def _give_back(self, tasks):
        """For subclasses: close() is about to return these. It may come more than once, if it is interrupted."""

    def _take_back(self, HandedOut handed not None):
        """For close(): what was handed out and not begun is among what it returns. False if it was begun."""
        return handed.timer is self and handed_take_back(handed)

    def _make_all_ready(self):
        """Everything that is pending is ready at once, in order."""
        core_set_up(self)
        with nogil:
            timer_advance(self.timer, INT64_MAX)

    def _stop(self, bint drain):
        core_set_up(self)
        with nogil:
            timer_stop(self.timer, drain)

    def _after_fork(self):
        """In a forked child: no thread of the timer is there, and what was pending is dropped or kept. It comes by itself,
        or else before the first add."""
        core_set_up(self)
        core_after_fork(self)

    def _keeps_at_fork(self):
        """Whether what is pending stays so in a forked child."""
        return True
