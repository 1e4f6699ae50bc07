# A Life is one timer with tasks and batches and a model of them. The bytes of an input choose operations, and after each
# one the timer and the model are compared. plain_build.py compiles this behind the plain half of the core, with main.c.
#
# There is one thread, but operations are split where other threads could run. An advance stops after each slice of a few
# entries (see plain_build.py), and a Holder keeps the entries that it has taken while other operations run.

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
    int model_next(const Model*)
    int model_of_slot(const Model*, int, int*)
    int model_pending_of(const Model*, int)
    int64_t model_count(const Model*, int)
    int64_t model_earliest(const Model*)

cdef public int64_t life_operations = 0         # of the present input
cdef public int planted_fault = 0               # the fault of plain_faults.py that is active; 0: none

cdef enum:
    HOLDERS = 3
    NOBODY = -1

cdef struct Tape:
    # Bytes as choices. Beyond the end the tape has zeros, so every tape is valid.
    const uint8_t* next
    const uint8_t* end

cdef struct GroupTask:
    Task task
    Member member

cdef struct Holder:
    # A thread that has taken an expired entry and has not run or put it back yet.
    int timer               # the task, or the head of the batch; NOBODY: none
    int64_t version         # of the task
    int64_t limit           # the number of timers of the batch that it takes

cdef struct Life:
    Timer* timer
    Model model
    Instant now
    bint is_complete        # no advance is in progress
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
    """Read a number that is not negative: mostly a small one, from few bytes."""
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
    """Read a duration: a number of ticks of a level."""
    cdef int64_t ms
    return INT64_MAX if hw_mul_overflows(tape_number(self), reach_ms, &ms) else ms


# --- the timer and its model ---------------------------------------------------------------------------------------


cdef inline int64_t life_clock(const Life* self) noexcept nogil:
    """Return the clock of the wheel. A wrong one would show in expirations."""
    return self.timer.wheel.levels[0].current_time_ms


cdef inline Task* life_task(Life* self, int i) noexcept nogil:
    return &self.tasks[i].task


cdef int batch_slot(const Batch* self) noexcept nogil:
    return <int>(<uintptr_t>self.object - 1)


cdef int life_timer_of(const Life* self, const Entry* entry) noexcept nogil:
    """Return the number of an entry in the model."""
    if entry.place == ENTRY_OF_TASK:
        return <int>(<const GroupTask*>entry - self.tasks)
    return TASKS + batch_slot(entry_batch(entry)) * LONGEST + entry.place


cdef int64_t life_count_ready(Life* self) noexcept nogil:
    """Return the core's number of expired entries that are not taken yet."""
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
    """Compare the counters, after each operation."""
    check_same("pending", self.timer.pending, self.model.pending)
    check_same("added", self.timer.added, self.model.added)
    check_same("expired", self.timer.expired, self.model.expired)
    check_same("cancelled", self.timer.cancelled, self.model.cancelled)
    check_same("returned", self.timer.returned, self.model.returned)
    check_same("resting", self.timer.resting_count, self.model.resting)


cdef void life_check_all(Life* self) noexcept nogil:
    """Check the invariants, and how long the reaper would sleep."""
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
    check_same("members of the group", self.group.count, count)
    if self.is_complete:
        earliest_ms = model_earliest(&self.model)
        check_same("whether an expiration is pending", is_next, model_count(&self.model, WAITING) > 0)
        check(not is_next or next_ms <= earliest_ms, "time of the next wake-up", next_ms, earliest_ms)
        check(timer_sleep_until_locked(self.timer) <= earliest_ms, "end of the reaper's sleep", next_ms, earliest_ms)
        check_same("expired and not taken", life_count_ready(self),
                   model_count(&self.model, READY) + model_count(&self.model, HELD))


# --- the clock ---------------------------------------------------------------------------------------------------


cdef bint life_resolve(Life* self, Status status) noexcept nogil:
    """Do what timer_resolve does, without Python."""
    return status == NEEDS_LEVEL and timer_grow(self.timer)


cdef void life_heed_advance(Life* self, bint whole) noexcept nogil:
    """Update the model after an advance or a slice of it."""
    cdef int64_t ready
    if self.is_complete and whole:
        model_advance(&self.model, self.now.ms)
    else:
        # Only the core knows how many entries a slice has moved. Which ones and in which order is checked.
        ready = life_count_ready(self) - model_count(&self.model, READY) - model_count(&self.model, HELD)
        model_advance_some(&self.model, ready, self.now.ms)
        if whole:
            check_same("late timers", model_advance(&self.model, self.now.ms), 0)
    self.is_complete = wheel_is_idle(&self.timer.wheel) and (self.is_complete or whole)


cdef void life_move_clock(Life* self, int64_t ahead_ms) noexcept nogil:
    if hw_add_overflows(self.now.ms, ahead_ms, &self.now.ms):
        self.now.ms = INT64_MAX


cdef void life_advance(Life* self, int64_t ahead_ms, int64_t how) noexcept nogil:
    cdef Reading reading
    cdef ReapStatus status
    life_move_clock(self, ahead_ms)
    if how % 4 == 0 and self.timer.clock == CLOCK_KIND_MANUAL:
        timer_advance_manual(self.timer, self.now.ms)
    elif how % 4 == 1 and self.timer.clock == CLOCK_KIND_WHEEL:
        timer_advance_clock(self.timer, self.now.ms)
    elif how % 4 == 2 and self.timer.clock == CLOCK_KIND_CALLABLE:
        reading = Reading(self.now, self.now)
        status = timer_reap(self.timer, &reading, 0, True, NULL)
        check(status == REAP_READY or status == REAP_TAKEN or status == REAP_NOTHING, "result of timer_reap", status, REAP_READY)
    else:
        timer_advance(self.timer, self.now.ms)
    life_heed_advance(self, True)


cdef void life_step(Life* self, int64_t ahead_ms) noexcept nogil:
    """Run one slice of an advance."""
    cdef bint more
    life_move_clock(self, ahead_ms)
    lock_wait(self.timer)
    more = timer_step_locked(self.timer, self.now.ms)
    lock_release(self.timer)
    life_heed_advance(self, not more)


# --- adds --------------------------------------------------------------------------------------------------------


cdef void life_enter(Life* self, int i, int64_t own_ms) noexcept nogil:
    """Add an entry to the model."""
    cdef int64_t clock_ms = life_clock(self)
    cdef bint idle = wheel_is_idle(&self.timer.wheel)
    check(idle or not self.is_complete, "an advance is in progress", 0, 1)
    if own_ms > clock_ms or not idle:
        model_wait(&self.model, i, own_ms, clock_ms)
    else:
        model_is_due(&self.model, i, own_ms, clock_ms)
