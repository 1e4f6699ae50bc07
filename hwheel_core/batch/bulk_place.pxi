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


cdef Status timer_reach(Timer* timer, int64_t now_ms, int64_t last_ms, WhenDue when_due) noexcept nogil:
    """Sees to it, with the lock held, that there is a level for last_ms. OK, or NOT_YET; or NEEDS_LEVEL: no memory for it."""
    cdef bint have_memory
    while True:
        if when_due == ASK_WHEN_DUE and now_ms < timer.wheel.levels[0].current_time_ms:
            return NOT_YET
        if wheel_reaches(&timer.wheel, last_ms):
            return OK
        lock_release(timer)
        have_memory = timer_grow(timer)
        lock_wait(timer)
        if not have_memory:
            return NEEDS_LEVEL


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
