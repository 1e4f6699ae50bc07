# The life cycle of a timer with threads: how they start, what a turn of a thread does, the child of a fork, and close(). The
# Python part of a turn is in src/hwheel/timers.


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
    core_check_set_up(self)
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
    core_check_set_up(self)
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


cdef enum:
    ERROR_PAUSE_MS = 10         # after an error of the timer itself, so that a broken clock does not make a thread spin


# Compiled code, where no exception from outside can strike: CPython raises one only while a thread runs Python code.
cdef bint core_take_turn(BaseTimer self, object turn, int64_t generation) noexcept:
    """Call turn(generation). Return False if the thread must end. No error ends it."""
    try:
        return turn(generation)
    except BaseException as error:      # of the timer's clock, or PyThreadState_SetAsyncExc
        if hw_flag(&self.timer.stopping):
            return False
        try:
            self._report_error(self, error)
        except BaseException:
            pass        # out of memory: the expired tasks are tried again, and their error is reported then
    try:
        time.sleep(ERROR_PAUSE_MS / 1000.0)
        let_others_run()        # the next exception from outside strikes here, not in the next turn
    except BaseException:
        pass            # also a signal: after a fork in a callback this is the main thread
    return True


cdef bint core_run_thread(BaseTimer self, int role, object turn, object on_forked) except False:
    """Take the role, and take turn after turn until the timer stops.

    on_forked: called at the end in a child that a callback has forked.
    """
    cdef int64_t generation
    core_check_set_up(self)
    role_check(role)
    with nogil:
        generation = timer_take_role(self.timer, role)
    if generation < 0:
        return True
    while core_take_turn(self, turn, generation):
        pass
    if self.timer.generation != generation:
        on_forked()
        return True
    with nogil:
        timer_leave_role(self.timer, role, generation)
    return True


cdef bint core_reap(BaseTimer self, int64_t generation) except -1:
    """Wait as the reaper. Return True to dispatch the ready entries, False to end the thread."""
    cdef Reading reading
    cdef ReapStatus status
    core_check_set_up(self)
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
    core_check_set_up(self)
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
    if self.not_run is not None:
        tasks_track(self.not_run)       # a thread of the parent was dumping them
    resting = timer_resting(timer)
    if self._keeps_at_fork():
        # The threads that ran these tasks do not exist in the child, except for the one that forked.
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

    Return the tasks and batches that had not run; with `write`, write(tasks), and keep the tasks until it has returned.
    """
    try:
        core_after_fork(self)
        self._close()
        self._end_threads(run_pending, timeout)
        timer_return_all(self.timer, core_not_run(self), write is None)
        if hw_peek(&self.timer.dumping):
            core_take_resting(self, self.not_run)
        self._before_return(self.not_run)
        result = self.not_run if write is None else write(self.not_run)
        timer_drop_clock(self.timer)
        hw_poke(&self.is_over, True)
        if write is not None:
            tasks_release(self.not_run)
        self.not_run = None
        return result
    finally:
        if write is not None and self.not_run is not None:
            tasks_track(self.not_run)
        hw_word_store(&self.closer, 0)
