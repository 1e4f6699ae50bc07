# A whole batch under its Timer's lock: cancelled, taken to be run. The loops give the lock up every BATCH_SLICE entries.


cdef enum:
    BATCH_SLICE = 4096


cdef void batch_enter_locked(Batch* self) noexcept nogil:
    """Into the list of the timer's batches."""
    self.prev = NULL
    self.next = self.timer.batches
    if self.next is not NULL:
        self.next.prev = self
    self.timer.batches = self
    hw_poke(&self.is_listed, True)


cdef bint batch_finish_locked(Batch* self, void** blocks) noexcept nogil:
    """Takes a batch off the timer when nothing is pending and nobody holds it. True if this call did: then the caller
    frees the blocks and drops the timer's reference to the object."""
    if self.pending or self.holders or not self.is_listed:
        return False
    if self.prev is NULL:
        self.timer.batches = self.next
    else:
        self.prev.next = self.next
    if self.next is not NULL:
        self.next.prev = self.prev
    hw_poke(&self.is_listed, False)
    batch_leave_parts(self, blocks)
    return True


cdef bint batch_hold_locked(Batch* self) noexcept nogil:
    """Keeps it in the timer's list until batch_let_go_locked. True if it was not there: then the caller's reference to the object
    is the timer's from now on."""
    self.holders += 1
    if self.is_listed:
        return False
    batch_enter_locked(self)
    return True


cdef bint batch_let_go_locked(Batch* self, void** blocks) noexcept nogil:
    """As batch_finish_locked."""
    if self.holders > 0:                # else it was held before a fork, and this is the child
        self.holders -= 1
    batch_leave_over(self, blocks)
    return batch_finish_locked(self, blocks)


cdef void batch_lock(Batch* self) noexcept nogil:
    """Takes the timer's lock, once all entries are there: an on_error hears of a batch that is still being added."""
    lock_wait(self.timer)
    while self.adding:
        lock_yield(self.timer)


cdef enum:
    PREFETCH_ENTRY = 24     # how many indices ahead of a cancel its entry is fetched,
    PREFETCH_LINKS = 12     # and, with the entry there, its neighbours


cdef inline Entry* batch_named(const Batch* self, const int64_t* indices, int64_t i) noexcept nogil:
    """batch_entry of the index that stands at i; of i itself, where all are meant."""
    return batch_entry(self, i if indices is NULL else hw_read(&indices[i]))


cdef inline void batch_prefetch_cancel(const Batch* self, const int64_t* indices, int64_t i,
                                       int64_t count) noexcept nogil:
    """Random indices cost three cache misses each, and none of them has to be waited for: they are known ahead."""
    cdef const Entry* entry
    if i + PREFETCH_ENTRY < count:
        hw_prefetch(batch_named(self, indices, i + PREFETCH_ENTRY))
    if i + PREFETCH_LINKS < count:
        entry = batch_named(self, indices, i + PREFETCH_LINKS)
        if entry is not NULL:
            hw_prefetch(entry.prev)
            hw_prefetch(entry.next)


cdef inline bint batch_cancel_one_locked(Batch* self, Entry* entry) noexcept nogil:
    if batch_is_due(self, entry):
        batch_leave_due(self, entry)
        return True
    if entry_is_linked(entry):
        if self.timer.wheel.bookmarks is not NULL:
            bookmarks_leave(&self.timer.wheel, entry)
        entry_unlink(entry)     # and no wheel_remove: the caller counts removals, all at once
        return True
    return False


cdef int64_t batch_cancel(Batch* self, const int64_t* indices, int64_t count, void** blocks,
                          bint* finished_out) noexcept nogil:
    """Cancels by index (NULL: all). The indices have been checked, and are again, as they may have been changed since:
    then they name nothing. Returns how many it kept from running."""
    cdef Timer* timer = self.timer
    cdef Entry* entry
    cdef int64_t i = 0, end, slice_cancelled, cancelled = 0
    batch_lock(self)
    if indices is NULL:
        i = max(i, self.origin)         # what is before it is over
    while i < count and self.pending:
        end = i + BATCH_SLICE if count - i > BATCH_SLICE else count
        slice_cancelled = 0
        while i < end:
            batch_prefetch_cancel(self, indices, i, count)
            entry = batch_named(self, indices, i)
            if entry is not NULL and batch_cancel_one_locked(self, entry):
                slice_cancelled += 1
                if self.table is not NULL:
                    batch_part_over_locked(self, entry_index(entry))
            i += 1
        timer.wheel.removals += slice_cancelled
        cancelled += slice_cancelled
        hw_bump(&self.pending, -slice_cancelled)
        hw_bump(&timer.pending, -slice_cancelled)
        timer.cancelled += slice_cancelled
        if i < count and self.pending:
            lock_yield(timer)
    batch_leave_over(self, blocks)
    finished_out[0] = batch_finish_locked(self, blocks)
    lock_release(timer)
    return cancelled


