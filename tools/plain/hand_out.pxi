# Expired entries are taken, put back, and returned by close(). Holders take them in two steps.


cdef void life_hold_run(Life* self, const Entry* head) noexcept nogil:
    """Mark the run of a taken head as held. The core says where the run ends. life_end_take checks the order."""
    cdef const Batch* batch = entry_batch(head)
    cdef int64_t at = head.due_index
    cdef int first = TASKS + batch_slot(batch) * LONGEST
    model_hold(&self.model, first + head.place)
    for at in range(at + 1, batch.due_end):
        if batch.due[at].is_head:
            break
        if batch.due[at].index != DUE_CANCELLED:
            model_hold(&self.model, first + batch.due[at].index)


cdef bint life_begin_take(Life* self, Holder* holder, bint returned) noexcept nogil:
    """Take the next expired entry. Return False if no entry has expired."""
    cdef Timer* timer = self.timer
    cdef Entry* entry
    cdef Batch* batch
    cdef int i
    lock_wait(timer)
    entry = timer_take_locked(timer, NULL if returned else &self.now)
    lock_release(timer)
    i = model_next(&self.model)
    check_same("entry that is taken", NOBODY if entry is NULL else life_timer_of(self, entry), i)
    if entry is NULL:
        return False
    holder.timer = i
    if i >= TASKS:
        batch = entry_batch(entry)
        life_hold_run(self, entry)
        holder.limit = batch.due_end - batch.due_begin
        return True
    holder.version = self.versions[i]
    model_leave(&self.model, i)
    self.model.pending -= 1
    if returned:
        self.model.returned += 1
        check_same("state of a returned task", life_task(self, i).state, TASK_CANCELLED)
    else:
        self.model.expired += 1
        check_same("state of a taken task", life_task(self, i).state, TASK_EXPIRED)
        self.is_resting[i] = life_task(self, i).flags & TASK_REPEATS != 0
        self.model.resting += self.is_resting[i]
    return True


cdef void life_end_take(Life* self, Holder* holder, bint returned) noexcept nogil:
    """Take the expired timers, if the holder has a batch."""
    cdef int64_t indices[64]
    cdef int timers[24]                 # LONGEST
    cdef int slot, count, i
    cdef int64_t taken
    cdef BatchRelease release = BatchRelease(NULL, False)
    if holder.timer >= TASKS:
        slot = (holder.timer - TASKS) // LONGEST
        count = <int>min(model_of_slot(&self.model, slot, timers), holder.limit)
        taken = batch_take(self.batches[slot], indices, min(holder.limit, 64), NULL if returned else &self.now, &release)
        check_same("taken timers of a batch", taken, count)
        for i in range(count):
            check_same("timer that is taken of a batch", TASKS + slot * LONGEST + indices[i], timers[i])
            model_leave(&self.model, timers[i])
        self.model.pending -= count
        if returned:
            self.model.returned += count
            lock_wait(self.timer)
            batch_returned_locked(self.batches[slot], &release)
            lock_release(self.timer)
        else:
            self.model.expired += count
        holder.timer = NOBODY
        life_batch_ended(self, slot, &release)
    holder.timer = NOBODY


cdef void life_put_back_task(Life* self, Holder* holder) noexcept nogil:
    cdef int i = holder.timer
    cdef Task* task = life_task(self, i)
    cdef bint is_back, should = task.state == TASK_EXPIRED
    if should and self.versions[i] != holder.version:
        return                          # the task was added and taken again in the meantime
    lock_wait(self.timer)
    is_back = task_put_back_locked(self.timer, task)
    lock_release(self.timer)
    check_same("whether a task is put back", is_back, should)
    if is_back:
        self.model.resting -= self.is_resting[i]
        self.is_resting[i] = False
        self.model.pending += 1
        self.model.expired -= 1
        model_put_back(&self.model, i)


cdef void life_put_back(Life* self, Holder* holder) noexcept nogil:
    cdef int slot
    cdef BatchRelease release = BatchRelease(NULL, False)
    if holder.timer >= TASKS:
        slot = (holder.timer - TASKS) // LONGEST
        lock_wait(self.timer)
        batch_put_back_locked(self.batches[slot], &release)
        lock_release(self.timer)
        model_let_go(&self.model, slot)
        holder.timer = NOBODY
        life_batch_ended(self, slot, &release)
    elif holder.timer != NOBODY:
        life_put_back_task(self, holder)
    holder.timer = NOBODY


cdef void life_hand_out(Life* self, int64_t most, bint returned) noexcept nogil:
    """Take and finish at most `most` expired entries; 0: all."""
    cdef Holder holder
    holder.timer = NOBODY
    while life_begin_take(self, &holder, returned):
        life_end_take(self, &holder, returned)
        most -= 1
        if most == 0:
            break


cdef void life_use_holder(Life* self, Tape* tape, int64_t odd) noexcept nogil:
    """Let a holder take the next expired entry, or finish or put back the one that it has."""
    cdef Holder* holder = &self.holders[tape_byte(tape) % HOLDERS]
    if holder.timer == NOBODY:
        life_begin_take(self, holder, False)
    elif odd == 0:
        life_put_back(self, holder)
    else:
        life_end_take(self, holder, False)


# --- rare operations ---------------------------------------------------------------------------------------------


cdef void life_cancel_all(Life* self) noexcept nogil:
    """Cancel all timers, like timer_cancel_all."""
    cdef int64_t returned = self.timer.returned
    timer_make_all_ready(self.timer)
    model_advance(&self.model, INT64_MAX)
    self.is_complete = True
    life_hand_out(self, 0, True)
    self.timer.cancelled += self.timer.returned - returned
    self.timer.returned = returned
    self.model.cancelled += self.model.returned - returned
    self.model.returned = returned


cdef void life_fork(Life* self) noexcept nogil:
    """Continue as the child of a fork: the holders and their entries are gone."""
    cdef Batch* batch
    cdef Batch* following
    cdef BatchRelease release
    cdef int i
    before_fork()
    batch = self.timer.batches
    after_fork_in_child()
    for i in range(HOLDERS):
        self.holders[i].timer = NOBODY
    while batch is not NULL:
        model_let_go(&self.model, batch_slot(batch))
        batch = batch.next
    batch = self.timer.batches          # like timer_finish_batches
    while batch is not NULL:
        following = batch.next
        release = BatchRelease(NULL, False)
        i = batch_slot(batch)
        lock_wait(self.timer)
        batch_finish_locked(batch, &release)
        lock_release(self.timer)
        life_batch_ended(self, i, &release)
        batch = following


cdef void life_measure(Life* self) noexcept nogil:
    """Compare the number of entries in the buckets with the model."""
    cdef Occupancy* occupancy = <Occupancy*>PyMem_RawCalloc(1, sizeof(Occupancy))
    cdef int64_t count = 0, i
    occupancy.columns = 8
    occupancy.level_count = self.timer.wheel.level_count
    occupancy.counts = <int64_t*>PyMem_RawCalloc(<size_t>occupancy.level_count * 8, sizeof(int64_t))
    timer_measure_occupancy(self.timer, occupancy)
    for i in range(occupancy.level_count * 8):
        count += occupancy.counts[i]
    if self.is_complete:
        check_same("entries in the buckets", count, model_count(&self.model, WAITING))
    PyMem_RawFree(occupancy.counts)
    PyMem_RawFree(occupancy)
