# What every container does with its wheel and its alarm.

cdef enum:
    CONTAINER_WHEEL_SIZE = 64   # 8 KB a level, because each container has a wheel of its own
    TURN_NS = 500_000           # so long the GIL is held, at most, by who takes what fell due,
    LOOK_EVERY = 64             # entries between two looks at how long that has been


# --- setting up --------------------------------------------------------------------------------------------------


cdef bint container_check_new(ContainerCore self) except False:
    if self.timer is not None:
        raise ValueError("this container has been set up already")
    return True


cdef bint container_set_up(ContainerCore self, object timer) except False:
    container_check_new(self)
    if not isinstance(timer, BaseTimer):
        raise TypeError(f"timer must be a SystemTimer or a ManualTimer, not {type(timer).__name__}")
    core_set_up(timer)
    if hw_peek(&(<BaseTimer>timer).timer.closed):
        raise TimerClosed("the timer is closed")
    list_init(&self.due)
    self.alarm = alarm_new(self)
    self.generation = (<BaseTimer>timer).timer.generation
    self.timer = timer
    return True


cdef inline bint container_ready(ContainerCore self) except False:
    """Before anything is done with it."""
    if self.timer is None:
        raise RuntimeError("this container has not been set up: call super().__init__()")
    if self.generation != self.timer.timer.generation:
        self.generation = self.timer.timer.generation
        self._after_fork(bool(self.timer._keeps_at_fork()))
    return True


cdef bint container_begin(ContainerCore self, int64_t now_ms) except False:
    """The wheel is there, and its clock is not far behind."""
    cdef Wheel* wheel = self.wheel
    cdef Bucket* first
    if wheel is NULL:
        wheel = <Wheel*>PyMem_RawCalloc(1, sizeof(Wheel))
        if wheel is NULL or not wheel_create(wheel, self.timer.timer.wheel.levels[0].tick_ms, CONTAINER_WHEEL_SIZE, now_ms):
            PyMem_RawFree(wheel)
            raise MemoryError
        self.wheel = wheel
    elif wheel_tick(wheel, now_ms) == wheel.levels[0].current_time_ms:
        return True
    elif self.pending == 0:
        wheel_set_clocks(wheel, now_ms)
    elif now_ms < wheel.levels[0].current_time_ms:
        if self.timer.timer.clock == CLOCK_KIND_CALLABLE:
            container_set_back(self, now_ms)
    elif not wheel_is_advancing(wheel):
        # Nothing is to be taken before now: then the clock can be now, and what is added goes to a finer level.
        first = queue_first(wheel)
        if first is NULL or first.entries.expiration_ms > now_ms:
            wheel_advance_clock(wheel, now_ms)
            wheel.taken_ms = wheel.levels[0].current_time_ms
    return True


cdef bint container_grow(ContainerCore self) except False:
    if not wheel_make_level(self.wheel):
        raise MemoryError
    return True


cdef bint container_set_back(ContainerCore self, int64_t now_ms) except False:
    """For a clock that was set back: as timer_set_back. O(pending)."""
    cdef Entry early
    while not wheel_reaches_from(self.wheel, now_ms, self.wheel.levels[0].current_time_ms):
        container_grow(self)
    list_init(&early)
    list_move_to_end(&self.due, &early)
    wheel_set_back(self.wheel, now_ms, &early)
    list_move_to_end(&early, &self.due)
    return True


# --- the alarm ---------------------------------------------------------------------------------------------------


cdef ContainerAlarm alarm_new(ContainerCore container):
    cdef ContainerAlarm self = ContainerAlarm.__new__(ContainerAlarm)
    # Beyond max_pending, because nobody is there to be told that there is no room when it has rung and is set anew.
    self.task.flags = TASK_OWN_RUN | TASK_ALARM
    self.container = weakref.ref(container)
    return self


cdef inline bint container_is_armed(ContainerCore self, int64_t at_ms) noexcept:
    """Whether the alarm will ring by then; or who takes what fell due will set it."""
    cdef const Timer* timer = self.timer.timer
    cdef const Task* task = &self.alarm.task
    if self.ringing == self.generation + 1:
        return True
    return (task_state(task) == TASK_PENDING and not hw_peek(&timer.forked)
            and hw_peek64(&task.entry.expiration_ms) - timer.round_up_ms <= at_ms)


