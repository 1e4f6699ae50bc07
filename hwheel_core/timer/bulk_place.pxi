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


cdef void batch_enter_locked(Batch* self, Timer* timer) noexcept nogil:
    self.timer = timer
    hw_poke64(&self.pending, self.length)
    self.prev = NULL
    self.next = timer.batches
    if timer.batches is not NULL:
        timer.batches.prev = self
    timer.batches = self
    hw_bump(&timer.pending, self.length)
    timer.added += self.length


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


cdef Status batch_add(Batch* self, Timer* timer, const char* delays_ms, Py_ssize_t stride, int64_t now_ms,
                      int64_t base_ms, int64_t last_ms, WhenDue when_due) noexcept nogil:
    """Links all entries, or none: CLOSED, FULL, NOT_YET, or NEEDS_LEVEL when there is no memory for a level."""
    cdef int64_t i = 0, end, delay_ms, first_ms = INT64_MAX
    cdef Entry* entry
    cdef Status status
    lock_wait(timer)
    status = timer_reach(timer, now_ms, last_ms, when_due)      # before the first entry goes in
    if timer.closed:
        status = CLOSED
    elif self.length > timer.max_pending - timer.pending - timer.resting_count:
        status = FULL
    if status != OK or self.length == 0:
        lock_release(timer)
        return status
    batch_enter_locked(self, timer)
    timer.adding += 1
    while True:
        end = i + BATCH_SLICE if self.length - i > BATCH_SLICE else self.length
        while i < end:
            entry = &self.entries[i]
            # No more than was checked, whatever another thread writes into the buffer meanwhile.
            delay_ms = min(hw_read(delays_ms + i * stride), last_ms - base_ms)
            entry.place = <int32_t>i
            first_ms = min(first_ms, timer_place_locked(timer, entry, now_ms, base_ms, delay_ms))
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


cdef inline bint batch_take_off_locked(Batch* self, Entry* entry) noexcept nogil:
    """Takes an entry that is pending off where it is, to be placed anew. False if it is not pending."""
    if entry_is_linked(entry):
        wheel_remove(&self.timer.wheel, entry)
        return True
    if batch_is_due(self, entry):
        batch_leave_due(self, entry)
        if batch_waiting(self) == 0 and entry_is_linked(&self.node):
            wheel_remove(&self.timer.wheel, &self.node)     # its place in `ready` was that of what is moved now
        if batch_wants_room(self):
            batch_close_gaps(self)
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
    while i < count and self.pending:
        end = i + BATCH_SLICE if count - i > BATCH_SLICE else count
        while i < end:
            batch_prefetch_cancel(self, indices, i, count)
            entry = batch_entry(self, indices, i)
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
