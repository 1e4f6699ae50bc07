# A whole batch under its Timer's lock: added, cancelled, taken to be run. The loops give the lock up every BATCH_SLICE
# entries.


cdef enum:
    BATCH_SLICE = 4096


cdef int64_t delays_longest(const char* delays_ms, Py_ssize_t stride, int64_t length) noexcept nogil:
    """The maximum, or 0 if that is negative. Four at a time, since each maximum waits for the one before it."""
    cdef int64_t a = 0, b = 0, c = 0, d = 0, i
    for i in range(0, length - 3, 4):
        a = max(a, hw_read(delays_ms))
        b = max(b, hw_read(delays_ms + stride))
        c = max(c, hw_read(delays_ms + 2 * stride))
        d = max(d, hw_read(delays_ms + 3 * stride))
        delays_ms += 4 * stride
    for i in range(length & 3):
        a = max(a, hw_read(delays_ms + i * stride))
    return max(max(a, b), max(c, d))


cdef int64_t batch_check(const char* delays_ms, Py_ssize_t stride, int64_t length, const Timer* timer,
                         const Instant* now, int64_t* base_ms_out, int64_t* last_ms_out) noexcept nogil:
    """What to add to a delay, and when the last timer falls due; -1, or the first index whose time does not fit."""
    cdef int64_t longest_ms = delays_longest(delays_ms, stride, length)
    cdef int64_t i, delay_ms
    cdef bint fits
    base_ms_out[0] = last_ms_out[0] = now.ms
    if longest_ms == 0:
        return -1
    fits = not (hw_add_overflows(now.ms, timer.round_up_ms, base_ms_out)
                or (timer.never_early and now.ns and hw_add_overflows(base_ms_out[0], 1, base_ms_out)))
    if fits and not hw_add_overflows(base_ms_out[0], longest_ms, last_ms_out):
        return -1
    for i in range(length):
        delay_ms = hw_read(delays_ms + i * stride)
        if delay_ms > 0 and not (fits and not hw_add_overflows(base_ms_out[0], delay_ms, last_ms_out)):
            return i
    return 0        # the buffer was changed meanwhile


cdef void batch_enter_locked(Batch* self, Timer* timer) noexcept nogil:
    self.timer = timer
    self.pending = self.length
    self.prev = NULL
    self.next = timer.batches
    if timer.batches is not NULL:
        timer.batches.prev = self
    timer.batches = self
    timer.pending += self.length
    timer.added += self.length


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


cdef Status batch_add(Batch* self, Timer* timer, const char* delays_ms, Py_ssize_t stride, int64_t now_ms,
                      int64_t base_ms, int64_t last_ms, WhenDue when_due) noexcept nogil:
    """Links all entries, or none: CLOSED, FULL, NOT_YET, or NEEDS_LEVEL when there is no memory for a level."""
    cdef int64_t i = 0, end, delay_ms, first_ms = INT64_MAX
    cdef Entry* entry
    cdef Bucket* bucket
    while True:             # make sure that every level is there before the first entry goes in
        lock_wait(timer)
        if timer.closed:
            lock_release(timer)
            return CLOSED
        if self.length > timer.max_pending - timer.pending - timer.resting_count:
            lock_release(timer)
            return FULL
        if when_due == ASK_WHEN_DUE and now_ms < timer.wheel.levels[0].current_time_ms:
            lock_release(timer)
            return NOT_YET
        if wheel_reaches(&timer.wheel, last_ms):
            break
        lock_release(timer)
        if not timer_grow(timer):
            return NEEDS_LEVEL
    if self.length == 0:
        lock_release(timer)
        return OK
    batch_enter_locked(self, timer)
    timer.adding += 1
    while True:
        end = i + BATCH_SLICE if self.length - i > BATCH_SLICE else self.length
        while i < end:
            entry = &self.entries[i]
            # No more than was checked, whatever another thread writes into the buffer meanwhile.
            delay_ms = min(hw_read(delays_ms + i * stride), last_ms - base_ms)
            # What is due now is placed by now and not rounded up, as in timer_due.
            entry.expiration_ms = base_ms + delay_ms if delay_ms > 0 else now_ms
            entry.place = <int32_t>i
            if wheel_reserve_bucket(&timer.wheel, entry.expiration_ms, &bucket) == ADD_PENDING:
                bucket_append(bucket, entry)
                first_ms = min(first_ms, bucket.entries.expiration_ms)
            else:
                timer_insert_locked(timer, entry, TAKE_DUE)
            i += 1
        if first_ms < timer.reaper_until_ms:
            timer_wake_reaper_locked(timer)
        self.adding = self.length - i
        if self.adding == 0:
            break
        lock_yield(timer)
    timer.adding -= 1
    lock_release(timer)
    return OK


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
        entry_unlink(entry)     # and no wheel_remove: the caller counts removals, all at once
        return True
    if batch_is_due(self, entry):
        self.due[<int64_t><uintptr_t>entry.prev].index = DUE_CANCELLED
        self.due_cancelled += 1
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
        self.pending -= slice_cancelled
        timer.pending -= slice_cancelled
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
        self.pending -= taken - before
        timer.pending -= taken - before
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


cdef bint batch_returned_locked(Batch* self, void** block_out) noexcept nogil:
    """After batch_take for close(). True if the batch is at its end: as batch_finish_locked."""
    self.returned = NULL
    self.returning = 0
    self.handing_out -= 1
    return batch_finish_locked(self, block_out)
