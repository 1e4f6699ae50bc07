# A TimerTask into the wheel and out of it, under its timer's lock.
#
# References. A pending task is held by the wheel: INCREF in task_schedule, DECREF by whoever takes it out of the wheel
# (task_cancel, who calls timer_take_next, timer_return_ready). The wheel is held by no task; a task holds a reference to the Timer struct.


cdef bint timer_make_room(Timer* timer, TimerTask self, Status status, WhenDue* when_due) except -1:
    """After NEEDS_LEVEL, NOT_YET or DISOWNED: does what is missing, and True: try again."""
    cdef bint have_memory = True
    cdef Instant now
    if status == NOT_YET:
        timer_read_clock(timer, &now)
        timer_heed_clock(timer, &now)
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


cdef Status task_schedule(Timer* timer, TimerTask self, int64_t expiration_ms, WhenDue when_due) except STATUS_ERROR:
    """Links a task that the timer owns. Raises where there is no room; else OK, WAS_DUE or WAS_CANCELLED."""
    task_untrack(self)
    if task_flags(&self.task) & TASK_MEMBER:
        return task_link_member(timer, self, expiration_ms, when_due)
    return task_link(timer, self, expiration_ms, when_due)


cdef inline Status task_link(Timer* timer, TimerTask self, int64_t expiration_ms, WhenDue when_due,
                             int64_t added_ns=0) except STATUS_ERROR:
    """task_schedule for a task that the garbage collector does not look at.

    added_ns: what the clock said, for a task that nobody else has seen yet and that may wait in an inbox; 0: it may not.
    """
    cdef Status status = TRY_AGAIN
    Py_INCREF(self)                     # the wheel's; dropped by who takes the task out, or by task_link_or_fail
    if HW_INBOXES and added_ns and inbox_add(timer, &self.task, expiration_ms, added_ns):
        return OK
    if lock_try(timer):
        status = task_add_locked(timer, &self.task, expiration_ms, when_due)
        lock_release(timer)
        if status == OK:
            return OK
    return task_link_or_fail(timer, self, expiration_ms, when_due, status)


cdef inline Status task_link_member(Timer* timer, TimerTask self, int64_t expiration_ms, WhenDue when_due) except STATUS_ERROR:
    """task_link for a task that a group has made."""
    cdef Status status = TRY_AGAIN
    Py_INCREF(self)                     # as in task_link
    if lock_try(timer):
        status = task_add_member_locked(timer, &self.task, expiration_ms, when_due)
        lock_release(timer)
        if status == OK:
            return OK
    return task_link_or_fail(timer, self, expiration_ms, when_due, status)


cdef Status task_link_or_fail(Timer* timer, TimerTask self, int64_t expiration_ms, WhenDue when_due,
                              Status status) except STATUS_ERROR:
    """The rest of task_link, after a try that gave this status."""
    try:
        while status == TRY_AGAIN or timer_make_room(timer, self, status, &when_due):
            with nogil:
                lock_wait(timer)
                status = task_enter_locked(timer, &self.task, expiration_ms, when_due)
                lock_release(timer)
                if HW_INBOXES and inboxes_wanted(timer):
                    inboxes_make(timer)
        if status == OK:
            return OK
        if status != WAS_DUE and status != WAS_CANCELLED:
            status_raise(timer, status)
    except:
        task_track(self)
        Py_DECREF(self)
        raise
    task_track(self)
    Py_DECREF(self)
    return status


cdef inline bint timer_due_or_raise(Timer* timer, const Instant* now, const Instant* delay, int64_t* deadline_ms_out,
                                    int64_t* expiration_ms_out) except False:
    if not timer_due(timer, now, delay, deadline_ms_out, expiration_ms_out):
        raise OverflowError(f"the deadline does not fit into 64 bits of milliseconds: now + {delay.ms} ms")
    return True


cdef bint task_reschedule(Timer* timer, TimerTask self, Instant* delay) except -1:
    """Moves a pending task; False if it is not pending."""
    cdef int64_t deadline_ms, expiration_ms
    cdef int64_t delay_ms = delay.ms + (1 if delay.ns else 0)
    cdef Instant now
    cdef WhenDue due = timer_when_due(timer, delay)
    timer_read_clock(timer, &now)
    if timer.clock == CLOCK_KIND_WHEEL:         # which knows whole milliseconds only
        delay[0] = Instant(delay_ms, 0)
    timer_due_or_raise(timer, &now, delay, &deadline_ms, &expiration_ms)
    return task_move(timer, self, &now, expiration_ms, delay_ms, deadline_ms, due)


cdef inline bint task_move(Timer* timer, TimerTask self, const Instant* now, int64_t expiration_ms, int64_t delay_ms,
                           int64_t deadline_ms, WhenDue due) except -1:
    """The second half of task_reschedule, when all times are known."""
    cdef Status status
    while True:
        if lock_try(timer):
            status = task_reschedule_locked(timer, &self.task, expiration_ms, delay_ms, deadline_ms, due)
            lock_release(timer)
        else:
            with nogil:
                lock_wait(timer)
                status = task_reschedule_locked(timer, &self.task, expiration_ms, delay_ms, deadline_ms, due)
                lock_release(timer)
        if not timer_make_room(timer, self, status, &due):
            timer_heed_clock(timer, now)
            return status == OK


cdef bint task_cancel(TimerTask self) except -1:
    """TimerTask.cancel."""
    cdef Timer* timer = <Timer*>hw_load(&self.task.owner)
    cdef Status status = NOT_PENDING
    if timer is NULL:
        hw_mutex_lock(&orphans)
        timer = <Timer*>hw_load(&self.task.owner)
        if timer is NULL and task_state(&self.task) == TASK_NEW:
            hw_poke(&self.task.state, TASK_CANCELLED)
            status = WAS_CANCELLED
        hw_mutex_unlock(&orphans)
    if timer is not NULL:
        # Three cache misses that need not wait for one another, nor for the lock.
        hw_prefetch_link(&self.task.entry.prev)
        hw_prefetch_link(&self.task.entry.next)
        hw_prefetch(task_slots(<PyObject*>self))
        if HW_INBOXES and inbox_cancel(timer, &self.task):
            status = OK
        elif lock_try(timer):
            status = task_cancel_locked(timer, &self.task)
            lock_release(timer)
        else:
            with nogil:
                lock_wait(timer)
                status = task_cancel_locked(timer, &self.task)
                lock_release(timer)
    if status == NOT_PENDING:
        return False
    task_drop_call(self)
    if status == OK:
        Py_DECREF(self)             # the wheel's reference, of task_schedule
    return True
