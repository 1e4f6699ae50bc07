# A look at how full the buckets are, for a live page of a running program. It must not hold up who adds and cancels: it
# gives the lock up after LOOK_SLICE entries or buckets, and takes it again behind who waits. So what it finds is not of one
# moment: what moves down a level meanwhile may be counted there, too.

cdef enum:
    LOOK_SLICE = 512        # a quarter of a cascade's slice, because this is not urgent


cdef void timer_count_ready_locked(const Timer* self, Look* look) noexcept nogil:
    cdef const Entry* entry = self.ready.next
    cdef int seen = 0
    while entry is not &self.ready and seen < LOOK_SLICE:
        if entry.place == ENTRY_OF_TASK:
            look.ready += 1
        elif entry_batch(entry).due_begin == entry.due_index:       # a batch once, at the first head of it
            look.ready += batch_waiting(entry_batch(entry))
        entry = entry.next
        seen += 1
    look.ready_is_more = entry is not &self.ready


cdef int64_t bucket_count_yielding(Timer* self, const Bucket* bucket, int* budget) noexcept nogil:
    """How many entries the bucket holds. Wants the lock held, and gives it up in between."""
    cdef Bookmark bookmark
    cdef int64_t count, total = 0
    bookmark_put(&bookmark, &self.wheel, bucket)
    while True:
        count = bookmark_count(&bookmark, budget[0])
        total += count
        budget[0] -= <int>count
        if budget[0] > 0:
            break
        lock_yield(self)
        budget[0] = LOOK_SLICE
    bookmark_remove(&bookmark, &self.wheel)
    return total


cdef void look_add(Look* self, int32_t k, int64_t wheel_size, int64_t bucket_ms, int64_t count) noexcept nogil:
    """Adds what a bucket of level k + 1 holds to its column. Beyond the last column two and two are put together."""
    cdef int64_t* counts = self.counts + k * self.columns
    # The clock may have gone on since the look began, and a bucket may be late.
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


cdef void timer_look(Timer* self, Look* look) noexcept nogil:
    """O(pending + levels * wheel_size). `counts` has room for level_count levels, and is zero; so is the rest."""
    cdef const Bucket* bucket
    cdef int64_t bucket_ms
    cdef int budget = LOOK_SLICE
    cdef int32_t i, k
    for k in range(look.level_count):
        look.widths[k] = 1
    lock_wait(self)
    memcpy(look.levels, self.wheel.levels, look.level_count * sizeof(Level))
    look.lateness = self.lateness
    timer_count_ready_locked(self, look)
    for k in range(look.level_count):
        for i in range(self.wheel.wheel_size):
            if budget <= 0:
                lock_yield(self)
                budget = LOOK_SLICE
            budget -= 1
            bucket = &self.wheel.levels[k].buckets[i]
            if not list_is_empty(&bucket.entries):
                bucket_ms = bucket.entries.expiration_ms
                look_add(look, k, self.wheel.wheel_size, bucket_ms, bucket_count_yielding(self, bucket, &budget))
    lock_release(self)
