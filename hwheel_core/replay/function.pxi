# replay() and lateness_of(), which Python sees: the batch side of the pipeline calls them for each partition of a log.

cdef ReplayColumn replay_column(Int64Buffer buffer) noexcept:
    return ReplayColumn(buffer.data, buffer.stride)


def replay(starts_ms, timeouts_ms, ends_ms, end_order, tick_ms, wheel_size, no_end=None):
    """Runs a log of timers through a wheel in virtual time.

    Arguments:
        starts_ms, timeouts_ms, ends_ms: int64 buffers of the same length, in order of starts_ms: when each timer was
            started, for how long, and when it was cancelled. What ends before its start ends at its start.
        end_order: int64 buffer: the rows that were cancelled, in order of ends_ms.
        tick_ms, wheel_size: the wheel's.
        no_end: the number that stands in ends_ms for a timer that was never cancelled; None: -2**63.

    At one instant timers fire first, then they are cancelled, then started. A timer fires as in SystemTimer: never
    early, at the next tick; with a timeout of 0 or less at once.

    Returns:
        outcomes: array("b"), 0: it fired, 1: it was cancelled.
        at_ms: array("q"), when.
        costs: (fired, wakeups, cascaded, peak, levels, lateness): how often a reaper would have woken up, how many
            entries it would have moved to a finer level, how many timers were pending at most, and how late those were
            that fired: a histogram, array("q"), which can be added to those of other logs; see lateness_of.

    Raises:
        TypeError: not a buffer of int64.
        ValueError: lengths differ, starts_ms is not ascending, or end_order not in order.
        OverflowError: a time does not fit into 64 bits, or there are more than 2,147,483,647 rows.

    Runtime complexity: O(1) a timer and level. The GIL is released.
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
        raise ValueError(f"the columns differ in length: {count}, {timeouts.count} and {ends.count}")
    if count > MAX_BATCH_LENGTH:
        raise OverflowError(f"at most {MAX_BATCH_LENGTH:,} rows at a time, not {count:,}")
    check_wheel(tick, size, 0)
    outcomes = array.clone(INT8, count, False)
    at_ms = int64_room(count)
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
        if status == REPLAY_NO_MEMORY:
            raise MemoryError
        if status == REPLAY_UNSORTED:
            raise ValueError(f"starts_ms is not ascending at row {row}")
        if status == REPLAY_BAD_ORDER:
            raise ValueError(f"end_order is not in order of ends_ms, or holds no row, at {self.ended}")
        if status == REPLAY_OVERFLOW:
            raise OverflowError(f"the times of row {row} do not fit into 64 bits of milliseconds")
        return outcomes, at_ms, (self.fired, self.wakeups, self.wheel.cascaded, self.peak, self.wheel.level_count,
                                 lateness_histogram(&self.lateness))
    finally:
        with nogil:
            replay_free(self)
            PyMem_RawFree(self)


cdef object lateness_histogram(const Lateness* self):
    """array("q"): how many in each step, and the maximum in us."""
    cdef array.array histogram = array.clone(INT64, LATENESS_BUCKETS + 1, False)
    memcpy(histogram.data.as_longlongs, self.buckets, LATENESS_BUCKETS * sizeof(int64_t))
    histogram.data.as_longlongs[LATENESS_BUCKETS] = self.max_us
    return histogram


def lateness_of(histogram):
    """(p50, p99, max) in ms of a histogram of replay's, or of a sum of such. In a sum the last item, the maximum, is
    the greatest of all.

    Raises:
        TypeError, ValueError: this is no such histogram.
    """
    cdef Int64Buffer counts = int64_buffer(histogram, "histogram")
    cdef Lateness lateness
    cdef int i
    cdef bint possible
    if counts.count != LATENESS_BUCKETS + 1 or counts.stride != sizeof(int64_t):
        raise ValueError(f"a histogram of lateness has {LATENESS_BUCKETS + 1} items, not {counts.count}")
    lateness.max_us = hw_read(counts.data + LATENESS_BUCKETS * sizeof(int64_t))
    lateness.count = 0
    possible = lateness.max_us >= 0
    for i in range(LATENESS_BUCKETS):
        lateness.buckets[i] = hw_read(counts.data + i * sizeof(int64_t))
        possible &= (lateness.buckets[i] >= 0
                     and not hw_add_overflows(lateness.count, lateness.buckets[i], &lateness.count))
    if not possible:
        raise ValueError("no histogram of lateness has negative numbers, or more than fit into 64 bits")
    return (lateness_quantile_ms(&lateness, 0.5), lateness_quantile_ms(&lateness, 0.99), lateness.max_us / 1000.0)
