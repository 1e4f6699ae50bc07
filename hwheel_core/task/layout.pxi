# Where the parts of a TimerTask lie, for what comes from an Entry to its object and for a hand-made dealloc.


cdef Py_ssize_t entry_offset = 0        # of TimerTask.task; filled in below
cdef Py_ssize_t TASK_SIZE = 0           # of a TimerTask with what the garbage collector has before it


cdef inline TimerTask entry_task(const Entry* entry):
    return <TimerTask><PyObject*>(<const char*>entry - entry_offset)


cdef inline PyObject** task_slots(PyObject* self) noexcept:
    """callback_ and arguments, which come right after `task`."""
    return <PyObject**>(<char*>self + entry_offset + sizeof(Task))


cdef inline bint task_has_attributes(TimerTask self) noexcept:
    """A subclass may hold more than what a callback task releases, and be part of a cycle through that."""
    return type(self) is not TimerTask and type(self) is not GroupTask


# Cython lays a class out in the order of its fields, behind CPython's head of an object (and its own table of methods, if
# there is one). If either changed that, importing the core would fail here.
cdef TimerTask sample = TimerTask(0)
entry_offset = <char*>&sample.task - <char*><PyObject*>sample
TASK_SIZE = TimerTask.__basicsize__ + 16
if task_slots(<PyObject*>sample)[0] != <PyObject*>sample.callback_ or TASK_SIZE != 16 + entry_offset + sizeof(Task) + 16:
    raise SystemError("a TimerTask is not laid out as task_layout.pxi takes for granted")
sample = None
