# TimerTask: what waits in a timer, as Python sees it.


cdef object NOT_CALLED = object()           # for the arguments of a call that was let go of


cdef class TimerTask:
    """TimerTask(delay_ms, callback=None, *args, **kwargs)

    Something to be run after a delay. Pass a callback, or subclass and override `run()`.

    Arguments:
        delay_ms: how long to wait, in milliseconds: an int (a float is rounded up). Zero or less: at once.
        callback: called with args and kwargs when the time has come; released as soon as it has run, or at cancel().

    Raises:
        TypeError: delay_ms is no number, or callback is not callable.
        ValueError: delay_ms is NaN or infinite.
        OverflowError: delay_ms does not fit into 64 bits.

    A task belongs to the first timer that it is added to. From its first add or cancel on, exactly one of `pending`,
    `expired` and `cancelled` is true.

    Thread-safety: every method may be called from any thread, also inside callbacks.

    The names are Kafka's (TimerTask.java).

    >>> from hwheel import ManualTimer, TimerTask
    >>> timer = ManualTimer()
    >>> task = timer.add(TimerTask(50, print, "fifty ms are over"))
    >>> timer.advance(0.049)
    >>> task.pending
    True
    >>> timer.advance(0.001)
    fifty ms are over
    >>> task.expired
    True
    """

    def __init__(self, delay_ms, callback=None, *args, **kwargs):
        cdef int64_t delay = milliseconds_argument(delay_ms, "delay_ms")
        if callback is not None:
            callback_argument(callback)
        if task_state(&self.task) != TASK_NEW or self.task.owner:
            raise ValueError("this task has been added or cancelled already; make a new one")
        self.task.delay_ms = delay
        task_set_call(self, callback, args, kwargs)

    def __dealloc__(self):
        task_leave_timer(&self.task)

    def run(self):
        """Called when the task expires. Override it, or leave it to call `callback(*args, **kwargs)`.

        What `TimingWheel.poll()` and `close()` return still carries its callback: `task.run()` runs it, once.

        Raises:
            RuntimeError: the callback has run already or was released by cancel().
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
            callback = arguments = None     # so that they die with the call
            if not task_called_once(self):
                error_raise()

    def cancel(self):
        """Keeps the task from running, if it is not too late: True if this call did it.

        A task that has fallen due but waits for its executor can still be cancelled. The callback and its arguments
        are released at once. Before any add: True, and the task stays cancelled. A task of `call_every` that is
        cancelled inside its own callback does not run again, and the answer is True.

        Runtime complexity: O(1).
        Thread-safety: any thread.
        """
        return task_cancel(self)

    def __await__(self):
        """`await task`, in a coroutine on any asyncio loop: waits until the task has run, and gives what the callback
        returns, or raises what it raises, which is not reported then; of `call_every` the next run's.

        Raises:
            asyncio.CancelledError: the task was cancelled, or `close()` has returned it.
            TimerMissed: it was later than its `max_lateness`.
            RuntimeError: its run has begun already, and what it returned was not kept.

        Thread-safety: the timer may run the task on any thread; several coroutines may wait for one task.
        """
        return task_wait(self)

    def reschedule(self, delay):
        """Moves a pending task in place: it now runs `delay` seconds from now, behind all others of its new tick.

        Returns False, and does nothing, if the task is not pending. "Now" is the timer's clock; in a bare TimingWheel
        it is the wheel's current_time_ms.

        Arguments:
            delay: seconds, an int or a float, as in `call_later`.
        Raises:
            TypeError, ValueError, OverflowError: as `call_later`. The task stays where it was.

        Runtime complexity: O(1).
        Thread-safety: any thread.
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
        """The delay in ms that the task was made with, or rescheduled to."""
        return hw_peek64(&self.task.delay_ms)

    @property
    def deadline_ms(self):
        """When the task falls due on its timer's clock, in ms. None before it is added."""
        if hw_load(&self.task.owner) == 0 or task_state(&self.task) == TASK_NEW:
            return None
        return hw_peek64(&self.task.deadline_ms)

    @property
    def pending(self):
        """True while the task waits to be run."""
        return task_state(&self.task) == TASK_PENDING

    @property
    def expired(self):
        """True once the task has been handed out to be run, also inside its own callback."""
        return task_state(&self.task) == TASK_EXPIRED

    @property
    def cancelled(self):
        """True after a cancel() that came in time, and for what close() returned."""
        return task_state(&self.task) == TASK_CANCELLED

    @property
    def missed(self):
        """True if the task has expired and did not run, because it was later than its `max_lateness`; of `call_every`, if
        that was so the last time."""
        return task_flags(&self.task) & TASK_MISSED != 0

    @property
    def callback(self):
        """The callback. None if there is none (any more)."""
        return task_unwrapped(task_callback(self))

    @property
    def args(self):
        """The callback's positional arguments, a tuple. None once they are released."""
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
        """The callback's keyword arguments, a dict. None once they are released."""
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
        cdef str what = "" if callback is None else f", {callback!r}"
        return f"<{type(self).__name__} {state}, delay {hw_peek64(&self.task.delay_ms)} ms{what}>"


cdef void task_dealloc(PyObject* self) noexcept:
    """tp_dealloc of TimerTask. Cython's own saves and restores the exception that is set around a __dealloc__, which
    nothing here needs and which costs as much as the rest; it is still what PeriodicTask's calls."""
    PyObject_GC_UnTrack(self)
    # What has been cancelled or has run holds nothing, and so no chain of others.
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


# CPython frees an object through its type's tp_dealloc. Cython's own one for TimerTask saves and restores the exception that
# is set around a __dealloc__, which nothing here needs and which costs as much as the rest; it is still what PeriodicTask's
# calls. If CPython called another slot, what a task
# holds would not be released, or twice: tests/lifetime/test_release.py and tests/unit/test_long_chains.py tell.
hw_set_dealloc(<PyObject*>TimerTask, task_dealloc)


# Users know the class by the name under which they import it, so help(), reports and pickles show that one. A static type has
# no other place for the name of its module than tp_name: if CPython read another one, tests/packaging/test_public_names.py
# would tell.
hw_set_name(<PyObject*>TimerTask, "hwheel.TimerTask")
