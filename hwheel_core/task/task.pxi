# A task under its Timer's lock: added, cancelled, moved, taken to be run.


cdef inline TaskState task_state(const Task* self) noexcept nogil:
    """Return the state for a caller without the lock."""
    return <TaskState>hw_peek(&self.state)


cdef inline int32_t task_flags(const Task* self) noexcept nogil:
    """Return the flags for a caller outside of the task's critical section."""
    return hw_peek(&self.flags)


# --- resting -----------------------------------------------------------------------------------------------------


cdef inline void task_rest_locked(Timer* self, Task* task) noexcept nogil:
    """Keep the place of a task of call_every under max_pending while the task runs."""
    list_append(&self.resting, &task.entry)
    self.resting_count += 1


cdef inline void task_end_rest_locked(Timer* self, Task* task) noexcept nogil:
    """Undo task_rest_locked, if need be, for a task that is not pending."""
    if entry_is_linked(&task.entry):
        entry_unlink(&task.entry)
        self.resting_count -= 1


# --- adding ------------------------------------------------------------------------------------------------------


cdef Status task_add_locked(Timer* self, Task* task, int64_t expiration_ms, WhenDue when_due) noexcept nogil:
    """Add a task that is no member of a group."""
    cdef Status status
    if task.state != TASK_NEW:
        return task_add_again_locked(self, task, expiration_ms, when_due)
    if task.owner != <uintptr_t>self:
        return DISOWNED
    if self.closed and not (self.finishing and task_flags(task) & TASK_ALARM):
        return CLOSED
    if self.pending + self.resting_count >= self.max_pending and not task_flags(task) & TASK_ALARM:
        return FULL
    hw_poke64(&task.entry.expiration_ms, expiration_ms)
    status = timer_insert_locked(self, &task.entry, when_due)
    if status == OK:
        hw_poke(&task.state, TASK_PENDING)
        self.added += 1
        hw_bump(&self.pending, 1)
    elif status == WAS_DUE:
        hw_poke(&task.state, TASK_EXPIRED)
        self.added += 1
        self.expired += 1
    return status


cdef Status task_add_again_locked(Timer* self, Task* task, int64_t expiration_ms, WhenDue when_due) noexcept nogil:
    """Add a task that has expired. A task in any other state is refused."""
    cdef bint resting
    cdef Status status
    if task.state == TASK_CANCELLED:
        return WAS_CANCELLED
    if task.state == TASK_PENDING:
        return WAS_PENDING
    if task_flags(task) & TASK_HAD_CALLBACK and not task_flags(task) & (TASK_OWN_RUN | TASK_REPEATS):
        return SPENT
    resting = entry_is_linked(&task.entry)
    task_end_rest_locked(self, task)        # frees the place under max_pending for the task itself
    hw_poke(&task.state, TASK_NEW)
    status = task_add_locked(self, task, expiration_ms, when_due)
    if task.state == TASK_NEW:
        hw_poke(&task.state, TASK_EXPIRED)
        if resting:
            task_rest_locked(self, task)
    return status


cdef Status task_add_member_locked(Timer* timer, Task* task, int64_t expiration_ms, WhenDue when_due) noexcept nogil:
    """Add a task of a group. A task of call_every that comes back from a run is a member already."""
    cdef Status status
    if task.state == TASK_NEW and task_member(task).group.closed:
        return GROUP_CLOSED
    status = task_add_locked(timer, task, expiration_ms, when_due)
    if status == OK:
        group_join_locked(task)
    return status


cdef inline Status task_enter_locked(Timer* timer, Task* task, int64_t expiration_ms, WhenDue when_due) noexcept nogil:
    """Add any task."""
    if task_flags(task) & TASK_MEMBER:
        return task_add_member_locked(timer, task, expiration_ms, when_due)
    return task_add_locked(timer, task, expiration_ms, when_due)


cdef Status tasks_add(Timer* timer, Task** tasks, int64_t count, int64_t last_ms) noexcept nogil:
    """Add new tasks in order, each by its own entry.expiration_ms, at most last_ms: all of them, or none.

    Return OK, CLOSED, FULL, or NEEDS_LEVEL if there is no memory for a level.
    """
    cdef Status status
    cdef int64_t i
    lock_wait(timer)
    status = timer_admit(timer, count, last_ms)
    if status == OK:
        for i in range(count):
            task_add_locked(timer, tasks[i], tasks[i].entry.expiration_ms, TAKE_DUE)
    lock_release(timer)
    return status


# --- cancelling and moving ---------------------------------------------------------------------------------------


