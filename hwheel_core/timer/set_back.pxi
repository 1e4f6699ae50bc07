# A callable clock that is set back. No other clock can be.
#
# The wheel's clock follows it, and all pending entries are placed again. Otherwise an entry that is added after the step would
# be due at once, because the wheel has passed its time already.


cdef int64_t timer_ready_tick_locked(const Timer* self) noexcept nogil:
    """Return the tick of the first entry in `ready`, which is not empty."""
    cdef const Entry* entry = self.ready.next
    cdef const Batch* batch
    if entry.place != ENTRY_OF_TASK:
        batch = entry_batch(entry)
        return wheel_tick(&self.wheel, batch.due[entry.due_index].expiration_ms)
    return wheel_tick(&self.wheel, entry.expiration_ms)


cdef int64_t timer_hand_out_tick_locked(const Timer* self) noexcept nogil:
    """Return the latest tick among the timers that the next dispatch takes: a task, or the expired timers of a batch.

    `ready` is not empty. Timers in `due` before the entry do not count: another thread has taken their head and takes them next.
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
    """Move the entries that are not due at now_ms out of `ready`."""
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
    """Return the latest expiration in `ready`.

    It may be ahead of the wheel's clock: entries that were taken before a step back may have been put back after it.
    """
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
    """Return True if the wheel's clock, or the next entry to dispatch, is ahead of a time."""
    return (now_ms < self.wheel.levels[0].current_time_ms
            or (not list_is_empty(&self.ready) and now_ms < timer_hand_out_tick_locked(self)))


cdef bint timer_set_back(Timer* self, int64_t now_ms) noexcept nogil:
    """Set the wheel's clock back to now_ms, and place all pending entries again, including ready ones that are not due.

    O(pending), once for each step back that is followed by an add before the clock has caught up. Return False if there is no
    memory for a level.
    """
    cdef Entry pending
    cdef int64_t time_ms, last_ms
    lock_wait(self)
    while timer_is_ahead_locked(self, now_ms):
        time_ms = min(now_ms, self.wheel.levels[0].current_time_ms)     # never forward
        last_ms = max(self.wheel.levels[0].current_time_ms, timer_ready_until_locked(self))
        # First finish a cascade under way, and wait for batches that are being placed: their levels fit the old clock.
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
