# One timer with tasks and batches, to which the bytes of a fuzzer happen, beside a model that says what must come of it.
# Nothing here is Python's, so it makes some hundred times as many operations a second as the targets in Python. build.py puts
# this behind the rooms wheel/ and timer/ and compiles it with plain.c.
#
# There is one thread, but what several can do to each other is done in steps: an advance stops after each slice, which is of
# some entries only (see build.py), and whoever has taken something from what is ready keeps it while other things happen.

from libc.stdint cimport uint8_t

cdef extern from "plain.h" nogil:
    enum:
        TASKS
        SLOTS
        LONGEST
        TIMERS
        WAITING
        READY
        HELD
    ctypedef struct Expected:
        int where
        int64_t own_ms
    ctypedef struct Model:
        Expected* timers
        int64_t added
        int64_t expired
        int64_t cancelled
        int64_t returned
        int64_t pending
        int64_t resting
    void fail(const char*, int64_t, int64_t)
    void model_begin(Model*, int64_t, int)
    bint model_tick(const Model*, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t*)
    void model_wait(Model*, int, int64_t, int64_t)
    void model_is_due(Model*, int, int64_t, int64_t)
    void model_leave(Model*, int)
    void model_put_back(Model*, int)
    void model_hold(Model*, int)
    void model_let_go(Model*, int)
    int model_advance(Model*, int64_t)
    void model_advance_some(Model*, int64_t, int64_t)
    void model_set_back(Model*, int64_t, int64_t)
    int model_next(const Model*)
    int model_of_slot(const Model*, int, int*)
    int model_pending_of(const Model*, int)
    int64_t model_count(const Model*, int)
    int64_t model_earliest(const Model*)

cdef public int64_t life_operations = 0         # of the input that is under way
cdef public int planted_fault = 0               # the fault of faults.py that is active; 0: none

cdef enum:
    HOLDERS = 3
    NOBODY = -1

cdef struct Tape:
    # As in tape.py: after its end come zeros, so that every tape has a meaning.
    const uint8_t* next
    const uint8_t* end

cdef struct GroupTask:
    Task task
    Member member

cdef struct Holder:
    # A thread that has taken something from what is ready, and has not come further.
    int timer               # the task, or the head of the batch; NOBODY: there is none
    int64_t version         # of the task
    int64_t limit           # for how many of the batch it has room

cdef struct Life:
    Timer* timer
    Model model
    Instant now
    bint is_complete        # no advance is under way
    int64_t reaches_ms[4]
    Group group
    GroupTask tasks[48]     # TASKS
    int64_t versions[48]    # how often each task was added
    bint is_resting[48]
    Batch* batches[5]       # SLOTS
    Holder holders[3]       # HOLDERS


cdef inline void check(bint is_right, const char* what, int64_t found, int64_t should) noexcept nogil:
    if not is_right:
        fail(what, found, should)


cdef inline void check_same(const char* what, int64_t found, int64_t should) noexcept nogil:
    if found != should:
        fail(what, found, should)


# --- the tape ----------------------------------------------------------------------------------------------------


cdef inline int64_t tape_byte(Tape* self) noexcept nogil:
    if self.next is self.end:
        return 0
    self.next += 1
    return self.next[-1]


cdef int64_t tape_number(Tape* self) noexcept nogil:
    """Not negative: mostly a small one, in few bytes."""
    cdef int64_t first = tape_byte(self)
    if first < 192:
        return first
    if first < 224:
        return ((first - 192) << 8) + tape_byte(self)
    if first == 224:
        return INT64_MAX
    if first == 225:
        return <int64_t>1 << 62
    return (<int64_t>1 << (first - 193)) - 8 + (tape_byte(self) & 15)


cdef int64_t tape_ms(Tape* self, int64_t reach_ms) noexcept nogil:
    """A length of time: some numbers of a level's ticks."""
    cdef int64_t ms
    return INT64_MAX if hw_mul_overflows(tape_number(self), reach_ms, &ms) else ms


