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
        index = min(part.first + part.room, self.length) - 1
        if batch_part(self, part.first) is not part or batch_part(self, index) is not part:
            return "a part of a batch is at a wrong index"
        if part.batch is not self or (part.next is NULL) != (part is self.last_part):
            return "a part refers to a wrong batch"
        if self.table is not NULL and part.pending == 0 and part.first + part.room <= self.length:
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


cdef const char* timer_check_locked(const Timer* timer) noexcept nogil:
    """What is wrong, or NULL."""
    cdef const Wheel* wheel = &timer.wheel
    cdef const Level* level
    cdef const Batch* batch = timer.batches
    cdef const char* fault
    cdef int64_t total = 0, length, at
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
            total += length
    for i in range(1, wheel.queue_length):
        if queue_before(wheel.queue[i], wheel.queue[(i - 1) >> 1]):
            return "the delay queue is out of order"
    for i in range(wheel.queue_length):
        if wheel.queue[i].queue_index != i:
            return "a queued bucket has a wrong queue_index"
    fault = inboxes_check_locked(timer)
    if fault is NULL:
        fault = list_check(&wheel.flush, &length)
        total += length
    if fault is NULL:
        fault = list_check(&wheel.due, &length)
        total += length
    if fault is NULL:
        fault = list_check(&timer.ready, &length)
        total += length
    while batch is not NULL and fault is NULL:
        length = 0
        for at in range(batch.due_begin, batch.due_end):
            if batch.due[at].index == DUE_CANCELLED:
                length += 1
            elif not batch_is_due(batch, batch_entry(batch, batch.due[at].index)):
                return "an expired timer of a batch has a wrong due_index"
            elif entry_is_linked(batch_entry(batch, batch.due[at].index)) != batch.due[at].is_head:
                return "an entry is linked in `ready` but is not the head of a run, or the reverse"
            total -= batch.due[at].is_head
        if batch_waiting(batch) and not batch.holders and not batch.due[batch.due_begin].is_head:
            return "a batch has expired timers but no head in `ready`"
        if length != batch.due_cancelled:
            return "the count of timers that were cancelled after they expired is wrong"
        if batch.due_begin > batch.due_end or batch_due_is_full(batch, 0):
            return "the `due` array of a batch is out of bounds"
        fault = batch_parts_check(batch)
        total += batch_waiting(batch) + batch.adding
        batch = batch.next
    if fault is NULL and wheel.bookmarks is not NULL:
        return "a bookmark was left behind"       # checks do not run while a thread counts
    if fault is NULL and total != timer.pending:
        return "the count of pending timers is wrong"
    if fault is NULL and timer.added != timer.expired + timer.cancelled + timer.returned + timer.pending:
        return "the counters do not add up"
    return fault


cdef const char* group_check_locked(const Group* self, const Timer* timer) noexcept nogil:
    """What is wrong with a group of this timer, or NULL."""
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
