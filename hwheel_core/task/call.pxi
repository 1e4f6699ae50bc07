# The call of a TimerTask: how callback and arguments are stored, run and released, and the context they run in.
#
# Garbage collection. The wheel holds every pending task, so the cyclic collector can never free one and need not visit it: a
# million pending tasks would only slow it down. Tasks are untracked when they are added, and tracked again if they leave
# the wheel with references.
#
# A pending task keeps its callback alive, even if other objects refer to it. So the callback is untracked if its type is one that
# programs create for a single call: bound methods, functions, and partials. It is tracked again before the task releases it.
# Otherwise its cycles would never be freed, and CPython crashes when it deallocates an untracked method, function, or cell. So
# untracking follows only references that a program cannot replace. Tuples and dicts are exceptions: CPython can deallocate
# untracked ones.
#
# Callback, arguments and the flags that describe the arguments change together. The GIL guards them; without a GIL the task's
# critical section does. Objects that they replace are released after the section, because a finalizer may use the task.


cdef inline void gc_track(object tracked) noexcept:
    # Without a GIL two threads may do this at once, and it is an error to track an object twice.
    orphans_lock_without_gil()
    if not PyObject_GC_IsTracked(<PyObject*>tracked):
        PyObject_GC_Track(<PyObject*>tracked)
    orphans_unlock_without_gil()


# --- the callback and the garbage collector ----------------------------------------------------------------------


cdef object MethodType = types.MethodType
cdef object FunctionType = types.FunctionType
cdef object BuiltinMethodType = types.BuiltinMethodType
cdef object MethodWrapperType = types.MethodWrapperType
cdef object CellType = types.CellType
cdef object Partial = functools.partial

ctypedef void (*Marking)(PyObject*) noexcept    # part_untrack or part_track


cdef void part_untrack(PyObject* part) noexcept:
    PyObject_GC_UnTrack(part)


cdef void part_track(PyObject* part) noexcept:
    gc_track(<object>part)


cdef void tuple_mark(PyObject* items, Marking mark) noexcept:
    """Mark a tuple and the cells in it. NULL and the empty tuple, which is never tracked, are skipped."""
    cdef Py_ssize_t i
    if items is NULL or PyTuple_GET_SIZE(<object>items) == 0:
        return
    mark(items)
    for i in range(PyTuple_GET_SIZE(<object>items)):
        if type(<object>PyTuple_GET_ITEM(<object>items, i)) is CellType:
            mark(PyTuple_GET_ITEM(<object>items, i))


cdef int partial_part_mark(PyObject* part, void* mark) noexcept:
    """Mark the arguments of a partial; a visitproc."""
    if type(<object>part) is tuple:
        tuple_mark(part, <Marking>mark)
    elif type(<object>part) is dict:
        (<Marking>mark)(part)
    return 0


cdef void callback_mark(object callback, Marking mark) noexcept:
    """Mark a callback and its parts."""
    mark(<PyObject*>callback)
    if type(callback) is FunctionType:
        tuple_mark(PyFunction_GetClosure(<PyObject*>callback), mark)
        tuple_mark(PyFunction_GetDefaults(<PyObject*>callback), mark)
    elif type(callback) is Partial:
        (<PyTypeObject*>Partial).tp_traverse(<PyObject*>callback, partial_part_mark, <void*>mark)


cdef inline bint callback_is_of_one_call(object callback) noexcept:
    """Return True if programs create callbacks of this type for a single call.

    Without a GIL it is always False, because several threads could untrack a shared callback at once.
    """
    return not HW_FREE_THREADED and (type(callback) is MethodType or type(callback) is FunctionType
                                     or type(callback) is BuiltinMethodType or type(callback) is Partial)


cdef inline void callback_untrack(object callback) noexcept:
    if type(callback) is FunctionType and not hw_function_has_parts(<PyObject*>callback):
        return                          # mostly a function of a module
    if callback_is_of_one_call(callback):
        callback_mark(callback, part_untrack)


cdef inline void callback_track(object callback) noexcept:
    if callback_is_of_one_call(callback) and not PyObject_GC_IsTracked(<PyObject*>callback):
        callback_mark(callback, part_track)


# --- the task and the garbage collector --------------------------------------------------------------------------


cdef tuple task_positional(tuple arguments, int32_t flags):
    return arguments[:len(arguments) - 1] if flags & TASK_KEYWORDS else arguments


cdef dict task_keywords(tuple arguments):
    return arguments[len(arguments) - 1]


cdef inline void task_untrack(TimerTask self) noexcept:
    PyObject_GC_UnTrack(<PyObject*>self)
    with cython.critical_section(self):
        callback_untrack(self.callback_)
        if self.arguments is not None and not self.task.flags & TASK_ONE_ARGUMENT:
            PyObject_GC_UnTrack(<PyObject*>self.arguments)
            if self.task.flags & TASK_KEYWORDS:
                keywords = task_keywords(self.arguments)
                PyObject_GC_UnTrack(<PyObject*>keywords)


