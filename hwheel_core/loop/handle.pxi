# LoopHandle: what `call_later` of an event loop on the wheel returns. It has asyncio.TimerHandle's face and holds its
# place in the wheel inside itself. While it is pending the wheel holds one reference to it.

cdef object loop_handle_class = None        # asyncio.TimerHandle, once hwheel.asyncio is imported


def set_loop_handle_class(cls):
    """What `handle.__class__` says: asyncio.TimerHandle, which the core does not import."""
    global loop_handle_class
    loop_handle_class = cls


cdef inline bint is_timer_handle(object other):
    return type(other) is LoopHandle or (loop_handle_class is not None and isinstance(other, loop_handle_class))


cdef bint handle_equals(LoopHandle self, object other) except -1:
    return self is other or (
        self.deadline == other._when and self.callback_ == other._callback and self.arguments == other._args
        and self.is_cancelled == other._cancelled
    )


@cython.freelist(64)
cdef class LoopHandle:
    """A call that an event loop's wheel has been asked for: asyncio.TimerHandle's methods, and `reschedule`.

    It is no subclass of asyncio.TimerHandle, whose fields lie elsewhere, but says that it is one: its `__class__` is
    asyncio.TimerHandle, and so `isinstance(handle, asyncio.TimerHandle)` is true at no cost. Handles of both kinds can
    be compared with each other.

    Thread-safety: as of asyncio's: call it in the thread of the loop. Elsewhere nothing breaks, but the loop is not
    woken.
    """

    def __init__(self, *args, **kwargs):
        raise TypeError("handles are made by call_later() and call_at()")

    def __dealloc__(self):
        if self.task.owner:
            debug_count(LIVE_TASKS, -1)

    @property
    def __class__(self):
        return LoopHandle if loop_handle_class is None else loop_handle_class

    def cancel(self):
        """Keeps the callback from running, if it is not too late, and releases it and its arguments at once.

        Runtime complexity: O(1).
        """
        handle_cancel(self)

    def cancelled(self):
        """True after cancel()."""
        return self.is_cancelled

    def when(self):
        """The deadline, in seconds on the clock of `loop.time()`; also after the call."""
        return self.deadline

    def get_context(self):
        """The contextvars.Context that the callback runs in."""
        handle_show(self)
        return self.context

    def reschedule(self, delay):
        """Moves a pending call: it now runs `delay` seconds from now. False, and nothing happens, if it is not pending.

        Nothing is made and nothing is released: a deadline that is pushed back at each read is what this is for.

        Arguments:
            delay: seconds; zero or less: as soon as possible.
        Raises:
            TypeError: delay is no number. ValueError: it is NaN, or the deadline would be.
            RuntimeError: the loop is closed.

        Runtime complexity: O(1).

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
        length = delay
        if isnan(length):
            raise ValueError("delay is not a number (NaN)")
        timers_check_open(self.timers)
        now = timers_time(self.timers)
        when = now + length if length > 0 else now
        if isnan(when):
            raise ValueError(f"the deadline is not a number (NaN): {now} + {length}")
        with cython.critical_section(self.timers):
            if task_state(&self.task) != TASK_PENDING:      # the loop's time() may be anybody's code
                return False
            timers_check_open(self.timers)
            return timers_move(self.timers, self, now, when)

    # --- as asyncio.TimerHandle compares and shows itself ----------------------------------------------------------

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
        """Runs it now, in its context, and not again. Nothing happens if it is not pending."""
        if self.timers is not None:
            handle_run_once(self, True)

    # What asyncio's own comparisons and reports, and programs that watch a loop, read of a handle.

    @property
    def _when(self):
        return self.deadline

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


hw_set_name(<PyObject*>LoopHandle, "hwheel.asyncio.TimerHandle")     # see task/timer_task.pxi
