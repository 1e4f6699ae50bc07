# Reads the input and runs its operations.


cdef void life_begin(Life* self, Tape* tape) noexcept nogil:
    cdef const int64_t* ticks_ms = [1, 1, 2, 7, 1000, 86400000]
    cdef const int32_t* sizes = [2, 3, 4, 5, 20, 64]
    cdef const int64_t* starts_ms = [0, 1, 1000, 1795176000123, <int64_t>1 << 62, INT64_MAX - 5000, INT64_MAX]
    cdef const int32_t* clocks = [CLOCK_KIND_MANUAL, CLOCK_KIND_CALLABLE, CLOCK_KIND_WHEEL, CLOCK_KIND_CALLABLE]
    cdef int64_t tick_ms = ticks_ms[tape_byte(tape) % 6], start_ms, reach_ms, odd
    cdef int32_t size = sizes[tape_byte(tape) % 6], clock
    cdef bint never_early
    cdef int i
    memset(self, 0, sizeof(Life))
    start_ms = starts_ms[tape_byte(tape) % 7]
    odd = tape_byte(tape)
    clock = clocks[odd & 3]
    never_early = (odd >> 2 & 1) and clock != CLOCK_KIND_WHEEL
    self.timer = timer_new(tick_ms, size, start_ms, clock, never_early)
    self.timer.has_worker = odd >> 3 & 1
    if odd >> 4 & 3 == 3:
        self.timer.max_pending = 30
    self.now = Instant(start_ms, 999999 if odd >> 6 == 3 and clock == CLOCK_KIND_CALLABLE else 0)
    self.is_complete = True
    model_begin(&self.model, tick_ms, never_early)
    reach_ms = 1
    for i in range(4):
        self.reaches_ms[i] = reach_ms
        if hw_mul_overflows(reach_ms, tick_ms if i == 0 else size, &reach_ms):
            reach_ms = INT64_MAX
    self.group.members.prev = self.group.members.next = &self.group.members
    self.group.references = 1
    for i in range(TASKS):
        life_task(self, i).owner = <uintptr_t>self.timer
        life_task(self, i).entry.place = ENTRY_OF_TASK
        life_task(self, i).flags = TASK_HAD_CALLBACK if i % 8 == 5 else TASK_OWN_RUN
        if clock == CLOCK_KIND_WHEEL:
            continue                    # a bare wheel has no groups and no periodic tasks
        if i % 4 == 0 or i % 8 == 1:
            life_task(self, i).flags |= TASK_REPEATS
        if i % 3 == 1:
            life_task(self, i).flags |= sizeof(Task) << TASK_MEMBER_SHIFT
            self.tasks[i].member.group = &self.group
            self.tasks[i].member.task_offset = sizeof(Task)
    for i in range(HOLDERS):
        self.holders[i].timer = NOBODY


cdef void life_do_rare(Life* self, Tape* tape, int64_t reach_ms) noexcept nogil:
    cdef int64_t what = tape_byte(tape) & 15
    if what < 6:
        life_add_tasks(self, tape, reach_ms)
    elif what < 8:
        life_cancel_all(self)
    elif what < 10:
        life_fork(self)
    elif what == 10:
        timer_close(self.timer, False)
    elif what == 11:
        life_measure(self)
    else:
        life_check_all(self)


cdef void life_do(Life* self, Tape* tape) noexcept nogil:
    cdef int64_t choice = tape_byte(tape)
    cdef int64_t what = choice & 15, odd = choice >> 6
    cdef int64_t reach_ms = self.reaches_ms[choice >> 4 & 3]
    if what <= 2:
        life_add_task(self, tape, reach_ms, odd)
    elif what <= 4:
        life_change_batch(self, 0, tape, reach_ms, odd)
    elif what == 5:
        life_cancel_task(self, tape)
    elif what == 6:
        life_move_task(self, tape, reach_ms)
    elif what == 7:
        life_change_batch(self, 1, tape, reach_ms, odd)
    elif what == 8:
        life_change_batch(self, 2, tape, reach_ms, odd)
    elif what == 9:
        life_advance(self, tape_ms(tape, reach_ms), odd)
    elif what == 10:
        life_step(self, tape_ms(tape, reach_ms))
    elif what == 11:
        life_hand_out(self, tape_byte(tape) & 7, False)
    elif what == 12:
        life_use_holder(self, tape, odd)
    elif what == 13 or what == 14:
        life_advance(self, tape_ms(tape, reach_ms), odd)
        life_hand_out(self, 0, False)
    else:
        life_do_rare(self, tape, reach_ms)


cdef void life_end(Life* self, bint returned) noexcept nogil:
    """Run all pending tasks, or return them as close() does."""
    cdef int i
    for i in range(HOLDERS):
        life_end_take(self, &self.holders[i], False)
    if returned:
        timer_close(self.timer, False)
    self.now.ms = INT64_MAX
    timer_advance(self.timer, INT64_MAX)
    life_heed_advance(self, True)
    life_hand_out(self, 0, returned)
    life_check(self)
    life_check_all(self)
    check_same("pending at the end", self.timer.pending, 0)
    check(self.timer.batches is NULL, "batches at the end", 1, 0)
    check(list_is_empty(&self.timer.wheel.due) and list_is_empty(&self.timer.wheel.flush), "entries at the end", 1, 0)
    timer_free(self.timer)
    for i in range(SLOTS):
        life_free_batch(self.batches[i])


cdef public int64_t life_run(const uint8_t* data, size_t size) noexcept nogil:
    """Run one input. Return the number of operations, with one for each timer of an added batch."""
    global life_operations
    cdef Life self
    cdef Tape tape = Tape(data, data + size)
    life_operations = 0
    life_begin(&self, &tape)
    while tape.next is not tape.end:
        life_operations += 1
        life_do(&self, &tape)
        life_check(&self)
    life_end(&self, size & 1)
    return life_operations
