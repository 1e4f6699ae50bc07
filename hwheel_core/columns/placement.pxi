# Placement of a whole column of times, as wheel/wheel.pxi places one entry, for a wheel whose clock stands at now_ms;
# tests/model/test_columns.py holds the two together.


cdef void grid_init(Grid* self, int64_t now_ms, int64_t tick_ms, int64_t wheel_size) noexcept nogil:
    """All levels that there can be: the last one reaches to the end of time."""
    cdef int64_t interval_ms
    cdef bint is_last = False
    self.level_count = 0
    while not is_last:
        is_last = hw_mul_overflows(tick_ms, wheel_size, &interval_ms)
        self.tick_ms[self.level_count] = tick_ms
        self.clock_ms[self.level_count] = now_ms - now_ms % tick_ms
        self.interval_ms[self.level_count] = UINT64_MAX if is_last else <uint64_t>interval_ms
        self.level_count += 1
        tick_ms = interval_ms


cdef void grid_place(const Grid* self, const int64_t* times_ms, int64_t count, int64_t* levels_out,
                     int64_t* buckets_ms_out) noexcept nogil:
    cdef int64_t i, time_ms, ahead_ms, tick_ms
    cdef int32_t level
    for i in range(count):
        time_ms = max(hw_read(&times_ms[i]), 0)     # as in the wheel: what is negative is as due as 0
        ahead_ms = time_ms - self.clock_ms[0]
        level = 0
        if ahead_ms < self.tick_ms[0]:
            levels_out[i] = 0
            buckets_ms_out[i] = time_ms - time_ms % self.tick_ms[0]
            continue
        while <uint64_t>ahead_ms >= self.interval_ms[level]:
            level += 1
            ahead_ms = time_ms - self.clock_ms[level]
        tick_ms = self.tick_ms[level]
        levels_out[i] = level + 1
        buckets_ms_out[i] = self.clock_ms[level] + ahead_ms // tick_ms * tick_ms
