# A latch: an event that happens once.
#
# A threading.Event holds a lock while Python code runs. Ctrl-C or an exception from outside at the wrong moment leaves the lock
# taken, and all other threads that use the event then hang. Here each step is a single call of a lock.


cdef bint latch_open(Latch self) except False:
    try:
        self.gate.release()
    except RuntimeError:
        pass                    # already open
    return True


@cython.final
cdef class Latch:
    """A threading.Event that cannot be cleared and that survives Ctrl-C and exceptions from outside."""

    def __init__(self):
        gate = threading.Lock()
        gate.acquire()
        self.gate = gate

    def set(self):
        """Wake all threads that wait, now and later. May be called again."""
        hw_set_flag(&self.is_set)
        latch_open(self)

    def wait(self, timeout=None):
        """Wait until the latch is set, for at most `timeout` seconds. Return True if it is set."""
        if not hw_flag(&self.is_set):
            try:
                self.gate.acquire(True, -1 if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX))
            finally:
                if hw_flag(&self.is_set):
                    latch_open(self)    # for the next waiting thread, even if this one was interrupted
        return bool(hw_flag(&self.is_set))
