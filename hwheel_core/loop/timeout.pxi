# timeout(), timeout_at(), idle_timeout(), and Timeout: asyncio's timeouts, compiled.
#
# They behave as the classes and functions of the same names in CPython's newest asyncio/timeouts.py, on every version
# of Python. On a wheel loop the timer goes into the wheel without a Python call; on other loops call_at() takes it.
#
# Entering and leaving creates no coroutine: __aenter__() and __aexit__() return a TimeoutStep, whose am_send slot does the work
# and returns the result at once.

cdef tuple TIMEOUT_STATES = ("created", "active", "expiring", "expired", "finished")


# --- the timer of a timeout --------------------------------------------------------------------------------------------

cdef object timers_add_timeout(LoopTimers self, double now, double when_s, Timeout timeout):
    """Add a handle that expires a timeout. Unlike other handles it has no context."""
    cdef LoopHandle handle = <LoopHandle>LoopHandle.__new__(LoopHandle)
    handle.timers = self
    handle.deadline = when_s
    handle.first_deadline = when_s
    handle.added = now
    handle.callback_ = timeout
    handle.arguments = ()
    with cython.critical_section(self):
        timers_check_open(self)
        timers_insert(self, handle, now)
    return handle


cdef object timeout_new_timer(Timeout self, object loop, double when_s, object given, object task):
    """Return a new timer for a deadline, or None if there is no deadline.

    For a task of another class, the loop calls the timer in a copy of the context, as asyncio does.
    """
    cdef LoopTimers timers = None
    cdef double now
    if given is None:
        return None
    if type(task) is asyncio_task:
        timers = loop_timers(loop)
    now = timers_time_unchanged(timers) if timers is not None else loop.time()
    if when_s <= now:
        return loop.call_soon(self._on_timeout)
    if timers is not None and now >= 0 and not isnan(when_s):
        return timers_add_timeout(timers, now, when_s, self)
    return loop.call_at(when_s if given is NotImplemented else given, self._on_timeout)


cdef inline bint timeout_disarm(Timeout self) except False:
    """Cancel the timer."""
    handle = self.handle
    if handle is not None:
        self.handle = None
        if type(handle) is LoopHandle:
            handle_cancel(<LoopHandle>handle)
        else:
            handle.cancel()
    return True


cdef bint timeout_move_timer(Timeout self, object loop, double when_s) except -1:
    """Move the timer within the wheel. Return False if that is not possible: the block then needs another timer."""
    cdef LoopHandle handle
    cdef LoopTimers timers
    cdef double now
    if type(self.handle) is not LoopHandle:
        return False
    handle = <LoopHandle>self.handle
    timers = handle.timers
    if handle.callback_ is not self or not timers_accept_timeouts(timers, loop):
        return False
    now = timers_time_unchanged(timers)
    if not when_s > now or now < 0:         # also NaN
        return False
    with cython.critical_section(timers):
        return timers_move(timers, handle, now, when_s)


cdef bint timeout_set(Timeout self, double when_s, object given) except False:
    """Replace the deadline of a running block. After an error nothing has changed."""
    loop = loop_running()
    if given is None or not timeout_move_timer(self, loop, when_s):
        handle = timeout_new_timer(self, loop, when_s, given, self.task)
        timeout_disarm(self)
        self.handle = handle
    self.timer_s = when_s
    self.when_s = when_s
    self.given = given
    return True


cdef bint timeout_touch(Timeout self) except False:
    """Move the deadline to the full delay from now."""
    cdef LoopHandle handle
    cdef double now, when_s
    loop = loop_running()
    if type(self.handle) is LoopHandle and (<LoopHandle>self.handle).timers.loop is loop:
        handle = <LoopHandle>self.handle
        now = timers_time(handle.timers)
        when_s = now + self.delay_s
        with cython.critical_section(handle.timers):
            timers_move(handle.timers, handle, now, when_s)
    else:
        when_s = <double>loop.time() + self.delay_s
        # A timer of the loop itself cannot move. If it is too early, it stays, and sets another one when it fires.
        if self.handle is None or self.timer_s > when_s:
            return timeout_set(self, when_s, NotImplemented)
    self.when_s = when_s
    self.given = NotImplemented
    return True


# --- entering and leaving ----------------------------------------------------------------------------------------------

