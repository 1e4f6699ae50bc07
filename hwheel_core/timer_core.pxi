# TimerCore: the face of a timer with the loops of its threads. Threads themselves, what becomes of an exception, and
# everything else that need not be fast is Python, in src/hwheel.


cdef class TimerCore(TimerFace):
    """The compiled part of a timer. Subclasses bring `_start()` (start threads; called before the first add),
    `_report(task_or_batch, exception)`, and a way to run what is ready."""

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
        while True:
            entry = pop_next(timer, &now)
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
        while True:
            entry = pop_next(self.timer, &now)
            if entry is NULL:
                return None
            if entry.place == ENTRY_OF_BATCH:
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


cdef inline bint run_entry(TimerCore self, Entry* entry, const Instant* now) except False:
    cdef TimerTask task
    cdef TimerBatch batch
    if entry.place == ENTRY_OF_BATCH:
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
    if task_has_attributes(task):
        return run_task_of_subclass(self, task)
    # No try block on this way: it costs as much as the rest of what is done here.
    if not task_called_once(task):
        try:
            raise_error()
        except BaseException as error:
            self._report(task, error)
    return True


cdef bint run_task_of_subclass(TimerCore self, TimerTask task) except False:
    try:
        if task.task.flags & TASK_REPEATS:
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
