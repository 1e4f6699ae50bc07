# The invariants of containers, for debug_check().


cdef const char* dict_check(ExpiringDictCore self) noexcept:
    """Return the first fault of an ExpiringDict, or NULL."""
    cdef DictTable* table = &self.table
    cdef DictEntry* entry
    cdef int64_t linked, unreported, in_order = 0, in_chains = 0
    cdef uint64_t slot
    cdef const char* fault = container_check_wheel(self, &linked)
    if fault is NULL:
        fault = list_check(&self.unreported, &unreported)
    if fault is not NULL:
        return fault
    if linked + unreported != self.pending:
        return "the number of pending entries of a dict is wrong"
    if linked != table.count:
        return "a dict's wheel and table hold different entries"
    entry = table.order.newer
    while entry is not &table.order:
        if entry.newer.older is not entry or not entry_is_linked(&entry.entry):
            return "the order of a dict is broken"
        in_order += 1
        entry = entry.newer
    if table.slots is not NULL:
        if table_length(table) > table.capacity:
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
    if self.pending and not container_needs_no_alarm(self, INT64_MAX) and not self.timer.closed:
        return "a container has no alarm for its entries"
    return NULL


cdef const char* cache_check(CacheCore self) noexcept:
    """Return the first fault of a cache, or NULL."""
    cdef const DictEntry* entry = self.table.order.newer
    cdef int64_t linked, unending, next_ms, in_order = 0
    cdef double total = 0
    cdef const char* fault = container_check_wheel(self, &linked)
    if fault is NULL:
        fault = list_check(&self.unending, &unending)
    if fault is not NULL:
        return fault
    if self.wheel is NULL:                  # then container_check_wheel counts no entries
        fault = list_check(&self.due, &linked)
        if fault is not NULL:
            return fault
    while entry is not &self.table.order:
        if entry.newer.older is not entry or not entry_is_linked(&entry.entry):
            return "the order of use of a cache is broken"
        in_order += 1
        if self.sized:
            total += (<const CacheEntry*>entry).size
        entry = entry.newer
    if in_order != self.table.count or self.pending != in_order or linked + unending != in_order:
        return "the count of a cache is wrong"
    if self.sized and fabs(total - self.total) > 1e-6 * fabs(total):
        return "the total size of a cache is wrong"
    if (self.known and linked and container_next_ms(self, &next_ms) and not container_needs_no_alarm(self, INT64_MAX)
            and not self.timer.closed and not self.clock.missed):
        return "a cache has no alarm for its entries"
    return NULL


cdef const char* delay_queue_check(DelayQueueCore self) noexcept:
    """Return the first fault of a DelayQueue, or NULL."""
    cdef int64_t linked, next_ms = 0
    cdef const Entry* entry = self.due.next
    cdef const char* fault = container_check_wheel(self, &linked)
    if fault is not NULL:
        return fault
    if linked != self.pending:
        return "the count of items is wrong"
    while linked and entry is not &self.due:
        if entry_key(entry).queue != <uintptr_t><void*>self:
            return "an item refers to another queue"
        entry = entry.next
    if (lines_wait(self.getters) and container_next_ms(self, &next_ms) and not container_needs_no_alarm(self, INT64_MAX)
            and not self.timer.closed):
        return "a queue with waiters has no alarm"
    return NULL
