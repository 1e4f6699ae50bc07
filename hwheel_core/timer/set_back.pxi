# A clock that is set back, which only a callable one can be.


cdef int64_t timer_ready_tick_locked(const Timer* self) noexcept nogil:
    """The tick of what is first in ready, which is not empty."""
    cdef const Entry* entry = self.ready.next
    cdef const Batch* batch
    if entry.place != ENTRY_OF_TASK:
        batch = entry_batch(entry)
        return wheel_tick(&self.wheel, batch.due[entry.due_index].expiration_ms)
    return wheel_tick(&self.wheel, entry.expiration_ms)


cdef int64_t timer_hand_out_tick_locked(const Timer* self) noexcept nogil:
    """The tick by which all is due that is handed out next: a task, or all that waits of a batch. Something is ready.

    Not what stands before the entry: another thread has taken the head of that, and takes it next.
    """
    cdef const Entry* entry = self.ready.next
    cdef const Batch* batch
    cdef int64_t last_ms, at
    if entry.place == ENTRY_OF_TASK:
        return wheel_tick(&self.wheel, entry.expiration_ms)
    batch = entry_batch(entry)
    last_ms = batch.due[entry.due_index].expiration_ms
    for at in range(entry.due_index, batch.due_end):
        if batch.due[at].index != DUE_CANCELLED:
            last_ms = max(last_ms, batch.due[at].expiration_ms)
    return wheel_tick(&self.wheel, last_ms)


cdef void timer_take_early_locked(Timer* self, int64_t now_ms, Entry* early_out) noexcept nogil:
    """Takes out of ready what is not due by this time."""
    cdef Entry* entry = self.ready.next
    cdef Entry* following
    while entry is not &self.ready:
        following = entry.next
        if entry.place != ENTRY_OF_TASK:
            run_take_early(entry_batch(entry), entry.due_index, now_ms, early_out)
        elif wheel_tick(&self.wheel, entry.expiration_ms) > now_ms:
            wheel_remove(&self.wheel, entry)
            list_append(early_out, entry)
        entry = following


cdef int64_t timer_ready_until_locked(const Timer* self) noexcept nogil:
    """When the last of what is ready fell due: by the wheel's clock that may still be to come, since what was taken before the
    clock was set back may have been put back after it."""
    cdef const Entry* entry = self.ready.next
    cdef const Batch* batch
    cdef int64_t last_ms = 0, at
    while entry is not &self.ready:
        if entry.place != ENTRY_OF_TASK:
            batch = entry_batch(entry)
            at = entry.due_index
            while True:
                if batch.due[at].index != DUE_CANCELLED:
                    last_ms = max(last_ms, batch.due[at].expiration_ms)
                at += 1
                if at == batch.due_end or batch.due[at].is_head:
                    break
        else:
            last_ms = max(last_ms, entry.expiration_ms)
        entry = entry.next
    return last_ms


cdef bint timer_is_ahead_locked(const Timer* self, int64_t now_ms) noexcept nogil:
    """Whether the wheel's clock, or what is to be handed out next, is ahead of this time."""
    return (now_ms < self.wheel.levels[0].current_time_ms
            or (not list_is_empty(&self.ready) and now_ms < timer_hand_out_tick_locked(self)))


cdef bint timer_set_back(Timer* self, int64_t now_ms) noexcept nogil:
    """For a clock that was set back: the wheel's clock follows it, and what is pending is placed anew, in its order; also
    what was ready, and by this time is not due.

    Otherwise what is added now would be due at once, because to the wheel its time is over. It takes O(pending), once for
    each time that the clock is set back and something is added before it has caught up. False when there is no memory.
    """
    cdef Entry pending
    cdef int64_t time_ms, last_ms
    lock_wait(self)
    while timer_is_ahead_locked(self, now_ms):
        time_ms = min(now_ms, self.wheel.levels[0].current_time_ms)     # the wheel's own may be behind: it stays where it is
        last_ms = max(self.wheel.levels[0].current_time_ms, timer_ready_until_locked(self))
        # Until no cascade is under way, and no batch is being placed: its levels are there for the clock of now.
        if timer_step_locked(self, self.wheel.taken_ms) or self.adding:
            lock_yield(self)
        elif not wheel_reaches_from(&self.wheel, time_ms, last_ms):
            lock_release(self)
            if not timer_grow(self):
                return False
            lock_wait(self)
        else:
            list_init(&pending)
            timer_take_early_locked(self, now_ms, &pending)
            wheel_set_back(&self.wheel, time_ms, &pending)
            timer_wake_reaper_locked(self)
    lock_release(self)
    return True


# --- the end -----------------------------------------------------------------------------------------------------
