# replay() and lateness_of() for Python.

cdef array.array INT8_ARRAY = array.array("b")      # for array.clone


cdef ReplayColumn replay_column(Int64Buffer buffer) noexcept:
    return ReplayColumn(buffer.data, buffer.stride)


cdef bint replay_raise_if_failed(const Replay* self, ReplayStatus status, int64_t row) except False:
    if status == REPLAY_NO_MEMORY:
        raise MemoryError
    if status == REPLAY_UNSORTED:
        raise ValueError(f"starts_ms is not ascending at row {row}")
    if status == REPLAY_BAD_ORDER:
        raise ValueError(f"end_order[{self.ended}] is not a row, or not in order of ends_ms")
    if status == REPLAY_OVERFLOW:
        raise OverflowError(f"the times of row {row} do not fit into 64 bits of milliseconds")
    return True


def replay(starts_ms, timeouts_ms, ends_ms, end_order, tick_ms, wheel_size, no_end=None):
    """Replay a log of timers on a wheel in virtual time.

    At each instant, timers fire first, then timers are cancelled, then timers start. As in SystemTimer, a timer fires
    at the first tick at or after its deadline, or at once if its timeout is 0 or less.

    Args:
        starts_ms, timeouts_ms, ends_ms: The start, timeout, and cancel of each timer, in order of the starts: int64
            buffers of the same length. An end before the start counts as the start.
        end_order: The rows that were cancelled, in order of ends_ms: an int64 buffer.
        tick_ms, wheel_size: The wheel's settings.
        no_end: The value in ends_ms for a timer that was never cancelled. Default: -2**63.

    Returns:
        ``(outcomes, at_ms, costs)``. outcomes is an array("b"): 0 for a timer that fired, 1 for one that was cancelled.
        at_ms is an array("q") with the times of these outcomes. costs is ``(fired, wakeups, cascaded, peak, levels,
        lateness)``: the timers that fired, wake-ups of the reaper, moves to a finer level, the most pending timers, the
        levels, and a histogram of lateness. Pass the histogram to ``lateness_of``. Histograms of several logs can be added.

    Raises:
        TypeError: A column is not a buffer of int64.
        ValueError: The lengths differ, starts_ms is not ascending, or end_order is not in order.
        OverflowError: A time does not fit into 64 bits, or there are more than 2,147,483,647 rows.

    O(levels) per timer. Releases the GIL.
    """
    cdef Int64Buffer starts = int64_buffer(starts_ms, "starts_ms")
    cdef Int64Buffer timeouts = int64_buffer(timeouts_ms, "timeouts_ms")
    cdef Int64Buffer ends = int64_buffer(ends_ms, "ends_ms")
    cdef Int64Buffer order = int64_buffer(end_order, "end_order")
    cdef ReplayLog log = ReplayLog(starts.count, replay_column(starts), replay_column(timeouts), replay_column(ends),
                                   order.count, replay_column(order))
    cdef int64_t tick = integer_argument(tick_ms, "tick_ms")
    cdef int64_t size = integer_argument(wheel_size, "wheel_size")
    cdef int64_t never = INT64_MIN if no_end is None else integer_argument(no_end, "no_end")
    cdef int64_t count = starts.count, row = 0, first_ms
    cdef array.array outcomes, at_ms
    cdef Replay* self
    cdef ReplayStatus status = REPLAY_NO_MEMORY
    if not count == timeouts.count == ends.count:
        raise ValueError(f"the columns must have the same length, got {count}, {timeouts.count}, and {ends.count}")
    if count > MAX_BATCH_LENGTH:
        raise OverflowError(f"a log must have at most {MAX_BATCH_LENGTH:,} rows, got {count:,}")
    wheel_check_arguments(tick, size, 0)
    outcomes = array.clone(INT8_ARRAY, count, False)
    at_ms = int64_array(count)
    first_ms = column_at(&log.starts_ms, 0) if count else 0
    if first_ms < 0:
        raise ValueError(f"starts_ms[0] is negative: {first_ms}")
    self = <Replay*>PyMem_RawCalloc(1, sizeof(Replay))
    if self is NULL:
        raise MemoryError
    try:
        with nogil:
            self.outcomes = <int8_t*>outcomes.data.as_schars
            self.at_ms = <int64_t*>at_ms.data.as_longlongs
            if replay_init(self, count, tick, <int32_t>size, first_ms):
                status = replay_run(self, &log, first_ms, never, &row)
        replay_raise_if_failed(self, status, row)
        return outcomes, at_ms, (self.fired, self.wakeups, self.wheel.cascaded, self.peak, self.wheel.level_count,
                                 lateness_histogram(&self.lateness))
    finally:
        with nogil:
            replay_free(self)
            PyMem_RawFree(self)


cdef object lateness_histogram(const Lateness* self):
    """Return an array("q"): the count of each step, and the maximum in us."""
    cdef array.array histogram = array.clone(INT64_ARRAY, LATENESS_BUCKETS + 1, False)
    memcpy(histogram.data.as_longlongs, self.buckets, LATENESS_BUCKETS * sizeof(int64_t))
    histogram.data.as_longlongs[LATENESS_BUCKETS] = self.max_us
    return histogram


def lateness_of(histogram):
    """Return (p50, p99, max) in ms of a histogram of ``replay``, or of a sum of histograms.

    Args:
        histogram: The counts, followed by the maximum. In a sum, the last item must be the greatest maximum.

    Raises:
        TypeError, ValueError: The argument is not a histogram.
    """
    cdef Int64Buffer counts = int64_buffer(histogram, "histogram")
    cdef Lateness lateness
    cdef int i
    cdef bint possible
    if counts.count != LATENESS_BUCKETS + 1 or counts.stride != sizeof(int64_t):
        raise ValueError(f"a histogram of lateness must have {LATENESS_BUCKETS + 1} items, got {counts.count}")
    lateness.max_us = hw_read(counts.data + LATENESS_BUCKETS * sizeof(int64_t))
    lateness.count = 0
    possible = lateness.max_us >= 0
    for i in range(LATENESS_BUCKETS):
        lateness.buckets[i] = hw_read(counts.data + i * sizeof(int64_t))
        possible &= (lateness.buckets[i] >= 0
                     and not hw_add_overflows(lateness.count, lateness.buckets[i], &lateness.count))
    if not possible:
        raise ValueError("a histogram of lateness must not have negative counts, or a sum beyond 64 bits")
    return (lateness_quantile_ms(&lateness, 0.5), lateness_quantile_ms(&lateness, 0.99), lateness.max_us / 1000.0)
