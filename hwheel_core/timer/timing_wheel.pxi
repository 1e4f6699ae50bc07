# TimingWheel: the wheel without threads, on a clock that the caller moves.


cdef class TimingWheel:
    """TimingWheel(tick_ms=1, wheel_size=20, start_ms=0)

    Kafka's hierarchical timing wheel (TimingWheel.java) without threads, on a clock that only the caller moves.

    Unlike Kafka's, tasks of one tick come out in the order in which they were added. ``overflow_wheel`` is a view of the level
    above, of the same class; tasks are added to the wheel itself only.

    Args:
        tick_ms: Length of a tick of the finest level, at least 1.
        wheel_size: Number of buckets per level, from 2 to 1,048,576.
        start_ms: Initial time of the clock, not negative.

    Raises:
        TypeError: An argument is not an int.
        ValueError: An argument is out of range.
        OverflowError: An argument, or tick_ms * wheel_size, does not fit into 64 bits.

    Thread-safe: every method may be called from any thread.

    Example:
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
        if self.timer is not NULL:          # the conversion of an argument has run Python code that called __init__
            timer_release(timer)
            raise ValueError("this wheel has been set up already")
        self.timer = timer
        debug_count(LIVE_TIMERS, 1)

    def __dealloc__(self):
        if self.timer is not NULL:
            if self.depth == 0:
                timer_cancel_rest(self.timer)
                debug_count(LIVE_TIMERS, -1)
            timer_release(self.timer)

    def add(self, TimerTask task not None, expiration_ms):
        """Add a task to the bucket of a time.

        Args:
            task: A new task, or an expired one with its own run().
            expiration_ms: Time on the wheel's clock at which the task is due.

        Returns:
            True if the task is pending. False if it is due already, or was cancelled before. A due task counts as expired, and
            the caller runs it.

        Raises:
            TypeError: expiration_ms is not an int.
            OverflowError: expiration_ms does not fit into 64 bits.
            ValueError: The task is pending, belongs to another timer, or has a callback and has expired.

        O(levels). Thread-safe.

        Example:
            >>> from hwheel import TimerTask, TimingWheel
            >>> wheel = TimingWheel(tick_ms=1, wheel_size=4)
            >>> wheel.add(TimerTask(5), 5)
            True
            >>> len(wheel)
            1
        """
        cdef int64_t expiration = integer_argument(expiration_ms, "expiration_ms")
        cdef int64_t deadline_before = hw_peek64(&task.task.deadline_ms)
        cdef bint claimed
        timing_wheel_check_itself(self)
        if task_state(&task.task) == TASK_CANCELLED:
            return False
        claimed = task_claim(task, self.timer)
        try:
            if task_state(&task.task) != TASK_PENDING:
                hw_poke64(&task.task.deadline_ms, expiration)
            # A negative expiration is as due as 0, because clocks are never negative.
            return task_schedule(self.timer, task, expiration if expiration > 0 else 0, REFUSE_DUE) == OK
        except:
            if task_state(&task.task) != TASK_PENDING:
                hw_poke64(&task.task.deadline_ms, deadline_before)
            if claimed:
                task_disown(task, self.timer)
            raise

    def advance_clock(self, time_ms):
        """Move the clocks of all levels forward to a time, like Kafka's advanceClock. No clock moves backward.

        poll() moves the clocks itself; call this to move them where nothing is due. Tasks that become due stay pending until
        the next poll() of their time. Unlike Kafka's, this moves tasks down from the buckets that the clocks pass.

        O(levels), plus the cost of poll() for the tasks that are due or move down. Thread-safe.

        Example:
            >>> from hwheel import TimerTask, TimingWheel
            >>> wheel = TimingWheel(tick_ms=1, wheel_size=4)
            >>> wheel.advance_clock(3)
            >>> wheel.current_time_ms
            3
        """
        cdef int64_t time = integer_argument(time_ms, "time_ms")
        timing_wheel_check_itself(self)
        if time < 0:
            return
        with nogil:
            timer_advance_clock(self.timer, time)

    def poll(self, now_ms):
        """Advance the wheel to now_ms, and return the due tasks in order.

        The tasks count as expired; the caller runs them (``task.run()``). If nothing is due, no clock moves. On a failed
        allocation the list is shorter, and the next poll() returns the rest.

        O(levels) for each task over its whole life. Thread-safe: each task is returned to one caller.

        Example:
            >>> from hwheel import TimerTask, TimingWheel
            >>> wheel = TimingWheel(tick_ms=1, wheel_size=4)
            >>> wheel.add(TimerTask(5, print, "five"), 5)
            True
            >>> for task in wheel.poll(5):
            ...     task.run()
            five
        """
        cdef int64_t now = integer_argument(now_ms, "now_ms")
        cdef Instant instant = Instant(now, 0)
        cdef Entry* entry
        cdef TimerTask task
        cdef list due = []
        timing_wheel_check_itself(self)
        with nogil:
            timer_advance(self.timer, now)
        while True:
            if not list_can_grow(due):
                return due              # the rest comes with the next poll
            entry = timer_take_until(self.timer, &instant)
            if entry is NULL:
                list_unreserve(due)
                return due
            task = entry_task(entry)
            task_track(task)
            list_fill(due, task)
            Py_DECREF(task)             # the wheel's reference, from task_schedule

    @property
    def next_expiration_ms(self):
        """Time of the next poll() that can move or return tasks, or None if nothing is pending.

        Usually the expiration of the first bucket in the delay queue. Never later than the expiration of the first task, and
        earlier while that task is in a coarse level.
        """
        cdef int64_t next_ms = 0
        cdef bint found = True
        timing_wheel_check_set_up(self)
        lock_with_gil(self.timer)
        if list_is_empty(&self.timer.ready):
            found = timer_next_locked(self.timer, &next_ms)
        else:
            next_ms = timer_ready_tick_locked(self.timer)
        lock_release(self.timer)
        return next_ms if found else None

    @property
    def tick_ms(self):
        """Length of a tick of this level."""
        timing_wheel_check_set_up(self)
        return self.timer.wheel.levels[self.depth].tick_ms

    @property
    def wheel_size(self):
        """Number of buckets per level."""
        timing_wheel_check_set_up(self)
        return self.timer.wheel.wheel_size

    @property
    def interval_ms(self):
        """Interval that this level covers: tick_ms * wheel_size."""
        timing_wheel_check_set_up(self)
        return <object>self.timer.wheel.levels[self.depth].tick_ms * self.timer.wheel.wheel_size

    @property
    def current_time_ms(self):
        """Time on the clock of this level, a multiple of its tick_ms."""
        cdef int64_t current_time_ms
        timing_wheel_check_set_up(self)
        lock_with_gil(self.timer)
        current_time_ms = self.timer.wheel.levels[self.depth].current_time_ms
        lock_release(self.timer)
        return current_time_ms

    @property
    def overflow_wheel(self):
        """View of the level above, or None if it does not exist yet."""
        cdef TimingWheel view
        cdef int32_t level_count
        timing_wheel_check_set_up(self)
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
        """Return the number of pending tasks. In a view, only its level and the levels above count."""
        timing_wheel_check_set_up(self)
        if self.depth == 0:
            return hw_peek64(&self.timer.pending)
        return sum(len(bucket.tasks) for level in self.snapshot().levels for bucket in level.buckets)

    def snapshot(self):
        """Return a WheelSnapshot of all levels, their buckets, and the delay queue. A view omits the levels below its own.

        O(wheel_size * levels + pending). Thread-safe; concurrent adds wait.

        Example:
            >>> from hwheel import TimerTask, TimingWheel
            >>> wheel = TimingWheel(tick_ms=1, wheel_size=4)
            >>> wheel.add(TimerTask(5), 5)
            True
            >>> [level.tick_ms for level in wheel.snapshot().levels]
            [1, 4]
        """
        timing_wheel_check_set_up(self)
        return timer_snapshot(self.timer, self.depth)

    def __repr__(self):
        timing_wheel_check_set_up(self)
        return (f"<{type(self).__name__} level {self.depth + 1}, tick_ms={self.tick_ms}, "
                f"wheel_size={self.wheel_size}, current_time_ms={self.current_time_ms}, {len(self)} pending>")


cdef Entry* timer_take_until(Timer* timer, const Instant* now) noexcept:
    """Take the next ready entry, unless its tick is after `now`."""
    cdef Entry* entry = NULL
    lock_with_gil(timer)
    # advance_clock may have left later entries in `ready`.
    if not list_is_empty(&timer.ready) and timer_ready_tick_locked(timer) <= now.ms:
        entry = timer_take_ahead_locked(timer, <Instant*>now)
    lock_release(timer)
    return entry


cdef bint timing_wheel_check_set_up(TimingWheel self) except False:
    if self.timer is NULL:
        raise RuntimeError("this wheel has not been set up: call super().__init__()")
    return True


cdef bint timing_wheel_check_itself(TimingWheel self) except False:
    timing_wheel_check_set_up(self)
    if self.depth:
        raise TypeError("this is a view of an overflow wheel; add to, advance and poll the wheel itself")
    return True


hw_set_name(<PyObject*>TimingWheel, "hwheel.TimingWheel")     # see task/timer_task.pxi
