# The wheel and the alarm of a container, for both kinds of containers.

cdef enum:
    CONTAINER_WHEEL_SIZE = 64   # 8 KB per level; small, because every container has its own wheel


cdef bint container_check_new(ContainerCore self) except False:
    if self.timer is not None:
        raise ValueError("this container has been set up already")
    return True


cdef inline bint timer_check_open(const Timer* timer) except False:
    """Raise TimerClosed if the timer was closed, except by the exit of the interpreter."""
    if hw_peek(&timer.closed) and not hw_peek(&timer.exiting):
        raise TimerClosed("the timer is closed")
    return True


cdef bint container_set_up(ContainerCore self, object timer) except False:
    container_check_new(self)
    if not isinstance(timer, BaseTimer):
        raise TypeError(f"timer must be a SystemTimer or a ManualTimer, got {type(timer).__name__}")
    core_check_set_up(timer)
    timer_check_open((<BaseTimer>timer).timer)
    list_init(&self.due)
    self.alarm = alarm_new(self)
    self.generation = (<BaseTimer>timer).timer.generation
    self.timer = timer
    return True


cdef inline bint container_enter(ContainerCore self) except False:
    """Check that the container is set up, and handle a fork. Every method calls this first."""
    if self.timer is None:
        raise RuntimeError("this container has not been set up: call super().__init__()")
    if self.generation != self.timer.timer.generation:
        self.generation = self.timer.timer.generation
        if self.wheel is not NULL:
            self.wheel.bookmarks = NULL         # of threads that do not exist in the child
        self._after_fork(bool(self.timer._keeps_at_fork()))
    return True


cdef Wheel* container_wheel_new(ContainerCore self, int64_t now_ms) except NULL:
    cdef Wheel* wheel = <Wheel*>PyMem_RawCalloc(1, sizeof(Wheel))
    if wheel is NULL or not wheel_create(wheel, self.timer.timer.wheel.levels[0].tick_ms, CONTAINER_WHEEL_SIZE, now_ms):
        PyMem_RawFree(wheel)
        raise MemoryError
    return wheel


cdef bint container_begin(ContainerCore self, int64_t now_ms) except False:
    """Create the wheel if needed, and bring its clock close to now_ms."""
    cdef Wheel* wheel = self.wheel
    cdef Bucket* first
    if wheel is NULL:
        self.wheel = container_wheel_new(self, now_ms)
    elif wheel_tick(wheel, now_ms) == wheel.levels[0].current_time_ms:
        return True
    elif self.pending == 0:
        wheel_set_clocks(wheel, now_ms)
    elif now_ms > wheel.levels[0].current_time_ms and not wheel_is_advancing(wheel):
        # If nothing is due yet, the clock can move to now, and new entries go into a finer level.
        first = queue_first(wheel)
        if first is NULL or first.entries.expiration_ms > now_ms:
            wheel_advance_clock(wheel, now_ms)
            wheel.taken_ms = wheel.levels[0].current_time_ms
    return True


cdef bint container_grow(ContainerCore self) except False:
    if not wheel_make_level(self.wheel):
        raise MemoryError
    return True


# --- the alarm -------------------------------------------------------------------------------------------------------


cdef ContainerAlarm alarm_new(ContainerCore container):
    cdef ContainerAlarm self = ContainerAlarm.__new__(ContainerAlarm)
    # TASK_ALARM exempts the alarm from max_pending: it is added again after each run, where no caller could handle TimerFull.
    self.task.flags = TASK_OWN_RUN | TASK_ALARM
    self.container = weakref.ref(container)
    return self


cdef inline bint container_needs_no_alarm(ContainerCore self, int64_t at_ms) noexcept:
    """Return True if the alarm runs by at_ms, if the thread that takes expired entries will set it, or if no alarm can run."""
    cdef const Timer* timer = self.timer.timer
    cdef const Task* task = &self.alarm.task
    if self.expiring == self.generation + 1 or hw_peek(&timer.exiting):
        return True
    return (task_state(task) == TASK_PENDING and not hw_peek(&timer.forked)
            and hw_peek64(&task.entry.expiration_ms) - timer.round_up_ms <= at_ms)


