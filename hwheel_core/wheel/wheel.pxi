# The hierarchical timing wheel: Kafka's placement (TimingWheel.java, SystemTimer.java), plus an order within a tick.
#
# This file is the algorithm. A wheel is a stack of levels. Each level is an array of wheel_size buckets. A bucket is a
# list of the entries that expire in one tick of its level. With tick u and wheel_size n:
#
#     level   tick_ms    interval_ms    index of the bucket of a time x     (u = 1, n = 20)
#       1     u          u * n          x // u       % n                    20 buckets of   1 ms:  0 ..   20 ms
#       2     u * n      u * n^2        x // (u*n)   % n                    20 buckets of  20 ms:  0 ..  400 ms
#       3     u * n^2    u * n^3        x // (u*n^2) % n                    20 buckets of 400 ms:  0 .. 8000 ms
#
# A level is created when the first entry needs it, and never destroyed. Each level has a clock, a multiple of its tick.
#
# Add. An entry that is due within the current tick is not added: the caller runs it. Otherwise it goes into the finest level
# whose interval reaches its expiration, counted from the level's clock.
#
# Advance. Take the due buckets from the delay queue, one at a time. Each one sets the clocks of all levels to its expiration.
# Its entries go through placement again: they land in a finer level (they cascade), or they are due.
#
# Order. Entries of one tick come out in the order in which they were added. Proof:
#   1. A clock only moves forward, so the level that a given tick falls into only gets finer. Of the entries of one tick, those
#      in a coarser level were therefore added before those in a finer level. Within a bucket, appending keeps the order.
#   2. A cascade walks its bucket backward and pushes each entry to the front of the finer bucket. Entries of one tick keep
#      their order, and precede the entries that were added to the finer bucket directly.
#   3. Of several buckets with the same expiration, the finer one is taken first (queue.pxi). So the oldest entries, from the
#      coarsest bucket, are pushed last and end up in front. `due` is filled in the same way.
# This takes O(1) for each entry and level, with no sequence number and no sort. The order also holds if the lock is released
# halfway through a cascade: adds append their entries, and all entries that are still to be pushed are older. The script
# tools/proof/wheel_order.py checks every state that a small wheel can reach.


cdef enum:
    SLICE = 2048        # number of entries that a cascade moves before it releases the lock

cdef enum StepStatus:
    STEP_DONE           # no more bucket is due at now_ms
    STEP_MORE           # the budget is used up: call again
    STEP_TICK           # wheel.due holds all entries of one tick: take them, then call again


cdef void wheel_init(Wheel* self, int64_t tick_ms, int32_t wheel_size, int64_t start_ms, Bucket* buckets,
                     Bucket** queue) noexcept nogil:
    self.wheel_size = wheel_size
    self.queue = queue
    list_init(&self.flush)
    list_init(&self.due)
    wheel_add_level(self, tick_ms, start_ms, buckets)
    self.taken_ms = self.levels[0].current_time_ms


cdef void wheel_add_level(Wheel* self, int64_t tick_ms, int64_t start_ms, Bucket* buckets) noexcept nogil:
    cdef Level* level = &self.levels[self.level_count]
    cdef int64_t interval_ms
    level.tick_ms = tick_ms
    level.by_tick = hw_divisor_of(tick_ms)
    level.current_time_ms = start_ms - start_ms % tick_ms
    level.current_index = start_ms // tick_ms % self.wheel_size
    # A level whose interval overflows reaches to the end of time: no time of 64 bits is farther from its clock.
    level.interval_ms = UINT64_MAX if hw_mul_overflows(tick_ms, self.wheel_size, &interval_ms) else <uint64_t>interval_ms
    level.buckets = buckets
    self.level_count += 1


cdef void wheel_grow(Wheel* self, Bucket* buckets, Bucket** queue, Bucket*** old_queue_out) noexcept nogil:
    """Add the next coarser level. The caller provides its buckets (level_memory_new) and a queue with room for them."""
    cdef Level* top = &self.levels[self.level_count - 1]
    memcpy(queue, self.queue, self.queue_length * sizeof(Bucket*))
    old_queue_out[0] = self.queue
    self.queue = queue
    wheel_add_level(self, <int64_t>top.interval_ms, top.current_time_ms, buckets)


cdef inline int64_t wheel_tick(const Wheel* self, int64_t time_ms) noexcept nogil:
    """Return the start of the tick of a time."""
    return time_ms - time_ms % self.levels[0].tick_ms


