# How a sleeping thread is woken: the descriptors that it polls, and who opens and closes them.


cdef bint timer_open_fds(Timer* self) noexcept nogil:
    if self.wake_fds[0] < 0 and hw_wake_open(self.wake_fds) < 0:
        return False
    if self.clock == CLOCK_KIND_BOOTTIME and self.alarm_fd < 0:
        self.alarm_fd = hw_alarm_open()
        return self.alarm_fd >= 0
    return True


cdef void timer_close_fds(Timer* self) noexcept nogil:
    hw_wake_close(self.wake_fds)
    if self.alarm_fd >= 0:
        close_fd(self.alarm_fd)
        self.alarm_fd = -1


cdef void timer_close_fds_if_over_locked(Timer* self) noexcept nogil:
    """Whoever is the last to need the descriptors closes them: a thread that waits on them, or who stops the timer."""
    if self.stopping and self.reaping == 0:
        timer_close_fds(self)


cdef void timer_wake_reaper_locked(Timer* self) noexcept nogil:
    if self.reaper_until_ms != INT64_MIN:
        self.reaper_until_ms = INT64_MIN        # one wake-up is enough for all sleepers, whoever comes next
        self.woken = True
        hw_wake_write(self.wake_fds[1])
