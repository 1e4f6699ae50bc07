# Deadlines: from a delay, or a time, to the deadline of a task and to the time by which the wheel places it.
#
# Slack. A task with a slack may be postponed by up to the slack, so that it shares a wake-up with other tasks. It runs at the
# allowed tick whose number is divisible by the highest power of two. A slack of s ticks allows at least s consecutive ticks, and
# these contain a multiple of the highest power of two not above s. So all tasks with a slack of at least s ticks run at ticks
# that are more than s / 2 apart.


cdef inline int64_t deadline_delay_ms(const Deadline* self) noexcept nogil:
    """Return the delay in milliseconds, rounded up."""
    return self.delay.ms + (1 if self.delay.ns else 0)


cdef inline bint deadline_has_no_delay(const Deadline* self) noexcept nogil:
    """Return True if the delay is zero or negative."""
    return self.delay.ms < 0 or (self.delay.ms == 0 and self.delay.ns == 0)


cdef inline bint deadline_set_delay_until(Deadline* self, int64_t ms, int32_t ns) noexcept nogil:
    """Set `delay` to the delay from `now` until a time. Return False if it does not fit into 64 bits."""
    if hw_add_overflows(ms, -self.now.ms, &self.delay.ms):
        return False
    self.delay.ns = ns - self.now.ns
    if self.delay.ns < 0:
        self.delay.ns += NS_PER_MS
        self.delay.ms -= 1
    return True


cdef inline bint deadline_set(Deadline* self, const Timer* timer) noexcept nogil:
    """Set deadline_ms and expiration_ms from `now` and `delay`. Return False if they exceed 64 bits.

    A delay of zero or less expires at `now`, which is not rounded up. So the task is due in the current tick, after the tasks
    that were added earlier for that tick.
    """
    cdef Instant deadline
    if deadline_has_no_delay(self):
        self.deadline_ms = self.now.ms + self.delay.ms
        self.expiration_ms = self.now.ms
        return True
    if not instant_add(&self.now, &self.delay, &deadline):
        return False
    if timer.never_early and deadline.ns and hw_add_overflows(deadline.ms, 1, &deadline.ms):
        return False
    self.deadline_ms = deadline.ms
    return not hw_add_overflows(deadline.ms, timer.round_up_ms, &self.expiration_ms)


cdef inline int64_t most_aligned(int64_t first, int64_t last) noexcept nogil:
    """Return the number from `first` to `last`, 0 < first <= last, with the most trailing zero bits.

    Proof: let b be the highest bit in which `first - 1` and `last` differ. `last` has b set, so clearing its bits below b gives
    a number in the range. All numbers in the range agree with `last` above b. One with more trailing zeros would therefore be
    `last` without b and all lower bits, which is at most `first - 1`.
    """
    cdef int shift = 63 - hw_leading_zeros(<uint64_t>((first - 1) ^ last))
    return last >> shift << shift


cdef bint deadline_postpone(Deadline* self, const Timer* timer, const Instant* slack) noexcept nogil:
    """Postpone the deadline, after deadline_set, by at most the slack. Leave the deadline of an expired task unchanged.

    Return False if the latest allowed time does not fit into 64 bits.
    """
    cdef int64_t tick_ms = timer.wheel.levels[0].tick_ms
    cdef int64_t first, last
    cdef Instant latest
    if (slack.ms == 0 and slack.ns == 0) or self.deadline_ms <= self.now.ms:
        return True
    if not instant_add(&self.now, &self.delay, &latest) or not instant_add(&latest, slack, &latest):
        return False
    first = self.deadline_ms // tick_ms + (self.deadline_ms % tick_ms != 0)
    last = latest.ms // tick_ms
    if first < last:
        self.deadline_ms = self.expiration_ms = most_aligned(first, last) * tick_ms
    return True
