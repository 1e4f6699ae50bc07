# Turns. An operation over all entries holds the GIL for half a millisecond at a time. Then it releases the GIL for long enough
# that a waiting thread takes it, and continues. In between, other threads may change anything, so the operation then looks up its
# place again. The docstring of each operation says which entries the result has.


cdef enum:
    TURN_NS = 500_000
    STEPS_PER_CLOCK_CHECK = 64


cdef inline int64_t monotonic_ns() noexcept nogil:
    cdef Instant now
    clock_read(CLOCK_KIND_MONOTONIC, &now)
    return now.ms * NS_PER_MS + now.ns


cdef void yield_gil() noexcept:
    """Release the GIL long enough for another thread to take it.

    A short release is not enough: a waiting thread has to wake up first, and a short release restarts its switch interval.
    """
    with nogil:
        hw_pause()


cdef void turn_begin(Turn* self) noexcept:
    self.end_ns = monotonic_ns() + TURN_NS
    self.steps = STEPS_PER_CLOCK_CHECK


cdef inline bint turn_is_over(Turn* self) noexcept:
    """Count an entry. Return True at the end of the turn: then call turn_end."""
    self.steps -= 1
    if self.steps > 0:
        return False
    self.steps = STEPS_PER_CLOCK_CHECK
    return monotonic_ns() > self.end_ns


cdef void turn_end(Turn* self) noexcept:
    yield_gil()
    turn_begin(self)


cdef inline bint turn_step(Turn* self) noexcept:
    """Count an entry. At the end of the turn, let other threads run, and return True."""
    if not turn_is_over(self):
        return False
    turn_end(self)
    return True
