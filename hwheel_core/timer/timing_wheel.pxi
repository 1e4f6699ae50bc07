# TimingWheel: the bare wheel, on a clock that the caller moves.


cdef class TimingWheel:
    """TimingWheel(tick_ms=1, wheel_size=20, start_ms=0)

    Kafka's hierarchical timing wheel (TimingWheel.java), bare: no thread, and a clock that only the caller moves.

    Arguments:
        tick_ms: the length of a tick of the finest level, in ms, at least 1.
        wheel_size: buckets a level, from 2 to 1,048,576.
        start_ms: where the clock starts, in ms, not negative.

    Raises:
        TypeError, ValueError: an argument is no int, or out of its range.
        OverflowError: tick_ms * wheel_size, or an argument, does not fit into 64 bits.

    Differs from Kafka's: tasks of one tick come out in the order in which they were added. `overflow_wheel` is a view
    of the level above, of the same class; only the wheel itself takes tasks.

    Thread-safety: every method may be called from any thread.

    >>> from hwheel import TimerTask, TimingWheel
    >>> wheel = TimingWheel(tick_ms=20, wheel_size=10)
    >>> wheel.add(TimerTask(5), 5)
    False
    >>> wheel.add(TimerTask(230), 230)
    True
    >>> wheel.next_expiration_ms, wheel.overflow_wheel.tick_ms
    (200, 200)
    >>> wheel.poll(219)
    []
    >>> wheel.poll(220)
    [<TimerTask expired, delay 230 ms>]
    """

    def __init__(self, tick_ms=1, wheel_size=20, start_ms=0):
        cdef Timer* timer
        if self.timer is not NULL:
            raise ValueError("this wheel has been set up already")
        timer = timer_from_arguments(tick_ms, wheel_size, start_ms, CLOCK_KIND_WHEEL, False)
        if self.timer is not NULL:          # by an argument's own Python code
            timer_release(timer)
            raise ValueError("this wheel has been set up already")
        self.timer = timer
        debug_count(LIVE_TIMERS, 1)

    def __dealloc__(self):
        if self.timer is not NULL:
            if self.depth == 0:
                timer_let_go(self.timer)
                debug_count(LIVE_TIMERS, -1)
            timer_release(self.timer)

    def add(self, TimerTask task not None, expiration_ms):
        """Puts a task into the bucket for a time.

        Arguments:
            task: new, or expired and with a run() of its own.
            expiration_ms: when it is due on the wheel's clock, in ms.
        Returns:
            True: it is pending. False: it is due already and counts as expired, the caller runs it; or it was
            cancelled before.
        Raises:
            TypeError, OverflowError: expiration_ms is no int of 64 bits.
            ValueError: the task is pending, belongs to another timer, or is a callback task that has expired.

        Runtime complexity: O(1) (O(levels), and the levels are few).
        Thread-safety: any thread.
        """
        cdef int64_t expiration = integer_argument(expiration_ms, "expiration_ms")
        cdef int64_t deadline_before = hw_peek64(&task.task.deadline_ms)
        cdef bint claimed
        timing_wheel_itself(self)
        if task_state(&task.task) == TASK_CANCELLED:
            return False
        claimed = task_claim(task, self.timer)
        try:
            if task_state(&task.task) != TASK_PENDING:
                hw_poke64(&task.task.deadline_ms, expiration)
            # Clocks are never negative, so what is negative is as due as 0.
            return task_schedule(self.timer, task, expiration if expiration > 0 else 0, REFUSE_DUE) == OK
        except:
            if task_state(&task.task) != TASK_PENDING:
                hw_poke64(&task.task.deadline_ms, deadline_before)
            if claimed:
                task_disown(task, self.timer)
            raise

    def advance_clock(self, time_ms):
        """Kafka's advanceClock: sets the clocks of all levels to a time. No clock goes back.

        `poll()` moves the clock itself; this is for moving it where nothing is due. What falls due on the way stays pending
        and comes with the next poll of its time, in order: unlike Kafka's, this moves tasks down from the buckets that the
        clocks pass over.

        Runtime complexity: O(levels), and as poll() for what falls due or moves down.
        """
        cdef int64_t time = integer_argument(time_ms, "time_ms")
        timing_wheel_itself(self)
        if time < 0:
            return
        with nogil:
            timer_advance_clock(self.timer, time)

    def poll(self, now_ms):
        """Takes every bucket that is due at now_ms, cascades, and returns what is due as a list, in order.

        The tasks count as expired; the caller runs them (`task.run()`). With nothing due no clock moves.

        Where memory ends on the way, the list is shorter, and the rest comes with the next poll.

        Runtime complexity: O(levels) for each task that falls due or moves down, over its whole life.
        Thread-safety: any thread; each task is returned to one caller.
        """
        cdef int64_t now = integer_argument(now_ms, "now_ms")
        cdef Instant instant = Instant(now, 0)
        cdef Entry* entry
        cdef TimerTask task
        cdef list due = []
        timing_wheel_itself(self)
        with nogil:
            timer_advance(self.timer, now)
        while True:
            try:
                list_make_room(due)
            except MemoryError:
                if due:
                    return due          # the rest comes with the next poll
                raise
            entry = timer_take_until(self.timer, &instant)
            if entry is NULL:
                list_drop_room(due)
                return due
            task = entry_task(entry)
            task_track(task)
            list_fill_room(due, task)
            Py_DECREF(task)             # the wheel's reference, of task_schedule

    @property
    def next_expiration_ms(self):
        """When the earliest bucket in the delay queue falls due, in ms; None when nothing is pending.

        Never later than the earliest task; it may be earlier, when that task is still in a coarse level.
        """
        cdef int64_t next_ms = 0
        cdef bint found = True
        timing_wheel_set_up(self)
        lock_with_gil(self.timer)
        if list_is_empty(&self.timer.ready):
            found = timer_next_locked(self.timer, &next_ms)
        else:
            next_ms = timer_ready_tick_locked(self.timer)
        lock_release(self.timer)
        return next_ms if found else None

    @property
    def tick_ms(self):
        """The length of a tick of this level, in ms."""
        timing_wheel_set_up(self)
        return self.timer.wheel.levels[self.depth].tick_ms

    @property
    def wheel_size(self):
        """Buckets a level."""
        timing_wheel_set_up(self)
        return self.timer.wheel.wheel_size

    @property
    def interval_ms(self):
        """tick_ms * wheel_size: how far this level reaches."""
        timing_wheel_set_up(self)
        return <object>self.timer.wheel.levels[self.depth].tick_ms * self.timer.wheel.wheel_size

    @property
    def current_time_ms(self):
        """This level's clock: a multiple of its tick_ms."""
        cdef int64_t current_time_ms
        timing_wheel_set_up(self)
        lock_with_gil(self.timer)
        current_time_ms = self.timer.wheel.levels[self.depth].current_time_ms
        lock_release(self.timer)
        return current_time_ms

    @property
    def overflow_wheel(self):
        """A view of the level above, or None while there is none."""
        cdef TimingWheel view
        cdef int32_t level_count
        timing_wheel_set_up(self)
        lock_with_gil(self.timer)
        level_count = self.timer.wheel.level_count
        lock_release(self.timer)
        if self.depth + 1 >= level_count:
            return None
        with cython.critical_section(self):
            if self.upper is None:
                view = TimingWheel.__new__(TimingWheel)
                view.timer = self.timer
                view.depth = self.depth + 1
                hw_count_add(&self.timer.references, 1)     # dropped in the view's __dealloc__
                self.upper = view
            view = self.upper
        return view

    def __len__(self):
        """How many tasks are pending: in the wheel and all levels above, or from this view's level on."""
        timing_wheel_set_up(self)
        if self.depth == 0:
            return hw_peek64(&self.timer.pending)
        return sum(len(bucket.tasks) for level in self.snapshot().levels for bucket in level.buckets)

    def snapshot(self):
        """An immutable picture of all levels (of a view: from its level on), their buckets, and the delay queue.

        Runtime complexity: O(wheel_size * levels + pending). Adds wait meanwhile.
        """
        timing_wheel_set_up(self)
        return timer_snapshot(self.timer, self.depth)

    def __repr__(self):
        timing_wheel_set_up(self)
        return (f"<{type(self).__name__} level {self.depth + 1}, tick_ms={self.tick_ms}, "
                f"wheel_size={self.wheel_size}, current_time_ms={self.current_time_ms}, {len(self)} pending>")


cdef Entry* timer_take_until(Timer* timer, const Instant* now) noexcept:
    """The next of what is ready, unless its tick is after now."""
    cdef Entry* entry = NULL
    lock_with_gil(timer)
    if not list_is_empty(&timer.ready) and timer_ready_tick_locked(timer) <= now.ms:      # advance_clock leaves more there
        entry = timer_take_ahead_locked(timer, <Instant*>now)
    lock_release(timer)
    return entry


cdef bint timing_wheel_set_up(TimingWheel self) except False:
    if self.timer is NULL:
        raise RuntimeError("this wheel has not been set up: call super().__init__()")
    return True


cdef bint timing_wheel_itself(TimingWheel self) except False:
    timing_wheel_set_up(self)
    if self.depth:
        raise TypeError("this is a view of an overflow wheel; add to, advance and poll the wheel itself")
    return True


hw_set_name(<PyObject*>TimingWheel, "hwheel.TimingWheel")     # see task.pxi
