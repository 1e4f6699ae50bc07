# The invariants of a Timer, checked the slow way. For tests: a debug build exposes it as debug_check().


cdef const char* list_check(const Entry* head, int64_t* length_out) noexcept nogil:
    cdef const Entry* entry = head
    length_out[0] = 0
    while True:
        if entry.next is NULL or entry.prev is NULL:
            return "an unlinked entry stands in a list"
        if entry.next.prev is not entry or entry.prev.next is not entry:
            return "a link does not lead back"
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
        return "a bucket that holds something is not in the delay queue"
    if bucket.queue_index >= 0 and timer.wheel.queue[bucket.queue_index] is not bucket:
        return "a bucket is not where its queue_index says"
    if bucket.queue_index >= 0 and bucket.entries.expiration_ms < level.current_time_ms:
        return "the clock has passed over a bucket that is queued"
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
            return "an entry does not know its place in its batch"
        entry = entry.next
    return NULL


cdef const char* batch_parts_check(const Batch* self) noexcept nogil:
    cdef const Part* part = self.parts
    cdef int64_t pending = 0, index
    while part is not NULL:
        pending += part.pending
        index = min(part.first + part.room, self.length) - 1
        if batch_part(self, part.first) is not part or batch_part(self, index) is not part:
            return "a part of a batch is not where its index says"
        if part.batch is not self or (part.next is NULL) != (part is self.last_part):
            return "a part does not know its batch"
        if self.table is not NULL and part.pending == 0 and part.first + part.room <= self.length:
            return "a part of a batch is kept of which all is over"
        part = part.next
    if self.table is not NULL and pending != self.pending and not self.timer.closed:
        return "the parts of a batch do not add up"
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
                return "an inbox takes what is due before a sleeper wakes up"
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
            return "a clock does not stand on a tick of its level"
        if <uintptr_t>level.buckets & (CACHE_LINE - 1):
            return "the buckets of a level do not begin at a cache line"
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
            return "a queued bucket does not know its place"
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
                return "a timer of a batch does not know its place among what is due"
            elif entry_is_linked(batch_entry(batch, batch.due[at].index)) != batch.due[at].is_head:
                return "a run's head does not stand among what is ready, or what is none does"
            total -= batch.due[at].is_head
        if batch_waiting(batch) and not batch.holders and not batch.due[batch.due_begin].is_head:
            return "what waits of a batch has no head among what is ready"
        if length != batch.due_cancelled:
            return "the count of what was cancelled after it fell due is wrong"
        if batch.due_begin > batch.due_end or batch_wants_room(batch):
            return "what is due of a batch is out of its bounds"
        fault = batch_parts_check(batch)
        total += batch_waiting(batch) + batch.adding
        batch = batch.next
    if fault is NULL and wheel.bookmarks is not NULL:
        return "a bookmark is left of nobody"       # who looks and who checks are not to be at work at once
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
            return "a member does not know its group, or its task"
        if member.next.prev is not member or member.prev.next is not member:
            return "a link of a group does not lead back"
        if member.number // MEMBER_STEP <= number:
            return "members do not stand in the order in which they joined"
        number = member.number // MEMBER_STEP
        if task.owner != <uintptr_t>timer:
            return "a member is another timer's"
        if task.state != TASK_PENDING and not (task.state == TASK_EXPIRED and task_flags(task) & TASK_REPEATS):
            return "a member is neither pending nor one that comes back"
        member = member.next
    if count != self.count or number > self.joined:
        return "the count of members is wrong"
    return NULL
