# LoopTimers: the timers of one event loop, on a wheel that uses only one timer of the loop itself.
#
# At most one wake-up is requested from the loop at a time: for the latest deadline within the earliest tick that is not empty.
# At the wake-up all due handles run, in order of deadline, then of addition. So no handle runs early, and the order is exact.
# The tick only determines how long a deadline may wait for other deadlines in its tick: up to 1/4 ms.
#
# The path of a deadline: call_later() here, add.pxi, wakeup.pxi; then the loop; then pass.pxi and run.pxi.
#
# call_later and call_at are methods of the loop's class (below), where subclasses and programs can override them. If no
# subclass does, they are also attributes of the loop itself, as bound methods of its LoopTimers, which are found faster. These
# check whether the class's methods have been replaced since, and call the replacement then.

cdef PyMethodDef timers_call_later_def
cdef PyMethodDef timers_call_at_def
cdef object common_loop_call_later = None       # the methods as Cython generates them, for keyword arguments
cdef object common_loop_call_at = None


cdef object timers_delegate(LoopTimers self, object own, str name, tuple args, object context):
    """Call the override of the loop's class; or our own method, if the override has called back."""
    cdef PyObject* found
    cdef int bit = 1 if own is genuine_call_at else 2
    if self.delegating & bit:
        return own(self.loop, *args, context=context)
    found = hw_type_lookup(<PyObject*>Py_TYPE(<PyObject*>self.loop), <PyObject*>name)
    if found is NULL:
        return own(self.loop, *args, context=context)
    method = <object>found
    Py_DECREF(method)                   # the reference from hw_type_lookup; `method` has its own
    bind = getattr(type(method), "__get__", None)
    if bind is not None:
        method = bind(method, self.loop, type(self.loop))
    self.delegating |= bit
    try:
        if context is None:
            return method(*args)
        return method(*args, context=context)
    finally:
        self.delegating &= ~bit


