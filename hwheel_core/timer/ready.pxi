# From the wheel to `Timer.ready`: wake-ups of the reaper, the expired entries, and insertion of an entry into the wheel.


# --- the waker ---------------------------------------------------------------------------------------------------


cdef bint timer_open_waker(Timer* self) noexcept nogil:
    return hw_waker_open(&self.waker, self.clock == CLOCK_KIND_BOOTTIME)


cdef void timer_close_waker_if_over_locked(Timer* self) noexcept nogil:
    """Close the waker once the timer is stopping and no thread sleeps on it."""
    if self.stopping and self.reaping == 0:
        hw_waker_close(&self.waker)


cdef void timer_wake_reaper_locked(Timer* self) noexcept nogil:
    if self.reaper_until_ms != INT64_MIN:
        self.reaper_until_ms = INT64_MIN        # one wake-up is enough for all current sleepers
        self.woken = True
        hw_waker_wake(&self.waker)


# --- ready entries -----------------------------------------------------------------------------------------------

# All expired timers of a batch are delivered in one call, at the place of the first of them in `Timer.ready`. A run is a
# sequence of expired timers of one batch with no other entries between them. Only the first entry of a run, its head, is
# linked in `Timer.ready`; the others are only in the batch's `due` array. If the head is cancelled or moved, the next entry of
# the run takes its place. After the last entry of a run, the batch's place is that of the next run. With one place for the
# whole batch, an entry would keep the place of an earlier one that was cancelled.


cdef inline void timer_make_ready_locked(Timer* self, Entry* entry) noexcept nogil:
    """Append an entry to `ready`, with hints for the forward walk of the dispatch."""
    cdef Entry* older = lead_take(&self.ready_lead, entry, self.wheel.removals)
    entry.hint = 0
    list_append(&self.ready, entry)
    if older is not NULL:
        entry_set_hint(older, entry_number(entry))
        self.ready_lead.entry = older.next


cdef inline void batch_make_ready(Batch* self, Entry* entry) noexcept nogil:
    """Append an expired entry, which has just left its bucket, to `due`; link it in `ready` if it begins a run."""
    cdef Due* due = &self.due[self.due_end]
    due.index = entry_index(entry)
    due.expiration_ms = entry.expiration_ms
    entry.due_index = self.due_end
    self.due_end += 1
    due.is_head = self.timer.ready.prev is not self.last_head
    if due.is_head:
        timer_make_ready_locked(self.timer, entry)
        self.last_head = entry
    else:
        entry.next = NULL


cdef inline void run_leave_ready(Batch* self, Due* due) noexcept nogil:
    """Unlink the head of a run from `ready`."""
    cdef Entry* head = batch_entry(self, due.index)
    wheel_remove(&self.timer.wheel, head)
    due.is_head = False
    if self.last_head is head:
        self.last_head = NULL


cdef void run_pass_on(Batch* self, Due* due, int64_t following) noexcept nogil:
    """Replace the head of a run in `ready` by the next entry of the run, which is at index `following` or later in `due`."""
    cdef Entry* head = batch_entry(self, due.index)
    cdef Entry* entry
    cdef bint was_last = self.last_head is head
    while following < self.due_end and self.due[following].index == DUE_CANCELLED:
        following += 1
    if following < self.due_end and not self.due[following].is_head:
        entry = batch_entry(self, self.due[following].index)
        entry.hint = 0
        list_push(head, entry)          # inserts after the old head, which is unlinked next
        self.due[following].is_head = True
        run_leave_ready(self, due)
        if was_last:
            self.last_head = entry
    else:
        run_leave_ready(self, due)


cdef inline void batch_leave_due(Batch* self, const Entry* entry) noexcept nogil:
    """Remove an entry from `due`, where it leaves a gap."""
    cdef Due* due = &self.due[entry.due_index]
    if due.is_head:
        run_pass_on(self, due, entry.due_index + 1)
    due.index = DUE_CANCELLED
    self.due_cancelled += 1
    batch_skip_gaps(self)


cdef void batch_be_next_locked(Batch* self) noexcept nogil:
    """Put the expired timers of a batch in front of `ready`."""
    cdef Due* first = &self.due[self.due_begin]
    if batch_waiting(self) and not first.is_head:
        first.is_head = True
        list_push(&self.timer.ready, batch_entry(self, first.index))


cdef int64_t timer_ready_tick_locked(const Timer* self) noexcept nogil:
    """Return the tick of the first entry in `ready`, which is not empty."""
    cdef const Entry* entry = self.ready.next
    cdef int64_t expiration_ms = entry.expiration_ms
    if entry.place != ENTRY_OF_TASK:
        expiration_ms = entry_batch(entry).due[entry.due_index].expiration_ms
    return wheel_tick(&self.wheel, expiration_ms)


cdef bint timer_make_tick_ready_locked(Timer* self, int* budget) noexcept nogil:
    """Move the entries of a complete tick from wheel.due to `ready`. Return False if the budget ran out before the end."""
    cdef Entry* due = &self.wheel.due
    cdef Entry* entry
    cdef Entry* following
    entry = due.next
    while entry is not due and budget[0] > 0:
        budget[0] -= 1
        following = entry.next
        if entry.place != ENTRY_OF_TASK:
            batch_make_ready(entry_batch(entry), entry)
        else:
            timer_make_ready_locked(self, entry)
        entry = following
    due.next = entry            # unlinks the entries before it
    entry.prev = due
    if self.has_worker:
        hw_cond_signal(&self.work)      # even for a part of a tick: the rest may be cancelled before it is moved
    return entry is due


# --- insertion ---------------------------------------------------------------------------------------------------


cdef Status timer_insert_locked(Timer* self, Entry* entry, WhenDue when_due) noexcept nogil:
    """Put an entry into the wheel by its expiration_ms. Return OK, NEEDS_LEVEL, or for REFUSE_DUE also WAS_DUE."""
    cdef int64_t bucket_ms = 0
    cdef int budget = SLICE
    cdef bint idle
    cdef AddStatus status = wheel_add(&self.wheel, entry, &bucket_ms)
    if status == ADD_PENDING:
        if bucket_ms < self.reaper_until_ms:
            timer_wake_reaper_locked(self)
        return OK
    if status == ADD_NEEDS_LEVEL:
        return NEEDS_LEVEL
    if when_due == REFUSE_DUE:
        return WAS_DUE
    # The entry comes after the entries of this tick that are due already. During a cascade more of them may follow, so the
    # cascade moves the tick to `ready`.
    idle = wheel_is_idle(&self.wheel)
    list_append(&self.wheel.due, entry)
    if idle:
        timer_make_tick_ready_locked(self, &budget)
        if not self.has_worker:
            timer_wake_reaper_locked(self)
    return OK