cdef object timeout_enter(Timeout self):
    if self.state != TIMEOUT_CREATED:
        raise RuntimeError("Timeout has already been entered")
    loop = loop_running()
    task = hw_call_one(<PyObject*>current_task, <PyObject*>loop)
    if task is None:
        raise RuntimeError("Timeout should be used inside a task")
    self.cancelling = task_cancelling(task)
    if self.delay_s:
        self.when_s = <double>loop.time() + self.delay_s
    self.handle = timeout_new_timer(self, loop, self.when_s, self.given, task)
    self.state = TIMEOUT_ACTIVE
    self.timer_s = self.when_s
    self.task = task
    return self


cdef bint timeout_exit(Timeout self, object error_type, object error) except False:
    """Leave the block. Raise TimeoutError if the timeout, and nothing else, cancelled the task."""
    cdef object task
    cdef PyObject* running = hw_running_get()
    timeout_disarm(self)
    if running is not NULL:
        hw_stop_forget(<PyObject*>(<LoopTimers>running).stop_iteration, <PyObject*>self)
    task = self.task
    self.task = None
    if self.state == TIMEOUT_ACTIVE:
        self.state = TIMEOUT_FINISHED
    elif self.state == TIMEOUT_EXPIRING:
        self.state = TIMEOUT_EXPIRED
        if task.uncancel() <= self.cancelling and error_type is not None:
            if issubclass(error_type, CancelledError):
                raise TimeoutError from error
            if error is not None:
                timeout_name_cause(error)
                if isinstance(error, ExceptionGroup):
                    for inner in error.exceptions:
                        timeout_name_cause(inner)
    else:
        raise RuntimeError(f"Cannot leave a {TIMEOUT_STATES[self.state]} Timeout")
    return True


cdef bint timeout_name_cause(object error) except False:
    """Insert a TimeoutError between an exception and the CancelledError in its chain of contexts."""
    while error.__context__ is not None:
        if isinstance(error.__context__, CancelledError):
            expired = TimeoutError()
            expired.__context__ = expired.__cause__ = error.__context__
            error.__context__ = expired
            break
        error = error.__context__
    return True


