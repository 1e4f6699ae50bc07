# A timer in virtual time: its clock moves when it is told to, and lives through every tick in which something happens.


cdef bint core_live_until(BaseTimer self, int64_t target_ms) except False:
    """Lives through every tick up to a time in which something happens."""
    cdef Timer* timer = self.timer
    cdef int64_t next_ms = 0, mine
    cdef bint ready, more
    core_set_up(self)
    if timer.clock != CLOCK_KIND_MANUAL:
        raise RuntimeError("this timer's clock is not moved by hand")
    if hw_peek(&timer.closed):
        raise TimerClosed("the timer is closed")
    mine = timer.generation + 1
    with cython.critical_section(self):
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
                return True
            lock_release(timer)
            if not ready:               # what is ready belongs to the tick that it is now
                with nogil:
                    timer_live_until(timer, next_ms)
            PyErr_CheckSignals()
            core_run_ready(self, True)
    finally:
        with cython.critical_section(self):
            self.advancing = 0
    return True


cdef bint core_advance_by(BaseTimer self, object seconds) except False:
    """ManualTimer.advance."""
    cdef int64_t ms, target_ms
    cdef Instant now
    core_set_up(self)
    ms = whole_milliseconds(seconds, "seconds")
    timer_read_clock(self.timer, &now)
    if hw_add_overflows(now.ms, ms, &target_ms):
        raise OverflowError(f"the time does not fit into 64 bits of milliseconds: now + {seconds} s")
    return core_live_until(self, target_ms)


cdef bint core_advance_to(BaseTimer self, object when) except False:
    """ManualTimer.advance_to."""
    cdef int64_t target_ms
    cdef Instant now
    core_set_up(self)
    target_ms = whole_milliseconds(when, "when")
    timer_read_clock(self.timer, &now)
    if target_ms < now.ms:
        raise ValueError(f"the clock does not go back: it stands at {self.time()} s, and when is {when} s")
    return core_live_until(self, target_ms)
