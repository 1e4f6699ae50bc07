# Tasks: add, cancel, and reschedule, one at a time or many in one call.


cdef void life_task_entered(Life* self, int i) noexcept nogil:
    self.versions[i] += 1
    self.model.added += 1
    self.model.pending += 1
    self.model.resting -= self.is_resting[i]
    self.is_resting[i] = False


cdef Status life_expect_add(const Life* self, int i) noexcept nogil:
    """Return the status that an add of this task must have if its deadline is in the future."""
    cdef const Task* task = &self.tasks[i].task
    if task.state == TASK_PENDING:
        return WAS_PENDING
    if task.state == TASK_EXPIRED and task.flags & TASK_HAD_CALLBACK:
        return SPENT
    if self.timer.closed:
        return CLOSED
    if self.model.pending + self.model.resting - self.is_resting[i] >= self.timer.max_pending:
        return FULL
    return OK


cdef void life_add_task(Life* self, Tape* tape, int64_t reach_ms, int64_t odd) noexcept nogil:
    cdef int i = tape_byte(tape) % TASKS
    cdef Task* task = life_task(self, i)
    cdef Instant delay = Instant(tape_ms(tape, reach_ms), 0), slack = Instant(0, 0)
    cdef int64_t deadline_ms = 0, expiration_ms = 0, own_ms = 0
    cdef Deadline deadline
    cdef bint fits
    cdef Status status, should
    cdef WhenDue due = TAKE_DUE
    if odd == 1:
        slack.ms = tape_ms(tape, reach_ms)
    elif odd == 2:
        delay.ns = 1 + tape_byte(tape) * 3921
    elif odd == 3:
        delay.ms = -delay.ms
    if self.timer.clock == CLOCK_KIND_WHEEL and odd != 3:
        due = REFUSE_DUE
    deadline.now, deadline.delay = self.now, delay
    fits = deadline_set(&deadline, self.timer) and deadline_postpone(&deadline, self.timer, &slack)
    deadline_ms, expiration_ms = deadline.deadline_ms, deadline.expiration_ms
    check_same("whether a deadline fits into 64 bits", fits,
               model_tick(&self.model, self.now.ms, self.now.ns, delay.ms, delay.ns, slack.ms, &own_ms))
    if not fits:
        return
    check_same("tick of a task", wheel_tick(&self.timer.wheel, expiration_ms), own_ms)
    if task.state == TASK_CANCELLED:
        task.state = TASK_NEW           # reuse the memory for a new task
    should = life_expect_add(self, i)
    while True:
        lock_wait(self.timer)
        if should == OK and due == REFUSE_DUE and own_ms <= life_clock(self):
            should = WAS_DUE
        status = task_enter_locked(self.timer, task, expiration_ms, due)
        lock_release(self.timer)
        if not life_resolve(self, status):
            break
    check_same("status of an add", status, should)
    if status == OK:
        task.deadline_ms = deadline_ms
        life_task_entered(self, i)
        life_enter_again(self, i, own_ms)
    elif status == WAS_DUE:
        life_task_entered(self, i)
        self.model.pending -= 1
        self.model.expired += 1
    elif status == SPENT:
        task.state = TASK_NEW


cdef void life_enter_again(Life* self, int i, int64_t own_ms) noexcept nogil:
    """Add a task to the model, after the core has added it to the expired entries or to the wheel."""
    cdef const Entry* entry = &life_task(self, i).entry
    life_enter(self, i, own_ms)
    check_same("whether a task expires at once", self.timer.ready.prev is entry, self.model.timers[i].where == READY)


cdef void life_add_tasks(Life* self, Tape* tape, int64_t reach_ms) noexcept nogil:
    """Add up to eight new tasks by tasks_add."""
    cdef Task* chosen[8]
    cdef int64_t own_ms[8]
    cdef int64_t count = 0, n
    cdef Instant delay
    cdef Deadline deadline
    cdef int i = tape_byte(tape) % TASKS, k
    cdef int64_t last_ms = self.now.ms
    cdef Status status, should
    for k in range(8):
        i = (i + 1) % TASKS
        delay = Instant(tape_ms(tape, reach_ms), 0)
        if life_task(self, i).state == TASK_CANCELLED:
            life_task(self, i).state = TASK_NEW
        if life_task(self, i).state != TASK_NEW or life_task(self, i).flags & TASK_MEMBER:
            continue
        deadline.now, deadline.delay = self.now, delay
        if not deadline_set(&deadline, self.timer):
            continue
        life_task(self, i).entry.expiration_ms = deadline.expiration_ms
        model_tick(&self.model, self.now.ms, self.now.ns, delay.ms, 0, 0, &own_ms[count])
        life_task(self, i).deadline_ms = deadline.deadline_ms
        last_ms = max(last_ms, life_task(self, i).entry.expiration_ms)
        chosen[count] = life_task(self, i)
        count += 1
    should = OK
    if self.timer.closed:
        should = CLOSED
    elif count > self.timer.max_pending - self.model.pending - self.model.resting:
        should = FULL
    status = tasks_add(self.timer, chosen, count, last_ms)
    check_same("status of an add of many", status, should)
    if status == OK:
        for n in range(count):
            i = life_timer_of(self, &chosen[n].entry)
            life_task_entered(self, i)
            life_enter(self, i, own_ms[n])


cdef void life_cancel_task(Life* self, Tape* tape) noexcept nogil:
    cdef int i = tape_byte(tape) % TASKS
    cdef Task* task = life_task(self, i)
    cdef Status status, should = NOT_PENDING
    if self.model.timers[i].where:
        should = OK
        model_leave(&self.model, i)
        self.model.pending -= 1
        self.model.cancelled += 1
    elif task.state == TASK_NEW or (task.state == TASK_EXPIRED and task.flags & TASK_REPEATS):
        should = WAS_CANCELLED
        self.model.resting -= self.is_resting[i]
        self.is_resting[i] = False
    lock_wait(self.timer)
    status = task_cancel_locked(self.timer, task)
    lock_release(self.timer)
    check_same("status of a cancel", status, should)


cdef void life_move_task(Life* self, Tape* tape, int64_t reach_ms) noexcept nogil:
    cdef int i = tape_byte(tape) % TASKS
    cdef Instant delay = Instant(tape_ms(tape, reach_ms), 0)
    cdef int64_t own_ms = 0
    cdef Deadline deadline
    cdef Status status
    deadline.now, deadline.delay = self.now, delay
    if not deadline_set(&deadline, self.timer):
        return
    model_tick(&self.model, self.now.ms, self.now.ns, delay.ms, 0, 0, &own_ms)
    while True:
        lock_wait(self.timer)
        status = task_move_locked(self.timer, life_task(self, i), &deadline)
        lock_release(self.timer)
        if not life_resolve(self, status):
            break
    check_same("status of a reschedule", status, OK if self.model.timers[i].where else NOT_PENDING)
    if status == OK:
        model_leave(&self.model, i)
        life_enter_again(self, i, own_ms)
