# What the threads of a timer wait for, and who is to start one. The threads themselves are Python, in src/hwheel.


cdef bint role_check(int role) except False:
    if not 0 <= role <= ROLE_EXECUTOR:
        raise ValueError(f"there is no such role: {role}")
    return True


cdef enum:
    START_PATIENCE = 50         # ms that a thread is waited for which another one starts


cdef bint core_prepare(BaseTimer self, bint has_worker) except False:
    """Called before the threads start (again)."""
    cdef Timer* timer = self.timer
    cdef bint closed, opened = False
    core_set_up(self)
    with nogil:
        lock_wait(timer)
        closed = timer.closed and not timer.finishing     # what a drain() waits for goes on in the child of a fork
        if not closed:
            opened = timer_open_waker(timer)
            timer.has_worker = has_worker
        lock_release(timer)
    if closed:
        raise TimerClosed("the timer is closed")
    if not opened:
        raise OSError("no descriptor could be opened to wake the reaper with")
    return True


cdef bint core_start_role(BaseTimer self, int role, object start) except False:
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
    return True


cdef bint core_reap(BaseTimer self, int64_t generation) except -1:
    """The reaper's wait. True: hand out what is ready; False: end."""
    cdef Instant now
    cdef ReapStatus status
    core_set_up(self)
    while not hw_flag(&self.timer.stopping) and self.timer.generation == generation:
        if self.timer.clock == CLOCK_KIND_CALLABLE:
            timer_read_clock(self.timer, &now)
            with nogil:
                status = timer_reap(self.timer, &now, -1, False, NULL)
        else:
            # With the GIL, if there is something to do at once: whoever waits for the GIL has 5 ms to wait before it may
            # ask for it, and begins to count anew at each time that it is given up for a moment.
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
    """One turn of a reaper that the caller is: True if a bucket was taken, or something is ready."""
    cdef Instant start, now
    cdef int64_t left_ns = timeout_ns
    cdef void* interruption = hw_interruption()
    cdef ReapStatus status
    core_set_up(self)
    clock_read(CLOCK_KIND_MONOTONIC, &start)
    while True:
        if self.timer.clock == CLOCK_KIND_CALLABLE:
            timer_read_clock(self.timer, &now)
            with nogil:
                status = timer_reap(self.timer, &now, left_ns, True, interruption)
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
