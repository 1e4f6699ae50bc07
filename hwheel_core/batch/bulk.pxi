# Many timers of a batch at once: added, moved, cancelled, listed, taken. Each loop releases the lock every BATCH_SLICE entries.
#
# While timers are placed, Timer.adding keeps the timer from being closed or forked.


cdef enum:
    BATCH_SLICE = 4096
    PREFETCH_ENTRY = 24         # distance in indices at which a cancel prefetches an entry
    PREFETCH_LINKS = 12         # and at which it then prefetches the entry's neighbors


cdef inline int64_t slice_end(int64_t begin, int64_t count) noexcept nogil:
    return begin + BATCH_SLICE if count - begin > BATCH_SLICE else count


cdef void batch_lock(Batch* self) noexcept nogil:
    """Take the lock, and wait until batch_extend has linked all entries.

    Another thread may use the batch earlier, for example in an on_error handler.
    """
    lock_wait(self.timer)
    while self.adding:
        lock_yield(self.timer)


# --- by index ----------------------------------------------------------------------------------------------------


cdef inline Entry* batch_entry_at(const Batch* self, Indices indices, int64_t i) noexcept nogil:
    """Return the entry of the i-th index, or NULL. Another thread may have changed the buffer since it was checked."""
    return batch_entry(self, i if indices.data is NULL else hw_read(&indices.data[i]))


cdef inline void batch_prefetch_at(const Batch* self, Indices indices, int64_t i) noexcept nogil:
    """Fetch entries ahead: a random index costs three cache misses."""
    cdef const Entry* entry
    if i + PREFETCH_ENTRY < indices.count:
        hw_prefetch(batch_entry_at(self, indices, i + PREFETCH_ENTRY))
    if i + PREFETCH_LINKS < indices.count:
        entry = batch_entry_at(self, indices, i + PREFETCH_LINKS)
        if entry is not NULL:
            hw_prefetch(entry.prev)
            hw_prefetch(entry.next)


cdef inline bint batch_cancel_one_locked(Batch* self, Entry* entry) noexcept nogil:
    """Unlink a pending entry. Return False if it is not pending."""
    if batch_is_due(self, entry):
        batch_leave_due(self, entry)
        return True
    if entry_is_linked(entry):
        if self.timer.wheel.bookmarks is not NULL:
            bookmarks_leave(&self.timer.wheel, entry)
        entry_unlink(entry)     # wheel_remove without the count: the caller adds all removals at once
        return True
    return False


cdef int64_t batch_cancel_slice_locked(Batch* self, Indices indices, int64_t begin) noexcept nogil:
    """Cancel up to BATCH_SLICE timers. Return the number cancelled."""
    cdef Timer* timer = self.timer
    cdef Entry* entry
    cdef int64_t i, cancelled = 0
    for i in range(begin, slice_end(begin, indices.count)):
        batch_prefetch_at(self, indices, i)
        entry = batch_entry_at(self, indices, i)
        if entry is not NULL and batch_cancel_one_locked(self, entry):
            cancelled += 1
            if self.table is not NULL:
                batch_part_release_locked(self, entry_index(entry))
    timer.wheel.removals += cancelled
    timer.cancelled += cancelled
    hw_bump(&self.pending, -cancelled)
    hw_bump(&timer.pending, -cancelled)
    return cancelled


cdef int64_t batch_cancel(Batch* self, Indices indices, BatchRelease* release) noexcept nogil:
    """Cancel the named timers. Return the number cancelled."""
    cdef int64_t i = 0, cancelled = 0
    batch_lock(self)
    if indices.data is NULL:
        i = max(i, self.origin)         # no lower index is pending
    while i < indices.count and self.pending:
        cancelled += batch_cancel_slice_locked(self, indices, i)
        i = slice_end(i, indices.count)
        if i < indices.count and self.pending:
            lock_yield(self.timer)
    batch_free_parts(self, &release.blocks)
    batch_finish_locked(self, release)
    lock_release(self.timer)
    return cancelled


