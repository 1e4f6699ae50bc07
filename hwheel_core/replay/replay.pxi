# Replay: a log of timers (start, timeout, end) run through a wheel in virtual time, to see what each did and what the
# wheel had to do for it.
#
# Three things happen, in this order where they fall on one instant: timers fire, in the order of the wheel; timers are
# cancelled, in the order in which the caller has sorted their ends; timers are started, in the order of the log.

cdef enum:
    REPLAY_SLAB = 8192          # entries that are allocated at a time
    REPLAY_STEP = 0x40000000    # no slices: nobody waits for a lock here
    REPLAY_AHEAD = 16           # ends that are prefetched ahead


cdef inline int64_t column_at(const ReplayColumn* self, int64_t i) noexcept nogil:
    return hw_read(self.data + i * self.stride)


cdef bint replay_init(Replay* self, int64_t count, int64_t tick_ms, int32_t wheel_size,
                      int64_t start_ms) noexcept nogil:
    """False when there is no memory; replay_free it all the same. The Replay comes zeroed."""
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
    """A pending timer is over: this outcome is written down, and its entry is free again."""
    wheel_remove(&self.wheel, entry)
    self.outcomes[entry.place] = outcome
    self.at_ms[entry.place] = at_ms
    self.by_row[entry.place] = NULL
    self.pending -= 1
    entry.next = self.free
    self.free = entry


cdef void replay_wake_reaper(Replay* self, int64_t now_ms) noexcept nogil:
    """The reaper wakes up, takes what is due at now_ms, which may be nothing any more, and goes to sleep."""
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
            # What is due at once may stand in the bucket of a tick that had begun before it started.
            replay_end_one(self, entry, OUTCOME_FIRED, max(now_ms, entry.expiration_ms))
    bucket = queue_first(wheel)
    self.sleeps = bucket is not NULL
    if self.sleeps:
        self.sleeps_until_ms = bucket.entries.expiration_ms


cdef inline void replay_wake_until(Replay* self, int64_t until_ms) noexcept nogil:
    """All wake-ups up to a time, that included."""
    while self.sleeps and self.sleeps_until_ms <= until_ms:
        replay_wake_reaper(self, self.sleeps_until_ms)


cdef inline void replay_prefetch_end(const Replay* self, const ReplayLog* log, int64_t row) noexcept nogil:
    if 0 <= row < log.count:
        hw_prefetch(log.ends_ms.data + row * log.ends_ms.stride)
        hw_prefetch(&self.by_row[row])


cdef ReplayStatus replay_live_until(Replay* self, const ReplayLog* log, int64_t now_ms) noexcept nogil:
    """Lives through everything up to now_ms, that included."""
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


cdef ReplayStatus replay_start(Replay* self, int32_t row, int64_t start_ms, int64_t timeout_ms,
                               int64_t end_ms, bint has_end) noexcept nogil:
    """One row; everything up to start_ms has been lived through."""
    cdef int64_t tick_ms = self.wheel.levels[0].tick_ms
    cdef int64_t fires_ms, deadline_ms, rest_ms, bucket_ms
    cdef Instant fires
    cdef Entry* entry
    cdef AddStatus status
    if timeout_ms <= 0:
        deadline_ms = fires_ms = start_ms       # as SystemTimer: at once
    else:
        if hw_add_overflows(start_ms, timeout_ms, &deadline_ms):
            return REPLAY_OVERFLOW
        rest_ms = deadline_ms % tick_ms
        if hw_add_overflows(deadline_ms, tick_ms - rest_ms if rest_ms else 0, &fires_ms):
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
    entry.place = row
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
        # Its turn among the ends was over before it started.
        replay_end_one(self, entry, OUTCOME_CANCELLED, start_ms)
    elif status == ADD_DUE:
        replay_wake_reaper(self, start_ms)
    return REPLAY_OK


cdef ReplayStatus replay_run(Replay* self, const ReplayLog* log, int64_t first_ms, int64_t no_end,
                             int64_t* row_out) noexcept nogil:
    """All rows, from first_ms on, where the wheel's clock stands. row_out: which one the status is about."""
    cdef int64_t i, start_ms, end_ms, before_ms = first_ms
    cdef ReplayStatus status = REPLAY_OK
    for i in range(log.count):
        row_out[0] = i
        start_ms = column_at(&log.starts_ms, i)
        if start_ms < before_ms:
            return REPLAY_OVERFLOW if start_ms < 0 else REPLAY_UNSORTED
        if start_ms > before_ms:
            status = replay_live_until(self, log, start_ms)
            before_ms = start_ms
        if status == REPLAY_OK:
            end_ms = column_at(&log.ends_ms, i)
            status = replay_start(self, <int32_t>i, start_ms, column_at(&log.timeouts_ms, i), end_ms, end_ms != no_end)
        if status != REPLAY_OK:
            return status
    return replay_live_until(self, log, INT64_MAX)