cdef int64_t batch_list(Batch* self, int64_t* indices_out, int64_t room) noexcept nogil:
    """The indices of what is pending, ascending; how many, or -1: they are more than there is room for."""
    cdef const Entry* entry
    cdef int64_t count = 0, index
    batch_lock(self)
    if self.pending > room:
        count = -1
    elif self.pending:
        for index in range(max(<int64_t>0, self.origin), self.length):
            entry = batch_entry(self, index)
            if entry is not NULL and batch_is_pending(self, entry):
                indices_out[count] = index
                count += 1
    lock_release(self.timer)
    return count


cdef int64_t batch_take(Batch* self, int64_t limit, int64_t* indices, const Instant* now, void** blocks,
                        bint* finished_out) noexcept nogil:
    """Ends what timer_take_locked began: takes what fell due, in order, at most `limit`; returns how many.

    now: NULL when it is for close(). Then `indices` stays in its place until batch_returned_locked.
    """
    cdef Timer* timer = self.timer
    cdef int64_t taken = 0, before, begin, end, at
    cdef Due* due
    cdef Due* head
    lock_wait(timer)
    if now is NULL:
        self.returned = indices
    while taken < limit and self.due_begin < self.due_end:
        before = taken
        begin = self.due_begin
        head = NULL
        end = min(self.due_end, self.due_begin + min(limit - taken, BATCH_SLICE))
        while self.due_begin < end:
            due = &self.due[self.due_begin]
            self.due_begin += 1
            if due.index == DUE_CANCELLED:
                self.due_cancelled -= 1
                continue
            if due.is_head:
                if head is not NULL:
                    run_leave_ready(self, head)
                head = due
            if now is not NULL:
                timer_record_locked(timer, due.expiration_ms, now)
            else:
                batch_entry(self, due.index).expiration_ms = due.expiration_ms      # for a fork, which gives it back
            indices[taken] = due.index
            taken += 1
        if head is not NULL:
            run_pass_on(self, head, self.due_begin)
        if self.table is not NULL and now is not NULL:
            for at in range(begin, self.due_begin):
                if self.due[at].index != DUE_CANCELLED:
                    batch_part_over_locked(self, self.due[at].index)
        batch_skip_gaps(self)
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
        finished_out[0] = batch_let_go_locked(self, blocks)
    lock_release(timer)
    return taken


cdef bint batch_put_back_locked(Batch* self, void** blocks) noexcept nogil:
    """Undoes timer_take_locked: the batch is the next one again, unless nothing waits any more. True if it is at its end: as
    batch_finish_locked."""
    batch_be_next_locked(self)
    return batch_let_go_locked(self, blocks)


cdef bint batch_returned_locked(Batch* self, void** blocks) noexcept nogil:
    """After batch_take for close(). True if the batch is at its end: as batch_finish_locked."""
    self.returned = NULL
    self.returning = 0
    return batch_let_go_locked(self, blocks)


# A whole batch, or the part of it that is named, is placed in the wheel: added, or moved. As in bulk.pxi the loops give the
# lock up every BATCH_SLICE entries. Meanwhile `adding` keeps the timer from being closed or forked, and the wheel's clocks from
# being set back: the levels that are there when a loop begins are enough until its end.


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


cdef inline int64_t timer_place_locked(Timer* timer, Entry* entry, int64_t now_ms, int64_t base_ms,
                                       int64_t delay_ms) noexcept nogil:
    """Links an entry for which there is a level. When the reaper has to be awake for it; INT64_MAX: it need not be."""
    cdef Bucket* bucket = NULL
    # What is due now is placed by now and not rounded up, as in timer_due.
    entry.expiration_ms = base_ms + delay_ms if delay_ms > 0 else now_ms
    if wheel_reserve_bucket(&timer.wheel, entry.expiration_ms, &bucket) == ADD_PENDING:
        bucket_append(bucket, entry)
        return bucket.entries.expiration_ms
    timer_insert_locked(timer, entry, TAKE_DUE)
    return INT64_MAX


cdef void batch_count_in_locked(Batch* self, int64_t count) noexcept nogil:
    """So many entries more are in use, of those that there is room for."""
    cdef int64_t left = count, first = self.length, here
    cdef Part* part
    while self.table is not NULL and left:
        part = batch_part(self, first)
        here = min(left, part.first + part.room - first)
        part.pending += here
        first += here
        left -= here
    hw_bump(&self.length, count)
    hw_bump(&self.pending, count)
    hw_bump(&self.timer.pending, count)
    self.timer.added += count


