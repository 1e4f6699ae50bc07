# TimerTask: a timer as Python sees it.


cdef object NOT_CALLED = object()           # placeholder for the arguments of a released call


cdef class TimerTask:
    """TimerTask(delay_ms, callback=None, *args, **kwargs)

    A task that a timer runs once, after a delay. Pass a callback, or subclass and override `run()`.

    `call_later` and its relatives return a TimerTask as the handle of a call. `await task` waits for its result, and
    `TimerTask[int]` is the type of a task whose callback returns an int.

    A task belongs to the first timer that it is added to. From its first add or cancel on, exactly one of `pending`,
    `expired` and `cancelled` is true. The names are those of Kafka's `TimerTask`.

    Args:
        delay_ms: Milliseconds to wait, an int or a float, which is rounded up. Zero or less: run at the next dispatch.
        callback: Called as `callback(*args, **kwargs)`. Released after its run or at cancel().

    Raises:
        TypeError: `delay_ms` is not a number, or `callback` is not callable.
        ValueError: `delay_ms` is NaN or infinite.
        OverflowError: `delay_ms` does not fit into 64 bits.

    Thread-safe: any thread may call any method, also inside callbacks.

    Example:
        >>> from hwheel import ManualTimer, TimerTask
        >>> timer = ManualTimer()
        >>> task = timer.add(TimerTask(50, print, "fifty ms are over"))
        >>> timer.advance(0.049)
        >>> task.pending, task.deadline
        (True, 0.05)
        >>> timer.advance(0.001)
        fifty ms are over
        >>> task.expired
        True
    """

    @classmethod
    def __class_getitem__(cls, item):
        """Return a generic alias, for type checkers."""
        return types.GenericAlias(cls, item)

    def __init__(self, delay_ms, callback=None, *args, **kwargs):
        cdef int64_t delay = milliseconds_argument(delay_ms, "delay_ms")
        if callback is not None:
            callback_argument(callback)
        if task_state(&self.task) != TASK_NEW or self.task.owner:
            raise ValueError("this task has already been added or cancelled: create a new one")
        self.task.delay_ms = delay
        task_set_call(self, callback, args, kwargs)

    def __dealloc__(self):
        task_leave_timer(&self.task)

    def run(self):
        """Run the task. The timer calls this when the task expires; the default calls `callback(*args, **kwargs)`.

        A task that `TimingWheel.poll()` or `close()` has returned still has its callback: `task.run()` runs it, once.

        Raises:
            RuntimeError: The callback has run already or was released by cancel().

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> task = timer.call_later(30, print, "late")
            >>> for returned in timer.close():
            ...     returned.run()
            late
        """
        cdef object callback, arguments
        cdef int32_t flags
        with cython.critical_section(self):
            callback = self.callback_
            arguments = self.arguments
            flags = self.task.flags
        if callback is None:
            if flags & TASK_HAD_CALLBACK:
                raise RuntimeError("the callback of this task has run already or was released by cancel()")
            return
        if task_state(&self.task) == TASK_PENDING or task_state(&self.task) == TASK_NEW or flags & TASK_REPEATS:
            task_call(callback, arguments, flags)
        else:
            callback = arguments = None     # so that they are released with the call
            if not task_called_once(self):
                error_raise()

    def cancel(self):
        """Keep the task from running, and release its callback and arguments.

        A task that has expired but waits for its executor can still be cancelled. So can a task of `call_every` inside its own
        callback: it does not run again. A new task that is cancelled can never be added.

        Returns:
            True if this call kept the task from running (again), False if it is too late.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> task = timer.call_later(30, print)
            >>> task.cancel(), task.cancel()
            (True, False)
        """
        return task_cancel(self)

    def __await__(self):
        """Wait in a coroutine, on any asyncio loop, until the task has run. Return or raise what its callback does.

        An exception is raised here and not reported to `on_error`. For a task of `call_every` this waits for the next run.

        Raises:
            asyncio.CancelledError: The task was cancelled, or `close()` has returned it.
            TimerMissed: The task was later than its `max_lateness`.
            RuntimeError: The task had begun to run before, and its result was not kept.

        Thread-safe: any thread may run the task, and several coroutines may wait for it.

        Example:
            >>> import asyncio
            >>> from hwheel import SystemTimer
            >>> async def main():
            ...     with SystemTimer() as timer:
            ...         return await timer.call_later(0.01, sum, [1, 2])
            >>> asyncio.run(main())
            3
        """
        return task_wait(self)

    def reschedule(self, delay):
        """Move a pending task: it now runs `delay` seconds from now, after all other tasks of its new tick.

        "Now" is the time on the timer's clock, in a TimingWheel its current_time_ms.

        Args:
            delay: Seconds, an int or a float, as for `call_later`.

        Returns:
            False, without any effect, if the task is not pending.

        Raises:
            TypeError, ValueError, OverflowError: As for `call_later`. The task keeps its deadline.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> task = timer.call_later(30, print, "idle")
            >>> timer.advance(20)
            >>> task.reschedule(30), task.deadline
            (True, 50.0)
        """
        cdef Instant length
        cdef Timer* timer
        seconds_argument(delay, "delay", &length)
        timer = <Timer*>hw_load(&self.task.owner)
        if timer is NULL or task_state(&self.task) != TASK_PENDING:
            return False
        return task_reschedule(timer, self, &length)

    @property
    def delay_ms(self):
        """The delay in milliseconds that the task was created with or last rescheduled to."""
        return hw_peek64(&self.task.delay_ms)

    @property
    def deadline_ms(self):
        """When the task expires, in milliseconds on the timer's clock. None before it is added."""
        if hw_load(&self.task.owner) == 0 or task_state(&self.task) == TASK_NEW:
            return None
        return hw_peek64(&self.task.deadline_ms)

    @property
    def deadline(self):
        """When the task expires, in seconds on the timer's clock (its `time()`). None before it is added."""
        deadline_ms = self.deadline_ms
        return None if deadline_ms is None else deadline_ms / 1e3

    def remaining(self):
        """Return the number of seconds until the deadline.

        The result is 0.0 if the deadline has passed or the task is not pending: new, expired or cancelled. A task of
        `call_every` is not pending while it runs.

        Raises:
            Exception: The timer's clock is a callable and raised this.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> task = timer.call_later(30, print)
            >>> timer.advance(10)
            >>> task.remaining()
            20.0
        """
        cdef Timer* timer = <Timer*>hw_load(&self.task.owner)
        cdef Instant now
        if timer is NULL or task_state(&self.task) != TASK_PENDING:
            return 0.0
        timer_read_clock(timer, &now)
        return max(0.0, (<object>(hw_peek64(&self.task.deadline_ms) - now.ms) * NS_PER_MS - now.ns) / 1e9)

    @property
    def pending(self):
        """True while the task waits to be run."""
        return task_state(&self.task) == TASK_PENDING

    @property
    def expired(self):
        """True from the moment the task is handed out to be run, also inside its own callback."""
        return task_state(&self.task) == TASK_EXPIRED

    @property
    def cancelled(self):
        """True after a cancel() that was in time, and for a task that close() returned."""
        return task_state(&self.task) == TASK_CANCELLED

    @property
    def missed(self):
        """True if the task was skipped because it was later than its `max_lateness`. For `call_every`: the last run."""
        return task_flags(&self.task) & TASK_MISSED != 0

    @property
    def callback(self):
        """The callback, or None if the task has no callback or has released it."""
        return task_unwrapped(task_callback(self))

    @property
    def args(self):
        """The tuple of positional arguments. None if they were released."""
        cdef object arguments
        cdef int32_t flags
        with cython.critical_section(self):
            arguments = NOT_CALLED if task_is_released(self) else self.arguments
            flags = self.task.flags
        if arguments is NOT_CALLED:
            return None
        if flags & TASK_ONE_ARGUMENT:
            return (arguments,)
        if arguments is None:
            return ()
        return tuple([*task_positional(arguments, flags)])

    @property
    def kwargs(self):
        """The dict of keyword arguments. None if they were released."""
        cdef object arguments
        cdef int32_t flags
        with cython.critical_section(self):
            arguments = NOT_CALLED if task_is_released(self) else self.arguments
            flags = self.task.flags
        if arguments is NOT_CALLED:
            return None
        return dict(task_keywords(arguments)) if flags & TASK_KEYWORDS else {}

    def __repr__(self):
        cdef str state = ("new", "pending", "expired", "cancelled")[task_state(&self.task)]
        cdef object callback = task_unwrapped(task_callback(self))
        cdef str call = "" if callback is None else f", {callback!r}"
        return f"<{type(self).__name__} {state}, delay {hw_peek64(&self.task.delay_ms)} ms{call}>"


