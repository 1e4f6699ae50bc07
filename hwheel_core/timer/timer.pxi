# A Timer: the wheel with a lock, what is ready to run, counters, and the reaper's wait. No Python object but the
# pointers that it hands back.

cdef enum Status:
    STATUS_ERROR = -1       # an exception is set
    OK
    WAS_DUE                 # a bare wheel does not take what is due
    NEEDS_LEVEL             # timer_grow, then again
    NOT_YET                 # due by the wheel's clock, perhaps not by the timer's: timer_set_back, then again
    CLOSED
    FULL
    WAS_CANCELLED
    WAS_PENDING
    SPENT                   # a callback task that has expired
    NOT_PENDING
    TRY_AGAIN               # the lock was taken
    DISOWNED                # another add of the same task, which had claimed it, failed meanwhile: task_claim, then again


cdef enum WhenDue:
    # What becomes of an entry that is due when it is added.
    REFUSE_DUE              # it is the caller's: WAS_DUE
    TAKE_DUE                # it goes to `ready`
    ASK_WHEN_DUE            # NOT_YET: the clock may have been set back since the wheel was advanced


cdef Timer* timer_new(int64_t tick_ms, int32_t wheel_size, int64_t start_ms, int32_t clock,
                      bint never_early) noexcept nogil:
    """A Timer with one reference, or NULL when there is no memory."""
    cdef Timer* self = <Timer*>PyMem_RawCalloc(1, sizeof(Timer))
    if self is NULL or not wheel_create(&self.wheel, tick_ms, wheel_size, start_ms):
        PyMem_RawFree(self)
        return NULL
    lock_init(self)
    list_init(&self.ready)
    list_init(&self.resting)
    self.references = 1
    self.max_pending = INT64_MAX
    self.reaper_until_ms = INT64_MIN
    self.clock = clock
    self.never_early = never_early
    self.round_up_ms = tick_ms - 1 if never_early else 0
    self.manual_now.ms = start_ms
    self.wake_fds[0] = self.wake_fds[1] = self.alarm_fd = -1
    registry_enter(self)
    return self


cdef inline void timer_release(Timer* self) noexcept nogil:
    """Drops one reference; the last one frees. Tasks hold one each, so nothing is linked any more by then."""
    if hw_count_add(&self.references, -1) == 0:
        timer_free(self)


cdef void timer_free(Timer* self) noexcept nogil:
    registry_leave(self)
    timer_close_fds(self)
    wheel_destroy(&self.wheel)
    lock_destroy(self)
    PyMem_RawFree(self)


cdef bint timer_grow(Timer* self) noexcept nogil:
    """Adds a level to the wheel; takes the lock itself. False when there is no memory."""
    cdef int32_t level_count = self.wheel.level_count
    cdef LevelMemory memory
    if not level_memory_new(&memory, self.wheel.wheel_size, level_count + 1):
        return False
    lock_wait(self)
    if self.wheel.level_count == level_count:       # else another thread was faster
        wheel_take_level(&self.wheel, &memory)
    lock_release(self)
    level_memory_free(&memory)
    return True


cdef bint timer_due(const Timer* self, const Instant* now, const Instant* delay, int64_t* deadline_ms_out,
                    int64_t* expiration_ms_out) noexcept nogil:
    """When something that waits for `delay` falls due, and the time it is placed by. False: beyond 64 bits.

    What is due now is placed by now, not rounded up: its tick is due at once, and it comes behind what was added for
    that tick before.
    """
    cdef Instant deadline
    if delay.ms < 0 or (delay.ms == 0 and delay.ns == 0):
        deadline_ms_out[0] = now.ms + delay.ms
        expiration_ms_out[0] = now.ms
        return True
    if not instant_add(now, delay, &deadline):
        return False
    if self.never_early and deadline.ns and hw_add_overflows(deadline.ms, 1, &deadline.ms):
        return False
    deadline_ms_out[0] = deadline.ms
    return not hw_add_overflows(deadline.ms, self.round_up_ms, expiration_ms_out)


# --- adding, cancelling, moving ----------------------------------------------------------------------------------

