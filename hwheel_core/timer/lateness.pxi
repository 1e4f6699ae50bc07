# A histogram of lateness in microseconds: below 16 us exact, above 16 steps for each power of two (within 6 %).


cdef inline int64_t lateness_us(int64_t deadline_ms, const Instant* now) noexcept nogil:
    """How late it is, in us: 0 when it is early, and of what does not fit into 64 bits the most that does."""
    cdef int64_t late_us
    if now.ms < deadline_ms:
        return 0
    # Times are not negative, but a deadline is as far back as a negative delay has put it.
    if deadline_ms < 0 and now.ms > INT64_MAX + deadline_ms:
        return INT64_MAX
    if hw_mul_overflows(now.ms - deadline_ms, 1000, &late_us) or hw_add_overflows(late_us, now.ns // 1000, &late_us):
        return INT64_MAX
    return late_us


cdef inline void lateness_record(Lateness* self, int64_t late_us) noexcept nogil:
    """late_us: of lateness_us, so it is not negative."""
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
    """The upper edge of a step, which belongs to it. The last step ends at 2**64."""
    return step if step < 16 else (<uint64_t>(17 + step % 16) << (step // 16 - 1)) - 1


cdef double lateness_quantile_ms(const Lateness* self, double quantile) noexcept nogil:
    """The upper edge of the step that the quantile falls into; 0 when there is nothing."""
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
