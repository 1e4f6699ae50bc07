# The life cycle of a timer with threads: starting them, their waits, the child of a fork, and close(). The threads themselves
# are Python code, in src/hwheel/timers.


cdef bint role_check(int role) except False:
    if not 0 <= role <= ROLE_EXECUTOR:
        raise ValueError(f"role must be {ROLE_REAPER} or {ROLE_EXECUTOR}, got {role}")
    return True


cdef enum:
    START_PATIENCE_MS = 50      # how long to wait for a thread that another thread is starting


cdef bint core_open_waker(BaseTimer self, bint has_worker) except False:
    """Open the waker, before the threads start."""
    cdef Timer* timer = self.timer
    cdef bint closed, opened = False
    core_set_up(self)
    with nogil:
        lock_wait(timer)
        closed = timer.closed and not timer.finishing     # a drain() continues in the child of a fork
        if not closed:
            opened = timer_open_waker(timer)
            timer.has_worker = has_worker
        lock_release(timer)
    if closed:
        raise TimerClosed("the timer is closed")
    if not opened:
        raise OSError("cannot open a file descriptor for wake-ups")
    return True


cdef bint core_start_role(BaseTimer self, int role, object start) except False:
    """Call start(), which starts a thread, unless the role is taken.

    If another thread is starting one, wait for it, but not for long: it may be interrupted, or be waiting for this thread. An
    extra thread is harmless.
    """
    cdef Timer* timer = self.timer
    cdef uintptr_t me = PyThread_get_thread_ident()
    cdef bint ask_again = True
    cdef bint begin = False
    cdef int tries = 0
    core_set_up(self)
    role_check(role)
    while ask_again:
        with nogil:
            begin = timer_start_role(timer, role, me, tries < START_PATIENCE_MS, &ask_again)
        if ask_again:
            tries += 1
            time.sleep(0.001)
    if begin:
        try:
            start()
        except:
            timer_not_started(timer, role, me)
            raise
    return True


cdef bint core_reap(BaseTimer self, int64_t generation) except -1:
    """Wait as the reaper. Return True to dispatch the ready entries, False to end the thread."""
    cdef Reading reading
    cdef ReapStatus status
    core_set_up(self)
    while not hw_flag(&self.timer.stopping) and self.timer.generation == generation:
        if self.timer.clock == CLOCK_KIND_CALLABLE:
            timer_read_callable(self.timer, &reading)
            with nogil:
                status = timer_reap(self.timer, &reading, -1, False, NULL)
        else:
            # Keep the GIL if there is something to do at once. A thread that waits for the GIL may request it after 5 ms, and
            # each release in between restarts that interval.
            if timer_is_ready_at_once(self.timer):
                return True
            with nogil:
                status = timer_reap(self.timer, NULL, -1, False, NULL)
        if status == REAP_STOPPED:
            return False
        if status == REAP_READY:
            return True
    return False


cdef bint core_advance_clock(BaseTimer self, int64_t timeout_ns) except -1:
    """Do one step of the reaper in the caller's thread. Return True if a bucket was taken or an entry is ready."""
    cdef Instant start, now
    cdef Reading reading
    cdef int64_t left_ns = timeout_ns
    cdef void* interruption = hw_interruption()
    cdef ReapStatus status
    core_set_up(self)
    clock_read(CLOCK_KIND_MONOTONIC, &start)
    while True:
        if self.timer.clock == CLOCK_KIND_CALLABLE:
            timer_read_callable(self.timer, &reading)
            with nogil:
                status = timer_reap(self.timer, &reading, left_ns, True, interruption)
        else:
            with nogil:
                status = timer_reap(self.timer, NULL, left_ns, True, interruption)
        if status == REAP_READY or status == REAP_TAKEN:
            return True
        if status == REAP_NOTHING or status == REAP_STOPPED:
            return False
        PyErr_CheckSignals()
        clock_read(CLOCK_KIND_MONOTONIC, &now)
        left_ns = timeout_ns - (now.ms - start.ms) * NS_PER_MS - (now.ns - start.ns)
        if left_ns < 0:
            left_ns = 0


# --- fork --------------------------------------------------------------------------------------------------------


cdef bint core_after_fork(BaseTimer self) except False:
    """Drop or keep the pending tasks in the child of a fork, which has none of the timer's threads."""
    cdef Timer* timer = self.timer
    cdef PeriodicTask task
    cdef list resting
    if not hw_peek(&timer.forked):
        return True
    if hw_word_load(&self.closer) != PyThread_get_thread_ident():
        hw_word_store(&self.closer, 0)                 # a thread of the parent was closing
    timer_finish_batches(timer)
    resting = timer_resting(timer)
    if self._keeps_at_fork():
        # The threads that ran them are gone, except for the one that forked.
        for task in resting:
            if task.runner != PyThread_get_thread_ident():
                task.runner = 0
                self._restart(task)
    else:
        for task in resting:
            task_cancel(task)
        timer_cancel_all(timer)
    hw_poke(&timer.forked, False)
    return True


# --- close -------------------------------------------------------------------------------------------------------

# One thread at a time closes a timer. If it is interrupted, another one may continue.


cdef bint core_begin_close(BaseTimer self) noexcept:
    """Return True if the caller must call core_close(): the timer is not closed, and no other thread is closing it."""
    if hw_peek(&self.is_over) or not hw_take(&self.closer, PyThread_get_thread_ident()):
        return False
    if not hw_peek(&self.is_over):
        return True
    hw_word_store(&self.closer, 0)      # another thread has just finished
    return False


cdef object core_close(BaseTimer self, bint run_pending, object timeout, object write):
    """Close the timer. The caller has taken `closer`.

    Return the tasks and batches that had not run, or write(tasks). They are given up only when write has returned.
    """
    try:
        core_after_fork(self)
        self._close()
        self._end_threads(run_pending, timeout)
        timer_return_all(self.timer, core_not_run(self))
        if hw_peek(&self.timer.dumping):
            core_take_resting(self, self.not_run)
        self._before_return(self.not_run)
        result = self.not_run if write is None else write(self.not_run)
        timer_drop_clock(self.timer)
        hw_poke(&self.is_over, True)
        self.not_run = None
        return result
    finally:
        hw_word_store(&self.closer, 0)