cdef void timer_wake_reaper_locked(Timer* self) noexcept nogil:
    if self.reaper_until_ms != INT64_MIN:
        self.reaper_until_ms = INT64_MIN        # one wake-up is enough for all sleepers, whoever comes next
        self.woken = True
        hw_wake_write(self.wake_fds[1])


cdef inline void timer_make_ready_locked(Timer* self, Entry* entry) noexcept nogil:
    """Appends to ready, with hints for the hand-out's walk, which goes forward."""
    cdef Entry* older = lead_take(&self.delivered, entry, self.wheel.removals)
    entry.hint = 0
    list_append(&self.ready, entry)
    if older is not NULL:
        entry_set_hint(older, entry_number(entry))
        self.delivered.entry = older.next


cdef bint timer_deliver_locked(Timer* self, int* budget) noexcept nogil:
    """Moves a complete tick from wheel.due to where the executor finds it. False when the budget ran out before the end."""
    cdef Entry* due = &self.wheel.due
    cdef Entry* entry
    cdef Entry* following
    cdef Batch* batch
    entry = due.next
    while entry is not due and budget[0] > 0:
        budget[0] -= 1
        following = entry.next
        if entry.place != ENTRY_OF_TASK:
            batch = entry_batch(entry)
            batch_deliver(batch, entry)
            if not entry_is_linked(&batch.node):
                timer_make_ready_locked(self, &batch.node)
        else:
            timer_make_ready_locked(self, entry)
        entry = following
    due.next = entry            # what was in front has gone
    entry.prev = due
    if entry is not due:
        return False
    if self.has_worker:
        pthread_cond_signal(&self.work)
    return True


cdef bint timer_step_locked(Timer* self, int64_t now_ms) noexcept nogil:
    """One slice of an advance; True while there is more to do. Give up the lock in between."""
    cdef int budget = SLICE
    cdef StepStatus status
    while True:
        status = wheel_step(&self.wheel, now_ms, &budget)
        if status != STEP_TICK:
            return status == STEP_MORE
        if not timer_deliver_locked(self, &budget):
            return True


cdef void timer_advance(Timer* self, int64_t now_ms) noexcept nogil:
    """Takes every bucket that is due, and fills ready. Takes the lock itself, a slice at a time."""
    lock_wait(self)
    while timer_step_locked(self, now_ms):
        lock_yield(self)
    lock_release(self)


cdef void timer_advance_clock(Timer* self, int64_t time_ms) noexcept nogil:
    """timer_advance, and then all clocks to time_ms, whether there was a bucket at that time or not."""
    lock_wait(self)
    while timer_step_locked(self, time_ms):
        lock_yield(self)
    wheel_advance_clock(&self.wheel, time_ms)
    lock_release(self)


cdef void timer_live_until(Timer* self, int64_t now_ms) noexcept nogil:
    """timer_advance for a clock that is moved by hand. It is moved before the wheel's, so that no add is placed by a time
    at which the wheel has been already."""
    lock_wait(self)
    self.manual_now.ms = max(self.manual_now.ms, now_ms)
    while timer_step_locked(self, now_ms):
        lock_yield(self)
    lock_release(self)


