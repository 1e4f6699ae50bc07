# The alarm of a container: one task in its timer.


cdef bint alarm_over(ContainerAlarm self) except False:
    cdef Timer* timer = <Timer*>self.task.owner
    if timer is not NULL:
        lock_with_gil(timer)
        alarm_over_locked(timer)
        lock_release(timer)
    return True


cdef class ContainerAlarm(TimerTask):
    """What an ExpiringDict or a DelayQueue waits for in its timer. Nothing happens when it runs too early, or too often."""

    def run(self):
        """The first entries of the container are due."""
        cdef object container = None if self.container is None else self.container()
        try:
            if container is not None:
                container._ring()
        finally:
            alarm_over(self)


cdef class ContainerCore:
    """What an ExpiringDict and a DelayQueue have in common."""

    def _ring(self):
        """For subclasses: something is due."""

    def _after_fork(self, bint keeps):
        """For subclasses: the process was forked. keeps: the timer keeps what was pending."""

    @property
    def timer(self):
        """The timer by whose clock this goes."""
        container_ready(self)
        return self.timer
