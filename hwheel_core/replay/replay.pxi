# Replays a log of timers (start, timeout, end) on a wheel in virtual time: the outcome of each timer, and the costs.
#
# At each instant there are three steps. Timers fire, in the order of the wheel. Then timers are cancelled, in the caller's
# order of their ends. Then timers start, in the order of the log.

cdef enum:
    REPLAY_SLAB = 8192          # entries per allocation
    REPLAY_STEP = 0x40000000    # budget of a step: without a lock, there is no need for slices
    REPLAY_AHEAD = 16           # distance in end_order at which an end is prefetched


cdef inline int64_t column_at(const ReplayColumn* self, int64_t i) noexcept nogil:
    return hw_read(self.data + i * self.stride)


cdef bint replay_init(Replay* self, int64_t count, int64_t tick_ms, int32_t wheel_size,
                      int64_t start_ms) noexcept nogil:
    """Set up a zeroed Replay. Return False if there is no memory. Call replay_free in any case."""
    self.by_row = <Entry**>PyMem_RawCalloc(count + 1, sizeof(Entry*))
    if self.by_row is not NULL:
        hw_advise_huge(self.by_row, count * sizeof(Entry*))
    return self.by_row is not NULL and wheel_create(&self.wheel, tick_ms, wheel_size, start_ms)


cdef void replay_free(Replay* self) noexcept nogil:
    cdef ReplaySlab* slab
    wheel_destroy(&self.wheel)
    while self.slabs is not NULL:
        slab = self.slabs
        self.slabs = slab.next
        block_free(slab.entries)
        PyMem_RawFree(slab)
    PyMem_RawFree(self.by_row)


cdef bint replay_grow(Replay* self) noexcept nogil:
    cdef ReplaySlab* slab = <ReplaySlab*>PyMem_RawMalloc(sizeof(ReplaySlab))
    cdef int i
    if slab is NULL:
        return False
    slab.entries = <Entry*>block_new(REPLAY_SLAB, sizeof(Entry), False)
    if slab.entries is NULL:
        PyMem_RawFree(slab)
        return False
    slab.next = self.slabs
    self.slabs = slab
    for i in range(REPLAY_SLAB):
        slab.entries[i].next = self.free
        self.free = &slab.entries[i]
    return True


cdef inline void replay_end_one(Replay* self, Entry* entry, int8_t outcome, int64_t at_ms) noexcept nogil:
    """Record the outcome of a pending timer and free its entry."""
    wheel_remove(&self.wheel, entry)
    self.outcomes[entry.row] = outcome
    self.at_ms[entry.row] = at_ms
    self.by_row[entry.row] = NULL
    self.pending -= 1
    entry.next = self.free
    self.free = entry


cdef void replay_wake_reaper(Replay* self, int64_t now_ms) noexcept nogil:
    """Wake the reaper: take the timers that are due at now_ms, if any are left, and sleep until the next bucket."""
    cdef Wheel* wheel = &self.wheel
    cdef Bucket* bucket
    cdef Entry* entry
    cdef int budget
    cdef StepStatus status = STEP_TICK
    self.wakeups += 1
    while status != STEP_DONE:
        budget = REPLAY_STEP
        status = wheel_step(wheel, now_ms, &budget)
        while not list_is_empty(&wheel.due):
            entry = wheel.due.next
            self.fired += 1
            # The bucket of a timer that is due at its start can begin before the start.
            replay_end_one(self, entry, OUTCOME_FIRED, max(now_ms, entry.expiration_ms))
    bucket = queue_first(wheel)
    self.sleeps = bucket is not NULL
    if self.sleeps:
        self.sleeps_until_ms = bucket.entries.expiration_ms


cdef inline void replay_wake_until(Replay* self, int64_t until_ms) noexcept nogil:
    """Run all wake-ups up to and including a time."""
    while self.sleeps and self.sleeps_until_ms <= until_ms:
        replay_wake_reaper(self, self.sleeps_until_ms)


cdef inline void replay_prefetch_end(const Replay* self, const ReplayLog* log, int64_t row) noexcept nogil:
    if 0 <= row < log.count:
        hw_prefetch(log.ends_ms.data + row * log.ends_ms.stride)
        hw_prefetch(&self.by_row[row])