cdef Status batch_extend(Batch* self, BatchRoom* room, const char* delays_ms, Py_ssize_t stride, int64_t first,
                         int64_t count, int64_t now_ms, int64_t base_ms, int64_t last_ms, WhenDue when_due) noexcept nogil:
    """Links so many entries more, of index `first` and on; or none: CLOSED, FULL, NOT_YET, NEEDS_ROOM, NEEDS_LEVEL when there is
    no memory for a level, TRY_AGAIN when the batch is longer by now, or nobody holds it.

    room: NULL for a new batch, which has it."""
    cdef Timer* timer = self.timer
    cdef int64_t i = 0, end, delay_ms, first_ms = INT64_MAX
    cdef Part* part
    cdef Entry* entry
    cdef Status status
    batch_lock(self)
    status = timer_reach(timer, now_ms, last_ms, when_due)      # before the first entry goes in
    if timer.closed:
        status = CLOSED
    elif count > timer.max_pending - timer.pending - timer.resting_count:
        status = FULL
    elif status == OK and room is not NULL:
        if self.adding or self.length != first or not self.is_listed:
            status = TRY_AGAIN
        elif not batch_has_room_locked(self, count, room):
            status = NEEDS_ROOM
        else:
            batch_take_room_locked(self, count, room)
    if status != OK or count == 0:
        lock_release(timer)
        return status
    if not self.is_listed:
        batch_enter_locked(self)
    batch_count_in_locked(self, count)
    timer.adding += 1
    while True:
        end = i + BATCH_SLICE if count - i > BATCH_SLICE else count
        part = batch_part(self, first + i)      # the one before may have gone meanwhile
        while i < end:
            if first + i == part.first + part.room:
                part = part.next
            entry = part_entry(part, first + i)
            # No more than was checked, whatever another thread writes into the buffer meanwhile.
            delay_ms = min(hw_read(delays_ms + i * stride), last_ms - base_ms)
            entry.place = <int32_t>(first + i - part.first)
            first_ms = min(first_ms, timer_place_locked(timer, entry, now_ms, base_ms, delay_ms))
            i += 1
        if first_ms < timer.reaper_until_ms:
            timer_wake_reaper_locked(timer)
        self.adding = count - i
        if self.adding == 0:
            break
        lock_yield(timer)
    timer.adding -= 1
    lock_release(timer)
    return OK


cdef inline bint batch_take_off_locked(Batch* self, Entry* entry) noexcept nogil:
    """Takes an entry that is pending off where it is, to be placed anew. False if it is not pending."""
    if batch_is_due(self, entry):
        batch_leave_due(self, entry)
        if batch_wants_room(self):
            batch_close_gaps(self, self.due)
        return True
    if entry_is_linked(entry):
        wheel_remove(&self.timer.wheel, entry)
        return True
    return False


cdef Status batch_reschedule(Batch* self, const int64_t* indices, int64_t count, const char* delays_ms, Py_ssize_t stride,
                             int64_t now_ms, int64_t base_ms, int64_t last_ms, WhenDue when_due,
                             int64_t* moved_out) noexcept nogil:
    """Moves what is named by index (NULL: all) and is pending, each by the delay at the same place. OK and how many, or nothing
    is moved: NOT_YET, or NEEDS_LEVEL when there is no memory for a level. The indices as for batch_cancel."""
    cdef Timer* timer = self.timer
    cdef int64_t i = 0, end, delay_ms, first_ms = INT64_MAX
    cdef Entry* entry
    cdef Status status
    moved_out[0] = 0
    batch_lock(self)
    status = timer_reach(timer, now_ms, last_ms, when_due)
    if status != OK:
        lock_release(timer)
        return status
    timer.adding += 1
    if indices is NULL:
        i = max(i, self.origin)         # what is before it is over
    while i < count and self.pending:
        end = i + BATCH_SLICE if count - i > BATCH_SLICE else count
        while i < end:
            batch_prefetch_cancel(self, indices, i, count)
            entry = batch_named(self, indices, i)
            if entry is not NULL and batch_take_off_locked(self, entry):
                delay_ms = min(hw_read(delays_ms + i * stride), last_ms - base_ms)
                first_ms = min(first_ms, timer_place_locked(timer, entry, now_ms, base_ms, delay_ms))
                moved_out[0] += 1
            i += 1
        if first_ms < timer.reaper_until_ms:
            timer_wake_reaper_locked(timer)
        if i < count and self.pending:
            lock_yield(timer)
    timer.adding -= 1
    lock_release(timer)
    return OK