@cython.freelist(16)
cdef class Timeout:         # not final, because async_timeout has a subclass of asyncio.Timeout
    """Timeout(when)

    An asynchronous context manager that cancels a block of code at a deadline, as asyncio.Timeout. Create one with
    ``timeout()`` or ``timeout_at()``.

    Args:
        when: The deadline on the clock of ``loop.time()``. None: no deadline.

    Not thread-safe, as in asyncio: use it in the task that entered it.
    """

    def __init__(self, when):
        if self.state != TIMEOUT_CREATED:
            raise RuntimeError("Timeout has already been entered")
        self.when_s = INFINITY if when is None else when
        self.given = when

    def when(self):
        """Return the deadline on the clock of ``loop.time()``, or None.

        An ``idle_timeout()`` has no deadline before it is entered.

        Example:
            >>> import asyncio
            >>> import hwheel.asyncio
            >>> async def main():
            ...     async with hwheel.asyncio.timeout(30) as limit:
            ...         return round(limit.when() - asyncio.get_running_loop().time())
            >>> hwheel.asyncio.run(main())
            30
        """
        if self.delay_s and self.state == TIMEOUT_CREATED:
            return None
        return self.when_s if self.given is NotImplemented else self.given

    @cython.always_allow_keywords(True)
    def reschedule(self, when):
        """Move the deadline.

        Args:
            when: The new deadline on the clock of ``loop.time()``; a time that has passed: cancel the block in the
                next pass of the loop. None: no deadline.

        Raises:
            RuntimeError: The block is not running, or the timeout has expired.

        O(1).

        Example:
            >>> import asyncio
            >>> import hwheel.asyncio
            >>> async def main():
            ...     async with hwheel.asyncio.timeout(30) as limit:
            ...         limit.reschedule(limit.when() + 30)
            ...         return round(limit.when() - asyncio.get_running_loop().time())
            >>> hwheel.asyncio.run(main())
            60
        """
        cdef double when_s
        if self.state != TIMEOUT_ACTIVE:
            if self.state == TIMEOUT_CREATED:
                raise RuntimeError("Timeout has not been entered")
            raise RuntimeError(f"Cannot change state of {TIMEOUT_STATES[self.state]} Timeout")
        when_s = INFINITY if when is None else when
        timeout_set(self, when_s, when)

    def touch(self):
        """Move the deadline of an ``idle_timeout()`` to its full delay from now.

        Returns:
            False if the timeout has expired or the block does not run; then nothing changes.

        Raises:
            RuntimeError: The timeout was not created by ``idle_timeout()``.

        O(1). Creates no object on a wheel loop.

        Example:
            >>> import hwheel.asyncio
            >>> async def main():
            ...     async with hwheel.asyncio.idle_timeout(30) as idle:
            ...         return idle.touch()
            >>> hwheel.asyncio.run(main())
            True
        """
        if not self.delay_s:
            raise RuntimeError("only timeouts of idle_timeout() can be touched: use reschedule()")
        return self.state == TIMEOUT_ACTIVE and timeout_touch(self)

    def expired(self):
        """Return True if the deadline has passed while the block was running.

        Example:
            >>> import asyncio
            >>> import hwheel.asyncio
            >>> async def main():
            ...     try:
            ...         async with hwheel.asyncio.timeout(0.01) as limit:
            ...             await asyncio.sleep(60)
            ...     except TimeoutError:
            ...         return limit.expired()
            >>> hwheel.asyncio.run(main())
            True
        """
        return self.state == TIMEOUT_EXPIRING or self.state == TIMEOUT_EXPIRED

    def __repr__(self):
        info = ""
        if self.state == TIMEOUT_ACTIVE:
            when = self.when()
            info = f" when={None if when is None else round(when, 3)}"
        return f"<Timeout [{TIMEOUT_STATES[self.state]}]{info}>"

    def __aenter__(self):
        cdef TimeoutStep step = <TimeoutStep>TimeoutStep.__new__(TimeoutStep)
        step.timeout = self
        step.enters = True
        return step

    def __aexit__(self, exc_type, exc_val, exc_tb):
        cdef TimeoutStep step = <TimeoutStep>TimeoutStep.__new__(TimeoutStep)
        step.timeout = self
        step.error_type = exc_type
        step.error = exc_val
        return step

    def _on_timeout(self):
        if self.delay_s and self.state == TIMEOUT_ACTIVE:
            loop = loop_running()
            if self.when_s > loop.time():       # touched since the loop's timer was set
                self.handle = loop.call_at(self.when_s, self._on_timeout)
                self.timer_s = self.when_s
                return
        timeout_expire(self)


hw_set_name(<PyObject*>Timeout, "hwheel.asyncio.Timeout")


cdef object step_take(TimeoutStep self):
    """Enter or leave, and return the result of the await."""
    cdef Timeout timeout = self.timeout
    if timeout is None:
        raise RuntimeError("cannot reuse already awaited __aenter__() or __aexit__()")
    self.timeout = None
    if self.enters:
        return timeout_enter(timeout)
    timeout_exit(timeout, self.error_type, self.error)
    return None


cdef int step_send(PyObject* self, PyObject* value, PyObject** result) except -1:
    """The am_send slot, which Python 3.11 calls: return PYGEN_RETURN with the result."""
    taken = step_take(<TimeoutStep>self)
    Py_INCREF(taken)                    # the caller's reference
    result[0] = <PyObject*>taken
    return 0


cdef PyObject* step_next(PyObject* self) except? NULL:
    """The tp_iternext slot, which later versions call. NULL without an exception means StopIteration(None)."""
    cdef PyObject* running
    cdef LoopTimers timers
    taken = step_take(<TimeoutStep>self)
    if taken is None:
        return NULL
    running = hw_running_get()
    if running is NULL:
        stop = hw_stop_new()
        hw_stop_raise(<PyObject*>stop, <PyObject*>taken)
        return NULL
    timers = <LoopTimers>running
    if not hw_stop_is_free(<PyObject*>timers.stop_iteration):
        timers.stop_iteration = hw_stop_new()
    hw_stop_raise(<PyObject*>timers.stop_iteration, <PyObject*>taken)
    return NULL


@cython.final
@cython.freelist(8)
cdef class TimeoutStep:
    """The awaitable that ``Timeout.__aenter__()`` and ``__aexit__()`` return. It is done at once."""

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):                 # for explicit calls: an await uses the slots below
        raise StopIteration(step_take(self))


hw_set_await(<PyObject*>TimeoutStep, <void*>step_send, <void*>step_next)


