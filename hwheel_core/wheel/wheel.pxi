# The hierarchical timing wheel: Kafka's placement (TimingWheel.java, SystemTimer.java), with an order.
#
#     level   tick_ms    interval_ms          bucket of a time x        (tick 1, wheel_size 20)
#       1     u          u * n                 x // u       % n           20 buckets of   1 ms:  0 ..   20 ms
#       2     u * n      u * n * n             x // (u*n)   % n           20 buckets of  20 ms:  0 ..  400 ms
#       3     u * n^2    u * n^3               x // (u*n^2) % n           20 buckets of 400 ms:  0 .. 8000 ms
#      ...    made the first time that a task reaches beyond what is there; never destroyed
#
# Add: due before the current tick is over: not added. Within a level's interval: there. Else the level above.
# Advance: take the buckets that are due off the delay queue, one after the other; each sets the clocks of all levels
# to its expiration, and its entries go back through placement: they land in a finer level, or they are due.
#
# Order. Tasks of one tick come out in the order in which they were added. Proof: a clock only goes forward, so the
# level that a given tick falls into only gets finer with time; hence for one tick, whatever sits in a coarser level
# was added before whatever sits in a finer one, and within one bucket append keeps the order. A cascade walks its
# bucket backwards and pushes each entry to the front of its finer bucket: entries of one tick keep their order, and
# come before those that were added to the finer bucket directly. Of several buckets with the same expiration the
# finer goes first (queue.pxi), so the oldest, from the coarsest, are pushed last and stand in front; `due` is filled
# in the same way, to the front. No sequence number, no sort, O(1) an entry and level. It also holds when the lock is
# given up half-way through a cascade, since an add appends and all that is still to be pushed is older.
# tools/proof/wheel_order.py looks at every state that a small wheel can come to, entry by entry: there it holds in all of them.


cdef enum:
    SLICE = 2048        # entries that a cascade moves before it lets others at the lock

cdef enum StepStatus:
    STEP_DONE           # nothing more is due at now_ms
    STEP_MORE           # the budget is used up
    STEP_TICK           # wheel.due holds all of one tick: take it, then go on


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
    # Beyond 64 bits a level reaches to the end of time: every time that there is differs from its clock by less.
    level.interval_ms = UINT64_MAX if hw_mul_overflows(tick_ms, self.wheel_size, &interval_ms) else <uint64_t>interval_ms
    level.buckets = buckets
    self.level_count += 1


cdef void wheel_grow(Wheel* self, Bucket* buckets, Bucket** queue, Bucket*** old_queue_out) noexcept nogil:
    """Adds the next coarser level. The caller brings its buckets (level_memory_new) and a queue with room for one level more."""
    cdef Level* top = &self.levels[self.level_count - 1]
    memcpy(queue, self.queue, self.queue_length * sizeof(Bucket*))
    old_queue_out[0] = self.queue
    self.queue = queue
    wheel_add_level(self, <int64_t>top.interval_ms, top.current_time_ms, buckets)


cdef inline int64_t wheel_tick(const Wheel* self, int64_t time_ms) noexcept nogil:
    """The beginning of the tick that a time is in."""
    return time_ms - time_ms % self.levels[0].tick_ms


cdef inline AddStatus wheel_reserve_bucket(Wheel* self, int64_t expiration_ms, Bucket** bucket_out) noexcept nogil:
    """The bucket for a time, queued under the right expiration."""
    cdef Level* level = &self.levels[0]
    cdef Level* end = level + self.level_count
    cdef Bucket* bucket
    # No difference here can overflow: times are not negative.
    cdef int64_t ahead_ms = expiration_ms - level.current_time_ms
    cdef int64_t ticks, index
    if ahead_ms < level.tick_ms:
        return ADD_DUE
    while <uint64_t>ahead_ms >= level.interval_ms:
        level += 1
        if level is end:
            return ADD_NEEDS_LEVEL
        ahead_ms = expiration_ms - level.current_time_ms
    # Kafka's virtualId % wheelSize, counted from the bucket of the clock, which is less than one turn away: one division
    # instead of two.
    ticks = hw_divide(ahead_ms, &level.by_tick)
    index = level.current_index + ticks
    if index >= self.wheel_size:
        index -= self.wheel_size
    bucket = &level.buckets[index]
    if bucket.queue_index < 0:
        bucket.entries.expiration_ms = level.current_time_ms + ticks * level.tick_ms
        queue_push(self, bucket)
    # Else it is queued for this very turn, because no clock passes over what is queued: wheel_advance_clock.
    bucket_out[0] = bucket
    return ADD_PENDING


cdef inline AddStatus wheel_add(Wheel* self, Entry* entry, int64_t* bucket_ms_out) noexcept nogil:
    """Links the entry by its expiration_ms. bucket_ms_out: when its bucket falls due."""
    cdef Bucket* bucket
    cdef AddStatus status = wheel_reserve_bucket(self, entry.expiration_ms, &bucket)
    if status == ADD_PENDING:
        bucket_append(bucket, entry)
        bucket_ms_out[0] = bucket.entries.expiration_ms
    return status


