# What a TimerTask calls: how callback and arguments are kept, called and let go of, and when the garbage collector sees
# them.
#
# Garbage collection. A pending task is the wheel's, which is alive, so the cyclic collector could never free it and
# need not look at it: a million pending tasks would only slow it down. They are untracked when they go in; what comes
# out with references on it is tracked again.
#
# Callback, arguments and the flags that say what the arguments are belong together. The GIL guards them; where there is none,
# the task's critical section, and whoever wants two of them takes them out in one.


cdef inline void gc_track(object tracked) noexcept:
    if HW_FREE_THREADED:                # two threads may come to it at once, and to be tracked twice is an error
        hw_mutex_lock(&orphans)
    if not PyObject_GC_IsTracked(<PyObject*>tracked):
        PyObject_GC_Track(<PyObject*>tracked)
    if HW_FREE_THREADED:
        hw_mutex_unlock(&orphans)


cdef inline void task_untrack(TimerTask self) noexcept:
    PyObject_GC_UnTrack(<PyObject*>self)
    with cython.critical_section(self):
        if self.arguments is not None and not self.task.flags & TASK_ONE_ARGUMENT:
            PyObject_GC_UnTrack(<PyObject*>self.arguments)
            if self.task.flags & TASK_KEYWORDS:
                keywords = task_keywords(self.arguments)
                PyObject_GC_UnTrack(<PyObject*>keywords)


cdef void task_track(TimerTask self) noexcept:
    gc_track(self)
    with cython.critical_section(self):
        if self.arguments is not None and not self.task.flags & TASK_ONE_ARGUMENT:
            gc_track(self.arguments)
            if self.task.flags & TASK_KEYWORDS:
                gc_track(task_keywords(self.arguments))


cdef inline void task_set_call(TimerTask self, object callback, tuple args, dict kwargs):
    cdef Py_ssize_t count = len(args)
    cdef int32_t flags = 0 if callback is None else TASK_HAD_CALLBACK
    cdef object old_callback, old_arguments, arguments = None
    if kwargs:
        arguments = (*args, kwargs)
        flags |= TASK_KEYWORDS
    elif count == 1:
        arguments = <object>PyTuple_GET_ITEM(args, 0)
        flags |= TASK_ONE_ARGUMENT
    elif count:
        arguments = args
    # What was there before dies at the end, when all three fit together again: it may have a finalizer that uses the task.
    with cython.critical_section(self):
        old_callback = self.callback_
        old_arguments = self.arguments
        self.callback_ = callback
        self.arguments = arguments
        hw_poke(&self.task.flags, flags)


cdef inline object task_callback(TimerTask self):
    cdef object callback
    with cython.critical_section(self):
        callback = self.callback_
    return callback


cdef inline TimerTask task_new(Timer* timer, object callback, PyObject** args, Py_ssize_t count):
    """What TimerTask(..., callback, *args) makes, owned by a timer, but never seen by the garbage collector: for a task
    that is about to be pending."""
    cdef PyObject* made = hw_gc_new(<PyObject*>TimerTask)
    cdef PyObject** slots
    cdef TimerTask self
    cdef tuple arguments
    if made is NULL:
        raise MemoryError
    memset(<char*>made + entry_offset, 0, sizeof(Task))
    slots = task_slots(made)
    Py_INCREF(callback)                 # both dropped by task_drop_call, task_called_once or task_dealloc
    slots[0] = <PyObject*>callback
    Py_INCREF(None)
    slots[1] = <PyObject*>None
    self = <TimerTask>made
    Py_DECREF(self)                     # the reference that it was made with; `self` has one of its own
    self.task.flags = TASK_HAD_CALLBACK
    if count == 1:
        self.arguments = <object>args[0]
        self.task.flags |= TASK_ONE_ARGUMENT
    elif count:
        arguments = PyTuple_New(count)
        for i in range(count):
            Py_INCREF(<object>args[i])
            PyTuple_SET_ITEM(arguments, i, <object>args[i])
        PyObject_GC_UnTrack(<PyObject*>arguments)
        self.arguments = arguments
    task_own(self, timer)
    return self


