# Walks over the entries of a timer that change nothing: the occupancy of the buckets, and the check of dump().
#
# The occupancy is for the live view of a running program, so it must not delay adds and cancels. The walk yields the lock after
# every SURVEY_SLICE entries or buckets. The result is therefore not a snapshot: an entry that cascades during the walk may be
# counted on both levels.

cdef enum:
    SURVEY_SLICE = 512      # a quarter of a cascade's slice, because a survey is less urgent


cdef void timer_count_ready_locked(const Timer* self, Occupancy* occupancy) noexcept nogil:
    cdef const Entry* entry = self.ready.next
    cdef int seen = 0
    while entry is not &self.ready and seen < SURVEY_SLICE:
        if entry.place == ENTRY_OF_TASK:
            occupancy.ready += 1
        elif entry_batch(entry).due_begin == entry.due_index:       # count a batch once, at its first run
            occupancy.ready += batch_waiting(entry_batch(entry))
        entry = entry.next
        seen += 1
    occupancy.ready_is_more = entry is not &self.ready


cdef int64_t bucket_count_yielding(Timer* self, const Bucket* bucket, int* budget) noexcept nogil:
    """Return the number of entries of a bucket. The lock is held, and yielded in between."""
    cdef Bookmark bookmark
    cdef int64_t count, total = 0
    bookmark_put(&bookmark, &self.wheel, &bucket.entries)
    while True:
        count = bookmark_count(&bookmark, budget[0])
        total += count
        budget[0] -= <int>count
        if budget[0] > 0:
            break
        lock_yield(self)
        budget[0] = SURVEY_SLICE
    bookmark_remove(&bookmark, &self.wheel)
    return total


cdef void occupancy_add(Occupancy* self, int32_t k, int64_t wheel_size, int64_t bucket_ms, int64_t count) noexcept nogil:
    """Add the entries of a bucket of level k + 1 to its column. If it is beyond the last column, merge columns in pairs."""
    cdef int64_t* counts = self.counts + k * self.columns
    # Clamp: the clock may have moved since the walk began, and a bucket may be overdue.
    cdef int64_t ticks = (bucket_ms - self.levels[k].current_time_ms) // self.levels[k].tick_ms
    cdef int32_t i
    ticks = min(max(ticks, 0), wheel_size - 1)
    while ticks // self.widths[k] >= self.columns:
        for i in range(self.columns // 2):
            counts[i] = counts[2 * i] + counts[2 * i + 1]
        memset(counts + self.columns // 2, 0, self.columns // 2 * sizeof(int64_t))
        self.widths[k] *= 2
    counts[ticks // self.widths[k]] += count
    self.filled[k] += 1


cdef void timer_measure_occupancy(Timer* self, Occupancy* occupancy) noexcept nogil:
    """Fill in the occupancy. O(pending + levels * wheel_size).

    The caller sets level_count and columns, and provides zeroed room in `counts`; the other fields are zero.
    """
    cdef const Bucket* bucket
    cdef int64_t bucket_ms
    cdef int budget = SURVEY_SLICE
    cdef int32_t i, k
    for k in range(occupancy.level_count):
        occupancy.widths[k] = 1
    lock_wait(self)
    memcpy(occupancy.levels, self.wheel.levels, occupancy.level_count * sizeof(Level))
    occupancy.lateness = self.lateness
    timer_count_ready_locked(self, occupancy)
    for k in range(occupancy.level_count):
        for i in range(self.wheel.wheel_size):
            if budget <= 0:
                lock_yield(self)
                budget = SURVEY_SLICE
            budget -= 1
            bucket = &self.wheel.levels[k].buckets[i]
            if not list_is_empty(&bucket.entries):
                bucket_ms = bucket.entries.expiration_ms
                occupancy_add(occupancy, k, self.wheel.wheel_size, bucket_ms, bucket_count_yielding(self, bucket, &budget))
    lock_release(self)


# --- for dump() --------------------------------------------------------------------------------------------------


cdef bint list_is_writable(const Entry* head) noexcept nogil:
    cdef const Entry* entry = head.next
    while entry is not head:
        hw_prefetch(entry_hinted(entry))
        if entry.place != ENTRY_OF_TASK or not task_flags(<const Task*>entry) & TASK_WRITABLE:
            return False
        entry = entry.next
    return True


cdef bint timer_is_writable_locked(const Timer* self) noexcept nogil:
    """Return True if all pending and resting entries are tasks with TASK_WRITABLE."""
    cdef const Wheel* wheel = &self.wheel
    cdef int32_t i
    if self.adding or self.batches is not NULL:
        return False
    if not (list_is_writable(&self.ready) and list_is_writable(&self.resting) and list_is_writable(&wheel.due)
            and list_is_writable(&wheel.flush)):
        return False
    for i in range(wheel.queue_length):         # contains every non-empty bucket
        if not list_is_writable(&wheel.queue[i].entries):
            return False
    return True
