# What is ready: Timer.ready, and the runs in it. A run is what fell due of a batch, one after the other, with nothing of
# others in between. All that is due of a batch is one call, which comes where the first of it stands among what is ready. So
# the first entry of each run, its head, is linked in Timer.ready, and the rest waits in the batch's `due` alone: when the
# head is cancelled or moved, the next of its run takes its place, and after the last of a run what stands first is the head
# of the next one. With a single place for the whole batch a timer would inherit that of others which have gone.


cdef inline void timer_make_ready_locked(Timer* self, Entry* entry) noexcept nogil:
    """Appends to ready, with hints for the hand-out's walk, which goes forward."""
    cdef Entry* older = lead_take(&self.ready_lead, entry, self.wheel.removals)
    entry.hint = 0
    list_append(&self.ready, entry)
    if older is not NULL:
        entry_set_hint(older, entry_number(entry))
        self.ready_lead.entry = older.next


cdef inline void batch_make_ready(Batch* self, Entry* entry) noexcept nogil:
    """For an entry that fell due and has just left its list."""
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
    """The head of a run goes, and nobody comes in its place."""
    cdef Entry* head = batch_entry(self, due.index)
    wheel_remove(&self.timer.wheel, head)
    due.is_head = False
    if self.last_head is head:
        self.last_head = NULL


cdef void run_pass_on(Batch* self, Due* due, int64_t following) noexcept nogil:
    """The head of a run goes, and the next of it, which waits at `following` or behind, takes its place in Timer.ready."""
    cdef Entry* head = batch_entry(self, due.index)
    cdef Entry* entry
    cdef bint was_last = self.last_head is head
    while following < self.due_end and self.due[following].index == DUE_CANCELLED:
        following += 1
    if following < self.due_end and not self.due[following].is_head:
        entry = batch_entry(self, self.due[following].index)
        entry.hint = 0
        list_push(head, entry)          # behind the head, which is about to go
        self.due[following].is_head = True
        run_leave_ready(self, due)
        if was_last:
            self.last_head = entry
    else:
        run_leave_ready(self, due)


cdef inline void batch_leave_due(Batch* self, const Entry* entry) noexcept nogil:
    """Takes an entry out of `due`, where it leaves a gap."""
    cdef Due* due = &self.due[entry.due_index]
    if due.is_head:
        run_pass_on(self, due, entry.due_index + 1)
    due.index = DUE_CANCELLED
    self.due_cancelled += 1
    batch_skip_gaps(self)


cdef void batch_be_next_locked(Batch* self) noexcept nogil:
    """What waits of a batch is the next to be taken."""
    cdef Due* first = &self.due[self.due_begin]
    if batch_waiting(self) and not first.is_head:
        first.is_head = True
        list_push(&self.timer.ready, batch_entry(self, first.index))


cdef void run_take_early(Batch* self, int64_t at, int64_t now_ms, Entry* early_out) noexcept nogil:
    """Undoes batch_make_ready for what is not due by this time, of the run whose head waits at this place. It is mostly the end
    of the run; but what was put back stands before what has fallen due since the clock was set back."""
    cdef int64_t end = at + 1
    cdef Due* due
    cdef Entry* entry
    while end < self.due_end and not self.due[end].is_head:
        end += 1
    while at < end:
        due = &self.due[at]
        if due.index != DUE_CANCELLED and wheel_tick(&self.timer.wheel, due.expiration_ms) > now_ms:
            entry = batch_entry(self, due.index)
            batch_leave_due(self, entry)
            entry.expiration_ms = due.expiration_ms
            list_append(early_out, entry)
        at += 1
    while self.due_end > self.due_begin and self.due[self.due_end - 1].index == DUE_CANCELLED:
        self.due_end -= 1
        self.due_cancelled -= 1
    if batch_wants_room(self):          # what stood first has left a gap before what is due
        batch_close_gaps(self, self.due)
