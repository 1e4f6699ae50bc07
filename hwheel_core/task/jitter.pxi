# Jitter: each run of a call_every comes later than its time on the grid by a random part of a length, so that what was begun
# together does not go on together. The grid stays.


cdef object system_random = None    # the function random.SystemRandom().random, once it is needed


cdef object system_draw():
    global system_random
    if system_random is None:
        from random import SystemRandom
        made = SystemRandom().random
        # Of two threads that come at once both take the first one's, because dump() knows it by that.
        if HW_FREE_THREADED:
            hw_mutex_lock(&orphans)
        if system_random is None:
            system_random = made
        if HW_FREE_THREADED:
            hw_mutex_unlock(&orphans)
    return system_random


cdef tuple jitter_argument(object jitter, object random):
    """(its length in ns, what draws a part of it), or (0, None).

    By itself it is the system's source: it has no state, which the child of a fork would share with its parent, to do the
    same at the same times, and nobody's own random numbers come out otherwise because of it.
    """
    cdef Instant length
    term_argument(jitter, "jitter", &length)
    draw = None
    if random is not None:
        draw = getattr(random, "random", None)
        if not PyCallable_Check(draw):
            raise TypeError("random must have a method random(), as random.Random has, "
                            f"but is of type {type(random).__name__}")
    if length.ms == 0 and length.ns == 0:
        return 0, None
    return instant_ns(&length), system_draw() if draw is None else draw


cdef object jitter_drawn(PeriodicTask self):
    """How much later than its time the next run is to come, in ns."""
    part = self.draw()
    if not isinstance(part, float) or not 0 <= part <= 1:
        raise ValueError(f"random() has to return a float from 0 to 1, not {part!r}")
    return int(self.jitter_ns * part)