cdef int64_t batch_list(Batch* self, int64_t* indices_out, int64_t limit) noexcept nogil:
    """Write the indices of the pending timers, ascending. Return their number, or -1 if there are more than `limit`."""
    cdef const Entry* entry
    cdef int64_t count = 0, index
    batch_lock(self)
    if self.pending > limit:
        count = -1
    elif self.pending:
        for index in range(max(<int64_t>0, self.origin), self.length):
            entry = batch_entry(self, index)
            if entry is not NULL and batch_is_pending(self, entry):
                indices_out[count] = index
                count += 1
    lock_release(self.timer)
    return count


# --- taking expired timers ---------------------------------------------------------------------------------------


cdef inline void batch_count_taken_locked(Batch* self, int64_t count, bint by_close) noexcept nogil:
    hw_bump(&self.pending, -count)
    hw_bump(&self.timer.pending, -count)
    if by_close:
        self.timer.returned += count
        self.returning += count
    else:
        self.timer.expired += count


cdef int64_t batch_take_slice_locked(Batch* self, int64_t* indices_out, int64_t limit, const Instant* now) noexcept nogil:
    """Take the timers in the first `limit` places of `due`. Return their number: places of cancelled timers are skipped."""
    cdef int64_t begin = self.due_begin, end = min(self.due_end, begin + limit), taken = 0, at
    cdef Due* due
    cdef Due* head = NULL
    for at in range(begin, end):
        due = &self.due[at]
        if due.index == DUE_CANCELLED:
            self.due_cancelled -= 1
            continue
        if due.is_head:
            if head is not NULL:
                run_leave_ready(self, head)
            head = due
        if now is not NULL:
            timer_record_locked(self.timer, due.expiration_ms, now)
        else:
            batch_entry(self, due.index).expiration_ms = due.expiration_ms      # for batch_forget_hand_out
        indices_out[taken] = due.index
        taken += 1
    self.due_begin = end
    if head is not NULL:
        run_pass_on(self, head, end)
    if self.table is not NULL and now is not NULL:
        for at in range(begin, end):
            if self.due[at].index != DUE_CANCELLED:
                batch_part_release_locked(self, self.due[at].index)
    batch_skip_gaps(self)
    return taken


cdef int64_t batch_take(Batch* self, int64_t* indices_out, int64_t limit, const Instant* now,
                        BatchRelease* release) noexcept nogil:
    """Take the expired timers of a batch, in order, after timer_take_locked has taken its head.

    now: The hand-out time, or NULL for close(). For close(), `release` is unused. The caller keeps indices_out valid until
    batch_returned_locked.

    Return the number taken, at most `limit`.
    """
    cdef int64_t taken = 0, count
    lock_wait(self.timer)
    if now is NULL:
        self.returned = indices_out
    while taken < limit and self.due_begin < self.due_end:
        count = batch_take_slice_locked(self, indices_out + taken, min(limit - taken, BATCH_SLICE), now)
        batch_count_taken_locked(self, count, now is NULL)
        taken += count
        if taken < limit and self.due_begin < self.due_end:
            lock_yield(self.timer)
    if now is not NULL:
        batch_unhold_locked(self, release)
    lock_release(self.timer)
    return taken


cdef void batch_put_back_locked(Batch* self, BatchRelease* release) noexcept nogil:
    """Undo timer_take_locked: the batch is first in Timer.ready again, if timers still wait."""
    batch_be_next_locked(self)
    batch_unhold_locked(self, release)


cdef void batch_returned_locked(Batch* self, BatchRelease* release) noexcept nogil:
    """Finish a batch_take for close()."""
    self.returned = NULL
    self.returning = 0
    batch_unhold_locked(self, release)


# --- placing -----------------------------------------------------------------------------------------------------


