# Time in C: instants, the system's clocks, and the histogram of lateness.
#
# An Instant holds milliseconds and nanoseconds separately, so that neither a tick of one millisecond nor a delay of a century
# loses precision.

cdef enum:
    NS_PER_MS = 1000000


cdef inline void clock_read(int32_t kind, Instant* now_out) noexcept nogil:
    hw_clock_read(kind != CLOCK_KIND_MONOTONIC, &now_out.ms, &now_out.ns)


cdef inline bint instant_add(const Instant* start, const Instant* length, Instant* end_out) noexcept nogil:
    """Set end_out to the sum. Return False if it does not fit into 64 bits."""
    cdef int32_t ns = start.ns + length.ns
    end_out.ns = ns if ns < NS_PER_MS else ns - NS_PER_MS
    return not (hw_add_overflows(start.ms, length.ms, &end_out.ms)
                or (ns >= NS_PER_MS and hw_add_overflows(end_out.ms, 1, &end_out.ms)))


cdef inline bint instant_before(const Instant* self, const Instant* other) noexcept nogil:
    return self.ms < other.ms or (self.ms == other.ms and self.ns < other.ns)


cdef int64_t instant_until_ns(const Instant* now, int64_t time_ms) noexcept nogil:
    """Return the nanoseconds from `now` to a time: 0 if it has passed, -1 (never) if it is centuries away."""
    if time_ms <= now.ms:
        return 0
    if time_ms - now.ms > INT64_MAX // (2 * NS_PER_MS):
        return -1
    return (time_ms - now.ms) * NS_PER_MS - now.ns


# --- lateness ----------------------------------------------------------------------------------------------------

# A histogram in microseconds: exact below 16 us, above that 16 steps for each power of two (an error of at most 6 %).


cdef inline int64_t lateness_us(int64_t deadline_ms, const Instant* now) noexcept nogil:
    """Return the microseconds since a deadline: 0 if it is still to come, INT64_MAX if they do not fit into 64 bits."""
    cdef int64_t late_us
    if now.ms < deadline_ms:
        return 0
    # The clock is never negative, but a negative delay can give a deadline far in the past.
    if deadline_ms < 0 and now.ms > INT64_MAX + deadline_ms:
        return INT64_MAX
    if hw_mul_overflows(now.ms - deadline_ms, 1000, &late_us) or hw_add_overflows(late_us, now.ns // 1000, &late_us):
        return INT64_MAX
    return late_us


cdef inline void lateness_record(Lateness* self, int64_t late_us) noexcept nogil:
    """Count a lateness that is not negative."""
    cdef int shift
    self.count += 1
    if late_us > self.max_us:
        self.max_us = late_us
    if late_us < 16:
        self.buckets[late_us] += 1
    else:
        shift = 59 - hw_leading_zeros(<uint64_t>late_us)
        self.buckets[(shift + 1) * 16 + ((late_us >> shift) & 15)] += 1


cdef inline uint64_t lateness_upper_us(int step) noexcept nogil:
    """Return the upper edge of a step, inclusive. The last step ends at 2**64 - 1."""
    return step if step < 16 else (<uint64_t>(17 + step % 16) << (step // 16 - 1)) - 1


cdef double lateness_quantile_ms(const Lateness* self, double quantile) noexcept nogil:
    """Return the upper edge of the step that contains a quantile; 0 if nothing was recorded."""
    cdef int64_t rank = <int64_t>ceil(quantile * self.count)
    cdef int64_t seen = 0
    cdef int i
    if self.count == 0:
        return 0.0
    for i in range(LATENESS_BUCKETS):
        seen += self.buckets[i]
        if seen >= rank and seen > 0:
            return <int64_t>min(lateness_upper_us(i), <uint64_t>self.max_us) / 1000.0
    return self.max_us / 1000.0