cdef inline void wheel_remove(Wheel* self, Entry* entry) noexcept nogil:
    """Takes an entry out of whatever list it is in: cancelled, moved, or handed out. It may be freed after."""
    if self.bookmarks is not NULL:
        bookmarks_leave(self, entry)
    entry_unlink(entry)
    self.removals += 1


cdef void wheel_advance_clock(Wheel* self, int64_t time_ms) noexcept nogil:
    """Kafka's advanceClock: sets every level's clock, finest first; none goes back.

    No bucket may be queued for a time before time_ms, not even one that cancels have emptied: wheel_step takes or drops them
    first, as queue_first does. So what is queued in a bucket is always of the turn that the clock is in.
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
    """Places what a bucket held, at most `budget` entries; returns what is left of the budget."""
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
        # The levels that it can land on are there, because they are finer than the one that it came from.
        if wheel_reserve_bucket(self, entry.expiration_ms, &bucket) == ADD_PENDING:
            bucket_push(bucket, entry, self.removals)
        else:
            list_push(&self.due, entry)
        placed += 1
    self.cascaded += placed
    return budget - <int>placed


cdef StepStatus wheel_step(Wheel* self, int64_t now_ms, int* budget) noexcept nogil:
    """Goes on with the advance to now_ms until a tick is complete, nothing more is due, or the budget is used up.

    Between two calls, adds and cancels are welcome; clocks do not move while a flush is unfinished.
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
        bookmarks_lose(self, bucket)
        self.taken_ms = bucket.entries.expiration_ms
        wheel_advance_clock(self, bucket.entries.expiration_ms)
        if bucket.level == 1:
            # All of a tick's bucket is due. Nothing else is, because the coarser buckets of the same time come after it.
            list_move_to_end(&bucket.entries, &self.due)
        else:
            list_move_to_end(&bucket.entries, &self.flush)
        budget[0] -= 1


cdef void wheel_set_clocks(Wheel* self, int64_t time_ms) noexcept nogil:
    """Sets every level's clock to any time, also back. Nothing is in the wheel, or it would be in the wrong bucket."""
    cdef Level* level
    cdef int32_t i
    while self.queue_length:            # what cancels have emptied
        queue_pop(self)
    for i in range(self.level_count):
        level = &self.levels[i]
        level.current_time_ms = time_ms - time_ms % level.tick_ms
        level.current_index = time_ms // level.tick_ms % self.wheel_size
    self.taken_ms = self.levels[0].current_time_ms


cdef inline bint wheel_is_advancing(const Wheel* self) noexcept nogil:
    """An advance is under way: something is still to be placed, or to be taken."""
    return not list_is_empty(&self.flush) or not list_is_empty(&self.due)


cdef bint wheel_next(Wheel* self, int64_t* next_ms_out) noexcept nogil:
    """When there is something to do next; False: never."""
    cdef Bucket* bucket
    if wheel_is_advancing(self):
        next_ms_out[0] = self.taken_ms
        return True
    bucket = queue_first(self)
    if bucket is not NULL:
        next_ms_out[0] = bucket.entries.expiration_ms
    return bucket is not NULL


cdef bint wheel_is_idle(Wheel* self) noexcept nogil:
    """No advance is under way, and nothing is left of the current tick."""
    cdef Bucket* bucket
    if wheel_is_advancing(self):
        return False
    bucket = queue_first(self)
    return bucket is NULL or bucket.entries.expiration_ms > self.taken_ms


cdef void wheel_empty(Wheel* self, Entry* emptied_out) noexcept nogil:
    """Takes out everything that is pending, in the order in which it would have come out, and leaves the clocks at the
    end of time: wheel_set_clocks."""
    cdef int budget = 0
    cdef StepStatus status = STEP_MORE
    while status != STEP_DONE:
        budget = SLICE
        status = wheel_step(self, INT64_MAX, &budget)
        if status == STEP_TICK:
            list_move_to_end(&self.due, emptied_out)


cdef void wheel_set_back(Wheel* self, int64_t time_ms, Entry* pending) noexcept nogil:
    """Sets the clocks back, and places everything anew, in its order.

    pending: a list of what comes before all that the wheel holds; afterwards, of what found no place: due at this time, or
    of a level that is not there (wheel_reaches_from).
    """
    cdef Entry* entry
    cdef Entry* following
    cdef Bucket* bucket = NULL
    wheel_empty(self, pending)
    wheel_set_clocks(self, time_ms)
    entry = pending.next
    while entry is not pending:
        following = entry.next
        if wheel_reserve_bucket(self, entry.expiration_ms, &bucket) == ADD_PENDING:
            entry_unlink(entry)
            bucket_append(bucket, entry)
        entry = following
    self.removals += 1          # so that no hint is written where a remembered node was


cdef bint wheel_reaches_from(const Wheel* self, int64_t time_ms, int64_t last_ms) noexcept nogil:
    """Whether there would be a level for everything that is pending, and for last_ms, if the clocks stood at an earlier time."""
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
    """Whether there is a level for this time already."""
    cdef const Level* top = &self.levels[self.level_count - 1]
    return time_ms < top.current_time_ms or <uint64_t>(time_ms - top.current_time_ms) < top.interval_ms