cdef int64_t delays_longest(Delays self) noexcept nogil:
    """Return the longest delay, or 0 if that is negative."""
    # Use four independent maxima, because each max() depends on the one before it.
    cdef const char* data = self.data
    cdef int64_t a = 0, b = 0, c = 0, d = 0, i
    for i in range(0, self.count - 3, 4):
        a = max(a, hw_read(data))
        b = max(b, hw_read(data + self.stride))
        c = max(c, hw_read(data + 2 * self.stride))
        d = max(d, hw_read(data + 3 * self.stride))
        data += 4 * self.stride
    for i in range(self.count & 3):
        a = max(a, hw_read(data + i * self.stride))
    return max(max(a, b), max(c, d))


cdef int64_t placement_set(Placement* self, const Timer* timer, const Instant* now, Delays delays) noexcept nogil:
    """Compute when timers with these delays expire. Return -1, or the index of the first delay that overflows 64 bits."""
    cdef int64_t longest_ms = delays_longest(delays)
    cdef int64_t i, delay_ms
    cdef bint fits
    self.now_ms = self.base_ms = self.last_ms = now.ms
    if longest_ms == 0:
        return -1
    fits = not (hw_add_overflows(now.ms, timer.round_up_ms, &self.base_ms)
                or (timer.never_early and now.ns and hw_add_overflows(self.base_ms, 1, &self.base_ms)))
    if fits and not hw_add_overflows(self.base_ms, longest_ms, &self.last_ms):
        return -1
    for i in range(delays.count):
        delay_ms = hw_read(delays.data + i * delays.stride)
        if delay_ms > 0 and not (fits and not hw_add_overflows(self.base_ms, delay_ms, &self.last_ms)):
            return i
    return 0        # another thread has changed the delay that overflowed: report the first one


cdef inline int64_t placement_delay_ms(Placement self, Delays delays, int64_t i) noexcept nogil:
    """Return the i-th delay, limited to what placement_set has checked: the buffer may have changed since."""
    return min(hw_read(delays.data + i * delays.stride), self.last_ms - self.base_ms)


cdef inline int64_t timer_place_locked(Timer* timer, Entry* entry, Placement at, int64_t delay_ms) noexcept nogil:
    """Link an entry. Return the time for which the reaper has to wake up; INT64_MAX: none."""
    cdef Bucket* bucket = NULL
    # A delay of zero or less is placed by the present time, not rounded up, as in deadline_set.
    entry.expiration_ms = at.base_ms + delay_ms if delay_ms > 0 else at.now_ms
    if wheel_reserve_bucket(&timer.wheel, entry.expiration_ms, &bucket) == ADD_PENDING:
        bucket_append(bucket, entry)
        return bucket.entries.expiration_ms
    timer_insert_locked(timer, entry, TAKE_DUE)
    return INT64_MAX


cdef void batch_count_in_locked(Batch* self, int64_t count) noexcept nogil:
    """Count `count` entries after `length` as in use and pending."""
    cdef int64_t left = count, first = self.length, here
    cdef Part* part
    while self.table is not NULL and left:
        part = batch_part(self, first)
        here = min(left, part.first + part.capacity - first)
        part.pending += here
        first += here
        left -= here
    hw_bump(&self.length, count)
    hw_bump(&self.pending, count)
    hw_bump(&self.timer.pending, count)
    self.timer.added += count


cdef void batch_link_slice_locked(Batch* self, Delays delays, Placement at, int64_t first, int64_t begin) noexcept nogil:
    """Link up to BATCH_SLICE entries, from the delay at `begin` on. `first` is the index of the first delay."""
    cdef Timer* timer = self.timer
    cdef int64_t i, wake_ms = INT64_MAX
    cdef Part* part = batch_part(self, first + begin)
    cdef Entry* entry
    for i in range(begin, slice_end(begin, delays.count)):
        if first + i == part.first + part.capacity:
            part = part.next
        entry = part_entry(part, first + i)
        entry.place = <int32_t>(first + i - part.first)
        wake_ms = min(wake_ms, timer_place_locked(timer, entry, at, placement_delay_ms(at, delays, i)))
    if wake_ms < timer.reaper_until_ms:
        timer_wake_reaper_locked(timer)