cdef bint container_arm(ContainerCore self, int64_t at_ms, const Instant* reading=NULL) except False:
    """Sets the alarm for a time, if it is not to ring by then. Somebody's code may run in it: what that has put into the
    container earlier was rung for, until this moved the alarm; so what comes next is asked for again after each move. reading:
    what to take for the time, if the clock cannot be asked."""
    cdef BaseTimer core = self.timer
    cdef ContainerAlarm alarm
    cdef Instant now, delay
    cdef int64_t deadline_ms, expiration_ms, next_ms
    while True:
        core_ready(core)
        if reading is NULL:
            timer_read_clock(core.timer, &now)
            if container_next_ms(self, &next_ms):
                at_ms = min(at_ms, next_ms)
        else:
            now = reading[0]
        if container_is_armed(self, max(at_ms, now.ms)):
            return True
        if hw_peek(&core.timer.closed) and not hw_peek(&core.timer.finishing):
            raise TimerClosed("the timer is closed")
        delay.ms = at_ms - now.ms
        delay.ns = -now.ns
        if delay.ns < 0:
            delay.ns += NS_PER_MS
            delay.ms -= 1
        if task_state(&self.alarm.task) == TASK_CANCELLED:         # at a fork, say
            self.alarm = alarm_new(self)
        alarm = self.alarm
        if task_state(&alarm.task) == TASK_PENDING:
            if reading is NULL:
                # By the same reading as at_ms: by a later one it would be set a little too late, and this went on for ever.
                timer_due_or_raise(core.timer, &now, &delay, &deadline_ms, &expiration_ms)
                task_move(core.timer, alarm, &now, expiration_ms, delay.ms + (1 if delay.ns else 0), deadline_ms,
                          timer_when_due(core.timer, &delay))
            else:
                task_cancel(alarm)
            continue
        task_claim(alarm, core.timer)
        try:
            if reading is NULL:
                core_schedule(core, alarm, &now, &delay)
            else:
                timer_due_or_raise(core.timer, &now, &delay, &deadline_ms, &expiration_ms)
                hw_poke64(&alarm.task.deadline_ms, deadline_ms)
                task_schedule(core.timer, alarm, expiration_ms, TAKE_DUE)
        except ValueError:
            if task_state(&alarm.task) == TASK_NEW:
                raise
            # Another thread has just done it.


cdef bint container_next_ms(ContainerCore self, int64_t* next_ms_out) noexcept:
    """When the wheel has something to do next. False: never."""
    return self.wheel is not NULL and self.pending and wheel_next(self.wheel, next_ms_out)


cdef bint container_arm_again(ContainerCore self, int64_t at_ms) except False:
    """container_arm, after the alarm has rung: if it fails now, nobody else will do it. A timer that is closed rings no
    more."""
    cdef Timer* timer = self.timer.timer
    cdef const Level* finest = &timer.wheel.levels[0]
    cdef Instant last
    try:
        container_arm(self, at_ms)
    except TimerClosed:
        pass
    except BaseException as error:
        # A clock that fails, say. Then by its last reading; but after that, because what would ring at once would only
        # look at such a clock again.
        if timer.clock == CLOCK_KIND_CALLABLE:
            lock_with_gil(timer)
            last = timer.manual_now
            lock_release(timer)
        else:
            timer_read_clock(timer, &last)
        at_ms = max(at_ms, last.ms + finest.tick_ms)
        if isinstance(error, MemoryError):      # for a coarser level: then soon, on the one that is always there
            at_ms = min(at_ms, last.ms + finest.tick_ms * (timer.wheel.wheel_size // 2))
        container_arm(self, at_ms, &last)
        raise
    return True


cdef void container_disarm(ContainerCore self) noexcept:
    """It is empty, or dies."""
    if self.alarm is not None and task_state(&self.alarm.task) == TASK_PENDING:
        try:
            task_cancel(self.alarm)
        except BaseException:
            pass


# --- entries -----------------------------------------------------------------------------------------------------


cdef bint container_reserve(ContainerCore self, const Instant* now, int64_t expiration_ms, Bucket** bucket_out,
                            int64_t* at_out) except False:
    """Where an entry goes, and when the alarm has to have rung for it. NULL: it is due."""
    cdef AddStatus status
    container_begin(self, now.ms)
    while True:
        status = wheel_reserve_bucket(self.wheel, expiration_ms, bucket_out)
        if status != ADD_NEEDS_LEVEL:
            break
        container_grow(self)
    if status == ADD_DUE:
        bucket_out[0] = NULL
        at_out[0] = now.ms
    else:
        at_out[0] = max(now.ms, bucket_out[0].entries.expiration_ms)        # a coarse bucket may have begun
    return True


cdef inline void container_link(ContainerCore self, Entry* entry, Bucket* bucket) noexcept:
    if bucket is NULL:
        list_append(&self.due, entry)
    else:
        bucket_append(bucket, entry)
    hw_bump(&self.pending, 1)


cdef inline void container_unlink(ContainerCore self, Entry* entry) noexcept:
    wheel_remove(self.wheel, entry)
    hw_bump(&self.pending, -1)


cdef bint container_step_here(ContainerCore self, int64_t now_ms, int* budget) noexcept:
    """Goes on until something is in `due`: True; False: nothing is due, or the budget is used up, and then it is 0."""
    cdef StepStatus status
    while list_is_empty(&self.due):
        status = wheel_step(self.wheel, now_ms, budget)
        if status == STEP_TICK:
            list_move_to_end(&self.wheel.due, &self.due)
        else:
            budget[0] = 0 if status == STEP_MORE else max(budget[0], 1)
            return False
    return True


cdef bint container_step(ContainerCore self, int64_t now_ms, int* budget) except -1:
    """container_step_here, by a clock that may have been set back."""
    if self.pending == 0:
        return False
    container_begin(self, now_ms)
    return container_step_here(self, now_ms, budget)


cdef void container_free(ContainerCore self) noexcept:
    """At the end of a container that is empty."""
    if self.wheel is not NULL:
        wheel_destroy(self.wheel)
        PyMem_RawFree(self.wheel)
        self.wheel = NULL


cdef inline int64_t now_ns() noexcept nogil:
    cdef Instant now
    clock_read(CLOCK_KIND_MONOTONIC, &now)
    return now.ms * NS_PER_MS + now.ns


cdef void breathe() noexcept:
    """Gives the GIL up for long enough that another thread gets it: one that wants it has to wake up first, and counts anew
    how long it has waited whenever the GIL is given up for a moment."""
    with nogil:
        hw_pause()
