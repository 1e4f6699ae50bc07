# The alarm of a container: one task in its timer.


cdef class ContainerAlarm(TimerTask):
    """What an ExpiringDict or a DelayQueue waits for in its timer. Nothing happens when it runs too early, or too often."""

    def run(self):
        """The first entries of the container are due."""
        cdef object container = None if self.container is None else self.container()
        if container is not None:
            container._ring()


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