cdef Status batch_admit_locked(Batch* self, BatchMemory* memory, int64_t first, int64_t count) noexcept nogil:
    """Return OK if `count` timers from index `first` on can be added; then the batch has the memory for them."""
    if memory is NULL:
        return OK
    if self.adding or self.length != first or not self.is_listed:
        return TRY_AGAIN
    if not batch_has_memory_locked(self, count, memory):
        return NEEDS_MEMORY
    batch_take_memory_locked(self, count, memory)
    return OK


cdef Status batch_extend(Batch* self, BatchMemory* memory, Delays delays, Placement at, int64_t first) noexcept nogil:
    """Add a timer for each delay, from index `first` on: all of them, or none.

    memory: NULL for a new batch, which batch_prepare has given its memory.

    Return OK, CLOSED, FULL, NEEDS_MEMORY, NEEDS_LEVEL (there is no memory for a level), or TRY_AGAIN (the batch has grown
    since, or a fork has released it).
    """
    cdef Timer* timer = self.timer
    cdef int64_t i = 0
    cdef Status status
    batch_lock(self)
    status = timer_admit(timer, delays.count, at.last_ms)
    if status == OK:
        status = batch_admit_locked(self, memory, first, delays.count)
    if status != OK or delays.count == 0:
        lock_release(timer)
        return status
    if not self.is_listed:
        batch_enter_locked(self)
    if self.pending == 0:
        hw_poke64(&self.added_ms, at.now_ms)
    batch_count_in_locked(self, delays.count)
    timer.adding += 1
    while True:
        batch_link_slice_locked(self, delays, at, first, i)
        i = slice_end(i, delays.count)
        self.adding = delays.count - i
        if self.adding == 0:
            break
        lock_yield(timer)
    timer.adding -= 1
    lock_release(timer)
    return OK


cdef inline bint batch_take_off_locked(Batch* self, Entry* entry) noexcept nogil:
    """Unlink a pending entry that is about to be placed again. Return False if it is not pending."""
    if batch_is_due(self, entry):
        batch_leave_due(self, entry)
        if batch_due_is_full(self, 0):
            batch_close_gaps(self, self.due)
        return True
    if entry_is_linked(entry):
        wheel_remove(&self.timer.wheel, entry)
        return True
    return False


cdef int64_t batch_move_slice_locked(Batch* self, Indices indices, Delays delays, Placement at, int64_t begin) noexcept nogil:
    """Move up to BATCH_SLICE timers. Return the number moved."""
    cdef Timer* timer = self.timer
    cdef int64_t i, wake_ms = INT64_MAX, moved = 0
    cdef Entry* entry
    for i in range(begin, slice_end(begin, indices.count)):
        batch_prefetch_at(self, indices, i)
        entry = batch_entry_at(self, indices, i)
        if entry is not NULL and batch_take_off_locked(self, entry):
            wake_ms = min(wake_ms, timer_place_locked(timer, entry, at, placement_delay_ms(at, delays, i)))
            moved += 1
    if wake_ms < timer.reaper_until_ms:
        timer_wake_reaper_locked(timer)
    return moved


cdef Status batch_reschedule(Batch* self, Indices indices, Delays delays, Placement at, int64_t* moved_out) noexcept nogil:
    """Move the named timers that are pending, each by the delay at the same position.

    Return OK; or NEEDS_LEVEL if there is no memory for a level: then no timer was moved.
    """
    cdef Timer* timer = self.timer
    cdef int64_t i = 0
    cdef Status status
    moved_out[0] = 0
    batch_lock(self)
    status = timer_reach(timer, at.last_ms)
    if status != OK:
        lock_release(timer)
        return status
    timer.adding += 1
    if indices.data is NULL:
        i = max(i, self.origin)         # no lower index is pending
    while i < indices.count and self.pending:
        moved_out[0] += batch_move_slice_locked(self, indices, delays, at, i)
        i = slice_end(i, indices.count)
        if i < indices.count and self.pending:
            lock_yield(timer)
    timer.adding -= 1
    lock_release(timer)
    return OK