# Cython's own __aexit__() also accepts keywords, which takes longer.
cdef PyMethodDef timeout_aexit_def
cdef object common_aexit = None


cdef object timeout_aexit_fast(PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    cdef TimeoutStep step
    if count != 3 or keywords is not NULL:
        return core_call_slowly(common_aexit, self, args, count, keywords)
    step = <TimeoutStep>TimeoutStep.__new__(TimeoutStep)
    step.timeout = <Timeout>self
    step.error_type = <object>args[0]
    step.error = <object>args[1]
    return step


common_aexit = <object>hw_use_fastcall(
    <PyObject*>Timeout, "__aexit__", &timeout_aexit_def, <void*>timeout_aexit_fast
)


# --- functions ---------------------------------------------------------------------------------------------------------

@cython.always_allow_keywords(True)
def timeout(delay):
    """Return a context manager that cancels its block after ``delay`` seconds, as ``asyncio.timeout()``.

    The block ends with CancelledError at its next await; outside it becomes TimeoutError. On a wheel loop, entering and leaving
    takes a tenth of the time of asyncio's on CPython 3.11, and a fifth on 3.14.

    Args:
        delay: Seconds from now. Zero or less: cancel the block at its first await that suspends. None: no timeout.

    Returns:
        A Timeout, for ``async with``.

    Raises:
        RuntimeError: No event loop is running, or, from ``async with``, no task.
        TypeError: ``delay`` is not a number.

    O(1).

    >>> import asyncio
    >>> import hwheel.asyncio
    >>> async def main():
    ...     try:
    ...         async with hwheel.asyncio.timeout(0.01):
    ...             await asyncio.sleep(60)
    ...     except TimeoutError:
    ...         return "too slow"
    >>> hwheel.asyncio.run(main())
    'too slow'
    """
    cdef Timeout timeout = <Timeout>Timeout.__new__(Timeout)
    cdef LoopTimers timers
    cdef double length
    loop = loop_running()
    if delay is None:
        return timeout
    timers = loop_timers(loop)
    if timers is not None and (PyFloat_CheckExact(delay) or type(delay) is int):
        length = <double>delay if PyFloat_CheckExact(delay) else PyLong_AsDouble(delay)
        timeout.when_s = timers_time_unchanged(timers) + length
        timeout.given = NotImplemented
    else:
        timeout.given = loop.time() + delay
        timeout.when_s = timeout.given
    return timeout


@cython.always_allow_keywords(True)
def idle_timeout(delay):
    """Return a context manager that cancels its block if it is not touched for ``delay`` seconds.

    One timer limits many steps, such as all reads of a connection. Call ``touch()`` after each step.

    Args:
        delay: Seconds from entering the block, and from each ``touch()``.

    Returns:
        A Timeout, for ``async with``.

    Raises:
        TypeError: ``delay`` is not a number.
        ValueError: ``delay`` is NaN, infinite, or not positive.

    >>> import asyncio
    >>> import hwheel.asyncio
    >>> async def main():
    ...     async with hwheel.asyncio.idle_timeout(1) as idle:
    ...         for _ in range(10):
    ...             await asyncio.sleep(0.01)
    ...             idle.touch()
    ...     return "10 steps"
    >>> hwheel.asyncio.run(main())
    '10 steps'
    """
    cdef Timeout timeout = Timeout.__new__(Timeout)
    timeout.delay_s = delay if PyFloat_CheckExact(delay) else seconds_number(delay, "delay")
    if not 0 < timeout.delay_s < INFINITY:
        raise ValueError(f"delay must be positive and finite, got {delay!r}")
    timeout.given = NotImplemented
    return timeout


@cython.always_allow_keywords(True)
def timeout_at(when):
    """Return a context manager that cancels its block at a time of ``loop.time()``, as ``asyncio.timeout_at()``.

    Args:
        when: The deadline in seconds on the loop's clock. None: no deadline.

    Returns:
        A Timeout, for ``async with``.

    Raises:
        TypeError: ``when`` is not a number.

    Example:
        >>> import asyncio
        >>> import hwheel.asyncio
        >>> async def main():
        ...     async with hwheel.asyncio.timeout_at(asyncio.get_running_loop().time() + 30):
        ...         return await asyncio.sleep(0.01, "done")
        >>> hwheel.asyncio.run(main())
        'done'
    """
    return Timeout(when)
