# Checks of the invariants of a Timer, for tests: debug_check() of a debug build. Each function returns the fault, or NULL.


cdef const char* list_check(const Entry* head, int64_t* length_out) noexcept nogil:
    cdef const Entry* entry = head
    length_out[0] = 0
    while True:
        if entry.next is NULL or entry.prev is NULL:
            return "an unlinked entry is in a list"
        if entry.next.prev is not entry or entry.prev.next is not entry:
            return "a link is not symmetric"
        entry = entry.next
        if entry is head:
            return NULL
        length_out[0] += 1


cdef const char* bucket_check(const Timer* timer, const Level* level, const Bucket* bucket,
                              int64_t* length_out) noexcept nogil:
    cdef const Entry* entry = bucket.entries.next
    cdef const char* fault = list_check(&bucket.entries, length_out)
    if fault is not NULL:
        return fault
    if length_out[0] and bucket.queue_index < 0:
        return "a non-empty bucket is not in the delay queue"
    if bucket.queue_index >= 0 and timer.wheel.queue[bucket.queue_index] is not bucket:
        return "a bucket has a wrong queue_index"
    if bucket.queue_index >= 0 and bucket.entries.expiration_ms < level.current_time_ms:
        return "the clock has passed a queued bucket"
    while entry is not &bucket.entries:
        if entry.expiration_ms - entry.expiration_ms % level.tick_ms != bucket.entries.expiration_ms:
            return "an entry is in a bucket of another time"
        if entry.expiration_ms // level.tick_ms % timer.wheel.wheel_size != bucket.entries.bucket_index:
            return "an entry is in the wrong bucket of its level"
        if entry.place == ENTRY_OF_TASK:
            if (<const Task*>entry).owner != <uintptr_t>timer:
                return "a task belongs to another timer"
            if (<const Task*>entry).state != TASK_PENDING:
                return "a task in a bucket is not pending"
        elif entry_batch(entry).timer is not timer or batch_entry(entry_batch(entry), entry_index(entry)) is not entry:
            return "an entry has a wrong place in its batch"
        entry = entry.next
    return NULL


cdef const char* batch_parts_check(const Batch* self) noexcept nogil:
    cdef const Part* part = self.parts
    cdef int64_t pending = 0, index
    while part is not NULL:
        pending += part.pending
        index = min(part.first + part.capacity, self.length) - 1
        if batch_part(self, part.first) is not part or batch_part(self, index) is not part:
            return "a part of a batch is at a wrong index"
        if part.batch is not self or (part.next is NULL) != (part is self.last_part):
            return "a part refers to a wrong batch"
        if self.table is not NULL and part.pending == 0 and part.first + part.capacity <= self.length:
            return "a part of a batch is kept although none of its entries is pending"
        part = part.next
    if self.table is not NULL and pending != self.pending and not self.timer.closed:
        return "the counts of the parts of a batch do not add up"
    if self.end < self.length:
        return "a batch has more timers than entries"
    return NULL


cdef const char* inboxes_check_locked(const Timer* timer) noexcept nogil:
    cdef const Inbox* boxes = <const Inbox*>timer.inboxes
    cdef int32_t i
    if boxes is not NULL:
        for i in range(INBOXES):
            if timer.closed and boxes[i].from_ms != INT64_MAX:
                return "an inbox of a closed timer is open"
            if timer.sleepers and not timer.woken and boxes[i].from_ms < timer.reaper_until_ms:
                return "an inbox accepts tasks that expire before a sleeper wakes up"
    return NULL


