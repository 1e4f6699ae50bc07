# The wait for what falls due next: the reaper's, and that of the executor's own thread. No polling: they sleep until the
# earliest bucket, or until they are woken because an earlier one came in.
#
# Several threads may sleep at once (advance_clock). All of them sleep on the same waker, and a wake-up is for all of
# them: it stays until the last one is back, because who takes it away would hide it from the others. tools/proof/wake_up.py looks
# at every state of two sleepers, adds, cancels and a stop: in none of them is a wake-up lost.


cdef int64_t timer_sleep(Timer* self, const Instant* now, int64_t until_ms, int64_t give_up_ns,
                         void* interruption) noexcept nogil:
    """Sleeps until a time, a wake-up, or at most give_up_ns (-1: no such limit). Negative: a signal came."""
    cdef int64_t timeout_ns = -1 if until_ms == INT64_MAX else instant_until_ns(now, until_ms)
    if give_up_ns >= 0 and (timeout_ns < 0 or give_up_ns < timeout_ns):
        timeout_ns = give_up_ns
    return hw_waker_sleep(&self.waker, timeout_ns, until_ms, interruption)


cdef inline void timer_lie_down_locked(Timer* self, int64_t until_ms) noexcept nogil:
    self.sleepers += 1
    self.added_before_sleep = self.added
    self.reaper_until_ms = max(self.reaper_until_ms, until_ms)
    if HW_INBOXES:
        inboxes_open_locked(self)


cdef inline bint timer_has_heard_locked(Timer* self, int64_t until_ms) noexcept nogil:
    """Whether by what an add has read, of a clock that cannot be read from here, there is no need to sleep until then. It is
    forgotten, because the clock may be set back again: who has heard of it reads the clock himself."""
    cdef int64_t heeded_ms = self.heeded_ms
    self.heeded_ms = INT64_MIN
    return heeded_ms >= until_ms


cdef inline void timer_get_up_locked(Timer* self) noexcept nogil:
    """The last one to come back from a sleep takes the wake-up away: until then it is there for all of them to see."""
    self.sleepers -= 1
    self.wakeups += 1
    if self.sleepers == 0:
        self.reaper_until_ms = INT64_MIN
        if self.woken:
            self.woken = False
            hw_waker_calm(&self.waker)


cdef ReapStatus timer_reap_locked(Timer* self, const Instant* other_now, int64_t give_up_ns, bint once,
                                  void* interruption) noexcept nogil:
    """timer_reap with the lock held, which is given up for the wait."""
    cdef Instant now, start
    cdef int64_t next_ms, left_ns = give_up_ns
    cdef int64_t woken
    cdef bint taken
    clock_read(CLOCK_KIND_MONOTONIC, &start)
    while True:
        if self.stopping:
            return REAP_STOPPED
        if other_now is NULL:
            clock_read(self.clock, &now)
        else:
            now = self.manual_now = other_now[0]
        taken = timer_is_due_locked(self, now.ms)
        if taken:
            while timer_step_locked(self, now.ms) and not self.stopping:
                lock_yield(self)
            if self.stopping:
                continue
        if not self.has_worker and not list_is_empty(&self.ready):
            return REAP_READY
        if self.draining:
            return REAP_STOPPED
        if taken:
            if once:
                return REAP_TAKEN
            continue
        if give_up_ns >= 0:
            clock_read(CLOCK_KIND_MONOTONIC, &now)
            left_ns = give_up_ns - (now.ms - start.ms) * NS_PER_MS - (now.ns - start.ns)
            if left_ns <= 0:
                return REAP_NOTHING
            if other_now is NULL:
                clock_read(self.clock, &now)
            else:
                now = other_now[0]
        next_ms = timer_sleep_until_locked(self)
        if other_now is not NULL and timer_has_heard_locked(self, next_ms):
            return REAP_LOOK
        timer_lie_down_locked(self, next_ms)
        lock_release(self)
        woken = timer_sleep(self, &now, next_ms, left_ns, interruption)
        lock_wait(self)
        timer_get_up_locked(self)
        if woken < 0 and once:
            return REAP_SIGNAL
        if other_now is not NULL:
            return REAP_LOOK


cdef bint timer_is_ready_at_once(Timer* self) noexcept nogil:
    """Whether there is something to hand out without any wait, also for the lock."""
    cdef Instant now
    cdef bint ready = False
    if not lock_try(self):
        return False
    if not self.has_worker and not self.stopping:
        clock_read(self.clock, &now)
        if timer_is_due_locked(self, now.ms):
            timer_step_locked(self, now.ms)
        ready = not list_is_empty(&self.ready)
    lock_release(self)
    return ready


cdef ReapStatus timer_reap(Timer* self, const Instant* other_now, int64_t give_up_ns, bint once,
                           void* interruption) noexcept nogil:
    """Waits for the next due bucket and cascades, over and over, until the caller is needed.

    other_now: the time on a clock that cannot be read from here; NULL: the timer's own clock. once: return after the
    first cascade even if somebody else hands out what fell due. interruption: of hw_waker_sleep.
    """
    cdef ReapStatus status
    lock_wait(self)
    self.reaping += 1
    status = timer_reap_locked(self, other_now, give_up_ns, once, interruption)
    self.reaping -= 1
    if self.clock == CLOCK_KIND_BOOTTIME:
        timer_wake_reaper_locked(self)      # whoever sleeps on sets the alarm, which all share, for what is next now
    timer_close_waker_if_over_locked(self)
    lock_release(self)
    return status


cdef bint timer_await_work(Timer* self, int64_t generation) noexcept nogil:
    """For the executor's own thread: waits until something is ready. False when it shall end."""
    cdef bint go_on
    lock_wait(self)
    while list_is_empty(&self.ready) and not self.stopping and not self.draining and self.generation == generation:
        hw_cond_wait(&self.work, &self.lock)
    go_on = not self.stopping and not list_is_empty(&self.ready) and self.generation == generation
    lock_release(self)
    return go_on
