# Bulk timers: an array of entries that share one callback; which timer an entry is, is its place in the array.
# Loops over a batch give the lock up every BATCH_SLICE entries.

cdef enum:
    BATCH_SLICE = 4096


cdef inline Batch* entry_batch(const Entry* entry) noexcept nogil:
    return <Batch*>(entry.owner - OWNER_IS_BATCH)


cdef inline void batch_append_due(Batch* self, Entry* entry) noexcept nogil:
    # The walk goes forward here, so a hint has to be written into an older entry. It may have been cancelled, but its
    # memory is the batch's, which is there as long as any entry is.
    cdef int32_t at = self.recent_index
    entry.hint = NULL
    if self.recent[at] is not NULL:
        self.recent[at].hint = entry
    self.recent[at] = entry
    self.recent_index = (at + 1) & (HINT_DISTANCE - 1)
    list_append(&self.due, entry)
    self.due_limit += 1


cdef Batch* batch_new(int64_t length) noexcept nogil:
    """NULL when there is no memory."""
    cdef Batch* self = <Batch*>PyMem_RawCalloc(1, sizeof(Batch))
    if self is NULL:
        return NULL
    self.entries = <Entry*>PyMem_RawMalloc((length if length else 1) * sizeof(Entry))
    if self.entries is NULL:
        PyMem_RawFree(self)
        return NULL
    hw_advise_huge(self.entries, length * sizeof(Entry))
    list_init(&self.due)
    self.node.next = NULL
    self.node.owner = <uintptr_t>self + OWNER_IS_BATCH
    self.length = length
    return self


cdef int64_t batch_check(const char* delays_ms, Py_ssize_t stride, int64_t length, const Timer* timer,
                         const Instant* now, int64_t* base_ms_out, int64_t* last_ms_out) noexcept nogil:
    """What to add to a delay, and when the last timer falls due; -1, or the first index whose time does not fit."""
    cdef int64_t longest_ms = 0, i, delay_ms
    cdef bint fits
    for i in range(length):
        longest_ms = max(longest_ms, (<const int64_t*>(delays_ms + i * stride))[0])
    base_ms_out[0] = last_ms_out[0] = now.ms
    if longest_ms == 0:
        return -1
    fits = not (hw_add_overflows(now.ms, timer.round_up_ms, base_ms_out)
                or (timer.never_early and now.ns and hw_add_overflows(base_ms_out[0], 1, base_ms_out)))
    if fits and not hw_add_overflows(base_ms_out[0], longest_ms, last_ms_out):
        return -1
    for i in range(length):
        delay_ms = (<const int64_t*>(delays_ms + i * stride))[0]
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


cdef bint batch_settle_locked(Batch* self, Entry** entries_out) noexcept nogil:
    """Takes a batch off the timer when nothing is pending and nobody is handing out. True if this call did: then the
    caller frees the entries and drops the timer's reference to the object."""
    if self.pending or self.handing_out or self.entries is NULL:
        return False
    if entry_is_linked(&self.node):
        entry_unlink(&self.node)
    if self.prev is NULL:
        self.timer.batches = self.next
    else:
        self.prev.next = self.next
    if self.next is not NULL:
        self.next.prev = self.prev
    entries_out[0] = self.entries
    self.entries = NULL
    return True


cdef Status batch_add(Batch* self, Timer* timer, const char* delays_ms, Py_ssize_t stride, int64_t now_ms,
                      int64_t base_ms, int64_t last_ms) noexcept nogil:
    """Links all entries, or none: CLOSED, FULL, or NEEDS_LEVEL when there is no memory for a level."""
    cdef uintptr_t owner = <uintptr_t>self + OWNER_IS_BATCH
    cdef int64_t i = 0, end, delay_ms
    cdef Entry* entry
    while True:             # make sure that every level is there before the first entry goes in
        lock_wait(timer)
        if timer.closed:
            lock_release(timer)
            return CLOSED
        if self.length > timer.max_pending - timer.pending:
            lock_release(timer)
            return FULL
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
            delay_ms = min((<const int64_t*>(delays_ms + i * stride))[0], last_ms - base_ms)
            # What is due now is placed by now and not rounded up, as in timer_due.
            entry.expiration_ms = base_ms + delay_ms if delay_ms > 0 else now_ms
            entry.owner = owner
            timer_insert_locked(timer, entry, True)
            i += 1
        if i == self.length:
            break
        lock_yield(timer)
    timer.adding -= 1
    lock_release(timer)
    return OK


cdef int64_t batch_cancel(Batch* self, const int64_t* indices, int64_t count, Entry** entries_out,
                          bint* settled_out) noexcept nogil:
    """Cancels by index (NULL: all). The indices have been checked. Returns how many it kept from running."""
    cdef Timer* timer = self.timer
    cdef int64_t i = 0, end, slice_cancelled, cancelled = 0
    cdef Entry* entry
    lock_wait(timer)
    while i < count and self.pending:
        end = i + BATCH_SLICE if count - i > BATCH_SLICE else count
        slice_cancelled = 0
        while i < end:
            entry = &self.entries[indices[i] if indices is not NULL else i]
            if entry_is_linked(entry):
                wheel_remove(&timer.wheel, entry)
                slice_cancelled += 1
            i += 1
        cancelled += slice_cancelled
        self.pending -= slice_cancelled
        timer.pending -= slice_cancelled
        timer.cancelled += slice_cancelled
        if list_is_empty(&self.due) and entry_is_linked(&self.node):
            entry_unlink(&self.node)    # its place in `ready` was that of what is cancelled now
        if i < count and self.pending:
            lock_yield(timer)
    settled_out[0] = batch_settle_locked(self, entries_out)
    lock_release(timer)
    return cancelled


cdef int64_t batch_take(Batch* self, int64_t limit, int64_t* indices, const Instant* now, Entry** entries_out,
                        bint* settled_out) noexcept nogil:
    """Ends the hand-out that timer_pop_locked began: what fell due, in order, at most `limit`; returns how many.

    now: NULL when it is for close().
    """
    cdef Timer* timer = self.timer
    cdef int64_t taken = 0, before
    cdef Entry* entry
    lock_wait(timer)
    while taken < limit and not list_is_empty(&self.due):
        before = taken
        while taken < limit and taken - before < BATCH_SLICE and not list_is_empty(&self.due):
            entry = self.due.next
            hw_prefetch(entry.hint)
            wheel_remove(&timer.wheel, entry)
            if now is not NULL:
                timer_record_locked(timer, entry.expiration_ms, now)
            indices[taken] = entry - self.entries
            taken += 1
        self.pending -= taken - before
        timer.pending -= taken - before
        if now is NULL:
            timer.returned += taken - before
        else:
            timer.expired += taken - before
        if taken < limit and not list_is_empty(&self.due):
            lock_yield(timer)
    self.handing_out -= 1
    settled_out[0] = batch_settle_locked(self, entries_out)
    lock_release(timer)
    return taken


cdef void batch_forget_hand_out(Batch* self) noexcept nogil:
    """In the child of a fork: a thread that was about to take what is due did not come along."""
    self.handing_out = 0
    self.due_limit = self.pending
    if not list_is_empty(&self.due) and not entry_is_linked(&self.node):
        list_append(&self.timer.ready, &self.node)