cdef const char* wheel_check_locked(const Timer* timer, int64_t* total) noexcept nogil:
    """Check the levels and the delay queue, and add the number of entries to `total`."""
    cdef const Wheel* wheel = &timer.wheel
    cdef const Level* level
    cdef const char* fault
    cdef int64_t length
    cdef int32_t i, k
    for k in range(wheel.level_count):
        level = &wheel.levels[k]
        if level.current_time_ms % level.tick_ms:
            return "a clock is not a multiple of its tick"
        if <uintptr_t>level.buckets & (CACHE_LINE - 1):
            return "the buckets of a level are not aligned to a cache line"
        if k and level.current_time_ms > wheel.levels[k - 1].current_time_ms:
            return "a coarser clock is ahead of a finer one"
        for i in range(wheel.wheel_size):
            fault = bucket_check(timer, level, &level.buckets[i], &length)
            if fault is not NULL:
                return fault
            total[0] += length
    for i in range(1, wheel.queue_length):
        if queue_before(wheel.queue[i], wheel.queue[(i - 1) >> 1]):
            return "the delay queue is out of order"
    for i in range(wheel.queue_length):
        if wheel.queue[i].queue_index != i:
            return "a queued bucket has a wrong queue_index"
    return NULL


cdef const char* batch_check(const Batch* self, int64_t* total) noexcept nogil:
    """Check a batch, and add the number of its pending entries that are in no list to `total`."""
    cdef const Entry* entry
    cdef int64_t cancelled = 0, at
    for at in range(self.due_begin, self.due_end):
        if self.due[at].index == DUE_CANCELLED:
            cancelled += 1
            continue
        entry = batch_entry(self, self.due[at].index)
        if not batch_is_due(self, entry):
            return "an expired timer of a batch has a wrong due_index"
        if entry_is_linked(entry) != self.due[at].is_head:
            return "an entry is linked in `ready` but is not the head of a run, or the reverse"
        total[0] -= self.due[at].is_head
    if batch_waiting(self) and not self.holders and not self.due[self.due_begin].is_head:
        return "a batch has expired timers but no head in `ready`"
    if cancelled != self.due_cancelled:
        return "the count of timers that were cancelled after they expired is wrong"
    if self.due_begin > self.due_end or batch_due_is_full(self, 0):
        return "the `due` array of a batch is out of bounds"
    total[0] += batch_waiting(self) + self.adding
    return batch_parts_check(self)


cdef const char* timer_check_locked(const Timer* timer) noexcept nogil:
    """Return the first fault of a timer, or NULL."""
    cdef const Entry* lists[3]
    cdef const Batch* batch = timer.batches
    cdef const char* fault
    cdef int64_t total = 0, length
    cdef int i
    fault = wheel_check_locked(timer, &total)
    if fault is NULL:
        fault = inboxes_check_locked(timer)
    lists = [&timer.wheel.flush, &timer.wheel.due, &timer.ready]
    for i in range(3):
        if fault is NULL:
            fault = list_check(lists[i], &length)
            total += length
    while batch is not NULL and fault is NULL:
        fault = batch_check(batch, &total)
        batch = batch.next
    if fault is not NULL:
        return fault
    if timer.wheel.bookmarks is not NULL:
        return "a bookmark was left behind"       # checks do not run during a walk
    if total != timer.pending:
        return "the count of pending timers is wrong"
    if timer.added != timer.expired + timer.cancelled + timer.returned + timer.pending:
        return "the counters do not add up"
    return NULL


cdef const char* group_check_locked(const Group* self, const Timer* timer) noexcept nogil:
    """Return the fault of a group of this timer, or NULL."""
    cdef const Member* member = self.members.next
    cdef const Task* task
    cdef int64_t count = 0, number = 0
    while member is not &self.members:
        task = member_task(member)
        count += 1
        if member.group is not self or task_member(task) is not member:
            return "a member refers to a wrong group or task"
        if member.next.prev is not member or member.prev.next is not member:
            return "a link of a group is not symmetric"
        if <int64_t>member.number <= number:
            return "the members are not in the order in which they joined"
        number = member.number
        if task.owner != <uintptr_t>timer:
            return "a member belongs to another timer"
        if task.state != TASK_PENDING and not (task.state == TASK_EXPIRED and task_flags(task) & TASK_REPEATS):
            return "a member is neither pending nor periodic"
        member = member.next
    if count != self.count or number > self.joined:
        return "the count of members is wrong"
    return NULL
