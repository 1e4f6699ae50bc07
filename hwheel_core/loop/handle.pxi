# LoopHandle: the return value of a wheel loop's call_later(). It has the interface of asyncio.TimerHandle and contains its
# place in the wheel. While it is pending, the wheel holds one reference to it.

cdef object loop_handle_class = None        # asyncio.TimerHandle, once hwheel.asyncio is imported


def set_loop_handle_class(cls):
    """Set the class that `handle.__class__` returns: asyncio.TimerHandle, which the core does not import."""
    global loop_handle_class
    loop_handle_class = cls


cdef inline bint is_timer_handle(object other):
    return type(other) is LoopHandle or (loop_handle_class is not None and isinstance(other, loop_handle_class))


cdef inline object handle_when(LoopHandle self):
    return <int64_t>self.deadline if self.when_is_int else self.deadline


cdef bint handle_equals(LoopHandle self, object other) except -1:
    return self is other or (
        self.deadline == other._when and self.callback_ == other._callback and self.arguments == other._args
        and self.is_cancelled == other._cancelled
    )


@cython.freelist(64)
cdef class LoopHandle:
    """A pending call of an event loop, with the methods of asyncio.TimerHandle and ``reschedule()``.

    It is not a subclass of asyncio.TimerHandle, whose fields it does not need, but its ``__class__`` is
    asyncio.TimerHandle. So ``isinstance(handle, asyncio.TimerHandle)`` is true, and handles of both kinds can be compared.

    Not thread-safe, as in asyncio: use it in the loop's thread. In another thread nothing breaks, but the loop does not
    wake up.
    """

    def __init__(self, *args, **kwargs):
        raise TypeError("handles are created by call_later() and call_at()")

    def __dealloc__(self):
        if self.task.owner:
            debug_count(LIVE_TASKS, -1)

    @property
    def __class__(self):
        return LoopHandle if loop_handle_class is None else loop_handle_class

    def cancel(self):
        """Cancel the call, if it has not run, and release the callback and its arguments at once. O(1).

        Example:
            >>> import hwheel.asyncio
            >>> loop = hwheel.asyncio.new_event_loop()
            >>> handle = loop.call_later(30, print, "no data")
            >>> handle.cancel()
            >>> handle.cancelled()
            True
            >>> loop.close()
        """
        handle_cancel(self)

    def cancelled(self):
        """Return True if the call was cancelled.

        Example:
            >>> import hwheel.asyncio
            >>> loop = hwheel.asyncio.new_event_loop()
            >>> handle = loop.call_later(30, print, "no data")
            >>> handle.cancelled()
            False
            >>> loop.close()
        """
        return self.is_cancelled

    def when(self):
        """Return the deadline, in seconds on the clock of ``loop.time()``. Also valid after the call.

        Example:
            >>> import hwheel.asyncio
            >>> loop = hwheel.asyncio.new_event_loop()
            >>> handle = loop.call_at(loop.time() + 30, print, "no data")
            >>> handle.when() > loop.time()
            True
            >>> loop.close()
        """
        return handle_when(self)

    @property
    def deadline(self):
        """The deadline, in seconds on the clock of ``loop.time()``: the same as ``when()``."""
        return self.deadline

    def remaining(self):
        """Return the seconds until the deadline; 0.0 if it has passed or the call is not pending.

        Example:
            >>> import hwheel.asyncio
            >>> loop = hwheel.asyncio.new_event_loop()
            >>> handle = loop.call_later(30, print, "no data")
            >>> round(handle.remaining())
            30
            >>> loop.close()
        """
        if self.timers is None or self.timers.loop is None or task_state(&self.task) != TASK_PENDING:
            return 0.0
        return max(0.0, self.deadline - timers_time(self.timers))

    def get_context(self):
        """Return the contextvars.Context in which the callback runs.

        Example:
            >>> import contextvars
            >>> import hwheel.asyncio
            >>> loop = hwheel.asyncio.new_event_loop()
            >>> context = contextvars.copy_context()
            >>> handle = loop.call_later(30, print, "no data", context=context)
            >>> handle.get_context() is context
            True
            >>> loop.close()
        """
        handle_show(self)
        return self.context

    def reschedule(self, delay):
        """Move a pending call to ``delay`` seconds from now.

        This creates and releases no object, so it suits deadlines that move at every read of a connection.

        Args:
            delay: Seconds from now. Zero or less: as soon as possible.

        Returns:
            False if the call is not pending; then nothing changes.

        Raises:
            TypeError: ``delay`` is not a number.
            ValueError: ``delay`` or the new deadline is NaN.
            RuntimeError: The loop is closed.

        O(1).

        >>> import hwheel.asyncio
        >>> loop = hwheel.asyncio.new_event_loop()
        >>> handle = loop.call_later(30, print, "idle for half a minute")
        >>> handle.reschedule(60)
        True
        >>> handle.cancel()
        >>> handle.reschedule(60)
        False
        >>> loop.close()
        """
        cdef double now, length, when
        if delay is None:
            raise TypeError("delay must not be None")
        if self.timers is None or task_state(&self.task) != TASK_PENDING:
            return False
        length = delay if PyFloat_CheckExact(delay) else seconds_number(delay, "delay")
        if isnan(length):
            raise ValueError("delay is not a number (NaN)")
        timers_check_open(self.timers)
        now = timers_time(self.timers)
        when = now + length if length > 0 else now
        if isnan(when):
            raise ValueError(f"the deadline is not a number (NaN): {now} + {length}")
        with cython.critical_section(self.timers):
            if task_state(&self.task) != TASK_PENDING:      # loop.time() may have run foreign code
                return False
            timers_check_open(self.timers)
            return timers_move(self.timers, self, now, when)

    # --- comparison and repr of asyncio.TimerHandle --------------------------------------------------------------

    def __hash__(self):
        return hash(self.first_deadline)

    def __lt__(self, other):
        if not is_timer_handle(other):
            return NotImplemented
        return self.deadline < other._when

    def __gt__(self, other):
        if not is_timer_handle(other):
            return NotImplemented
        return self.deadline > other._when

    def __le__(self, other):
        if not is_timer_handle(other):
            return NotImplemented
        return self.deadline < other._when or handle_equals(self, other)

    def __ge__(self, other):
        if not is_timer_handle(other):
            return NotImplemented
        return self.deadline > other._when or handle_equals(self, other)

    def __eq__(self, other):
        if not is_timer_handle(other):
            return NotImplemented
        return handle_equals(self, other)

    def __repr__(self):
        if self.shown is not None:
            return self.shown
        if self.timers is None:
            return "<TimerHandle, not set up>"
        return self.timers._show(self)

    def _repr_info(self):
        return [] if self.timers is None else self.timers._describe(self)

    def _run(self):
        """Run a pending call now, in its context."""
        if self.timers is not None:
            handle_run_once(self, True)

    # --- fields that asyncio's comparisons and reports, and monitoring tools, read ---------------------------------

    @property
    def _when(self):
        return handle_when(self)

    @property
    def _callback(self):
        return self.callback_

    @property
    def _args(self):
        return self.arguments

    @property
    def _cancelled(self):
        return self.is_cancelled

    @property
    def _context(self):
        return self.get_context()

    @property
    def _scheduled(self):
        return task_state(&self.task) == TASK_PENDING

    @property
    def _repr(self):
        return self.shown

    @property
    def _source_traceback(self):
        return self.source_traceback

    @property
    def _loop(self):
        return None if self.timers is None else self.timers.loop


hw_set_name(<PyObject*>LoopHandle, "hwheel.asyncio.TimerHandle")
