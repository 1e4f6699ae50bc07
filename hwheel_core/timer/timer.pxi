# A Timer: a wheel, its lock, and the entries that are ready to run. Plain C: it hands out pointers to Python objects but never
# touches the objects.


cdef void inboxes_ensure(Timer* timer) noexcept nogil:
    """Give the timer inboxes, unless memory is short. Takes the lock."""
    cdef Inbox* boxes = inboxes_new()
    if boxes is NULL:
        return
    lock_wait(timer)
    if not timer.inboxes:
        hw_store(&timer.inboxes, <uintptr_t>boxes)
        boxes = NULL
        inboxes_open_locked(timer)
    lock_release(timer)
    inboxes_free(boxes)         # not NULL if another thread was faster


cdef Timer* timer_new(int64_t tick_ms, int32_t wheel_size, int64_t start_ms, int32_t clock,
                      bint never_early) noexcept nogil:
    """Return a Timer with one reference, or NULL if there is no memory."""
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
    self.clock = clock
    self.never_early = never_early
    self.round_up_ms = tick_ms - 1 if never_early else 0
    self.latest_reading.ms = start_ms
    hw_waker_init(&self.waker)
    if HW_INBOXES and inboxes_wanted(self):     # only in builds for tests, where HW_MEETINGS is 0
        inboxes_ensure(self)
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
    """Drop a reference, and free the timer with the last one. Each task holds one, so no entry is linked by then."""
    if hw_count_add(&self.references, -1) == 0:
        timer_free(self)


# --- references --------------------------------------------------------------------------------------------------

# A task holds a reference to its Timer for as long as it lives. With inboxes, threads would compete for that one count as they
# did for the lock. So a thread takes INBOX_REFERENCES at a time and stores them in its inbox, gives them to new tasks, and puts
# back those of dead tasks. When the timer's Python object dies, the stored counts become hugely negative (inboxes_end), and
# from then on each reference is returned to the Timer.

cdef int64_t NO_MORE = INT64_MAX // 2       # not an enum: C may store enums in 32 bits


cdef inline Inbox* inbox_of_thread(Timer* timer) noexcept nogil:
    cdef Inbox* boxes = <Inbox*>hw_load(&timer.inboxes)
    return NULL if boxes is NULL else &boxes[hw_thread_number() & (INBOXES - 1)]


cdef inline void timer_keep(Timer* self) noexcept nogil:
    """Take a reference for a new task. The caller holds a reference to the timer's Python object."""
    cdef Inbox* box = inbox_of_thread(self) if HW_INBOXES else NULL
    if box is NULL:
        hw_count_add(&self.references, 1)
    elif hw_count_add(&box.references, -1) < 0:
        # The inbox was empty; this refill also covers the reference that was just taken.
        hw_count_add(&self.references, INBOX_REFERENCES)
        hw_count_add(&box.references, INBOX_REFERENCES)


