# Fast calls of call_later and call_at, of a timer and of a group: positional arguments are not collected in a tuple.


cdef PyMethodDef core_call_later_def
cdef PyMethodDef core_call_at_def
cdef PyMethodDef group_call_later_def
cdef PyMethodDef group_call_at_def
cdef object common_call_later = None
cdef object common_call_at = None
cdef object common_group_call_later = None
cdef object common_group_call_at = None


cdef object core_call_slowly(object method, PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    """Call the method that Cython compiled, which handles keywords and missing arguments."""
    cdef tuple names = () if keywords is NULL else <tuple>keywords
    cdef list positional = []
    cdef dict named = {}
    cdef Py_ssize_t i
    for i in range(count):
        positional.append(<object>args[i])
    for i in range(len(names)):
        named[names[i]] = <object>args[count + i]
    return method(<object>self, *positional, **named)


cdef object core_call_later_fast(PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    if count < 2 or keywords is not NULL:
        return core_call_slowly(common_call_later, self, args, count, keywords)
    return core_call_later(<BaseTimer>self, <object>args[0], <object>args[1], args + 2, count - 2)


cdef object core_call_at_fast(PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    if count < 2 or keywords is not NULL:
        return core_call_slowly(common_call_at, self, args, count, keywords)
    return core_call_at(<BaseTimer>self, <object>args[0], <object>args[1], args + 2, count - 2)


cdef object group_call_later_fast(PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    if count < 2 or keywords is not NULL:
        return core_call_slowly(common_group_call_later, self, args, count, keywords)
    return group_call_later(<TimerGroup>self, <object>args[0], <object>args[1], args + 2, count - 2)


cdef object group_call_at_fast(PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    if count < 2 or keywords is not NULL:
        return core_call_slowly(common_group_call_at, self, args, count, keywords)
    return group_call_at(<TimerGroup>self, <object>args[0], <object>args[1], args + 2, count - 2)


# Replace the methods in the types' dicts. If a method did not exist, importing the core would fail here. If CPython kept using
# the old method, calls would be correct but slower; only `make bench` would show it.
common_call_later = <object>hw_speed_up(<PyObject*>BaseTimer, "call_later", &core_call_later_def, <void*>core_call_later_fast)
common_call_at = <object>hw_speed_up(<PyObject*>BaseTimer, "call_at", &core_call_at_def, <void*>core_call_at_fast)
common_group_call_later = <object>hw_speed_up(<PyObject*>TimerGroup, "call_later", &group_call_later_def,
                                              <void*>group_call_later_fast)
common_group_call_at = <object>hw_speed_up(<PyObject*>TimerGroup, "call_at", &group_call_at_def, <void*>group_call_at_fast)
