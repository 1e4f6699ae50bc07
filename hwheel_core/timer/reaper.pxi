# The threads of a timer in plain C: which thread is the reaper and which the executor, and how they wait.
#
# A waiting thread sleeps until the earliest bucket, or until it is woken because an earlier one was added. There is no polling.
#
# Several threads may sleep at once (core_advance_clock). They share one waker. A wake-up is meant for all of them, so it stays
# until the last sleeper has returned. A thread that returns earlier waits for that before it sleeps again. No wake-up is lost:
# tools/schedules checks every schedule of sleepers, adds, cancels, and a stop.


# --- roles -------------------------------------------------------------------------------------------------------

# A thread takes its role when it begins to run, and only the first thread gets it. So an extra thread is harmless. There can be
# one if the first add is interrupted while it starts a thread, or if two threads make the first add at the same time.


cdef int64_t timer_take_role(Timer* self, int role) noexcept nogil:
    """Give a role to the calling thread and return the generation of the process. Return -1 if the role is not available."""
    cdef int64_t generation = -1
    lock_wait(self)
    if self.roles[role] != ROLE_TAKEN and not self.stopping:
        self.roles[role] = ROLE_TAKEN
        generation = self.generation
    lock_release(self)
    return generation


cdef void timer_leave_role(Timer* self, int role, int64_t generation) noexcept nogil:
    """Release the role of a thread that ends. If the timer still needs it, the next add starts another thread."""
    lock_wait(self)
    if self.generation == generation:
        self.roles[role] = ROLE_FREE
        hw_poke(&self.started, False)
    lock_release(self)


cdef bint timer_start_role(Timer* self, int role, uintptr_t me, bint wait, bint* ask_again_out) noexcept nogil:
    """Return True if the caller must start a thread for a role.

    With `wait`, set ask_again_out instead if another thread is starting one right now.
    """
    cdef bint start = False
    lock_wait(self)
    ask_again_out[0] = False
    if self.roles[role] == ROLE_STARTING and self.starters[role] != me and wait and not self.closed:
        ask_again_out[0] = True
    elif self.roles[role] != ROLE_TAKEN and not self.stopping:      # a thread of a stopping timer would end at once
        self.roles[role] = ROLE_STARTING
        self.starters[role] = me
        start = True
    lock_release(self)
    return start


cdef void timer_not_started(Timer* self, int role, uintptr_t me) noexcept nogil:
    """Record that starting a thread failed or was interrupted."""
    lock_wait(self)
    if self.roles[role] == ROLE_STARTING and self.starters[role] == me:
        self.roles[role] = ROLE_FREE
    lock_release(self)


# --- sleeping ----------------------------------------------------------------------------------------------------


cdef struct ReapWait:
    # The arguments of timer_reap.
    const Reading* reading  # of a callable clock; NULL: timer_reap reads the timer's clock
    int64_t limit_ns        # the longest wait; -1: unlimited
    Instant start           # of the wait, on the monotonic clock
    bint once
    void* interruption      # for hw_waker_sleep


cdef inline void timer_begin_sleep_locked(Timer* self, int64_t until_ms) noexcept nogil:
    self.sleepers += 1
    self.added_before_sleep = self.added
    self.reaper_until_ms = max(self.reaper_until_ms, until_ms)
    if HW_INBOXES:
        inboxes_open_locked(self)


cdef inline void timer_end_sleep_locked(Timer* self) noexcept nogil:
    """Clear the wake-up if this was the last sleeper: until then all sleepers must see it."""
    self.sleepers -= 1
    self.wakeups += 1
    if self.sleepers == 0:
        self.reaper_until_ms = INT64_MIN
        if self.woken:
            self.woken = False
            hw_waker_clear(&self.waker)
            hw_cond_broadcast(&self.all_awake)


cdef int64_t reap_left_ns(const ReapWait* wait) noexcept nogil:
    """Return the rest of the time limit, which may be negative."""
    cdef Instant now
    clock_read(CLOCK_KIND_MONOTONIC, &now)
    return wait.limit_ns - (now.ms - wait.start.ms) * NS_PER_MS - (now.ns - wait.start.ns)


cdef int64_t timer_sleep(Timer* self, const Instant* now, int64_t until_ms, int64_t left_ns,
                         void* interruption) noexcept nogil:
    """Sleep until a time or a wake-up, for at most left_ns (-1: unlimited). Return a negative number after a signal."""
    cdef int64_t timeout_ns = -1 if until_ms == INT64_MAX else instant_until_ns(now, until_ms)
    if left_ns >= 0 and (timeout_ns < 0 or left_ns < timeout_ns):
        timeout_ns = left_ns
    return hw_waker_sleep(&self.waker, timeout_ns, until_ms, interruption)


