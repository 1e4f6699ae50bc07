# Time as the timers know it: whole milliseconds and the nanoseconds on top, so that neither a tick of a millisecond
# nor a delay of a century loses anything.

cdef enum:
    NS_PER_MS = 1000000


cdef inline void clock_read(int32_t kind, Instant* now_out) noexcept nogil:
    hw_clock_read(kind != CLOCK_KIND_MONOTONIC, &now_out.ms, &now_out.ns)


cdef inline bint instant_add(const Instant* start, const Instant* length, Instant* end_out) noexcept nogil:
    """False where the sum does not fit into 64 bits."""
    cdef int32_t ns = start.ns + length.ns
    end_out.ns = ns if ns < NS_PER_MS else ns - NS_PER_MS
    return not (hw_add_overflows(start.ms, length.ms, &end_out.ms)
                or (ns >= NS_PER_MS and hw_add_overflows(end_out.ms, 1, &end_out.ms)))


cdef int64_t instant_until_ns(const Instant* now, int64_t time_ms) noexcept nogil:
    """Nanoseconds from now to a time in ms: 0 when it is over, -1 (never) when it is centuries away."""
    if time_ms <= now.ms:
        return 0
    if time_ms - now.ms > INT64_MAX // (2 * NS_PER_MS):
        return -1
    return (time_ms - now.ms) * NS_PER_MS - now.ns