cdef bint alarm_add(ContainerAlarm self, BaseTimer timer, Deadline* deadline) except False:
    """Add an alarm that is not pending. If another thread adds it at the same moment, this does nothing."""
    task_claim(self, timer.timer)
    try:
        core_schedule(timer, self, deadline)
    except ValueError:
        if task_state(&self.task) == TASK_NEW:
            raise
    return True


cdef bint container_arm(ContainerCore self, int64_t at_ms, const Instant* last_reading=NULL) except False:
    """Set the alarm for at_ms at the latest.

    last_reading: the time to assume if the clock cannot be read; NULL: read the clock.

    Foreign code may run inside and add earlier entries. Such an add may find the old alarm early enough, and this function then
    moves that alarm. Therefore each round asks the wheel again for its next deadline.
    """
    cdef BaseTimer timer = self.timer
    cdef Deadline deadline
    cdef int64_t next_ms
    while True:
        core_ensure_started(timer)
        if last_reading is NULL:
            timer_read_clock(timer.timer, &deadline.now)
            if container_next_ms(self, &next_ms):
                at_ms = min(at_ms, next_ms)
        else:
            deadline.now = last_reading[0]
        if container_needs_no_alarm(self, max(at_ms, deadline.now.ms)):
            return True
        if hw_peek(&timer.timer.closed) and not hw_peek(&timer.timer.finishing):
            raise TimerClosed("the timer is closed")
        deadline_set_delay_until(&deadline, at_ms, 0)
        if task_state(&self.alarm.task) == TASK_CANCELLED:         # by a fork, for example
            self.alarm = alarm_new(self)
        if task_state(&self.alarm.task) != TASK_PENDING:
            alarm_add(self.alarm, timer, &deadline)
        else:
            deadline_set_or_raise(&deadline, timer.timer)
            task_move(timer.timer, self.alarm, &deadline)


cdef inline double seconds_of(int64_t ms, int32_t ns) noexcept:
    return <double>(ms * NS_PER_MS + ns) / 1e9 if -9e12 < ms < 9e12 else <double>ms / 1e3


cdef inline int64_t first_ms(double deadline_s) noexcept:
    """Return the first millisecond that is not before a deadline when both are compared as floats. INT64_MAX: never."""
    cdef int64_t ms
    if not -1e12 < deadline_s < 1e12:
        return INT64_MAX
    ms = <int64_t>floor(deadline_s * 1000)
    while seconds_of(ms, 0) < deadline_s:
        ms += 1
    return ms


cdef bint container_next_ms(ContainerCore self, int64_t* next_ms_out) noexcept:
    """Find the time of the next deadline. Return False if no entry is pending."""
    if self.wheel is not NULL:
        return self.pending and wheel_next(self.wheel, next_ms_out)
    if list_is_empty(&self.due):
        return False
    next_ms_out[0] = first_ms((<DictEntry*>self.due.next).expires_s)        # of a TTLCache, which keeps all its entries in `due`
    return next_ms_out[0] != INT64_MAX