cdef inline void timer_leave(Timer* self) noexcept nogil:
    """Drop the reference of a dead task.

    The count in the inbox changes in one step, also below zero: inboxes_end could otherwise count a reference between the two
    steps.
    """
    cdef Inbox* box = inbox_of_thread(self) if HW_INBOXES else NULL
    if box is NULL or hw_count_add(&box.references, 1) < -(NO_MORE // 2):
        timer_release(self)


cdef void inboxes_end(Timer* self) noexcept nogil:
    """Return the spare references. Called when the timer's Python object, which holds one itself, dies."""
    cdef Inbox* boxes = <Inbox*>self.inboxes
    cdef int64_t i, left
    if boxes is NULL:
        return
    for i in range(INBOXES):
        left = hw_count_add(&boxes[i].references, -NO_MORE) + NO_MORE
        hw_count_add(&self.references, -left)


# --- levels ------------------------------------------------------------------------------------------------------


cdef bint timer_grow(Timer* self) noexcept nogil:
    """Add a level to the wheel. Takes the lock. Return False if there is no memory."""
    cdef int32_t level_count
    cdef LevelMemory memory
    lock_wait(self)
    level_count = self.wheel.level_count
    lock_release(self)
    if not level_memory_new(&memory, self.wheel.wheel_size, level_count + 1):
        return False
    lock_wait(self)
    if self.wheel.level_count == level_count:       # otherwise another thread was faster
        wheel_take_level(&self.wheel, &memory)
    lock_release(self)
    level_memory_free(&memory)
    return True


cdef Status timer_reach(Timer* self, int64_t last_ms) noexcept nogil:
    """Ensure that there is a level for the latest of many timers. The caller holds the lock, which is released to add a level.

    Return OK, or NEEDS_LEVEL if there is no memory for a level.
    """
    cdef bint have_memory
    while not wheel_reaches(&self.wheel, last_ms):
        lock_release(self)
        have_memory = timer_grow(self)
        lock_wait(self)
        if not have_memory:
            return NEEDS_LEVEL
    return OK


cdef Status timer_admit(Timer* self, int64_t count, int64_t last_ms) noexcept nogil:
    """Return OK if `count` timers can be added, or the reason why not. The caller holds the lock, as for timer_reach."""
    cdef Status status = timer_reach(self, last_ms)
    if self.closed:
        return CLOSED
    if count > self.max_pending - self.pending - self.resting_count:
        return FULL
    return status


# --- advancing ----------------------------------------------------------------------------------------------------


cdef bint timer_step_locked(Timer* self, int64_t now_ms) noexcept nogil:
    """Do one slice of an advance. Return True if there is more to do; the caller then yields the lock."""
    cdef int budget = SLICE
    cdef StepStatus status
    while True:
        status = wheel_step(&self.wheel, now_ms, &budget)
        if status != STEP_TICK:
            return status == STEP_MORE
        if not timer_make_tick_ready_locked(self, &budget):
            return True


cdef void timer_advance(Timer* self, int64_t now_ms) noexcept nogil:
    """Take all due buckets, and fill `ready`. Takes the lock, for one slice at a time."""
    lock_wait(self)
    while timer_step_locked(self, now_ms):
        lock_yield(self)
    lock_release(self)


cdef void timer_advance_clock(Timer* self, int64_t time_ms) noexcept nogil:
    """Advance, then move the clocks of all levels to time_ms even if no bucket is due there."""
    lock_wait(self)
    while timer_step_locked(self, time_ms):
        lock_yield(self)
    wheel_advance_clock(&self.wheel, time_ms)
    lock_release(self)


cdef void timer_advance_manual(Timer* self, int64_t now_ms) noexcept nogil:
    """Advance a manual timer. Its clock moves before the wheel's, so that no add is placed by a time that the wheel has
    passed."""
    lock_wait(self)
    self.latest_reading.ms = max(self.latest_reading.ms, now_ms)
    while timer_step_locked(self, now_ms):
        lock_yield(self)
    lock_release(self)


cdef inline void timer_record_locked(Timer* self, int64_t deadline_ms, const Instant* now) noexcept nogil:
    lateness_record(&self.lateness, lateness_us(deadline_ms, now))


cdef bint timer_next_locked(Timer* self, int64_t* next_ms_out) noexcept nogil:
    """Find the time of the next bucket, as wheel_next does. Return False if the wheel is empty."""
    return wheel_next(&self.wheel, next_ms_out)


cdef bint timer_is_due_locked(Timer* self, int64_t now_ms) noexcept nogil:
    """Return True if an advance to now_ms has something to do."""
    return wheel_is_advancing(&self.wheel) or queue_first_until(&self.wheel, now_ms) is not NULL


cdef int64_t timer_sleep_until_locked(Timer* self) noexcept nogil:
    """Return the time until which the reaper sleeps when nothing is due; INT64_MAX if the wheel is empty.

    While timers are being added, an empty bucket counts until its expiration, as in Kafka. Otherwise a program that cancels each
    timer soon after adding it would make each one the earliest, and wake the reaper for nothing.
    """
    cdef int64_t next_ms
    if self.added != self.added_before_sleep and self.wheel.queue_length:
        return self.wheel.queue[0].entries.expiration_ms
    return next_ms if timer_next_locked(self, &next_ms) else INT64_MAX


# --- closing -----------------------------------------------------------------------------------------------------


cdef void timer_make_all_ready(Timer* self) noexcept nogil:
    """Move all pending entries to `ready`, in order. The clock does not move.

    The lock is held throughout, because in between the wheel's clock is ahead, where a new task would be due too early.
    """
    cdef int64_t clock_ms
    lock_wait(self)
    clock_ms = self.wheel.levels[0].current_time_ms
    while timer_step_locked(self, INT64_MAX):
        pass
    wheel_set_clocks(&self.wheel, clock_ms)
    lock_release(self)


cdef bint timer_close(Timer* self, bint finishing) noexcept nogil:
    """Refuse adds from now on, and wait for those under way. Return False if the timer was closed before."""
    cdef bint first
    lock_wait(self)
    first = not self.closed
    hw_poke(&self.closed, True)
    hw_poke(&self.finishing, finishing and (first or self.finishing))   # closing cannot be undone
    if HW_INBOXES:
        inboxes_open_locked(self)       # accept nothing from now on, because the timer is closed
    while self.adding:
        lock_yield(self)
    lock_release(self)
    return first


cdef void timer_stop(Timer* self, bint drain) noexcept nogil:
    """Tell the threads to end: now, or with `drain` once `ready` is empty."""
    lock_wait(self)
    if drain:
        self.draining = True
    else:
        hw_set_flag(&self.stopping)
    hw_cond_broadcast(&self.work)
    timer_wake_reaper_locked(self)
    timer_close_waker_if_over_locked(self)
    lock_release(self)
