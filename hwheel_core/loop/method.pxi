# call_later and call_at as methods of a loop: in Python they would cost more than what they do. They stand on the loop's
# class, where they can be overridden and replaced like any other; and, where no subclass wants a say, on the loop itself
# as the bound methods of its LoopTimers, which are found faster. These look whether something else has been put in the
# place of the class's since, and leave it to that then.

cdef PyMethodDef method_call_later_def
cdef PyMethodDef method_call_at_def
cdef PyMethodDef timers_call_later_def
cdef PyMethodDef timers_call_at_def
cdef object common_loop_call_later = None
cdef object common_loop_call_at = None
cdef str NAME_CALL_LATER = "call_later"
cdef str NAME_CALL_AT = "call_at"

cdef extern from "Python.h":
    bint PyCFunction_Check(PyObject*)
    PyObject* PyCFunction_GET_SELF(PyObject*)

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


cdef inline bint call_at_is_own(LoopTimers self) noexcept:
    """Nobody wants a say in the loop's call_at."""
    cdef PyObject* here = PyDict_GetItem(self.attributes, NAME_CALL_AT)
    if here is not NULL and not (PyCFunction_Check(here) and PyCFunction_GET_SELF(here) is <PyObject*>self):
        return False
    return _PyType_Lookup(Py_TYPE(<PyObject*>self.loop), NAME_CALL_AT) is <PyObject*>loop_call_at


# --- of LoopTimers -----------------------------------------------------------------------------------------------

cdef object timers_call_later_fast(PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    cdef LoopTimers timers = <LoopTimers>self
    if count < 2 or keywords is not NULL:
        return call_slowly(common_loop_call_later, self, args, count, keywords)
    if not timers_are_own(timers):
        return timers_delegate(timers, loop_call_later, NAME_CALL_LATER, arguments_from(args, 0, count), None)
    return timers_call_later(timers, <object>args[0], <object>args[1], arguments_from(args, 2, count), None)


cdef object timers_call_at_fast(PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    cdef LoopTimers timers = <LoopTimers>self
    if count < 2 or keywords is not NULL:
        return call_slowly(common_loop_call_at, self, args, count, keywords)
    if not timers_are_own(timers):
        return timers_delegate(timers, loop_call_at, NAME_CALL_AT, arguments_from(args, 0, count), None)
    return timers_call_at(timers, <object>args[0], <object>args[1], arguments_from(args, 2, count), None)


cdef inline bint timers_are_own(LoopTimers self) noexcept:
    if self.loop is None or self.asking:
        return True
    if not timers_are_as_known(self):
        timers_look_again(self)
    return self.own_calls


cdef object timers_delegate(LoopTimers self, object own, str name, tuple args, object context):
    """Calls what the loop's class has under this name; our own, if that has come back here."""
    cdef PyObject* found = _PyType_Lookup(Py_TYPE(<PyObject*>self.loop), name)
    cdef int bit = 1 if own is loop_call_at else 2
    if self.delegating & bit or found is NULL:
        return own(self.loop, *args, context=context)
    method = <object>found
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


# --- of a loop's class -------------------------------------------------------------------------------------------

cdef object method_call_later(PyObject* loop, PyObject** args, Py_ssize_t count, PyObject* keywords):
    cdef LoopTimers timers
    if count < 2 or keywords is not NULL:
        return call_slowly(call_later_by_keywords, loop, args, count, keywords)
    timers = (<object>loop)._wheel_timers
    return loop_add_later(timers, <object>args[0], <object>args[1], arguments_from(args, 2, count), None)


cdef object method_call_at(PyObject* loop, PyObject** args, Py_ssize_t count, PyObject* keywords):
    cdef LoopTimers timers
    if count < 2 or keywords is not NULL:
        return call_slowly(call_at_by_keywords, loop, args, count, keywords)
    timers = (<object>loop)._wheel_timers
    return timers_call_at(timers, <object>args[0], <object>args[1], arguments_from(args, 2, count), None)


def call_later_by_keywords(loop, delay, callback, *args, context=None):
    return loop_add_later(loop._wheel_timers, delay, callback, args, context)


def call_at_by_keywords(loop, when, callback, *args, context=None):
    return timers_call_at(loop._wheel_timers, when, callback, args, context)


cdef object loop_add_later(LoopTimers self, object delay, object callback, tuple args, object context):
    if self.loop is None or self.asking or call_at_is_own(self):
        return timers_call_later(self, delay, callback, args, context)
    # As asyncio's own does it.
    if delay is None:
        raise TypeError("delay must not be None")
    return self.loop.call_at(self.loop.time() + delay, callback, *args, context=context)


cdef inline tuple arguments_from(PyObject** args, Py_ssize_t first, Py_ssize_t count):
    cdef tuple arguments
    cdef Py_ssize_t i
    if count == first:
        return ()
    arguments = PyTuple_New(count - first)
    for i in range(first, count):
        Py_INCREF(<object>args[i])
        PyTuple_SET_ITEM(arguments, i - first, <object>args[i])
    return arguments