cdef bint container_arm_again(ContainerCore self, int64_t at_ms) except False:
    """Set the alarm after it has run. On failure, set it by the last clock reading, because no other call would; then raise.

    A closed timer runs no alarm, and raises nothing here.
    """
    cdef Timer* timer = self.timer.timer
    cdef const Level* finest = &timer.wheel.levels[0]
    cdef Instant last
    try:
        container_arm(self, at_ms)
    except TimerClosed:
        pass
    except BaseException as error:
        if timer.clock == CLOCK_KIND_CALLABLE:
            lock_with_gil(timer)
            last = timer.latest_reading
            lock_release(timer)
        else:
            timer_read_clock(timer, &last)
        at_ms = max(at_ms, last.ms + finest.tick_ms)    # not at once, which would only call a failing clock again
        if isinstance(error, MemoryError):      # no memory for a coarser level: use the finest one
            at_ms = min(at_ms, last.ms + finest.tick_ms * (timer.wheel.wheel_size // 2))
        container_arm(self, at_ms, &last)
        raise
    return True


cdef void container_disarm(ContainerCore self) noexcept:
    """Cancel the alarm of a container that is empty or dying."""
    if self.alarm is not None and task_state(&self.alarm.task) == TASK_PENDING:
        try:
            task_cancel(self.alarm)
        except BaseException:
            pass


cdef class ContainerAlarm(TimerTask):
    """The one task that a container has in its timer. Running it too early or too often does no harm."""

    def run(self):
        """Take the expired entries of the container."""
        cdef object container = None if self.container is None else self.container()
        cdef Timer* timer
        try:
            if container is not None:
                container._on_alarm()
        finally:
            timer = <Timer*>self.task.owner
            if timer is not NULL:
                lock_with_gil(timer)
                alarm_finished_locked(timer)
                lock_release(timer)


cdef class ContainerCore:
    """The common base class of ExpiringDict, DelayQueue, and caches."""

    def _on_alarm(self):
        """Hook for subclasses: take expired entries."""

    def _after_fork(self, bint keeps):
        """Hook for subclasses, in the child of a fork. `keeps`: the timer keeps the parent's tasks."""

    @property
    def timer(self):
        """The timer whose clock the container uses."""
        container_enter(self)
        return self.timer


# --- entries ---------------------------------------------------------------------------------------------------------


cdef bint container_reserve(ContainerCore self, const Instant* now, int64_t expiration_ms, Bucket** bucket_out,
                            int64_t* at_out) except False:
    """Find the bucket for an entry (NULL: it is due already) and the latest time for the alarm."""
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
        at_out[0] = max(now.ms, bucket_out[0].entries.expiration_ms)        # a coarse bucket may begin in the past
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


cdef bint container_advance(ContainerCore self, int64_t now_ms, int* budget) noexcept:
    """Advance the wheel until `due` holds something, and return True.

    Return False if nothing is due, or if the budget is used up, which then is 0.
    """
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
    """Call container_advance for a clock that may have been set back."""
    if self.pending == 0:
        return False
    container_begin(self, now_ms)
    return container_advance(self, now_ms, budget)


cdef void container_free(ContainerCore self) noexcept:
    """Free the wheel of an empty container."""
    if self.wheel is not NULL:
        wheel_destroy(self.wheel)
        PyMem_RawFree(self.wheel)
        self.wheel = NULL


cdef const char* container_check_wheel(ContainerCore self, int64_t* linked_out) noexcept:
    """Return the first fault of a container's wheel, or NULL, and count its entries."""
    cdef const Bucket* bucket
    cdef const char* fault
    cdef int64_t length
    cdef int32_t i
    linked_out[0] = 0
    if self.wheel is NULL:
        return NULL
    lists = [<uintptr_t>&self.due, <uintptr_t>&self.wheel.due, <uintptr_t>&self.wheel.flush]
    for i in range(self.wheel.queue_length):
        lists.append(<uintptr_t>&self.wheel.queue[i].entries)
    for head in lists:
        fault = list_check(<const Entry*><uintptr_t>head, &length)
        if fault is not NULL:
            return fault
        linked_out[0] += length
    for i in range(self.wheel.queue_length):
        bucket = self.wheel.queue[i]
        if bucket.entries.expiration_ms < self.wheel.levels[bucket.level - 1].current_time_ms:
            return "a container's clock has passed a queued bucket"
    for i in range(1, self.wheel.queue_length):
        if queue_before(self.wheel.queue[i], self.wheel.queue[(i - 1) >> 1]):
            return "the delay queue of a container is out of order"
    return NULL
