# A TimerTask into a timer: it belongs to the first one for ever, and is linked under that one's lock.


cdef inline void task_own(TimerTask self, Timer* timer) noexcept:
    """Makes the timer the owner of a task that nobody else has seen yet."""
    hw_count_add(&timer.references, 1)      # dropped in __dealloc__
    self.task.entry.place = ENTRY_OF_TASK
    self.task.owner = <uintptr_t>timer
    debug_count(LIVE_TASKS, 1)


cdef bint task_claim(TimerTask self, Timer* timer) except -1:
    """Makes the timer the owner of any task. True if it was not before."""
    cdef uintptr_t owner
    if task_has_attributes(self) and not self.task.flags & TASK_OWN_RUN and type(self).run is not TimerTask.run:
        self.task.flags |= TASK_OWN_RUN
    pthread_mutex_lock(&orphans)
    owner = hw_load(&self.task.owner)
    if owner == 0:
        task_own(self, timer)
    pthread_mutex_unlock(&orphans)
    if owner and owner != <uintptr_t>timer:
        raise ValueError("the task belongs to another timer")
    return owner == 0


cdef void task_disown(TimerTask self, Timer* timer) noexcept:
    """Undoes task_claim after an add that was refused; unless another add of the same task, by another thread or by the
    clock, has come in between and was not."""
    cdef bint disowned = False
    lock_with_gil(timer)
    pthread_mutex_lock(&orphans)
    if self.task.state == TASK_NEW:
        hw_store(&self.task.owner, 0)
        disowned = True
    pthread_mutex_unlock(&orphans)
    lock_release(timer)
    if disowned:
        debug_count(LIVE_TASKS, -1)
        timer_release(timer)


cdef inline WhenDue when_due(const Timer* timer, const Instant* delay) noexcept nogil:
    """What has to wait must not run just because a callable clock was set back behind the wheel's."""
    if timer.clock == CLOCK_KIND_CALLABLE and (delay.ms > 0 or (delay.ms == 0 and delay.ns > 0)):
        return ASK_WHEN_DUE
    return TAKE_DUE


cdef inline void heed_clock(Timer* timer, const Instant* now) noexcept:
    """After an add by this reading of the clock. The reaper waits for the real time that a callable clock was short of; if
    that was set forward meanwhile, by hand or because it had been set back for a moment, somebody has to tell it."""
    if timer.clock == CLOCK_KIND_CALLABLE:
        lock_with_gil(timer)
        if timer.reaper_until_ms <= now.ms:
            timer_wake_reaper_locked(timer)
        lock_release(timer)


cdef Status schedule_task(Timer* timer, TimerTask self, int64_t expiration_ms, WhenDue when_due) except STATUS_ERROR:
    """Links a task that the timer owns. Raises where there is no room; else OK, WAS_DUE or WAS_CANCELLED."""
    task_untrack(self)
    return link_task(timer, self, expiration_ms, when_due)


cdef inline Status link_task(Timer* timer, TimerTask self, int64_t expiration_ms, WhenDue when_due) except STATUS_ERROR:
    """schedule_task for a task that the garbage collector does not look at."""
    cdef Status status = TRY_AGAIN
    Py_INCREF(self)                     # the wheel's; dropped by who takes the task out, or by link_task_or_fail
    if lock_try(timer):
        status = task_add_locked(timer, &self.task, expiration_ms, when_due)
        lock_release(timer)
        if status == OK:
            return OK
    return link_task_or_fail(timer, self, expiration_ms, when_due, status)


cdef Status link_task_or_fail(Timer* timer, TimerTask self, int64_t expiration_ms, WhenDue when_due,
                              Status status) except STATUS_ERROR:
    """The rest of link_task, after a try that gave this status."""
    try:
        while status == TRY_AGAIN or make_room(timer, self, status, &when_due):
            with nogil:
                lock_wait(timer)
                status = task_add_locked(timer, &self.task, expiration_ms, when_due)
                lock_release(timer)
        if status == OK:
            return OK
        if status != WAS_DUE and status != WAS_CANCELLED:
            raise_status(timer, status)
    except:
        task_track(self)
        Py_DECREF(self)
        raise
    task_track(self)
    Py_DECREF(self)
    return status


cdef bint reschedule_task(Timer* timer, TimerTask self, int64_t delay_ms) except -1:
    """Moves a pending task; False if it is not pending."""
    cdef Status status
    cdef int64_t deadline_ms, expiration_ms
    cdef Instant now
    cdef Instant delay = Instant(delay_ms, 0)
    cdef WhenDue due = when_due(timer, &delay)
    read_clock(timer, &now)
    if not timer_due(timer, &now, &delay, &deadline_ms, &expiration_ms):
        raise OverflowError(f"the deadline does not fit into 64 bits of milliseconds: now + {delay_ms} ms")
    while True:
        if lock_try(timer):
            status = task_reschedule_locked(timer, &self.task, expiration_ms, delay_ms, deadline_ms, due)
            lock_release(timer)
        else:
            with nogil:
                lock_wait(timer)
                status = task_reschedule_locked(timer, &self.task, expiration_ms, delay_ms, deadline_ms, due)
                lock_release(timer)
        if not make_room(timer, self, status, &due):
            heed_clock(timer, &now)
            return status == OK


cdef bint make_room(Timer* timer, TimerTask self, Status status, WhenDue* when_due) except -1:
    """After NEEDS_LEVEL, NOT_YET or DISOWNED: does what is missing, and True: try again."""
    cdef bint have_memory = True
    cdef Instant now
    if status == NOT_YET:
        read_clock(timer, &now)
        when_due[0] = TAKE_DUE          # what is due by this reading is due
        with nogil:
            have_memory = timer_set_back(timer, now.ms)
    elif status == NEEDS_LEVEL:
        with nogil:
            have_memory = timer_grow(timer)
    elif status == DISOWNED:
        task_claim(self, timer)
    else:
        return False
    if not have_memory:
        raise MemoryError
    return True


cdef int raise_status(Timer* timer, Status status) except -1:
    """The one place where a status becomes an exception; the lock is free by now."""
    if status == CLOSED:
        raise TimerClosed("the timer is closed")
    if status == FULL:
        raise TimerFull(f"the timer holds max_pending={timer.max_pending} timers already")
    if status == WAS_PENDING:
        raise ValueError("the task is pending already")
    if status == SPENT:
        raise ValueError("the task has expired and its callback is gone; make a new one")
    raise MemoryError
