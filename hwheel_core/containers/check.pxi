# The invariants of containers, checked the slow way: see debug_check().


cdef const char* container_check_wheel(ContainerCore self, int64_t* linked_out) noexcept:
    """What is wrong with the wheel of a container, or NULL; and how much it holds."""
    cdef const Bucket* bucket
    cdef const char* fault
    cdef int64_t length
    cdef int32_t i
    linked_out[0] = 0
    if self.wheel is NULL:
        return NULL
    lists = [<uintptr_t>&self.due, <uintptr_t>&self.wheel.due, <uintptr_t>&self.wheel.flush]
    for i in range(self.wheel.queue_length):
        lists.append(<uintptr_t>&self.wheel.queue[i].entries)
    for head in lists:
        fault = list_check(<const Entry*><uintptr_t>head, &length)
        if fault is not NULL:
            return fault
        linked_out[0] += length
    for i in range(self.wheel.queue_length):
        bucket = self.wheel.queue[i]
        if bucket.entries.expiration_ms < self.wheel.levels[bucket.level - 1].current_time_ms:
            return "the clock of a container has passed over a bucket that is queued"
    for i in range(1, self.wheel.queue_length):
        if queue_before(self.wheel.queue[i], self.wheel.queue[(i - 1) >> 1]):
            return "the delay queue of a container is out of order"
    return NULL


cdef const char* dict_check(ExpiringDictCore self) noexcept:
    """What is wrong with an ExpiringDict, or NULL."""
    cdef DictTable* table = &self.table
    cdef DictEntry* entry
    cdef int64_t linked, lapsed, in_order = 0, in_chains = 0
    cdef uint64_t slot
    cdef const char* fault = container_check_wheel(self, &linked)
    if fault is NULL:
        fault = list_check(&self.lapsed, &lapsed)
    if fault is not NULL:
        return fault
    if linked + lapsed != self.pending:
        return "the count of what waits in a dict is wrong"
    if linked != table.count:
        return "a dict's wheel and table do not hold the same"
    entry = table.order.newer
    while entry is not &table.order:
        if entry.newer.older is not entry or not entry_is_linked(&entry.entry):
            return "the order of a dict is broken"
        in_order += 1
        entry = entry.newer
    if table.slots is not NULL:
        if table_length(table) > table.room:
            return "a table is longer than its memory"
        for slot in range(table_length(table)):
            entry = table.slots[slot]
            while entry is not NULL:
                if table_slot(table, entry.hash) is not &table.slots[slot]:
                    return "an entry is in the wrong chain"
                in_chains += 1
                entry = entry.chain
    if in_order != table.count or in_chains != table.count:
        return "the count of a dict is wrong"
    if self.pending and not container_is_armed(self, INT64_MAX) and not self.timer.closed:
        return "nothing will take what is due out of a container"
    return NULL


cdef const char* delay_queue_check(DelayQueueCore self) noexcept:
    """What is wrong with a DelayQueue, or NULL."""
    cdef int64_t linked, next_ms = 0
    cdef const Entry* entry = self.due.next
    cdef const char* fault = container_check_wheel(self, &linked)
    if fault is not NULL:
        return fault
    if linked != self.pending:
        return "the count of items is wrong"
    while linked and entry is not &self.due:
        if entry_key(entry).queue != <uintptr_t><void*>self:
            return "an item does not know its queue"
        entry = entry.next
    if self.getters and container_next_ms(self, &next_ms) and not container_is_armed(self, INT64_MAX) and not self.timer.closed:
        return "nothing will wake who waits for an item"
    return NULL