cdef Status task_cancel_locked(Timer* self, Task* task) noexcept nogil:
    """Cancel a task.

    Return OK if the task was pending: then the caller drops the wheel's reference. Return WAS_CANCELLED if the task was new, or
    a task of call_every that is running: it will not run (again). Return NOT_PENDING if it is too late.
    """
    if task.state == TASK_PENDING:
        wheel_remove(&self.wheel, &task.entry)
        hw_poke(&task.state, TASK_CANCELLED)
        hw_bump(&self.pending, -1)
        self.cancelled += 1
        if task_flags(task) & TASK_MEMBER:
            group_leave_locked(task)
        return OK
    if task.state == TASK_NEW or (task.state == TASK_EXPIRED and task_flags(task) & TASK_REPEATS):
        hw_poke(&task.state, TASK_CANCELLED)
        task_end_rest_locked(self, task)
        if task_flags(task) & TASK_MEMBER:
            group_leave_locked(task)
        return WAS_CANCELLED
    return NOT_PENDING


cdef Status task_reschedule_locked(Timer* self, Task* task, int64_t expiration_ms, int64_t delay_ms,
                                   int64_t deadline_ms) noexcept nogil:
    """Move a pending task to the end of its new tick."""
    cdef Bucket* bucket
    cdef AddStatus status
    if task.state != TASK_PENDING:
        return NOT_PENDING
    status = wheel_reserve_bucket(&self.wheel, expiration_ms, &bucket)
    if status == ADD_NEEDS_LEVEL:
        return NEEDS_LEVEL
    wheel_remove(&self.wheel, &task.entry)
    hw_poke64(&task.entry.expiration_ms, expiration_ms)
    hw_poke64(&task.delay_ms, delay_ms)
    hw_poke64(&task.deadline_ms, deadline_ms)
    if status == ADD_DUE:
        return timer_insert_locked(self, &task.entry, TAKE_DUE)
    bucket_append(bucket, &task.entry)
    if bucket.entries.expiration_ms < self.reaper_until_ms:
        timer_wake_reaper_locked(self)
    return OK


cdef inline Status task_move_locked(Timer* self, Task* task, const Deadline* deadline) noexcept nogil:
    """Move a pending task to a deadline that is set."""
    return task_reschedule_locked(self, task, deadline.expiration_ms, deadline_delay_ms(deadline), deadline.deadline_ms)


# --- handing out -------------------------------------------------------------------------------------------------


cdef inline void task_take_locked(Timer* self, Task* task, const Instant* now) noexcept nogil:
    """Take a ready task out of the wheel: expired, or cancelled if `now` is NULL."""
    wheel_remove(&self.wheel, &task.entry)
    hw_bump(&self.pending, -1)
    if now is NULL:
        hw_poke(&task.state, TASK_CANCELLED)
        self.returned += 1
        if task_flags(task) & TASK_MEMBER:
            group_leave_locked(task)
        return
    hw_poke(&task.state, TASK_EXPIRED)
    self.expired += 1
    timer_record_locked(self, hw_peek64(&task.deadline_ms), now)
    # One test for all three, because most tasks have none of the flags.
    if task_flags(task) & (TASK_REPEATS | TASK_MEMBER | TASK_ALARM):
        if task_flags(task) & TASK_REPEATS:
            task_rest_locked(self, task)
        elif task_flags(task) & TASK_MEMBER:
            group_leave_locked(task)
        else:
            self.alarms_running += 1


cdef Entry* timer_take_locked(Timer* self, const Instant* now) noexcept nogil:
    """Unlink and return the next ready entry, or NULL: a task, or the head of a batch, which batch_take continues.

    now: when it is handed out; NULL: close() takes it.
    """
    cdef Entry* entry = self.ready.next
    cdef Batch* batch
    if entry is &self.ready:
        return NULL
    if entry.place != ENTRY_OF_TASK:
        batch = entry_batch(entry)
        run_leave_ready(batch, &batch.due[entry.due_index])
        batch.holders += 1          # until batch_take
    else:
        task_take_locked(self, <Task*>entry, now)
    return entry


cdef inline void alarm_finished_locked(Timer* self) noexcept nogil:
    """Record that an alarm has run."""
    if self.alarms_running > 0:                # 0 if the alarm was taken before a fork
        self.alarms_running -= 1


cdef bint task_put_back_locked(Timer* self, Task* task) noexcept nogil:
    """Undo timer_take_locked: the task is first in Timer.ready again. Return False if it was cancelled or added since."""
    if task.state != TASK_EXPIRED:
        return False
    task_end_rest_locked(self, task)
    hw_poke(&task.state, TASK_PENDING)
    hw_bump(&self.pending, 1)
    self.expired -= 1
    if task_flags(task) & TASK_ALARM:
        alarm_finished_locked(self)
    list_push(&self.ready, &task.entry)
    if task_flags(task) & TASK_MEMBER:
        group_join_locked(task)
    return True