cdef tuple task_positional(tuple arguments, int32_t flags):
    return arguments[:len(arguments) - 1] if flags & TASK_KEYWORDS else arguments


cdef dict task_keywords(tuple arguments):
    return arguments[len(arguments) - 1]


cdef inline void task_drop_call(TimerTask self):
    """Releases the callback and its arguments: after a cancel."""
    if task_has_attributes(self):
        task_track(self)
    cdef object callback, arguments     # these die at the end, as in task_set_call
    with cython.critical_section(self):
        callback = self.callback_
        arguments = self.arguments
        self.callback_ = None
        self.arguments = None
        hw_poke(&self.task.flags, self.task.flags & ~TASK_ONE_ARGUMENT & ~TASK_KEYWORDS)


cdef bint task_is_released(TimerTask self) noexcept:
    return self.task.flags & TASK_HAD_CALLBACK and self.callback_ is None


cdef inline PyObject* task_call_raw(object callback, object arguments, int32_t flags) noexcept:
    """The result, a new reference, or NULL and an exception is set."""
    cdef PyObject* only = <PyObject*>arguments
    cdef PyObject** positional = &only
    cdef size_t count = 1
    cdef PyObject* keywords
    if not flags & TASK_ONE_ARGUMENT:
        if arguments is None:
            count = 0
        else:
            positional = hw_tuple_items(<PyObject*>arguments)
            count = len(<tuple>arguments)
            if flags & TASK_KEYWORDS:
                count -= 1
                keywords = positional[count]
                return PyObject_VectorcallDict(callback, positional, count, keywords)
    return PyObject_Vectorcall(callback, positional, count, NULL)


cdef bint task_call(object callback, object arguments, int32_t flags) except False:
    cdef PyObject* result = task_call_raw(callback, arguments, flags)
    if result is NULL:
        return error_raise()
    Py_DECREF(<object>result)
    return True


cdef inline bint task_called_once(TimerTask self) noexcept:
    """Calls the callback; by then the task has let go of it, so that it dies with the call. False: an exception is set."""
    cdef object callback, arguments
    cdef int32_t flags
    cdef PyObject* result
    with cython.critical_section(self):
        callback = self.callback_
        arguments = self.arguments
        flags = self.task.flags
        self.callback_ = None
        self.arguments = None
        hw_poke(&self.task.flags, flags & ~TASK_ONE_ARGUMENT & ~TASK_KEYWORDS)
    if callback is None:
        return True
    result = task_call_raw(callback, arguments, flags)
    if result is NULL:
        return False
    Py_DECREF(<object>result)
    return True


# The contextvars.Context that a callback runs in: an empty one, unless the call brought its own. So what a callback sets is
# not seen by the next one, as it would be if both ran in the context of their thread.
#
# A context costs more than the rest of a run. So one is entered for all that is run in a row, and changed for another only
# after a callback that has left something in it.


cdef object context_empty = PyContext_New()     # never entered


cdef object context_enter():
    """An empty context, entered. A copy, because up to CPython 3.12 PyContext_New crashes when there is no memory."""
    context = PyContext_Copy(context_empty)
    PyContext_Enter(context)
    return context


cdef bint context_leave(object context) except False:
    try:
        PyContext_Exit(context)
    except RuntimeError:
        pass        # the callback has switched contexts by itself, as greenlets do
    return True


cdef inline object context_after(object context):
    """The context for the next callback, entered, when one has run in this."""
    if PyObject_Size(context) == 0:
        return context
    context_leave(context)
    return context_enter()


cpdef object context_run(object context, object callback):
    """What runs a callback in a context that was brought: its `run`, which takes the callback as its first argument."""
    callback_argument(callback)
    if not PyContext_CheckExact(context):
        raise TypeError(f"context must be a contextvars.Context, not {context!r}")
    return context.run