cdef object timers_call_later_fast(PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    cdef LoopTimers timers = <LoopTimers>self
    if count < 2 or keywords is not NULL:
        return core_call_slowly(common_loop_call_later, self, args, count, keywords)
    if not timers_use_own_calls(timers):
        return timers_delegate(timers, genuine_call_later, NAME_CALL_LATER, arguments_from(args, 0, count), None)
    return timers_call_later(timers, <object>args[0], <object>args[1], arguments_from(args, 2, count), None)


cdef object timers_call_at_fast(PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    cdef LoopTimers timers = <LoopTimers>self
    if count < 2 or keywords is not NULL:
        return core_call_slowly(common_loop_call_at, self, args, count, keywords)
    if not timers_use_own_calls(timers):
        return timers_delegate(timers, genuine_call_at, NAME_CALL_AT, arguments_from(args, 0, count), None)
    return timers_call_at(timers, <object>args[0], <object>args[1], arguments_from(args, 2, count), None)


cdef class LoopTimers:
    """LoopTimers(loop, base): the timers of an event loop.

    ``base`` is where the loop's own call_at, call_later, and call_soon are found: the loop itself, or super() of a class
    that overrides them. Some loops' call_at calls loop.call_later in turn, as uvloop's does; such a call is passed on.

    Subclasses implement ``_show(handle)``, ``_describe(handle)``, ``_report(handle, error)``, and for debug mode
    ``_check_call(callback)``, ``_stack()``, and ``_name(asked, handle)``.
    """

    def __cinit__(self, loop, base):
        list_init(&self.running)
        list_init(&self.offered)
        self.timer = timer_from_arguments(1, DEFAULT_WHEEL_SIZE, 0, CLOCK_KIND_MANUAL, False)
        timers_forget_wakeup(self)
        self.pass_s = -INFINITY
        self.early_s = -INFINITY
        self.loop = loop
        self.base = base
        attributes = getattr(loop, "__dict__", None)
        self.attributes = attributes if isinstance(attributes, dict) else {}
        hw_dict_watch(<PyObject*>self.attributes)
        self.is_loops = base is not loop
        debug_count(LIVE_TIMERS, 1)

    def __dealloc__(self):
        timers_stop_idling(self)
        if self.timer is not NULL:
            timers_drop_all(self)
            timer_release(self.timer)
            debug_count(LIVE_TIMERS, -1)

    def call_later(self, delay, callback, *args, context=None):
        """Call ``callback(*args)`` after ``delay`` seconds, as asyncio's ``loop.call_later()``.

        Args:
            delay: Seconds from now. Zero or less: in the next pass of the loop.
            callback: A callable.
            context: The contextvars.Context to run in. Default: a copy of the current one.

        Returns:
            A handle that can cancel or reschedule the call.

        Raises:
            TypeError: ``delay`` is not a number.
            RuntimeError: The loop is closed.

        O(1). Not thread-safe, as in asyncio: call it in the loop's thread.

        Example:
            >>> import asyncio
            >>> from hwheel.asyncio import Timeouts
            >>> async def main():
            ...     with Timeouts() as timeouts:
            ...         timeouts.call_later(0.01, print, "no data")
            ...         await asyncio.sleep(0.05)
            >>> asyncio.run(main())
            no data
        """
        if not timers_use_own_calls(self):
            return timers_delegate(self, genuine_call_later, NAME_CALL_LATER, (delay, callback, *args), context)
        return timers_call_later(self, delay, callback, args, context)

    def call_at(self, when, callback, *args, context=None):
        """Call ``callback(*args)`` at a time on the clock of ``loop.time()``; otherwise as ``call_later()``.

        Example:
            >>> import asyncio
            >>> from hwheel.asyncio import Timeouts
            >>> async def main():
            ...     with Timeouts() as timeouts:
            ...         handle = timeouts.call_at(asyncio.get_running_loop().time() + 30, print, "no data")
            ...         return round(handle.remaining())
            >>> asyncio.run(main())
            30
        """
        if not timers_use_own_calls(self):
            return timers_delegate(self, genuine_call_at, NAME_CALL_AT, (when, callback, *args), context)
        return timers_call_at(self, when, callback, args, context)

    def __len__(self):
        """Return the number of pending handles."""
        return hw_peek64(&self.timer.pending)

    def __bool__(self):
        return True

    def census(self):
        """Group the pending calls by callback, as ``BaseTimer.census()`` does; timeouts by the coroutine of their task.

        Any thread may call this while the loop runs. Calls that are due are not counted.

        Returns:
            A list of CallbackGroup, the largest one first. For a timeout, ``owner`` is its class.

        Example:
            >>> import asyncio
            >>> from hwheel.asyncio import Timeouts
            >>> async def main():
            ...     with Timeouts() as timeouts:
            ...         timeouts.call_later(30, print, "no data")
            ...         return timeouts.census()[0].qualname
            >>> asyncio.run(main())
            'print'
        """
        rows = timers_census(self)
        return census_of(rows, timers_time(self)) if rows else []

    def close(self):
        """Drop all pending handles and the loop. Further calls raise RuntimeError.

        Example:
            >>> import asyncio
            >>> from hwheel.asyncio import Timeouts
            >>> async def main():
            ...     timeouts = Timeouts()
            ...     timeouts.call_later(30, print, "no data")
            ...     timeouts.close()
            ...     return len(timeouts)
            >>> asyncio.run(main())
            0
        """
        with cython.critical_section(self):
            wakeup, loop, base = self.wakeup, self.loop, self.base
            self.loop = None
            self.base = None
            self.stop_iteration = None
            self.attributes = {}
            timers_forget_wakeup(self)
            timers_drop_all(self)
        if wakeup is not None:
            wakeup.cancel()

    def _handle_failure(self, handle):
        """Handle a report that the loop failed to call a handle."""
        with cython.critical_section(self):
            timers_handle_failure(self, handle)

    def run(self, run_loop):
        """Run the loop with ``run_loop()``, and hide its handles from the garbage collector: see collector.pxi.

        Compiled, because an interrupt between two lines of Python could leave them hidden.
        """
        cdef PyObject* outer
        if self.interrupted:
            timers_recover(self)
        timers_stop_idling(self)
        outer = hw_running_get()
        hw_running_set(<PyObject*>self)
        self.hides += 1
        try:
            run_loop()
        except:
            self.interrupted = True
            raise
        finally:
            hw_running_set(outer)
            self.running_mark = None
            self.hides -= 1
            if self.hides == 0:         # positive: a running loop was asked to run again, and refused
                timers_start_idling(self)

    def _on_wakeup(self, int64_t number):
        """Run a pass; the loop calls this at the wake-up."""
        timers_wake_up(self, number)


# Cython's tp_traverse visits only the fields, but the wheel also holds handles. If CPython ignored this slot,
# tests/dropin/asyncio/test_garbage.py::test_unclosed_loop_is_collected_with_its_timers would fail.
visit_fields = (<PyTypeObject*>LoopTimers).tp_traverse
(<PyTypeObject*>LoopTimers).tp_traverse = timers_traverse

# If CPython changed its type dicts or method descriptors, this would raise SystemError at import.
common_loop_call_later = <object>hw_use_fastcall(
    <PyObject*>LoopTimers, "call_later", &timers_call_later_def, <void*>timers_call_later_fast
)
common_loop_call_at = <object>hw_use_fastcall(
    <PyObject*>LoopTimers, "call_at", &timers_call_at_def, <void*>timers_call_at_fast
)


# --- call_later and call_at as methods of a loop's class, compiled for speed -------------------------------------------

cdef PyMethodDef method_call_later_def
cdef PyMethodDef method_call_at_def


cdef object timers_call_later_for_loop(LoopTimers self, object delay, object callback, tuple args, object context):
    """Implement call_later() of the loop's class. If the loop's call_at is overridden, call that, as asyncio does."""
    if self.loop is None or self.asking or timers_use_own_call_at(self):
        return timers_call_later(self, delay, callback, args, context)
    if delay is None:
        raise TypeError("delay must not be None")
    return self.loop.call_at(self.loop.time() + delay, callback, *args, context=context)


def call_later_by_keywords(loop, delay, callback, *args, context=None):
    return timers_call_later_for_loop(loop._wheel_timers, delay, callback, args, context)


def call_at_by_keywords(loop, when, callback, *args, context=None):
    return timers_call_at(loop._wheel_timers, when, callback, args, context)


cdef object method_call_later(PyObject* loop, PyObject** args, Py_ssize_t count, PyObject* keywords):
    cdef LoopTimers timers
    if count < 2 or keywords is not NULL:
        return core_call_slowly(call_later_by_keywords, loop, args, count, keywords)
    timers = (<object>loop)._wheel_timers
    return timers_call_later_for_loop(timers, <object>args[0], <object>args[1], arguments_from(args, 2, count), None)


cdef object method_call_at(PyObject* loop, PyObject** args, Py_ssize_t count, PyObject* keywords):
    cdef LoopTimers timers
    if count < 2 or keywords is not NULL:
        return core_call_slowly(call_at_by_keywords, loop, args, count, keywords)
    timers = (<object>loop)._wheel_timers
    return timers_call_at(timers, <object>args[0], <object>args[1], arguments_from(args, 2, count), None)


loop_call_later = <object>hw_method(
    &method_call_later_def, "call_later", <void*>method_call_later,
    "call_later($self, delay, callback, /, *args, context=None)\n--\n\n"
    "Call ``callback(*args)`` after ``delay`` seconds. O(1).",
)
loop_call_at = <object>hw_method(
    &method_call_at_def, "call_at", <void*>method_call_at,
    "call_at($self, when, callback, /, *args, context=None)\n--\n\n"
    "Call ``callback(*args)`` at a time on the clock of ``loop.time()``. O(1).",
)

genuine_call_later = loop_call_later
genuine_call_at = loop_call_at
