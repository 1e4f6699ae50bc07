# The running loop of this thread, and its current task.
#
# Up to Python 3.13, asyncio.get_running_loop() makes a system call to detect a fork, because the parent's loop does not run in
# the child. The core avoids this call. asyncio puts a new object into the thread's dict for each run of a loop. The core keeps a
# reference to that object: as long as it is in the dict, the same loop is running. The child of a fork drops the reference.

cdef extern from "Python.h":
    PyObject* PyThreadState_GetDict()

cdef object get_running_loop = None     # asyncio._get_running_loop
cdef object current_task = None         # a compiled function: loop -> task that the loop runs, or None
cdef object asyncio_task = None         # asyncio.Task
cdef PyCFunction asyncio_cancelling = NULL      # its method cancelling(), if it is compiled
cdef object CancelledError = None       # asyncio.CancelledError
cdef str NAME_RUNNING_MARK = "__asyncio_running_event_loop__"
cdef str NAME_WHEEL_TIMERS = "_wheel_timers"


def set_loop_tasks(running_loop, current, task_class, cancelled_error):
    """Set the names of asyncio that timeouts need.

    Args:
        running_loop: A function that returns the running loop of this thread, or None.
        current: A function that returns the current task of a loop, or None.
        task_class: asyncio.Task.
        cancelled_error: asyncio.CancelledError.
    """
    global get_running_loop, current_task, asyncio_task, asyncio_cancelling, CancelledError
    get_running_loop = running_loop
    current_task = current
    asyncio_task = task_class
    asyncio_cancelling = hw_method_function(<PyObject*>task_class, "cancelling")
    CancelledError = cancelled_error


cdef inline PyObject* running_mark() noexcept:
    """Return asyncio's object for the loop that runs in this thread, a borrowed reference; NULL if no loop runs."""
    cdef PyObject* names = PyThreadState_GetDict() if PY_VERSION_HEX < 0x030E0000 else NULL
    return NULL if names is NULL else PyDict_GetItem(<object>names, NAME_RUNNING_MARK)


cdef inline object loop_running():
    """Return the running loop."""
    cdef PyObject* running = hw_running_get()
    cdef PyObject* mark
    if running is not NULL:
        mark = running_mark()
        if mark is not NULL and mark is <PyObject*>(<LoopTimers>running).running_mark:
            return (<LoopTimers>running).loop
    loop = hw_call_none(<PyObject*>get_running_loop)
    if loop is None:
        raise RuntimeError("no running event loop")
    if running is not NULL and (<LoopTimers>running).loop is loop and mark is not NULL:
        (<LoopTimers>running).running_mark = <object>mark
    return loop


def forget_running_loop():
    """Forget the running loop in the child of a fork: it runs in the parent only."""
    hw_running_set(NULL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_running_loop)


cdef inline object task_cancelling(object task):
    """Return task.cancelling(), for asyncio's own class without a lookup."""
    if asyncio_cancelling is not NULL and type(task) is asyncio_task:
        return asyncio_cancelling(<PyObject*>task, NULL)
    return task.cancelling()


cdef inline bint timers_accept_timeouts(LoopTimers self, object loop):
    """Return True if a timer of this loop may go into the wheel directly: no debug mode, no override."""
    return self.loop is loop and not self.debug and not self.asking and timers_use_own_calls(self)


cdef inline LoopTimers loop_timers(object loop):
    """Return the LoopTimers of the loop, or None if timers have to go through call_at().

    If it returns one, timers_time_unchanged() is correct until other Python code runs.
    """
    cdef PyObject* running = hw_running_get()
    if running is not NULL and (<LoopTimers>running).loop is loop:
        found = <object>running
    else:
        found = getattr(loop, NAME_WHEEL_TIMERS, None)
        if not isinstance(found, LoopTimers):
            return None
    if timers_accept_timeouts(<LoopTimers>found, loop):
        return <LoopTimers>found
    return None
