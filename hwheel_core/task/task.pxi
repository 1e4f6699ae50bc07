# A task under its Timer's lock: added, cancelled, moved, taken to be run.


cdef inline TaskState task_state(const Task* self) noexcept nogil:
    """For a look without the lock."""
    return <TaskState>hw_peek(&self.state)


cdef inline int32_t task_flags(const Task* self) noexcept nogil:
    """For a look outside of the task's critical section."""
    return hw_peek(&self.flags)


cdef inline void task_rest_locked(Timer* self, Task* task) noexcept nogil:
    """A task of call_every is handed out. It keeps its place under max_pending, to come back to."""
    list_append(&self.resting, &task.entry)
    self.resting_count += 1


cdef inline void task_rest_no_more_locked(Timer* self, Task* task) noexcept nogil:
    """For a task that is not pending."""
    if entry_is_linked(&task.entry):
        entry_unlink(&task.entry)
        self.resting_count -= 1


cdef Status task_add_locked(Timer* self, Task* task, int64_t expiration_ms, WhenDue when_due) noexcept nogil:
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
    """task_add_locked for a task that has expired; any other is refused."""
    cdef bint resting
    cdef Status status
    if task.state == TASK_CANCELLED:
        return WAS_CANCELLED
    if task.state == TASK_PENDING:
        return WAS_PENDING
    if task_flags(task) & TASK_HAD_CALLBACK and not task_flags(task) & (TASK_OWN_RUN | TASK_REPEATS):
        return SPENT
    resting = entry_is_linked(&task.entry)
    task_rest_no_more_locked(self, task)        # the place that it kept is its own
    hw_poke(&task.state, TASK_NEW)
    status = task_add_locked(self, task, expiration_ms, when_due)
    if task.state == TASK_NEW:
        hw_poke(&task.state, TASK_EXPIRED)
        if resting:
            task_rest_locked(self, task)
    return status


cdef Status task_add_member_locked(Timer* timer, Task* task, int64_t expiration_ms, WhenDue when_due) noexcept nogil:
    """task_add_locked for a task that a group has made: it is pending and a member, or neither. One of call_every that comes
    back from a run is a member still."""
    cdef Status status
    if task.state == TASK_NEW and task_member(task).group.closed:
        return GROUP_CLOSED
    status = task_add_locked(timer, task, expiration_ms, when_due)
    if status == OK:
        group_join_locked(task)
    return status


cdef inline Status task_enter_locked(Timer* timer, Task* task, int64_t expiration_ms, WhenDue when_due) noexcept nogil:
    """task_add_locked for any task."""
    if task_flags(task) & TASK_MEMBER:
        return task_add_member_locked(timer, task, expiration_ms, when_due)
    return task_add_locked(timer, task, expiration_ms, when_due)


cdef Status tasks_add(Timer* timer, Task** tasks, int64_t count, int64_t now_ms, int64_t last_ms, WhenDue when_due) noexcept nogil:
    """task_add_locked for new tasks, in their order, by the expiration_ms that each has. OK, or nothing is added: CLOSED, FULL,
    NOT_YET, or NEEDS_LEVEL when there is no memory for a level. last_ms: when the last of them falls due."""
    cdef Status status
    cdef int64_t i
    lock_wait(timer)
    status = timer_reach(timer, now_ms, last_ms, when_due)      # so that none of them is refused
    if timer.closed:
        status = CLOSED
    elif count > timer.max_pending - timer.pending - timer.resting_count:
        status = FULL
    if status == OK:
        for i in range(count):
            task_add_locked(timer, tasks[i], tasks[i].entry.expiration_ms, TAKE_DUE)
    lock_release(timer)
    return status


cdef Status task_cancel_locked(Timer* self, Task* task) noexcept nogil:
    """OK if this call is what keeps the task from running; the wheel's reference is then the caller's to drop."""
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
        task_rest_no_more_locked(self, task)
        if task_flags(task) & TASK_MEMBER:
            group_leave_locked(task)
        return WAS_CANCELLED
    return NOT_PENDING


cdef Status task_reschedule_locked(Timer* self, Task* task, int64_t expiration_ms, int64_t delay_ms,
                                   int64_t deadline_ms, WhenDue when_due) noexcept nogil:
    """Moves a pending task to the end of its new tick."""
    cdef Bucket* bucket
    cdef AddStatus status
    if task.state != TASK_PENDING:
        return NOT_PENDING
    status = wheel_reserve_bucket(&self.wheel, expiration_ms, &bucket)
    if status == ADD_NEEDS_LEVEL:
        return NEEDS_LEVEL
    if status == ADD_DUE and when_due == ASK_WHEN_DUE:
        return NOT_YET
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


# --- handing out -------------------------------------------------------------------------------------------------


cdef Entry* timer_take_locked(Timer* self, const Instant* now) noexcept nogil:
    """The next entry that is ready, unlinked: a task, expired by this, or a head of a batch. NULL when there is none.

    now: NULL when it is close() that takes it, to give it back.
    """
    cdef Entry* entry = self.ready.next
    cdef Batch* batch
    cdef Task* task
    if entry is &self.ready:
        return NULL
    if entry.place != ENTRY_OF_TASK:
        batch = entry_batch(entry)
        run_leave_ready(batch, &batch.due[entry.due_index])
        batch.holders += 1          # until batch_take
    else:
        wheel_remove(&self.wheel, entry)
        task = <Task*>entry
        hw_bump(&self.pending, -1)
        if now is NULL:
            hw_poke(&task.state, TASK_CANCELLED)
            self.returned += 1
            if task_flags(task) & TASK_MEMBER:
                group_leave_locked(task)
        else:
            hw_poke(&task.state, TASK_EXPIRED)
            self.expired += 1
            timer_record_locked(self, hw_peek64(&task.deadline_ms), now)
            # One look for all, because most tasks are none of these.
            if task_flags(task) & (TASK_REPEATS | TASK_MEMBER | TASK_ALARM):
                if task_flags(task) & TASK_REPEATS:
                    task_rest_locked(self, task)
                elif task_flags(task) & TASK_MEMBER:
                    group_leave_locked(task)
                else:
                    self.ringing += 1
    return entry


cdef inline void alarm_over_locked(Timer* self) noexcept nogil:
    """An alarm that was taken has run."""
    if self.ringing > 0:                # else it is one of before a fork
        self.ringing -= 1


cdef bint task_put_back_locked(Timer* self, Task* task) noexcept nogil:
    """Undoes timer_take_locked for a task that cannot be handed out after all: it is the next one again. False if somebody
    has cancelled or added it meanwhile."""
    if task.state != TASK_EXPIRED:
        return False
    task_rest_no_more_locked(self, task)
    hw_poke(&task.state, TASK_PENDING)
    hw_bump(&self.pending, 1)
    self.expired -= 1
    if task_flags(task) & TASK_ALARM:
        alarm_over_locked(self)
    list_push(&self.ready, &task.entry)
    if task_flags(task) & TASK_MEMBER:
        group_join_locked(task)
    return True
