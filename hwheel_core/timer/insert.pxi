# An entry goes into the wheel, or to what is ready where its time is over.


cdef bint timer_make_tick_ready_locked(Timer* self, int* budget) noexcept nogil:
    """Moves a complete tick from wheel.due to where the executor finds it. False when the budget ran out before the end."""
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
    due.next = entry            # what was in front has gone
    entry.prev = due
    if entry is not due:
        return False
    if self.has_worker:
        hw_cond_signal(&self.work)
    return True


cdef Status timer_insert_locked(Timer* self, Entry* entry, WhenDue when_due) noexcept nogil:
    """Links an entry by its expiration_ms."""
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
    if when_due == ASK_WHEN_DUE:
        return NOT_YET
    # Behind what is due at this tick already. While a cascade is under way, part of the tick may still be to come:
    # then the cascade makes it ready.
    idle = wheel_is_idle(&self.wheel)
    list_append(&self.wheel.due, entry)
    if idle:
        timer_make_tick_ready_locked(self, &budget)
        if not self.has_worker:
            timer_wake_reaper_locked(self)
    return OK
