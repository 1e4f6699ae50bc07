# The wait for what falls due next: the reaper's, and that of the executor's own thread. No polling: they sleep until the
# earliest bucket, or until they are woken because an earlier one came in.
#
# Several threads may sleep at once (advance_clock). All of them poll the same descriptor, and a wake-up is for all of
# them: it stays readable until the last one is back, because who reads it would hide it from the others.

cdef enum ReapStatus:
    REAP_READY              # something waits in ready for this thread to hand it out
    REAP_TAKEN              # buckets were taken; the executor's own thread has what fell due
    REAP_NOTHING            # give_up_ns is over
    REAP_STOPPED
    REAP_SIGNAL             # the wait was interrupted: check for signals
    REAP_LOOK               # woken up: read the clock, which only Python code can, and come again


cdef bint timer_open_fds(Timer* self) noexcept nogil:
    if self.wake_fds[0] < 0 and hw_wake_open(self.wake_fds) < 0:
        return False
    if self.clock == CLOCK_KIND_BOOTTIME and self.alarm_fd < 0:
        self.alarm_fd = hw_alarm_open()
        return self.alarm_fd >= 0
    return True


cdef void timer_close_fds(Timer* self) noexcept nogil:
    hw_wake_close(self.wake_fds)
    if self.alarm_fd >= 0:
        close_fd(self.alarm_fd)
        self.alarm_fd = -1


cdef int64_t timer_sleep(Timer* self, const Instant* now, int64_t until_ms, int64_t give_up_ns) noexcept nogil:
    """Sleeps until a time, a wake-up, or at most give_up_ns (-1: no such limit). Negative: a signal came."""
    cdef int64_t timeout_ns = -1 if until_ms == INT64_MAX else instant_until_ns(now, until_ms)
    cdef int woken
    if self.alarm_fd >= 0 and until_ms != INT64_MAX:
        hw_alarm_set(self.alarm_fd, until_ms)       # this one also runs out while the machine sleeps
    if give_up_ns >= 0 and (timeout_ns < 0 or give_up_ns < timeout_ns):
        timeout_ns = give_up_ns
    woken = hw_poll(self.wake_fds[0], self.alarm_fd, timeout_ns)
    if woken > 0 and self.alarm_fd >= 0:
        hw_wake_drain(self.alarm_fd)
    return woken


cdef inline void timer_lie_down_locked(Timer* self, int64_t until_ms) noexcept nogil:
    self.sleepers += 1
    self.reaper_until_ms = max(self.reaper_until_ms, until_ms)


cdef inline void timer_get_up_locked(Timer* self) noexcept nogil:
    """The last one to come back from a sleep takes the wake-up away: until then it is there for all of them to see."""
    self.sleepers -= 1
    self.wakeups += 1
    if self.sleepers == 0:
        self.reaper_until_ms = INT64_MIN
        if self.woken:
            self.woken = False
            hw_wake_drain(self.wake_fds[0])


cdef ReapStatus timer_reap_locked(Timer* self, const Instant* other_now, int64_t give_up_ns, bint once) noexcept nogil:
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
        if not timer_next_locked(self, &next_ms):
            next_ms = INT64_MAX         # as good as never
            taken = False
        else:
            taken = next_ms <= now.ms
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
        timer_lie_down_locked(self, next_ms)
        lock_release(self)
        woken = timer_sleep(self, &now, next_ms, left_ns)
        lock_wait(self)
        timer_get_up_locked(self)
        if woken < 0 and once:
            return REAP_SIGNAL
        if other_now is not NULL:
            return REAP_LOOK


cdef bint timer_is_ready_at_once(Timer* self) noexcept nogil:
    """Whether there is something to hand out without any wait, also for the lock."""
    cdef Instant now
    cdef int64_t next_ms
    cdef bint ready = False
    if pthread_mutex_trylock(&self.lock) != 0:
        return False
    if not self.has_worker and not self.stopping:
        clock_read(self.clock, &now)
        if timer_next_locked(self, &next_ms) and next_ms <= now.ms:
            timer_step_locked(self, now.ms)
        ready = not list_is_empty(&self.ready)
    lock_release(self)
    return ready


cdef ReapStatus timer_reap(Timer* self, const Instant* other_now, int64_t give_up_ns, bint once) noexcept nogil:
    """Waits for the next due bucket and cascades, over and over, until the caller is needed.

    other_now: the time on a clock that cannot be read from here; NULL: the timer's own clock. once: return after the
    first cascade even if somebody else hands out what fell due.
    """
    cdef ReapStatus status
    lock_wait(self)
    self.reaping += 1
    status = timer_reap_locked(self, other_now, give_up_ns, once)
    self.reaping -= 1
    if self.alarm_fd >= 0:
        timer_wake_reaper_locked(self)      # whoever sleeps on sets the alarm, which all share, for what is next now
    timer_close_fds_if_over_locked(self)
    lock_release(self)
    return status


cdef void timer_close_fds_if_over_locked(Timer* self) noexcept nogil:
    """Whoever is the last to need the descriptors closes them: a thread that waits on them, or who stops the timer."""
    if self.stopping and self.reaping == 0:
        timer_close_fds(self)


cdef bint timer_await_work(Timer* self, int64_t generation) noexcept nogil:
    """For the executor's own thread: waits until something is ready. False when it shall end."""
    cdef bint go_on
    lock_wait(self)
    while list_is_empty(&self.ready) and not self.stopping and not self.draining and self.generation == generation:
        pthread_cond_wait(&self.work, &self.lock)
    go_on = not self.stopping and not list_is_empty(&self.ready) and self.generation == generation
    lock_release(self)
    return go_on


# --- the threads -------------------------------------------------------------------------------------------------
#
# A thread takes its role when it begins to run, and the first one gets it: then it does no harm if one is started too
# many, because an add was interrupted while it started one, or because two adds were first at once.

cdef int64_t timer_take_role(Timer* self, int role) noexcept nogil:
    """The generation of the process, for the thread that has the role now; -1 if it is another's or the timer stops.

    Without descriptors nothing could wake it: a signal handler has forked after they were opened, and before the thread was
    started, in the child. There the add under way begins anew, and starts another.
    """
    cdef int64_t generation = -1
    lock_wait(self)
    if self.roles[role] != ROLE_TAKEN and not self.stopping and self.wake_fds[0] >= 0:
        self.roles[role] = ROLE_TAKEN
        generation = self.generation
    lock_release(self)
    return generation


cdef void timer_leave_role(Timer* self, int role, int64_t generation) noexcept nogil:
    """A thread ends. If that was an accident, the next add starts another."""
    lock_wait(self)
    if self.generation == generation:
        self.roles[role] = ROLE_FREE
        self.started = False
    lock_release(self)


cdef bint timer_start_role(Timer* self, int role, uintptr_t me, bint wait, bint* ask_again_out) noexcept nogil:
    """Whether the caller is to start a thread for the role. wait: not if another thread is just doing that."""
    cdef bint start = False
    lock_wait(self)
    ask_again_out[0] = False
    if self.roles[role] == ROLE_STARTING and self.starters[role] != me and wait and not self.closed:
        ask_again_out[0] = True
    elif self.roles[role] != ROLE_TAKEN:
        self.roles[role] = ROLE_STARTING
        self.starters[role] = me
        start = True
    lock_release(self)
    return start


cdef void timer_not_started(Timer* self, int role, uintptr_t me) noexcept nogil:
    """Starting a thread failed, or was interrupted."""
    lock_wait(self)
    if self.roles[role] == ROLE_STARTING and self.starters[role] == me:
        self.roles[role] = ROLE_FREE
    lock_release(self)
