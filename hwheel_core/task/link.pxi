# A TimerTask enters the wheel, moves in it, and leaves it.
#
# References. The wheel holds each pending task: INCREF when the task is linked, DECREF by the code that takes it out, such as
# task_cancel, timer_return_ready, and the callers of timer_take_next. A task never holds the wheel, only the Timer struct.


cdef bint timer_resolve(Timer* timer, TimerTask self, Status status) except -1:
    """Resolve NEEDS_LEVEL or DISOWNED. Return True if the caller must try again, False for any other status."""
    cdef bint have_memory = True
    if status == NEEDS_LEVEL:
        with nogil:
            have_memory = timer_grow(timer)
    elif status == DISOWNED:
        task_claim(self, timer)
    else:
        return False
    if not have_memory:
        raise MemoryError
    return True


# --- adding ------------------------------------------------------------------------------------------------------


cdef Status task_schedule(Timer* timer, TimerTask self, int64_t expiration_ms, WhenDue when_due) except STATUS_ERROR:
    """Link a task that the timer owns. Return OK, WAS_DUE or WAS_CANCELLED; raise if the timer refuses it."""
    task_untrack(self)
    if task_flags(&self.task) & TASK_MEMBER:
        return task_link_member(timer, self, expiration_ms, when_due)
    return task_link(timer, self, expiration_ms, when_due)


cdef inline Status task_link(Timer* timer, TimerTask self, int64_t expiration_ms, WhenDue when_due,
                             int64_t added_ns=0) except STATUS_ERROR:
    """Link an untracked task, as task_schedule does.

    added_ns: the reading of the clock, if no other thread has seen the task, so that it may wait in an inbox; else 0.
    """
    cdef Status status = TRY_AGAIN
    Py_INCREF(self)                     # the wheel's; dropped when the task is taken out, or by task_link_or_fail
    if HW_INBOXES and added_ns and inbox_add(timer, &self.task, expiration_ms, added_ns):
        return OK
    if lock_try(timer):
        status = task_add_locked(timer, &self.task, expiration_ms, when_due)
        lock_release(timer)
        if status == OK:
            return OK
    return task_link_or_fail(timer, self, expiration_ms, when_due, status)


cdef inline Status task_link_member(Timer* timer, TimerTask self, int64_t expiration_ms, WhenDue when_due) except STATUS_ERROR:
    """Link an untracked task of a group, as task_schedule does."""
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
    """Finish task_link after a first attempt with this status."""
    try:
        while status == TRY_AGAIN or timer_resolve(timer, self, status):
            with nogil:
                lock_wait(timer)
                status = task_enter_locked(timer, &self.task, expiration_ms, when_due)
                lock_release(timer)
                if HW_INBOXES and inboxes_wanted(timer):
                    inboxes_ensure(timer)
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


# --- moving ------------------------------------------------------------------------------------------------------


cdef bint task_reschedule(Timer* timer, TimerTask self, const Instant* delay) except -1:
    """Move a pending task. Return False if it is not pending."""
    cdef Deadline deadline
    deadline.delay = delay[0]
    timer_read_clock(timer, &deadline.now)
    if timer.clock == CLOCK_KIND_WHEEL:         # its time is in whole milliseconds
        deadline.delay = Instant(deadline_delay_ms(&deadline), 0)
    deadline_set_or_raise(&deadline, timer)
    return task_move(timer, self, &deadline)


cdef bint task_move(Timer* timer, TimerTask self, const Deadline* deadline) except -1:
    """Move a pending task to a deadline that is set. Return False if it is not pending."""
    cdef Status status
    while True:
        if lock_try(timer):
            status = task_move_locked(timer, &self.task, deadline)
            lock_release(timer)
        else:
            with nogil:
                lock_wait(timer)
                status = task_move_locked(timer, &self.task, deadline)
                lock_release(timer)
        if not timer_resolve(timer, self, status):
            return status == OK


# --- cancelling --------------------------------------------------------------------------------------------------


cdef Timer* task_cancel_new(TimerTask self, Status* status) noexcept:
    """Cancel a task that no timer owns. Return NULL, or the timer that owns it by now."""
    cdef Timer* timer
    hw_mutex_lock(&orphans)
    timer = <Timer*>hw_load(&self.task.owner)
    if timer is NULL and task_state(&self.task) == TASK_NEW:
        hw_poke(&self.task.state, TASK_CANCELLED)
        status[0] = WAS_CANCELLED
    hw_mutex_unlock(&orphans)
    return timer


cdef bint task_cancel(TimerTask self) except -1:
    """Implement TimerTask.cancel."""
    cdef Timer* timer = <Timer*>hw_load(&self.task.owner)
    cdef Status status = NOT_PENDING
    if timer is NULL:
        timer = task_cancel_new(self, &status)
    if timer is not NULL:
        # Three cache misses, which overlap with one another and with the wait for the lock.
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
        Py_DECREF(self)             # the wheel's reference
    return True
