# A look at a timer that runs, for a live page: see timer/look.pxi.


cdef list lateness_steps(const Lateness* self):
    """[(the upper edge of the step in us, how many)] where there are any."""
    cdef list steps = []
    cdef int i
    for i in range(LATENESS_BUCKETS):
        if self.buckets[i]:
            steps.append((lateness_upper_us(i), self.buckets[i]))
    return steps


cdef list look_levels(const Look* self, int64_t wheel_size):
    """[(tick_ms, interval_ms, how many buckets hold something, buckets to a column, [timers of each column])]"""
    cdef list levels = []
    cdef list counts
    cdef int64_t columns
    cdef int32_t i, k
    for k in range(self.level_count):
        columns = min(self.columns, (wheel_size + self.widths[k] - 1) // self.widths[k])
        counts = []
        for i in range(columns):
            counts.append(self.counts[k * self.columns + i])
        interval_ms = <object>self.levels[k].tick_ms * wheel_size
        levels.append((self.levels[k].tick_ms, interval_ms, self.filled[k], self.widths[k], counts))
    return levels


cdef tuple timer_look_at(Timer* timer, int32_t level_count, int32_t columns):
    """(timers that wait for the executor, whether they are more, lateness_steps, look_levels). The GIL is released."""
    cdef Look* look = <Look*>PyMem_RawCalloc(1, sizeof(Look))
    if look is NULL:
        raise MemoryError
    try:
        look.level_count = level_count
        look.columns = columns
        look.counts = <int64_t*>PyMem_RawCalloc(<size_t>level_count * columns, sizeof(int64_t))
        if look.counts is NULL:
            raise MemoryError
        with nogil:
            timer_look(timer, look)
        return look.ready, look.ready_is_more != 0, lateness_steps(&look.lateness), look_levels(look, timer.wheel.wheel_size)
    finally:
        PyMem_RawFree(look.counts)
        PyMem_RawFree(look)