cdef ReapStatus timer_sleep_locked(Timer* self, const ReapWait* wait, Instant* now) noexcept nogil:
    """Release the lock and sleep until the next bucket.

    Return REAP_AGAIN or REAP_READ_CLOCK to look for due buckets again. Return REAP_NOTHING without a sleep if the time limit has
    passed, and REAP_SIGNAL after a signal.
    """
    cdef int64_t next_ms, woken, left_ns = -1
    if self.woken:              # until the last sleeper has returned, a sleep would end at once
        hw_cond_wait(&self.all_awake, &self.lock)
        lock_entered(self)
        return REAP_READ_CLOCK if wait.reading is not NULL else REAP_AGAIN
    if wait.limit_ns >= 0:
        left_ns = reap_left_ns(wait)
        if left_ns <= 0:
            return REAP_NOTHING
        if wait.reading is NULL:
            clock_read(self.clock, now)
    next_ms = timer_sleep_until_locked(self)
    if wait.reading is not NULL:
        if self.latest_reading.ms > wait.reading.now.ms:
            return REAP_READ_CLOCK      # another thread has read a later time since
        now[0] = wait.reading.shown     # a clock that went back has to catch up first
    timer_begin_sleep_locked(self, next_ms)
    lock_release(self)
    woken = timer_sleep(self, now, next_ms, left_ns, wait.interruption)
    lock_wait(self)
    timer_end_sleep_locked(self)
    if woken < 0 and wait.once:
        return REAP_SIGNAL
    return REAP_READ_CLOCK if wait.reading is not NULL else REAP_AGAIN


# --- reaping -----------------------------------------------------------------------------------------------------


cdef inline void timer_read_now_locked(Timer* self, Instant* now_out) noexcept nogil:
    """Read the clock, then empty the inboxes: a task that was added before this time may be due before those in the wheel."""
    clock_read(self.clock, now_out)
    lock_entered(self)


cdef ReapStatus timer_reap_due_locked(Timer* self, const ReapWait* wait, Instant* now) noexcept nogil:
    """Take the due buckets. Return REAP_NOTHING if there is nothing to do, so that the thread can sleep."""
    cdef bint is_due = timer_is_due_locked(self, now.ms)
    while is_due and not self.stopping and timer_step_locked(self, now.ms):
        lock_yield(self)
    if is_due and self.stopping:
        return REAP_STOPPED
    if not self.has_worker and not list_is_empty(&self.ready):
        return REAP_READY
    if self.draining:
        return REAP_STOPPED
    if is_due:
        return REAP_TAKEN if wait.once else REAP_AGAIN
    return REAP_NOTHING


cdef ReapStatus timer_reap_locked(Timer* self, const ReapWait* wait) noexcept nogil:
    cdef Instant now
    cdef ReapStatus status = REAP_AGAIN
    while status == REAP_AGAIN:
        if self.stopping:
            return REAP_STOPPED
        if wait.reading is NULL:
            timer_read_now_locked(self, &now)
        else:
            now = wait.reading.now
        status = timer_reap_due_locked(self, wait, &now)
        if status == REAP_NOTHING:
            status = timer_sleep_locked(self, wait, &now)
    return status


cdef bint timer_is_ready_at_once(Timer* self) noexcept nogil:
    """Return True if there are entries to dispatch now. Never wait: return False if the lock is taken."""
    cdef Instant now
    cdef bint ready = False
    if not lock_try(self):
        return False
    if not self.has_worker and not self.stopping:
        timer_read_now_locked(self, &now)
        if timer_is_due_locked(self, now.ms):
            timer_step_locked(self, now.ms)
        ready = not list_is_empty(&self.ready)
    lock_release(self)
    return ready


cdef ReapStatus timer_reap(Timer* self, const Reading* reading, int64_t limit_ns, bint once,
                           void* interruption) noexcept nogil:
    """Wait for due buckets and take them, until the caller has something to do.

    reading: of a callable clock; NULL: read the timer's own clock.
    limit_ns: the longest wait; -1: unlimited.
    once: return after the first bucket, even if another thread dispatches its entries.
    interruption: for hw_waker_sleep.
    """
    cdef ReapWait wait
    cdef ReapStatus status
    wait.reading = reading
    wait.limit_ns = limit_ns
    wait.once = once
    wait.interruption = interruption
    clock_read(CLOCK_KIND_MONOTONIC, &wait.start)
    lock_wait(self)
    self.reaping += 1
    status = timer_reap_locked(self, &wait)
    self.reaping -= 1
    if self.clock == CLOCK_KIND_BOOTTIME:
        timer_wake_reaper_locked(self)      # other sleepers must set the shared alarm again, for the bucket that is next now
    timer_close_waker_if_over_locked(self)
    lock_release(self)
    return status


cdef bint timer_await_work(Timer* self, int64_t generation) noexcept nogil:
    """Wait until `ready` is not empty; for the executor's own thread. Return False if the thread must end."""
    cdef bint go_on
    lock_wait(self)
    while list_is_empty(&self.ready) and not self.stopping and not self.draining and self.generation == generation:
        hw_cond_wait(&self.work, &self.lock)
    go_on = not self.stopping and not list_is_empty(&self.ready) and self.generation == generation
    lock_release(self)
    return go_on