# --- what is there -----------------------------------------------------------------------------------------------


cdef inline int64_t life_clock(const Life* self) noexcept nogil:
    """Where the wheel stands. If it stood wrong, something would come early, or not when it should."""
    return self.timer.wheel.levels[0].current_time_ms


cdef inline Task* life_task(Life* self, int i) noexcept nogil:
    return &self.tasks[i].task


cdef int batch_slot(const Batch* self) noexcept nogil:
    return <int>(<uintptr_t>self.object - 1)


cdef int life_timer_of(const Life* self, const Entry* entry) noexcept nogil:
    """The number that an entry has in the model."""
    if entry.place == ENTRY_OF_TASK:
        return <int>(<const GroupTask*>entry - self.tasks)
    return TASKS + batch_slot(entry_batch(entry)) * LONGEST + entry.place


cdef int64_t life_count_ready(Life* self) noexcept nogil:
    """How many fell due and are not taken yet, as the core has them."""
    cdef const Entry* entry = self.timer.ready.next
    cdef const Batch* batch = self.timer.batches
    cdef int64_t count = 0
    while entry is not &self.timer.ready:
        count += entry.place == ENTRY_OF_TASK
        entry = entry.next
    while batch is not NULL:
        count += batch_waiting(batch)
        batch = batch.next
    return count


cdef void life_check(Life* self) noexcept nogil:
    """What can be seen after each operation."""
    check_same("how many are pending", self.timer.pending, self.model.pending)
    check_same("how many were added", self.timer.added, self.model.added)
    check_same("how many have expired", self.timer.expired, self.model.expired)
    check_same("how many were cancelled", self.timer.cancelled, self.model.cancelled)
    check_same("how many were returned", self.timer.returned, self.model.returned)
    check_same("how many rest", self.timer.resting_count, self.model.resting)


cdef void life_check_all(Life* self) noexcept nogil:
    """The invariants, and what the reaper would sleep for."""
    cdef const char* fault
    cdef int64_t next_ms = 0, earliest_ms, count = 0
    cdef bint is_next
    cdef int i
    lock_wait(self.timer)
    fault = timer_check_locked(self.timer)
    if fault is NULL:
        fault = group_check_locked(&self.group, self.timer)
    is_next = timer_next_locked(self.timer, &next_ms)
    lock_release(self.timer)
    if fault is not NULL:
        fail(fault, 1, 0)
    for i in range(TASKS):
        if life_task(self, i).flags & TASK_MEMBER:
            count += self.model.timers[i].where != 0 or self.is_resting[i]
    check_same("how many are in the group", self.group.count, count)
    if self.is_complete:
        earliest_ms = model_earliest(&self.model)
        check_same("whether something is to come", is_next, model_count(&self.model, WAITING) > 0)
        check(not is_next or next_ms <= earliest_ms, "the next wake-up is too late", next_ms, earliest_ms)
        check(timer_sleep_until_locked(self.timer) <= earliest_ms, "the reaper would sleep too long", next_ms, earliest_ms)
        check_same("how many wait to be taken", life_count_ready(self),
                   model_count(&self.model, READY) + model_count(&self.model, HELD))


# --- the clock ---------------------------------------------------------------------------------------------------


cdef WhenDue life_when_due(const Life* self, bint is_later) noexcept nogil:
    return ASK_WHEN_DUE if self.timer.clock == CLOCK_KIND_CALLABLE and is_later else TAKE_DUE


cdef void life_follow_back(Life* self) noexcept nogil:
    """What timer_make_room does of NOT_YET, for a clock that may have been set back."""
    cdef int64_t taken_ms = self.timer.wheel.taken_ms
    if timer_is_ahead_locked(self.timer, self.now.ms):
        model_set_back(&self.model, self.now.ms, taken_ms)
        self.is_complete = True
    check(timer_set_back(self.timer, self.now.ms), "there was no memory", 0, 1)
    check(life_clock(self) <= self.now.ms, "the wheel's clock did not follow", life_clock(self), self.now.ms)
    check(not timer_is_ahead_locked(self.timer, self.now.ms), "what is ready is ahead of the clock that was set back", 1, 0)