cdef Status timer_insert_locked(Timer* self, Entry* entry, WhenDue when_due) noexcept nogil:
    """Links an entry by its expiration_ms."""
    cdef int64_t bucket_ms = 0
    cdef int budget = SLICE
    cdef bint settled
    cdef AddStatus status = wheel_add(&self.wheel, entry, &bucket_ms)
    if status == ADD_PENDING:
        if bucket_ms < self.reaper_until_ms:
            timer_wake_reaper_locked(self)
        return OK
    if status == ADD_NEEDS_LEVEL:
        return NEEDS_LEVEL
    if when_due == REFUSE_DUE:
        return WAS_DUE
    if when_due == ASK_WHEN_DUE:
        return NOT_YET
    # Behind what is due at this tick already. While a cascade is under way, part of the tick may still be to come:
    # then the cascade delivers it.
    settled = wheel_is_settled(&self.wheel)
    list_append(&self.wheel.due, entry)
    if settled:
        timer_deliver_locked(self, &budget)
        if not self.has_worker:
            timer_wake_reaper_locked(self)
    return OK


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
    if self.closed:
        return CLOSED
    if self.pending + self.resting_count >= self.max_pending:
        return FULL
    task.entry.expiration_ms = expiration_ms
    status = timer_insert_locked(self, &task.entry, when_due)
    if status == OK:
        task.state = TASK_PENDING
        self.added += 1
        self.pending += 1
    elif status == WAS_DUE:
        task.state = TASK_EXPIRED
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
    if task.flags & TASK_HAD_CALLBACK and not task.flags & (TASK_OWN_RUN | TASK_REPEATS):
        return SPENT
    resting = entry_is_linked(&task.entry)
    task_rest_no_more_locked(self, task)        # the place that it kept is its own
    task.state = TASK_NEW
    status = task_add_locked(self, task, expiration_ms, when_due)
    if task.state == TASK_NEW:
        task.state = TASK_EXPIRED
        if resting:
            task_rest_locked(self, task)
    return status


cdef Status task_cancel_locked(Timer* self, Task* task) noexcept nogil:
    """OK if this call is what keeps the task from running; the wheel's reference is then the caller's to drop."""
    if task.state == TASK_PENDING:
        wheel_remove(&self.wheel, &task.entry)
        task.state = TASK_CANCELLED
        self.pending -= 1
        self.cancelled += 1
        return OK
    if task.state == TASK_NEW or (task.state == TASK_EXPIRED and task.flags & TASK_REPEATS):
        task.state = TASK_CANCELLED
        task_rest_no_more_locked(self, task)
        return WAS_CANCELLED
    return NOT_PENDING


cdef Status task_reschedule_locked(Timer* self, Task* task, int64_t expiration_ms, int64_t delay_ms,
                                   int64_t deadline_ms, WhenDue when_due) noexcept nogil:
    """Moves a pending task to the end of its new tick."""
    cdef Bucket* bucket
    cdef AddStatus status
    if task.state != TASK_PENDING:
        return NOT_PENDING
    status = wheel_find(&self.wheel, expiration_ms, &bucket)
    if status == ADD_NEEDS_LEVEL:
        return NEEDS_LEVEL
    if status == ADD_DUE and when_due == ASK_WHEN_DUE:
        return NOT_YET
    wheel_remove(&self.wheel, &task.entry)
    task.entry.expiration_ms = expiration_ms
    task.delay_ms = delay_ms
    task.deadline_ms = deadline_ms
    if status == ADD_DUE:
        return timer_insert_locked(self, &task.entry, TAKE_DUE)
    bucket_append(bucket, &task.entry)
    if bucket.entries.expiration_ms < self.reaper_until_ms:
        timer_wake_reaper_locked(self)
    return OK


# --- handing out -------------------------------------------------------------------------------------------------

cdef inline void timer_record_locked(Timer* self, int64_t deadline_ms, const Instant* now) noexcept nogil:
    lateness_record(&self.lateness, lateness_us(deadline_ms, now))


cdef Entry* timer_pop_locked(Timer* self, const Instant* now) noexcept nogil:
    """The next entry that is ready, unlinked: a task, expired by this, or a batch's node. NULL when there is none.

    now: NULL when it is close() that takes it, to give it back.
    """
    cdef Entry* entry = self.ready.next
    cdef Task* task
    if entry is &self.ready:
        return NULL
    wheel_remove(&self.wheel, entry)
    if entry.place == ENTRY_OF_BATCH:
        entry_batch(entry).handing_out += 1     # until batch_take
    else:
        task = <Task*>entry
        self.pending -= 1
        if now is NULL:
            task.state = TASK_CANCELLED
            self.returned += 1
        else:
            task.state = TASK_EXPIRED
            self.expired += 1
            timer_record_locked(self, task.deadline_ms, now)
            if task.flags & TASK_REPEATS:
                task_rest_locked(self, task)
    return entry


