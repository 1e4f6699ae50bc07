# A Timer: the wheel with a lock, and what is ready to run. No Python object but the pointers that it hands back.


cdef Timer* timer_new(int64_t tick_ms, int32_t wheel_size, int64_t start_ms, int32_t clock,
                      bint never_early) noexcept nogil:
    """A Timer with one reference, or NULL when there is no memory."""
    cdef Timer* self = <Timer*>PyMem_RawCalloc(1, sizeof(Timer))
    if self is NULL or not wheel_create(&self.wheel, tick_ms, wheel_size, start_ms):
        PyMem_RawFree(self)
        return NULL
    lock_init(self)
    list_init(&self.ready)
    list_init(&self.resting)
    self.references = 1
    self.max_pending = INT64_MAX
    self.reaper_until_ms = INT64_MIN
    self.heeded_ms = INT64_MIN
    self.clock = clock
    self.never_early = never_early
    self.round_up_ms = tick_ms - 1 if never_early else 0
    self.manual_now.ms = start_ms
    hw_waker_init(&self.waker)
    if HW_INBOXES and inboxes_wanted(self):     # a build for tests: at once
        inboxes_make(self)
    registry_enter(self)
    return self


cdef void timer_free(Timer* self) noexcept nogil:
    registry_leave(self)
    hw_waker_close(&self.waker)
    wheel_destroy(&self.wheel)
    lock_destroy(self)
    inboxes_free(<Inbox*>self.inboxes)
    PyMem_RawFree(self)


cdef inline void timer_release(Timer* self) noexcept nogil:
    """Drops one reference; the last one frees. Tasks hold one each, so nothing is linked any more by then."""
    if hw_count_add(&self.references, -1) == 0:
        timer_free(self)


cdef bint timer_grow(Timer* self) noexcept nogil:
    """Adds a level to the wheel; takes the lock itself. False when there is no memory."""
    cdef int32_t level_count
    cdef LevelMemory memory
    lock_wait(self)
    level_count = self.wheel.level_count
    lock_release(self)
    if not level_memory_new(&memory, self.wheel.wheel_size, level_count + 1):
        return False
    lock_wait(self)
    if self.wheel.level_count == level_count:       # else another thread was faster
        wheel_take_level(&self.wheel, &memory)
    lock_release(self)
    level_memory_free(&memory)
    return True


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


cdef bint timer_due(const Timer* self, const Instant* now, const Instant* delay, int64_t* deadline_ms_out,
                    int64_t* expiration_ms_out) noexcept nogil:
    """When something that waits for `delay` falls due, and the time it is placed by. False: beyond 64 bits.

    What is due now is placed by now, not rounded up: its tick is due at once, and it comes behind what was added for
    that tick before.
    """
    cdef Instant deadline
    if delay.ms < 0 or (delay.ms == 0 and delay.ns == 0):
        deadline_ms_out[0] = now.ms + delay.ms
        expiration_ms_out[0] = now.ms
        return True
    if not instant_add(now, delay, &deadline):
        return False
    if self.never_early and deadline.ns and hw_add_overflows(deadline.ms, 1, &deadline.ms):
        return False
    deadline_ms_out[0] = deadline.ms
    return not hw_add_overflows(deadline.ms, self.round_up_ms, expiration_ms_out)


# --- advancing ----------------------------------------------------------------------------------------------------


cdef bint timer_step_locked(Timer* self, int64_t now_ms) noexcept nogil:
    """One slice of an advance; True while there is more to do. Give up the lock in between."""
    cdef int budget = SLICE
    cdef StepStatus status
    while True:
        status = wheel_step(&self.wheel, now_ms, &budget)
        if status != STEP_TICK:
            return status == STEP_MORE
        if not timer_make_tick_ready_locked(self, &budget):
            return True


cdef void timer_advance(Timer* self, int64_t now_ms) noexcept nogil:
    """Takes every bucket that is due, and fills ready. Takes the lock itself, a slice at a time."""
    lock_wait(self)
    while timer_step_locked(self, now_ms):
        lock_yield(self)
    lock_release(self)


cdef void timer_advance_clock(Timer* self, int64_t time_ms) noexcept nogil:
    """timer_advance, and then all clocks to time_ms, whether there was a bucket at that time or not."""
    lock_wait(self)
    while timer_step_locked(self, time_ms):
        lock_yield(self)
    wheel_advance_clock(&self.wheel, time_ms)
    lock_release(self)


cdef void timer_live_until(Timer* self, int64_t now_ms) noexcept nogil:
    """timer_advance for a clock that is moved by hand. It is moved before the wheel's, so that no add is placed by a time
    at which the wheel has been already."""
    lock_wait(self)
    self.manual_now.ms = max(self.manual_now.ms, now_ms)
    while timer_step_locked(self, now_ms):
        lock_yield(self)
    lock_release(self)


cdef inline void timer_record_locked(Timer* self, int64_t deadline_ms, const Instant* now) noexcept nogil:
    lateness_record(&self.lateness, lateness_us(deadline_ms, now))


cdef bint timer_next_locked(Timer* self, int64_t* next_ms_out) noexcept nogil:
    """When there is something to do next; False: never."""
    return wheel_next(&self.wheel, next_ms_out)


cdef bint timer_is_due_locked(Timer* self, int64_t now_ms) noexcept nogil:
    """Whether an advance to now_ms has something to do."""
    return wheel_is_advancing(&self.wheel) or queue_first_until(&self.wheel, now_ms) is not NULL


cdef int64_t timer_sleep_until_locked(Timer* self) noexcept nogil:
    """How long the reaper is to sleep, when nothing is due. INT64_MAX: there is nothing to wake up for.

    As long as timers come in, a bucket that cancels have emptied counts until its time is over, as in Kafka's queue: of
    timers that are cancelled at once, each would be the earliest otherwise, and wake a reaper that has nothing to wait for.
    """
    cdef int64_t next_ms
    if self.added != self.added_before_sleep and self.wheel.queue_length:
        return self.wheel.queue[0].entries.expiration_ms
    return next_ms if timer_next_locked(self, &next_ms) else INT64_MAX


# --- a clock that is set back ------------------------------------------------------------------------------------


cdef void timer_make_all_ready(Timer* self) noexcept nogil:
    """Everything that is pending is ready at once, in order, and the clock stays where it is.

    All under one hold of the lock, because in between the clock stands at the end of time, where any add would be due.
    """
    cdef int64_t clock_ms
    lock_wait(self)
    clock_ms = self.wheel.levels[0].current_time_ms
    while timer_step_locked(self, INT64_MAX):
        pass
    wheel_set_clocks(&self.wheel, clock_ms)
    lock_release(self)


cdef bint timer_close(Timer* self, bint finishing) noexcept nogil:
    """Refuses adds from now on, once those under way are through. False if it was closed before."""
    cdef bint first
    lock_wait(self)
    first = not self.closed
    hw_poke(&self.closed, True)
    hw_poke(&self.finishing, finishing and (first or self.finishing))   # what has begun to end does not go on
    if HW_INBOXES:
        inboxes_open_locked(self)       # for nothing any more
    while self.adding:
        lock_yield(self)
    lock_release(self)
    return first


cdef void timer_stop(Timer* self, bint drain) noexcept nogil:
    """Tells the threads to end: at once, or when all that is ready has been handed out."""
    lock_wait(self)
    if drain:
        self.draining = True
    else:
        hw_set_flag(&self.stopping)
    hw_cond_broadcast(&self.work)
    timer_wake_reaper_locked(self)
    timer_close_waker_if_over_locked(self)
    lock_release(self)