# --- deallocation ------------------------------------------------------------------------------------------------
#
# Cython's tp_dealloc saves and restores the current exception around __dealloc__, which costs as much as the rest and is not
# needed here. PeriodicTask still uses it. If CPython ignored the replaced slot, references would leak or be dropped twice:
# tests/lifetime/test_release.py and tests/unit/test_long_chains.py would fail.


cdef void task_dealloc(PyObject* self) noexcept:
    """tp_dealloc of TimerTask."""
    PyObject_GC_UnTrack(self)
    # Without a call, this cannot be the head of a long chain of objects that are freed recursively.
    if task_slots(self)[0] == <PyObject*>None and task_slots(self)[1] == <PyObject*>None:
        task_free(self)
    else:
        hw_free_in_turn(self, task_dealloc, task_free_in_turn)


cdef void task_free_in_turn(PyObject* self) noexcept:
    task_free(self)


cdef inline void task_free(PyObject* self) noexcept:
    cdef PyObject* callback = task_slots(self)[0]
    cdef PyObject* arguments = task_slots(self)[1]
    task_leave_timer(&(<TimerTask>self).task)
    Py_XDECREF(callback)
    Py_XDECREF(arguments)
    hw_type_free(self)


hw_set_dealloc(<PyObject*>TimerTask, task_dealloc)

# Users import the class from hwheel, so help(), errors and pickles name it so. A static type stores the name of its module
# in tp_name only (tests/packaging/test_public_names.py).
hw_set_name(<PyObject*>TimerTask, "hwheel.TimerTask")