cdef bint timer_next_locked(Timer* self, int64_t* next_ms_out) noexcept nogil:
    """When there is something to do next; False: never."""
    cdef Bucket* bucket
    if not list_is_empty(&self.wheel.flush) or not list_is_empty(&self.wheel.due):
        next_ms_out[0] = self.wheel.taken_ms
        return True
    bucket = queue_first(&self.wheel)
    if bucket is not NULL:
        next_ms_out[0] = bucket.entries.expiration_ms
    return bucket is not NULL


# --- a clock that is set back ------------------------------------------------------------------------------------

cdef inline int64_t timer_tick(const Timer* self, int64_t expiration_ms) noexcept nogil:
    return expiration_ms - expiration_ms % self.wheel.levels[0].tick_ms


cdef int64_t timer_ready_tick_locked(const Timer* self) noexcept nogil:
    """The tick of what is first in ready, which is not empty."""
    cdef const Entry* entry = self.ready.next
    cdef const Batch* batch
    if entry.place == ENTRY_OF_BATCH:
        batch = entry_batch(entry)
        return timer_tick(self, batch.due[batch.due_begin].expiration_ms)
    return timer_tick(self, entry.expiration_ms)


cdef void timer_take_early_locked(Timer* self, int64_t now_ms, Entry* early_out) noexcept nogil:
    """Takes out of ready what is not due by this time."""
    cdef Entry* entry = self.ready.next
    cdef Entry* following
    while entry is not &self.ready:
        following = entry.next
        if entry.place == ENTRY_OF_BATCH:
            batch_take_early(entry_batch(entry), now_ms, early_out)
            if batch_waiting(entry_batch(entry)) == 0:
                wheel_remove(&self.wheel, entry)
        elif timer_tick(self, entry.expiration_ms) > now_ms:
            wheel_remove(&self.wheel, entry)
            list_append(early_out, entry)
        entry = following


cdef bint timer_set_back(Timer* self, int64_t now_ms) noexcept nogil:
    """For a clock that was set back: the wheel's clock follows it, and what is pending is placed anew, in its order; also
    what was ready, and by this time is not due.

    Otherwise what is added now would be due at once, because to the wheel its time is over. It takes O(pending), once for
    each time that the clock is set back and something is added before it has caught up. False when there is no memory.
    """
    cdef Entry pending
    lock_wait(self)
    while now_ms < self.wheel.levels[0].current_time_ms:
        if timer_step_locked(self, self.wheel.taken_ms):    # until no cascade is under way
            lock_yield(self)
        elif not wheel_reaches_from(&self.wheel, now_ms):
            lock_release(self)
            if not timer_grow(self):
                return False
            lock_wait(self)
        else:
            list_init(&pending)
            timer_take_early_locked(self, now_ms, &pending)
            wheel_set_back(&self.wheel, now_ms, &pending)
            timer_wake_reaper_locked(self)
    lock_release(self)
    return True


# --- the end -----------------------------------------------------------------------------------------------------

cdef void timer_make_all_ready(Timer* self) noexcept nogil:
    """Everything that is pending is ready at once, in order, and the clock stays where it is.

    All under one hold of the lock, because in between the clock stands at the end of time, where any add would be due.
    """
    cdef int64_t clock_ms
    lock_wait(self)
    clock_ms = self.wheel.levels[0].current_time_ms
    while timer_step_locked(self, INT64_MAX):
        pass
    wheel_set_clocks(&self.wheel, clock_ms)
    lock_release(self)


cdef bint timer_close(Timer* self) noexcept nogil:
    """Refuses adds from now on, once those under way are through. False if it was closed before."""
    cdef bint first
    lock_wait(self)
    first = not self.closed
    self.closed = True
    while self.adding:
        lock_yield(self)
    lock_release(self)
    return first


cdef void timer_stop(Timer* self, bint drain) noexcept nogil:
    """Tells the threads to end: at once, or when all that is ready has been handed out."""
    lock_wait(self)
    if drain:
        self.draining = True
    else:
        self.stopping = True
    pthread_cond_broadcast(&self.work)
    timer_wake_reaper_locked(self)
    timer_close_fds_if_over_locked(self)
    lock_release(self)
