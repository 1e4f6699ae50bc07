# A whole batch under its Timer's lock: cancelled, taken to be run. The loops give the lock up every BATCH_SLICE entries.


cdef enum:
    BATCH_SLICE = 4096


cdef bint batch_finish_locked(Batch* self, void** block_out) noexcept nogil:
    """Takes a batch off the timer when nothing is pending and nobody is handing out. True if this call did: then the
    caller frees the block and drops the timer's reference to the object."""
    if self.pending or self.handing_out or self.entries is NULL:
        return False
    if entry_is_linked(&self.node):
        wheel_remove(&self.timer.wheel, &self.node)
    if self.prev is NULL:
        self.timer.batches = self.next
    else:
        self.prev.next = self.next
    if self.next is not NULL:
        self.next.prev = self.prev
    block_out[0] = self.entries
    self.entries = NULL
    return True


cdef void batch_lock(Batch* self) noexcept nogil:
    """Takes the timer's lock, once all entries are there: an on_error hears of a batch that is still being added."""
    lock_wait(self.timer)
    while self.adding:
        lock_yield(self.timer)


cdef enum:
    PREFETCH_ENTRY = 24     # how many indices ahead of a cancel its entry is fetched,
    PREFETCH_LINKS = 12     # and, with the entry there, its neighbours


cdef inline Entry* batch_entry(const Batch* self, const int64_t* indices, int64_t i) noexcept nogil:
    """The entry that is named at i; NULL if the batch has none of that index."""
    cdef int64_t index = i
    if indices is not NULL:
        index = hw_read(&indices[i])
    return &self.entries[index] if <uint64_t>index < <uint64_t>self.length else NULL


cdef inline void batch_prefetch_cancel(const Batch* self, const int64_t* indices, int64_t i,
                                       int64_t count) noexcept nogil:
    """Random indices cost three cache misses each, and none of them has to be waited for: they are known ahead."""
    cdef const Entry* entry
    if i + PREFETCH_ENTRY < count:
        hw_prefetch(batch_entry(self, indices, i + PREFETCH_ENTRY))
    if i + PREFETCH_LINKS < count:
        entry = batch_entry(self, indices, i + PREFETCH_LINKS)
        if entry is not NULL:
            hw_prefetch(entry.prev)
            hw_prefetch(entry.next)


cdef inline bint batch_cancel_one_locked(Batch* self, Entry* entry) noexcept nogil:
    if entry_is_linked(entry):
        if self.timer.wheel.bookmarks is not NULL:
            bookmarks_leave(&self.timer.wheel, entry)
        entry_unlink(entry)     # and no wheel_remove: the caller counts removals, all at once
        return True
    if batch_is_due(self, entry):
        batch_leave_due(self, entry)
        return True
    return False


cdef int64_t batch_cancel(Batch* self, const int64_t* indices, int64_t count, void** block_out,
                          bint* finished_out) noexcept nogil:
    """Cancels by index (NULL: all). The indices have been checked, and are again, as they may have been changed since:
    then they name nothing. Returns how many it kept from running."""
    cdef Timer* timer = self.timer
    cdef Entry* entry
    cdef int64_t i = 0, end, slice_cancelled, cancelled = 0
    batch_lock(self)
    while i < count and self.pending:
        end = i + BATCH_SLICE if count - i > BATCH_SLICE else count
        slice_cancelled = 0
        while i < end:
            batch_prefetch_cancel(self, indices, i, count)
            entry = batch_entry(self, indices, i)
            if entry is not NULL:
                slice_cancelled += batch_cancel_one_locked(self, entry)
            i += 1
        timer.wheel.removals += slice_cancelled
        cancelled += slice_cancelled
        hw_bump(&self.pending, -slice_cancelled)
        hw_bump(&timer.pending, -slice_cancelled)
        timer.cancelled += slice_cancelled
        if batch_waiting(self) == 0 and entry_is_linked(&self.node):
            wheel_remove(&timer.wheel, &self.node)      # its place in `ready` was that of what is cancelled now
        if i < count and self.pending:
            lock_yield(timer)
    finished_out[0] = batch_finish_locked(self, block_out)
    lock_release(timer)
    return cancelled


cdef int64_t batch_take(Batch* self, int64_t limit, int64_t* indices, const Instant* now, void** block_out,
                        bint* finished_out) noexcept nogil:
    """Ends what timer_take_locked began: takes what fell due, in order, at most `limit`; returns how many.

    now: NULL when it is for close(). Then `indices` stays in its place until batch_returned_locked.
    """
    cdef Timer* timer = self.timer
    cdef int64_t taken = 0, before, end
    cdef const Due* due
    lock_wait(timer)
    if now is NULL:
        self.returned = indices
    while taken < limit and self.due_begin < self.due_end:
        before = taken
        end = min(self.due_end, self.due_begin + min(limit - taken, BATCH_SLICE))
        while self.due_begin < end:
            due = &self.due[self.due_begin]
            self.due_begin += 1
            if due.index == DUE_CANCELLED:
                self.due_cancelled -= 1
                continue
            if now is not NULL:
                timer_record_locked(timer, due.expiration_ms, now)
            indices[taken] = due.index
            taken += 1
        hw_bump(&self.pending, before - taken)
        hw_bump(&timer.pending, before - taken)
        if now is NULL:
            timer.returned += taken - before
            self.returning += taken - before
        else:
            timer.expired += taken - before
        if taken < limit and self.due_begin < self.due_end:
            lock_yield(timer)
    if now is not NULL:
        self.handing_out -= 1
        finished_out[0] = batch_finish_locked(self, block_out)
    lock_release(timer)
    return taken


cdef bint batch_put_back_locked(Batch* self, void** block_out) noexcept nogil:
    """Undoes timer_take_locked: the batch's node is the next one again, unless nothing waits any more. True if the batch is
    at its end: as batch_finish_locked."""
    self.handing_out -= 1
    if batch_waiting(self) and not entry_is_linked(&self.node):
        list_push(&self.timer.ready, &self.node)
    return batch_finish_locked(self, block_out)


cdef bint batch_returned_locked(Batch* self, void** block_out) noexcept nogil:
    """After batch_take for close(). True if the batch is at its end: as batch_finish_locked."""
    self.returned = NULL
    self.returning = 0
    self.handing_out -= 1
    return batch_finish_locked(self, block_out)
