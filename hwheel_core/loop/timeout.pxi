# timeout(), Timeout, and wait_for(): asyncio's timeouts, compiled.
#
# They behave as the classes and functions of the same names in CPython's newest asyncio/timeouts.py and asyncio/tasks.py, on
# every version of Python. On a wheel loop the timer goes into the wheel without a Python call; on other loops call_at() takes it.
#
# Entering and leaving creates no coroutine, and no other object: __aenter__() and __aexit__() return the Timeout itself, whose
# am_send slot does the work and returns the result at once.

cdef object CancelledError = None       # asyncio's
cdef object wait_for_expired = None     # a coroutine function: wait_for() with a timeout of zero or less

cdef tuple TIMEOUT_STATES = ("created", "active", "expiring", "expired", "finished")


def set_loop_timeouts(cancelled_error, expired):
    """Set asyncio.CancelledError, and a coroutine function for ``wait_for()`` with a timeout of zero or less."""
    global CancelledError, wait_for_expired
    CancelledError = cancelled_error
    wait_for_expired = expired


# --- the timer of a timeout --------------------------------------------------------------------------------------------

cdef object timers_add_timeout(LoopTimers self, double now, double when_s, Timeout timeout):
    """Add a handle that expires a timeout. Unlike other handles it has no context."""
    cdef LoopHandle handle = LoopHandle.__new__(LoopHandle)
    handle.timers = self
    handle.deadline = when_s
    handle.first_deadline = when_s
    handle.added = now
    handle.callback_ = timeout
    handle.arguments = ()
    if self.hides:
        handle_hide(handle, False)
        if not HW_FREE_THREADED:
            PyObject_GC_UnTrack(<PyObject*>timeout)     # handle_show() tracks it again
    with cython.critical_section(self):
        timers_check_open(self)
        timers_insert(self, handle, now)
    return handle


cdef object timeout_new_timer(Timeout self, object loop, double when_s, object given):
    """Return a new timer for a deadline, or None if there is no deadline."""
    cdef LoopTimers timers
    cdef double now
    if given is None:
        return None
    timers = loop_wheel(loop)
    now = timers_time(timers) if timers is not None else loop.time()
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


cdef bint timeout_set(Timeout self, double when_s, object given) except False:
    """Replace the deadline and the timer of a running block. After an error nothing has changed."""
    handle = timeout_new_timer(self, loop_running(), when_s, given)
    timeout_disarm(self)
    self.handle = handle
    self.when_s = when_s
    self.given = given
    return True


cdef bint timeout_touch(Timeout self) except False:
    """Move the deadline to the full delay from now."""
    cdef LoopHandle handle
    cdef double now
    loop = loop_running()
    if type(self.handle) is LoopHandle:
        handle = <LoopHandle>self.handle
        if handle.callback_ is self and handle.timers.loop is loop:
            now = timers_time(handle.timers)
            with cython.critical_section(handle.timers):
                timers_move(handle.timers, handle, now, now + self.delay_s)
            self.when_s = now + self.delay_s
            return True
    # The loop's own timer stays, and sets another one when it fires too early.
    self.when_s = <double>loop.time() + self.delay_s
    return True


# --- entering and leaving ----------------------------------------------------------------------------------------------

cdef object timeout_enter(Timeout self):
    if self.state != TIMEOUT_CREATED:
        raise RuntimeError("Timeout has already been entered")
    loop = loop_running()
    task = loop_current_task(loop)
    if task is None:
        raise RuntimeError("Timeout should be used inside a task")
    self.cancelling = task_cancelling(task)
    if self.starts_on_entry:
        self.when_s = <double>loop.time() + self.delay_s
    self.handle = timeout_new_timer(self, loop, self.when_s, self.given)
    self.task = task
    self.state = TIMEOUT_ACTIVE
    return self


cdef bint timeout_exit(Timeout self, object error_type, object error) except False:
    """Leave the block. Raise TimeoutError if the timeout, and nothing else, cancelled the task."""
    cdef object task
    timeout_disarm(self)
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
        raise RuntimeError("Timeout has not been entered")
    return True


cdef bint timeout_name_cause(object error) except False:
    """Insert a TimeoutError before the CancelledError that an exception was raised in consequence of."""
    while error.__context__ is not None:
        if isinstance(error.__context__, CancelledError):
            expired = TimeoutError()
            expired.__context__ = expired.__cause__ = error.__context__
            error.__context__ = expired
            break
        error = error.__context__
    return True


