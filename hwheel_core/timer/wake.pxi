# How a sleeping thread is woken, and who opens and closes what it sleeps on.


cdef bint timer_open_waker(Timer* self) noexcept nogil:
    return hw_waker_open(&self.waker, self.clock == CLOCK_KIND_BOOTTIME)


cdef void timer_close_waker_if_over_locked(Timer* self) noexcept nogil:
    """Whoever is the last to need it closes it: a thread that sleeps on it, or who stops the timer."""
    if self.stopping and self.reaping == 0:
        hw_waker_close(&self.waker)


cdef void timer_wake_reaper_locked(Timer* self) noexcept nogil:
    if self.reaper_until_ms != INT64_MIN:
        self.reaper_until_ms = INT64_MIN        # one wake-up is enough for all sleepers, whoever comes next
        self.woken = True
        hw_waker_wake(&self.waker)
