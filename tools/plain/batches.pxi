# Batches: add, cancel, and reschedule.


cdef void life_batch_ended(Life* self, int slot, const BatchRelease* release) noexcept nogil:
    """Check whether a batch is finished: it has no pending timer, and no holder takes from it."""
    cdef bint should = release.is_finished or (self.batches[slot] is not NULL and self.batches[slot].is_listed)
    cdef int i
    should = should and model_pending_of(&self.model, slot) == 0
    for i in range(HOLDERS):
        if self.holders[i].timer >= TASKS and (self.holders[i].timer - TASKS) // LONGEST == slot:
            should = False
    check_same("whether a batch is finished", release.is_finished, should)
    blocks_free(release.blocks)


cdef int64_t life_check_delays(Life* self, const int64_t* delays_ms, int64_t count, int64_t* own_ms) noexcept nogil:
    """Compute the ticks of many delays. Return the index of the first one beyond 64 bits, or -1."""
    cdef int64_t i
    for i in range(count):
        if not model_tick(&self.model, self.now.ms, self.now.ns, delays_ms[i], 0, 0, &own_ms[i]):
            return i
    return -1


cdef void life_free_batch(Batch* batch) noexcept nogil:
    """Free a batch that is not in the timer, or NULL."""
    cdef void* blocks = NULL
    if batch is not NULL:
        batch_leave_parts(batch, &blocks)
        blocks_free(blocks)
        PyMem_RawFree(batch)


cdef void life_add_batch(Life* self, int slot, Tape* tape, int64_t reach_ms) noexcept nogil:
    global life_operations
    cdef int64_t delays_ms[24]          # LONGEST
    cdef int64_t own_ms[24]
    cdef int64_t count = 1 + tape_byte(tape) % LONGEST, i, bad
    cdef Delays delays = Delays(<const char*>delays_ms, sizeof(int64_t), count)
    cdef Placement at
    cdef Status status, should
    cdef Batch* batch
    for i in range(count):
        delays_ms[i] = tape_ms(tape, reach_ms)
    life_operations += count
    bad = placement_set(&at, self.timer, &self.now, delays)
    check_same("index of the delay beyond 64 bits", bad, life_check_delays(self, delays_ms, count, own_ms))
    if bad >= 0:
        return
    batch = batch_new()
    batch_prepare(batch, count)
    batch.object = <void*><uintptr_t>(slot + 1)
    batch.timer = self.timer
    should = OK
    if self.timer.closed:
        should = CLOSED
    elif count > self.timer.max_pending - self.model.pending - self.model.resting:
        should = FULL
    status = batch_extend(batch, NULL, delays, at, 0)
    check_same("status of an add of a batch", status, should)
    if status != OK:
        life_free_batch(batch)
        return
    life_free_batch(self.batches[slot])
    self.batches[slot] = batch
    self.model.added += count
    self.model.pending += count
    for i in range(count):
        life_enter(self, TASKS + slot * LONGEST + <int>i, own_ms[i])


cdef int64_t life_draw_indices(const Batch* batch, Tape* tape, int64_t* indices) noexcept nogil:
    """Draw some indices, also invalid ones and duplicates."""
    cdef int64_t count = tape_byte(tape) % 8, i
    for i in range(count):
        indices[i] = tape_byte(tape) % (batch.length + 1)
    return count


cdef void life_cancel_batch(Life* self, int slot, Tape* tape) noexcept nogil:
    cdef int64_t indices[8]
    cdef Batch* batch = self.batches[slot]
    cdef int64_t count = life_draw_indices(batch, tape, indices), i, index, should = 0, cancelled
    cdef bint all = count == 0
    cdef BatchRelease release = BatchRelease(NULL, False)
    cdef Indices named
    if all:
        count = batch.length
    named = Indices(NULL, count)
    for i in range(count):
        index = i if all else indices[i]
        if index < batch.length and self.model.timers[TASKS + slot * LONGEST + index].where:
            model_leave(&self.model, TASKS + slot * LONGEST + <int>index)
            should += 1
    self.model.pending -= should
    self.model.cancelled += should
    if not all:
        named.data = indices
    cancelled = batch_cancel(batch, named, &release)
    check_same("canceled timers of a batch", cancelled, should)
    life_batch_ended(self, slot, &release)


cdef void life_move_batch(Life* self, int slot, Tape* tape, int64_t reach_ms, bint one_delay) noexcept nogil:
    cdef int64_t indices[8]
    cdef int64_t delays_ms[24]          # LONGEST
    cdef int64_t own_ms[24]
    cdef Batch* batch = self.batches[slot]
    cdef int64_t count = life_draw_indices(batch, tape, indices), i, bad, index, should = 0, moved = 0
    cdef Delays delays = Delays(<const char*>delays_ms, 0 if one_delay else sizeof(int64_t), 0)
    cdef Indices named
    cdef Placement at
    cdef bint all = count == 0
    cdef Status status
    cdef int timer
    if all:
        count = batch.length
    delays.count = 1 if one_delay else count
    for i in range(delays.count):
        delays_ms[i] = tape_ms(tape, reach_ms)
    bad = placement_set(&at, self.timer, &self.now, delays)
    check_same("index of the delay beyond 64 bits", bad, life_check_delays(self, delays_ms, delays.count, own_ms))
    if bad >= 0 or model_pending_of(&self.model, slot) == 0:
        return
    named = Indices(NULL, count)
    if not all:
        named.data = indices
    status = batch_reschedule(batch, named, delays, at, &moved)
    check_same("status of a reschedule of a batch", status, OK)
    for i in range(count):
        index = i if all else indices[i]
        timer = TASKS + slot * LONGEST + <int>index
        if index < batch.length and self.model.timers[timer].where:
            model_leave(&self.model, timer)
            life_enter(self, timer, own_ms[0 if one_delay else i])
            should += 1
    check_same("rescheduled timers of a batch", moved, should)
    for i in range(batch.length):
        check_same("whether a timer of a batch has expired", batch_is_due(batch, batch_entry(batch, i)),
                   self.model.timers[TASKS + slot * LONGEST + i].where >= READY)


cdef void life_change_batch(Life* self, int64_t what, Tape* tape, int64_t reach_ms, int64_t odd) noexcept nogil:
    """Add a batch (`what` is 0, or the slot is empty), cancel some of it (1), or reschedule some (2)."""
    cdef int slot = tape_byte(tape) % SLOTS
    cdef Batch* batch = self.batches[slot]
    if batch is NULL or (what == 0 and not batch.is_listed):
        life_add_batch(self, slot, tape, reach_ms)
    elif what == 2:
        life_move_batch(self, slot, tape, reach_ms, odd == 1)
    else:
        life_cancel_batch(self, slot, tape)