cdef inline AddStatus wheel_reserve_bucket(Wheel* self, int64_t expiration_ms, Bucket** bucket_out) noexcept nogil:
    """Find the bucket for a time, and put it into the delay queue."""
    cdef Level* level = &self.levels[0]
    cdef Level* end = level + self.level_count
    cdef Bucket* bucket
    # The difference cannot overflow: times are not negative.
    cdef int64_t ahead_ms = expiration_ms - level.current_time_ms
    cdef int64_t ticks, index
    if ahead_ms < level.tick_ms:
        return ADD_DUE
    while <uint64_t>ahead_ms >= level.interval_ms:
        level += 1
        if level is end:
            return ADD_NEEDS_LEVEL
        ahead_ms = expiration_ms - level.current_time_ms
    # This is Kafka's virtualId % wheelSize, counted from the bucket of the clock: one division instead of two.
    ticks = hw_divide(ahead_ms, &level.by_tick)
    index = level.current_index + ticks
    if index >= self.wheel_size:
        index -= self.wheel_size
    bucket = &level.buckets[index]
    if bucket.queue_index < 0:
        bucket.entries.expiration_ms = level.current_time_ms + ticks * level.tick_ms
        queue_push(self, bucket)
    # Otherwise the bucket is queued for this same turn, because no clock passes a queued bucket (wheel_advance_clock).
    bucket_out[0] = bucket
    return ADD_PENDING


cdef inline AddStatus wheel_add(Wheel* self, Entry* entry, int64_t* bucket_ms_out) noexcept nogil:
    """Put an entry into the bucket of its expiration_ms. Return the expiration of that bucket in bucket_ms_out."""
    cdef Bucket* bucket
    cdef AddStatus status = wheel_reserve_bucket(self, entry.expiration_ms, &bucket)
    if status == ADD_PENDING:
        bucket_append(bucket, entry)
        bucket_ms_out[0] = bucket.entries.expiration_ms
    return status


cdef inline void wheel_remove(Wheel* self, Entry* entry) noexcept nogil:
    """Unlink an entry from its list, because it is cancelled, moved, or handed out."""
    if self.bookmarks is not NULL:
        bookmarks_leave(self, entry)
    entry_unlink(entry)
    self.removals += 1


cdef void wheel_advance_clock(Wheel* self, int64_t time_ms) noexcept nogil:
    """Move the clock of every level forward to a time, as Kafka's advanceClock. A clock that is ahead stays.

    Precondition: no bucket, not even an empty one, is queued for a time before time_ms. wheel_step takes or drops them first.
    A queued bucket therefore always belongs to the current turn of its level's clock.
    """
    cdef Level* level
    cdef int64_t ticks
    cdef int32_t i
    for i in range(self.level_count):
        level = &self.levels[i]
        if time_ms - level.current_time_ms < level.tick_ms:
            return
        ticks = hw_divide(time_ms - level.current_time_ms, &level.by_tick)
        level.current_time_ms += ticks * level.tick_ms
        if ticks >= self.wheel_size:
            ticks %= self.wheel_size
        level.current_index += <int32_t>ticks
        if level.current_index >= self.wheel_size:
            level.current_index -= self.wheel_size


cdef int wheel_flush(Wheel* self, int budget) noexcept nogil:
    """Place at most `budget` of the entries in `flush`, and return the rest of the budget."""
    cdef Entry* head = &self.flush
    cdef Entry* entry
    cdef Bucket* bucket = NULL
    cdef int64_t placed = 0
    while placed < budget:
        entry = head.prev
        if entry is head:
            break
        hw_prefetch(entry_hinted(entry))
        head.prev = entry.prev
        entry.prev.next = head
        # ADD_NEEDS_LEVEL cannot occur: the entry came from a coarser level.
        if wheel_reserve_bucket(self, entry.expiration_ms, &bucket) == ADD_PENDING:
            bucket_push(bucket, entry, self.removals)
        else:
            list_push(&self.due, entry)
        placed += 1
    self.cascaded += placed
    return budget - <int>placed


cdef StepStatus wheel_step(Wheel* self, int64_t now_ms, int* budget) noexcept nogil:
    """Continue an advance to now_ms until a tick is complete, no bucket is due, or the budget is used up.

    Entries may be added and cancelled between two calls. Clocks do not move while `flush` holds entries.
    """
    cdef Bucket* bucket
    while True:
        budget[0] = wheel_flush(self, budget[0])
        if not list_is_empty(&self.flush):
            return STEP_MORE
        bucket = queue_first(self)
        if not list_is_empty(&self.due) and (bucket is NULL or bucket.entries.expiration_ms > self.taken_ms):
            return STEP_TICK
        if bucket is NULL or bucket.entries.expiration_ms > now_ms:
            return STEP_DONE
        if budget[0] <= 0:
            return STEP_MORE
        queue_pop(self)
        bucket.pushed.entry = NULL
        bookmarks_invalidate(self, bucket)
        self.taken_ms = bucket.entries.expiration_ms
        wheel_advance_clock(self, bucket.entries.expiration_ms)
        if bucket.level == 1:
            # All entries of a level 1 bucket are due, and no others yet: coarser buckets of the same time come later.
            list_move_to_end(&bucket.entries, &self.due)
        else:
            list_move_to_end(&bucket.entries, &self.flush)
        budget[0] -= 1


