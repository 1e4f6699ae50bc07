# Slack: what may be late by so much is put off to a tick that others come to as well, so that one wake-up does for all.
#
# Of the ticks within the slack it is the one whose number is divisible by the highest power of two. Timers gather there
# without knowing of each other, because each looks for the same: within a slack of s ticks there is always a multiple of
# the highest power of two that is not above s + 1, so whatever may be late by s or more meets on a grid of more than s / 2.


cdef inline int64_t most_aligned(int64_t first, int64_t last) noexcept nogil:
    """The number from `first` to `last`, 0 < first <= last, that ends in the most zero bits.

    Above the highest bit in which `first - 1` and `last` differ both are the same, and that bit is set in `last` alone. So
    what is left of `last` when all below is cleared is more than `first - 1`; and a number with more zeros than that would
    differ from `last` further up, which nothing in between does.
    """
    cdef int shift = 63 - hw_leading_zeros(<uint64_t>((first - 1) ^ last))
    return last >> shift << shift


cdef bint timer_due_within(const Timer* self, const Instant* now, const Instant* delay, const Instant* slack,
                           int64_t* deadline_ms_out, int64_t* expiration_ms_out) noexcept nogil:
    """timer_due for what may be late by the slack. What is due at once is not put off."""
    cdef int64_t tick_ms = self.wheel.levels[0].tick_ms
    cdef int64_t first, last
    cdef Instant latest
    if not timer_due(self, now, delay, deadline_ms_out, expiration_ms_out):
        return False
    if (slack.ms == 0 and slack.ns == 0) or deadline_ms_out[0] <= now.ms:
        return True
    if not instant_add(now, delay, &latest) or not instant_add(&latest, slack, &latest):
        return False
    first = deadline_ms_out[0] // tick_ms + (deadline_ms_out[0] % tick_ms != 0)
    last = latest.ms // tick_ms
    if first < last:
        deadline_ms_out[0] = expiration_ms_out[0] = most_aligned(first, last) * tick_ms
    return True
