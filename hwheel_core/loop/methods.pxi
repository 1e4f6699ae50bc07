# call_later and call_at as methods of a loop's class. They are compiled, because in Python they would cost more than
# what they do.

cdef PyMethodDef method_call_later_def
cdef PyMethodDef method_call_at_def


cdef object timers_call_later_for_loop(LoopTimers self, object delay, object callback, tuple args, object context):
    """call_later() of the loop's class: through the loop's call_at() if somebody has put something else in its place."""
    if self.loop is None or self.asking or timers_call_at_is_own(self):
        return timers_call_later(self, delay, callback, args, context)
    # As asyncio's own does it.
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
        return call_slowly(call_later_by_keywords, loop, args, count, keywords)
    timers = (<object>loop)._wheel_timers
    return timers_call_later_for_loop(timers, <object>args[0], <object>args[1], arguments_from(args, 2, count), None)


cdef object method_call_at(PyObject* loop, PyObject** args, Py_ssize_t count, PyObject* keywords):
    cdef LoopTimers timers
    if count < 2 or keywords is not NULL:
        return call_slowly(call_at_by_keywords, loop, args, count, keywords)
    timers = (<object>loop)._wheel_timers
    return timers_call_at(timers, <object>args[0], <object>args[1], arguments_from(args, 2, count), None)


loop_call_later = <object>hw_method(
    &method_call_later_def, "call_later", <void*>method_call_later,
    "call_later($self, delay, callback, /, *args, context=None)\n--\n\n"
    "Calls `callback(*args)` in `delay` seconds. O(1).",
)
loop_call_at = <object>hw_method(
    &method_call_at_def, "call_at", <void*>method_call_at,
    "call_at($self, when, callback, /, *args, context=None)\n--\n\n"
    "Calls `callback(*args)` at a time on the clock of `loop.time()`. O(1).",
)

genuine_call_later = loop_call_later
genuine_call_at = loop_call_at