cdef void task_track(TimerTask self) noexcept:
    gc_track(self)
    with cython.critical_section(self):
        callback_track(self.callback_)
        if self.arguments is not None and not self.task.flags & TASK_ONE_ARGUMENT:
            gc_track(self.arguments)
            if self.task.flags & TASK_KEYWORDS:
                gc_track(task_keywords(self.arguments))


cdef void tasks_release(list tasks) noexcept:
    """Release untracked tasks. Tracking all of them first would cause a long collection."""
    cdef Turn turn
    cdef Py_ssize_t i
    turn_begin(&turn)
    for i in range(len(tasks)):
        if isinstance(tasks[i], TimerTask):
            task_track(<TimerTask>tasks[i])
        tasks[i] = None                 # unlike a shorter list, this needs no memory
        turn_step(&turn)


# --- storing -----------------------------------------------------------------------------------------------------


cdef inline void task_set_call(TimerTask self, object callback, tuple args, dict kwargs):
    """Replace the call, and all flags."""
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
    with cython.critical_section(self):
        old_callback = self.callback_
        old_arguments = self.arguments
        self.callback_ = callback
        self.arguments = arguments
        hw_poke(&self.task.flags, flags)
    callback_track(old_callback)


cdef inline object task_callback(TimerTask self):
    cdef object callback
    with cython.critical_section(self):
        callback = self.callback_
    return callback


cdef inline TimerTask task_new(Timer* timer, object callback, PyObject** args, Py_ssize_t count):
    """Return a TimerTask that the timer owns and the garbage collector does not track, because it is about to be pending."""
    cdef PyObject* created = hw_gc_new(<PyObject*>TimerTask)
    cdef PyObject** slots
    cdef TimerTask self
    cdef tuple arguments
    if created is NULL:
        raise MemoryError
    memset(<char*>created + entry_offset, 0, sizeof(Task))
    slots = task_slots(created)
    Py_INCREF(callback)                 # both dropped by task_drop_call, task_called_once or task_dealloc
    slots[0] = <PyObject*>callback
    Py_INCREF(None)
    slots[1] = <PyObject*>None
    self = <TimerTask>created
    Py_DECREF(self)                     # hw_gc_new's reference; `self` has its own
    self.task.flags = TASK_HAD_CALLBACK
    if count == 1:
        self.arguments = <object>args[0]
        self.task.flags |= TASK_ONE_ARGUMENT
    elif count:
        arguments = arguments_from(args, 0, count)
        PyObject_GC_UnTrack(<PyObject*>arguments)
        self.arguments = arguments
    callback_untrack(callback)
    task_own(self, timer)
    return self


# --- running and releasing ---------------------------------------------------------------------------------------


cdef inline void task_drop_call(TimerTask self):
    """Release callback and arguments without a call."""
    if task_has_attributes(self):
        task_track(self)
    cdef object callback, arguments
    with cython.critical_section(self):
        callback = self.callback_
        arguments = self.arguments
        self.callback_ = None
        self.arguments = None
        hw_poke(&self.task.flags, self.task.flags & ~TASK_ONE_ARGUMENT & ~TASK_KEYWORDS)
    callback_track(callback)


cdef bint task_is_released(TimerTask self) noexcept:
    return self.task.flags & TASK_HAD_CALLBACK and self.callback_ is None


cdef inline PyObject* task_call_raw(object callback, object arguments, int32_t flags) noexcept:
    """Run a call. Return a new reference to its result, or NULL with an exception set."""
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
    """Run a call and drop its result."""
    cdef PyObject* result = task_call_raw(callback, arguments, flags)
    if result is NULL:
        return error_raise()
    Py_DECREF(<object>result)
    return True


cdef inline bint task_called_once(TimerTask self) noexcept:
    """Run the call, and release it. Return False if an exception is set.

    The task releases the call first, so that the callback and its arguments are freed as soon as the call ends.
    """
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
    callback_track(callback)
    result = task_call_raw(callback, arguments, flags)
    if result is NULL:
        return False
    Py_DECREF(<object>result)
    return True


# --- contexts ----------------------------------------------------------------------------------------------------
#
# A callback without `context` runs in an empty contextvars.Context, so it never sees values that another callback has set. A new
# context costs more than the rest of a run. So one context serves a row of callbacks until one of them sets a variable.


cdef object context_empty = PyContext_New()     # never entered


cdef object context_enter():
    """Enter an empty context and return it. A copy, because PyContext_New crashes without memory before CPython 3.13."""
    context = PyContext_Copy(context_empty)
    PyContext_Enter(context)
    return context


cdef bint context_leave(object context) except False:
    try:
        PyContext_Exit(context)
    except RuntimeError:
        pass        # the callback has switched contexts, as greenlets do
    return True


cdef inline object context_after(object context):
    """Return the entered context for the next callback, after a callback has run in `context`."""
    if PyObject_Size(context) == 0:
        return context
    context_leave(context)
    return context_enter()


cpdef object context_run(object context, object callback):
    """Return `context.run`, which takes the callback as its first argument."""
    callback_argument(callback)
    if not PyContext_CheckExact(context):
        raise TypeError(f"context must be a contextvars.Context, got {context!r}")
    return context.run