cdef bint life_make_room(Life* self, Status status, WhenDue* due) noexcept nogil:
    """timer_make_room, without Python."""
    if status == NOT_YET:
        due[0] = TAKE_DUE
        life_follow_back(self)
        return True
    return status == NEEDS_LEVEL and timer_grow(self.timer)


cdef void life_heed_advance(Life* self, bint whole, int64_t taken_ms) noexcept nogil:
    """After an advance, of which perhaps only a slice was done; taken_ms: of the wheel before it."""
    cdef int64_t ready
    if self.is_complete and whole:
        model_advance(&self.model, self.now.ms)
    else:
        # How many of those that come next are ready by now, only the core can say; which these are, and that they are due,
        # not. Half an advance may be that of an earlier time, from before the clock was set back.
        ready = life_count_ready(self) - model_count(&self.model, READY) - model_count(&self.model, HELD)
        model_advance_some(&self.model, ready, max(self.now.ms, taken_ms))
        if whole:
            check_same("how many are late", model_advance(&self.model, self.now.ms), 0)
    self.is_complete = wheel_is_idle(&self.timer.wheel) and (self.is_complete or whole)


cdef void life_move_clock(Life* self, int64_t ahead_ms) noexcept nogil:
    if hw_add_overflows(self.now.ms, ahead_ms, &self.now.ms):
        self.now.ms = INT64_MAX


cdef void life_advance(Life* self, int64_t ahead_ms, int64_t how) noexcept nogil:
    cdef int64_t taken_ms = self.timer.wheel.taken_ms
    cdef ReapStatus status
    life_move_clock(self, ahead_ms)
    if how % 4 == 0 and self.timer.clock == CLOCK_KIND_MANUAL:
        timer_live_until(self.timer, self.now.ms)
    elif how % 4 == 1 and self.timer.clock == CLOCK_KIND_WHEEL:
        timer_advance_clock(self.timer, self.now.ms)
    elif how % 4 == 2 and self.timer.clock == CLOCK_KIND_CALLABLE:
        status = timer_reap(self.timer, &self.now, 0, True, NULL)
        check(status == REAP_READY or status == REAP_TAKEN or status == REAP_NOTHING, "what the reaper says", status, REAP_READY)
    else:
        timer_advance(self.timer, self.now.ms)
    life_heed_advance(self, True, taken_ms)


cdef void life_step(Life* self, int64_t ahead_ms) noexcept nogil:
    """A slice of an advance."""
    cdef int64_t taken_ms = self.timer.wheel.taken_ms
    cdef bint more
    life_move_clock(self, ahead_ms)
    lock_wait(self.timer)
    more = timer_step_locked(self.timer, self.now.ms)
    lock_release(self.timer)
    life_heed_advance(self, not more, taken_ms)


cdef void life_set_back(Life* self, int64_t by_ms) noexcept nogil:
    """Somebody sets the clock back; the timer does not know."""
    if self.timer.clock == CLOCK_KIND_CALLABLE:
        self.now.ms = max(0, self.now.ms - by_ms)


# --- what is added -----------------------------------------------------------------------------------------------


cdef void life_enter(Life* self, int i, int64_t own_ms) noexcept nogil:
    """The model learns of an entry that was placed just now, or is about to be."""
    cdef int64_t clock_ms = life_clock(self)
    cdef bint idle = wheel_is_idle(&self.timer.wheel)
    check(idle or not self.is_complete, "an advance is under way that nobody has begun", 0, 1)
    if own_ms > clock_ms or not idle:
        model_wait(&self.model, i, own_ms, clock_ms)
    else:
        model_is_due(&self.model, i, own_ms, clock_ms)