cdef void wheel_set_clocks(Wheel* self, int64_t time_ms) noexcept nogil:
    """Set the clocks of all levels to any time, also backward. The wheel must be empty."""
    cdef Level* level
    cdef int32_t i
    while self.queue_length:            # buckets that cancels have emptied
        queue_pop(self)
    for i in range(self.level_count):
        level = &self.levels[i]
        level.current_time_ms = time_ms - time_ms % level.tick_ms
        level.current_index = time_ms // level.tick_ms % self.wheel_size
    self.taken_ms = self.levels[0].current_time_ms


cdef inline bint wheel_is_advancing(const Wheel* self) noexcept nogil:
    """Return True during an advance: entries wait to be placed, or to be taken out of `due`."""
    return not list_is_empty(&self.flush) or not list_is_empty(&self.due)


cdef bint wheel_next(Wheel* self, int64_t* next_ms_out) noexcept nogil:
    """Find the time of the advance that is under way, or else of the next bucket. Return False if the wheel is empty."""
    cdef Bucket* bucket
    if wheel_is_advancing(self):
        next_ms_out[0] = self.taken_ms
        return True
    bucket = queue_first(self)
    if bucket is not NULL:
        next_ms_out[0] = bucket.entries.expiration_ms
    return bucket is not NULL


cdef bint wheel_is_idle(Wheel* self) noexcept nogil:
    """Return True if no advance is under way and no bucket of the current tick is left."""
    cdef Bucket* bucket
    if wheel_is_advancing(self):
        return False
    bucket = queue_first(self)
    return bucket is NULL or bucket.entries.expiration_ms > self.taken_ms


cdef void wheel_drain(Wheel* self, Entry* emptied_out) noexcept nogil:
    """Move all entries to a list, in order. The clocks end at the last bucket: call wheel_set_clocks."""
    cdef int budget = 0
    cdef StepStatus status = STEP_MORE
    while status != STEP_DONE:
        budget = SLICE
        status = wheel_step(self, INT64_MAX, &budget)
        if status == STEP_TICK:
            list_move_to_end(&self.due, emptied_out)


cdef void wheel_set_back(Wheel* self, int64_t time_ms, Entry* pending) noexcept nogil:
    """Set the clocks back, and place all entries again, in order.

    `pending` is a list of entries that precede those in the wheel. Afterwards it holds the entries without a place: they are due
    at that time, or their level does not exist (see wheel_reaches_from).
    """
    cdef Entry* entry
    cdef Entry* following
    cdef Bucket* bucket = NULL
    wheel_drain(self, pending)
    wheel_set_clocks(self, time_ms)
    entry = pending.next
    while entry is not pending:
        following = entry.next
        if wheel_reserve_bucket(self, entry.expiration_ms, &bucket) == ADD_PENDING:
            entry_unlink(entry)
            bucket_append(bucket, entry)
        entry = following
    self.removals += 1          # invalidates every Lead


cdef bint wheel_reaches_from(const Wheel* self, int64_t time_ms, int64_t last_ms) noexcept nogil:
    """Return True if the levels would reach all entries, and last_ms, with the clocks at an earlier time."""
    cdef const Level* top = &self.levels[self.level_count - 1]
    cdef const Bucket* bucket
    cdef int64_t end_ms
    cdef int32_t i
    for i in range(self.queue_length):
        bucket = self.queue[i]
        if hw_add_overflows(bucket.entries.expiration_ms, self.levels[bucket.level - 1].tick_ms - 1, &end_ms):
            end_ms = INT64_MAX
        last_ms = max(last_ms, end_ms)
    return <uint64_t>(last_ms - (time_ms - time_ms % top.tick_ms)) < top.interval_ms


cdef bint wheel_reaches(const Wheel* self, int64_t time_ms) noexcept nogil:
    """Return True if a level for this time exists."""
    cdef const Level* top = &self.levels[self.level_count - 1]
    return time_ms < top.current_time_ms or <uint64_t>(time_ms - top.current_time_ms) < top.interval_ms