@cython.final
@cython.freelist(16)
cdef class Timeout:
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

        Example:
            >>> import asyncio
            >>> import hwheel.asyncio
            >>> async def main():
            ...     async with hwheel.asyncio.timeout(30) as limit:
            ...         return round(limit.when() - asyncio.get_running_loop().time())
            >>> hwheel.asyncio.run(main())
            30
        """
        return self.when_s if self.given is NotImplemented else self.given

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
        if not self.starts_on_entry:
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
        self.step = STEP_ENTER
        return self

    def __aexit__(self, error_type, error, traceback):
        self.step = STEP_EXIT
        self.error_type = error_type
        self.error = error
        return self

    def __await__(self):
        if self.step == STEP_NONE:
            raise TypeError("object Timeout can't be used in 'await' expression")
        return self

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration(timeout_step(self))

    def _on_timeout(self):
        if self.starts_on_entry and self.state == TIMEOUT_ACTIVE:
            loop = loop_running()
            if self.when_s > loop.time():       # touched since the loop's timer was set
                self.handle = loop.call_at(self.when_s, self._on_timeout)
                return
        timeout_expire(self)


cdef object timeout_step(Timeout self):
    """Enter or leave, and return the result of the await."""
    cdef TimeoutStep step = self.step
    cdef object error_type, error
    self.step = STEP_NONE
    if step == STEP_ENTER:
        return timeout_enter(self)
    if step == STEP_NONE:
        raise RuntimeError("cannot await __aenter__() or __aexit__() twice")
    error_type, self.error_type = self.error_type, None
    error, self.error = self.error, None
    timeout_exit(self, error_type, error)
    return None


cdef int timeout_send(PyObject* self, PyObject* value, PyObject** result) except -1:
    """The am_send slot: return PYGEN_RETURN with the result."""
    returned = timeout_step(<Timeout>self)
    Py_INCREF(returned)                    # the caller's reference
    result[0] = <PyObject*>returned
    return 0


hw_set_name(<PyObject*>Timeout, "hwheel.asyncio.Timeout")
hw_set_send(<PyObject*>Timeout, <void*>timeout_send)


# --- functions ---------------------------------------------------------------------------------------------------------

cdef Timeout timeout_after(object delay):
    cdef Timeout timeout = Timeout.__new__(Timeout)
    cdef LoopTimers timers
    loop = loop_running()
    if delay is None:
        return timeout
    timers = loop_wheel(loop)
    if timers is not None and (PyFloat_CheckExact(delay) or type(delay) is int):
        timeout.when_s = timers_time(timers) + <double>delay
        timeout.given = NotImplemented
    else:
        timeout.given = loop.time() + delay
        timeout.when_s = timeout.given
    return timeout


def timeout(delay):
    """Return a context manager that cancels its block after ``delay`` seconds, as ``asyncio.timeout()``.

    The block ends with CancelledError at its next await; outside it becomes TimeoutError. On a wheel loop, entering and leaving
    takes about a tenth of the time of asyncio's.

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
    return timeout_after(delay)


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
    timeout.delay_s = delay
    if not 0 < timeout.delay_s < INFINITY:
        raise ValueError(f"delay must be positive and finite, got {delay!r}")
    timeout.starts_on_entry = True
    timeout.given = NotImplemented
    return timeout


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


async def wait_for(fut, timeout):
    """Wait for an awaitable, and cancel it after ``timeout`` seconds, as ``asyncio.wait_for()`` from Python 3.12 on.

    A coroutine runs in the current task. Before Python 3.12, ``asyncio.wait_for()`` creates a task for it.

    Args:
        fut: An awaitable: a coroutine, a future, a task.
        timeout: Seconds from now. Zero or less: return the result if it is available, otherwise cancel the awaitable. None:
            wait without a limit.

    Returns:
        The awaitable's result, also if it returns one although it is cancelled.

    Raises:
        TimeoutError: The time is up.
        RuntimeError: No task is running.

    >>> import asyncio
    >>> import hwheel.asyncio
    >>> hwheel.asyncio.run(hwheel.asyncio.wait_for(asyncio.sleep(0.01, "done"), 10))
    'done'
    """
    cdef Timeout limit
    if timeout is not None and timeout <= 0:
        return await wait_for_expired(fut)
    if timeout is None:
        return await fut
    if (type(fut) is asyncio_future or type(fut) is asyncio_task) and fut.done():
        return fut.result()
    limit = timeout_after(timeout)
    timeout_enter(limit)
    try:
        result = await fut
    except BaseException as error:
        timeout_exit(limit, type(error), error)
        raise
    timeout_exit(limit, None, None)
    return result
