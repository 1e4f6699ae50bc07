# LoopTimers: the timers of one event loop, on a wheel, above one timer of the loop itself.
#
# Of the loop itself one timer is wanted at a time (`alarm`): for the latest deadline within the earliest tick that holds
# anything. When it rings, everything that is due runs, in order of deadline, then of insertion. So nothing runs early,
# the order is that of the exact deadlines, and the resolution only says how long a deadline may wait for others of its
# tick: up to 1/4 ms.
#
# A deadline's way: call_later here or in methods.pxi, add.pxi, alarm.pxi; then the loop; then pass.pxi and run.pxi.
#
# call_later and call_at stand on the loop's class (methods.pxi), where they can be overridden and replaced like any
# other method; and, where no subclass wants a say, on the loop itself as the bound methods of its LoopTimers, because
# these are found faster. They look whether something else has been put in the place of the class's since, and leave the
# call to that then.

cdef PyMethodDef timers_call_later_def
cdef PyMethodDef timers_call_at_def
cdef object common_loop_call_later = None       # the methods as Cython made them, for what is not common
cdef object common_loop_call_at = None


cdef object timers_delegate(LoopTimers self, object own, str name, tuple args, object context):
    """Calls what the loop's class has under this name; our own, if that has come back here."""
    cdef PyObject* found
    cdef int bit = 1 if own is genuine_call_at else 2
    if self.delegating & bit:
        return own(self.loop, *args, context=context)
    found = hw_type_lookup(<PyObject*>Py_TYPE(<PyObject*>self.loop), <PyObject*>name)
    if found is NULL:
        return own(self.loop, *args, context=context)
    method = <object>found
    Py_DECREF(method)                   # the reference of hw_type_lookup; `method` has one of its own
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
    if not timers_calls_are_own(timers):
        return timers_delegate(timers, genuine_call_later, NAME_CALL_LATER, arguments_from(args, 0, count), None)
    return timers_call_later(timers, <object>args[0], <object>args[1], arguments_from(args, 2, count), None)


cdef object timers_call_at_fast(PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    cdef LoopTimers timers = <LoopTimers>self
    if count < 2 or keywords is not NULL:
        return core_call_slowly(common_loop_call_at, self, args, count, keywords)
    if not timers_calls_are_own(timers):
        return timers_delegate(timers, genuine_call_at, NAME_CALL_AT, arguments_from(args, 0, count), None)
    return timers_call_at(timers, <object>args[0], <object>args[1], arguments_from(args, 2, count), None)


cdef class LoopTimers:
    """LoopTimers(loop, base): the timers of `loop`.

    Arguments:
        base: where the loop's own `call_at`, `call_later` and `call_soon` are found at each call: the loop, or super() of
            a class that overrides them. (Some loops' `call_at` asks `loop.call_later` in its turn, as uvloop's does, and
            finds us there: then it is sent on.)

    A subclass brings what need not be fast: `_show(handle)`, `_report(handle, error)`, and for debug mode
    `_check_call(callback)`, `_stack()` and `_name(asked, handle)`; see offer.pxi.
    """

    def __cinit__(self, loop, base):
        list_init(&self.running)
        list_init(&self.offered)
        self.timer = timer_from_arguments(1, DEFAULT_WHEEL_SIZE, 0, CLOCK_KIND_MANUAL, False)
        timers_forget_alarm(self)
        self.pass_s = -INFINITY
        self.early_s = -INFINITY
        self.loop = loop
        self.base = base
        attributes = getattr(loop, "__dict__", None)
        self.attributes = attributes if isinstance(attributes, dict) else {}
        self.is_loops = base is not loop
        debug_count(LIVE_TIMERS, 1)

    def __dealloc__(self):
        timers_leave_rest(self)
        if self.timer is not NULL:
            timers_drop_all(self)
            timer_release(self.timer)
            debug_count(LIVE_TIMERS, -1)

    def call_later(self, delay, callback, *args, context=None):
        """Calls `callback(*args)` in `delay` seconds, as asyncio's `loop.call_later` does. Returns the handle.

        Arguments:
            delay: seconds; zero or less: in the next pass of the loop.
            context: the contextvars.Context to run in; None: a copy of the current one.
        Raises:
            TypeError: delay is None or no number. RuntimeError: the loop is closed.

        Runtime complexity: O(1).
        Thread-safety: none, as asyncio's: call it in the thread of the loop.
        """
        if not timers_calls_are_own(self):
            return timers_delegate(self, genuine_call_later, NAME_CALL_LATER, (delay, callback, *args), context)
        return timers_call_later(self, delay, callback, args, context)

    def call_at(self, when, callback, *args, context=None):
        """Calls `callback(*args)` at a time on the clock of `loop.time()`. Otherwise as `call_later`."""
        if not timers_calls_are_own(self):
            return timers_delegate(self, genuine_call_at, NAME_CALL_AT, (when, callback, *args), context)
        return timers_call_at(self, when, callback, args, context)

    def __len__(self):
        """How many handles are pending."""
        return hw_peek64(&self.timer.pending)

    def __bool__(self):
        return True

    def close(self):
        """Lets go of everything that is pending, and of the loop. Further calls are a RuntimeError."""
        with cython.critical_section(self):
            alarm, loop, base = self.alarm, self.loop, self.base
            self.loop = None
            self.base = None
            self.attributes = {}
            timers_forget_alarm(self)
            timers_drop_all(self)
        if alarm is not None:
            alarm.cancel()

    def _heed_failure(self, handle):
        """The loop could not call what this handle stands for."""
        with cython.critical_section(self):
            timers_heed_failure(self, handle)

    def run(self, run_loop):
        """Runs the loop by `run_loop()`.

        While a loop runs nothing of it can be garbage, and what is added need not be looked at. Afterwards it may be
        dropped unclosed, and the garbage collector has to see all of it again: see at_rest.pxi. (Compiled, because an
        interrupt between two lines of Python would leave it hidden.)
        """
        if self.interrupted:
            timers_recover(self)
        timers_leave_rest(self)
        self.hides += 1
        try:
            run_loop()
        except:
            self.interrupted = True
            raise
        finally:
            self.hides -= 1
            if self.hides == 0:         # else a loop that runs was asked to run, and refused
                timers_come_to_rest(self)

    def _ring(self, int64_t number):
        """What the loop calls when the alarm goes off."""
        timers_ring(self, number)


# Cython's tp_traverse visits the fields, but the wheel holds handles, too. If CPython found it elsewhere than in the
# type, a loop that nobody closed would never be collected: test_a_loop_that_nobody_closed_is_collected_with_its_timers
# in tests/dropin/asyncio/test_garbage.py would fail.
visit_fields = (<PyTypeObject*>LoopTimers).tp_traverse
(<PyTypeObject*>LoopTimers).tp_traverse = timers_traverse

# If the type's dict or its method descriptors became something else, the import would end in a SystemError, and so every
# test would. What the fast functions leave to the methods as Cython made them, keywords, is tested by
# test_the_callback_runs_in_the_context_of_the_call in tests/dropin/asyncio/test_handles.py.
common_loop_call_later = <object>hw_speed_up(
    <PyObject*>LoopTimers, "call_later", &timers_call_later_def, <void*>timers_call_later_fast
)
common_loop_call_at = <object>hw_speed_up(
    <PyObject*>LoopTimers, "call_at", &timers_call_at_def, <void*>timers_call_at_fast
)