cdef ReplayStatus replay_run_until(Replay* self, const ReplayLog* log, int64_t now_ms) noexcept nogil:
    """Run all wake-ups and cancels up to and including now_ms."""
    cdef int64_t before_ms = INT64_MIN, end_ms, row
    while self.ended < log.end_count:
        row = column_at(&log.end_order, self.ended)
        if not 0 <= row < log.count:
            return REPLAY_BAD_ORDER
        end_ms = column_at(&log.ends_ms, row)
        if end_ms < before_ms:
            return REPLAY_BAD_ORDER
        before_ms = end_ms
        if end_ms > now_ms:
            break
        if self.ended + REPLAY_AHEAD < log.end_count:
            replay_prefetch_end(self, log, column_at(&log.end_order, self.ended + REPLAY_AHEAD))
        replay_wake_until(self, end_ms)
        self.ended += 1
        if self.by_row[row] is not NULL:
            replay_end_one(self, self.by_row[row], OUTCOME_CANCELLED, end_ms)
    replay_wake_until(self, now_ms)
    return REPLAY_OK


cdef bint replay_fires_at(const Replay* self, int64_t start_ms, int64_t timeout_ms, int64_t* deadline_ms_out,
                          int64_t* fires_ms_out) noexcept nogil:
    """Compute the deadline and the tick at which the timer fires. Return False beyond 64 bits."""
    cdef int64_t tick_ms = self.wheel.levels[0].tick_ms
    cdef int64_t rest_ms
    if timeout_ms <= 0:
        deadline_ms_out[0] = fires_ms_out[0] = start_ms     # at once, as in SystemTimer
        return True
    if hw_add_overflows(start_ms, timeout_ms, deadline_ms_out):
        return False
    rest_ms = deadline_ms_out[0] % tick_ms
    return not hw_add_overflows(deadline_ms_out[0], tick_ms - rest_ms if rest_ms else 0, fires_ms_out)


cdef ReplayStatus replay_start(Replay* self, int32_t row, int64_t start_ms, int64_t timeout_ms,
                               int64_t end_ms, bint has_end) noexcept nogil:
    """Start the timer of a row. All events before start_ms have been replayed."""
    cdef int64_t fires_ms, deadline_ms, bucket_ms
    cdef Instant fires
    cdef Entry* entry
    cdef AddStatus status
    if not replay_fires_at(self, start_ms, timeout_ms, &deadline_ms, &fires_ms):
        return REPLAY_OVERFLOW
    if not has_end or end_ms >= fires_ms:
        fires.ms = fires_ms
        fires.ns = 0
        lateness_record(&self.lateness, lateness_us(deadline_ms, &fires))
    if self.free is NULL and not replay_grow(self):
        return REPLAY_NO_MEMORY
    entry = self.free
    self.free = entry.next
    entry.expiration_ms = fires_ms
    entry.row = row
    status = wheel_add(&self.wheel, entry, &bucket_ms)
    while status == ADD_NEEDS_LEVEL:
        if not wheel_make_level(&self.wheel):
            return REPLAY_NO_MEMORY
        status = wheel_add(&self.wheel, entry, &bucket_ms)
    if status == ADD_DUE:
        list_append(&self.wheel.due, entry)
    elif not self.sleeps or bucket_ms < self.sleeps_until_ms:
        self.sleeps = True
        self.sleeps_until_ms = bucket_ms
    self.by_row[row] = entry
    self.pending += 1
    self.peak = max(self.peak, self.pending)
    if has_end and end_ms <= start_ms < fires_ms:
        # The ends up to start_ms have been replayed, so this one is replayed here.
        replay_end_one(self, entry, OUTCOME_CANCELLED, start_ms)
    elif status == ADD_DUE:
        replay_wake_reaper(self, start_ms)
    return REPLAY_OK


cdef ReplayStatus replay_run(Replay* self, const ReplayLog* log, int64_t first_ms, int64_t no_end,
                             int64_t* row_out) noexcept nogil:
    """Replay all rows. The wheel's clock is at first_ms, the start of the first row. row_out: the row of a failure."""
    cdef int64_t i, start_ms, end_ms, before_ms = first_ms
    cdef ReplayStatus status = REPLAY_OK
    for i in range(log.count):
        row_out[0] = i
        start_ms = column_at(&log.starts_ms, i)
        if start_ms < before_ms:
            return REPLAY_OVERFLOW if start_ms < 0 else REPLAY_UNSORTED
        if start_ms > before_ms:
            status = replay_run_until(self, log, start_ms)
            before_ms = start_ms
        if status == REPLAY_OK:
            end_ms = column_at(&log.ends_ms, i)
            status = replay_start(self, <int32_t>i, start_ms, column_at(&log.timeouts_ms, i), end_ms, end_ms != no_end)
        if status != REPLAY_OK:
            return status
    return replay_run_until(self, log, INT64_MAX)
