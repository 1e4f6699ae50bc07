# Running what is due. It waits in `running`, and an alarm is set before each callback: for the next pass as long as
# anything is left in `running`, for the next deadline otherwise. So a callback that runs the loop itself goes on with
# what is left, and one that leaves the loop by an exception keeps nothing from running later.

cdef enum:
    RUN_LIMIT = 64              # callbacks that one pass runs at most


cdef inline bint handle_call(LoopHandle handle) except False:
    # References of its own: the callback may cancel its handle.
    cdef object callback
    cdef tuple arguments
    with cython.critical_section(handle.timers):
        callback = handle.callback_
        arguments = handle.arguments
    if arguments is not None:           # else another thread has cancelled it just now
        callback(*arguments)
    return True


cdef inline bint handle_drop_call(LoopHandle handle) noexcept:
    cdef object callback, arguments     # these die at the end
    with cython.critical_section(handle.timers):
        callback = handle.callback_
        arguments = handle.arguments
        handle.callback_ = None
        handle.arguments = None
    return True


cdef bint handle_report_outside(LoopTimers self, LoopHandle handle, object error) except False:
    """Reports from inside of the handle's context, which is left meanwhile: from CPython 3.12 on the loop runs its
    exception handler in that context, and none can be entered twice."""
    cdef bint left = False
    if PyContext_CheckExact(handle.context):
        try:
            PyContext_Exit(handle.context)
            left = True
        except RuntimeError:            # who called us has not entered it
            pass
    try:
        self._report(handle, error)
    finally:
        if left:
            PyContext_Enter(handle.context)
    return True


cdef inline bint handle_run(LoopTimers self, LoopHandle handle, bint enter) except False:
    """Calls its callback and reports what that raises, which does not end the pass unless it is to end the loop."""
    try:
        if not enter:
            handle_call(handle)
        elif PyContext_CheckExact(handle.context):
            PyContext_Enter(handle.context)
            try:
                handle_call(handle)
            finally:
                PyContext_Exit(handle.context)
        else:
            handle.context.run(handle.callback_, *handle.arguments)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        if enter:
            self._report(handle, error)
        else:
            handle_report_outside(self, handle, error)
    handle_drop_call(handle)
    return True


cdef bint handle_run_once(LoopHandle handle, bint enter) except False:
    """Takes a handle out of wherever it waits, and runs it; nothing if it does not wait. enter: its context, too."""
    cdef LoopTimers timers = handle.timers
    cdef Timer* timer = timers.timer
    lock_with_gil(timer)
    if handle.task.state != TASK_PENDING:
        lock_release(timer)
        return True
    wheel_remove(&timer.wheel, &handle.task.entry)
    hw_bump(&timer.pending, -1)
    timer.expired += 1
    hw_poke(&handle.task.state, TASK_EXPIRED)
    lock_release(timer)
    Py_DECREF(handle)                   # the wheel's reference, of timers_insert
    handle_show(handle)
    handle_run(timers, handle, enter)
    return True


cdef inline bint timers_keep_alarm(LoopTimers self) except -1:
    """Sets the alarm that is wanted before the first callback of `running` is called. False if there is none."""
    if list_is_empty(&self.running):
        return False
    if self.running.next.next is &self.running:
        timers_set_next_alarm(self)
    elif self.alarm_tick != SOON:
        timers_set_soon(self, self.pass_s)
    return not list_is_empty(&self.running)         # the loop's own code has run meanwhile


cdef void timers_prefetch(LoopTimers self) noexcept:
    """Sees to it that what the pass will touch is in the cache.

    Handles that fall due together were mostly not made together: each, its arguments, and the future among them is a
    cache miss; asked for in one go they are waited for once and not one by one.
    """
    cdef PyObject* handles[RUN_LIMIT]
    cdef Entry* entry = self.running.next
    cdef PyObject* arguments
    cdef int count = 0, i
    while entry is not &self.running and count < RUN_LIMIT:
        handles[count] = <PyObject*>(<char*>entry - loop_entry_offset)
        hw_prefetch(<void*>(<LoopHandle>handles[count]).arguments)
        hw_prefetch(<void*>(<LoopHandle>handles[count]).context)
        entry = entry.next
        count += 1
    for i in range(count):
        arguments = <PyObject*>(<LoopHandle>handles[i]).arguments
        if PyTuple_GET_SIZE(<object>arguments):
            hw_prefetch(<void*>PyTuple_GET_ITEM(<object>arguments, 0))


cdef bint timers_run(LoopTimers self) except False:
    """Runs what is in `running`, as much as a pass may."""
    cdef int left = RUN_LIMIT
    cdef LoopHandle handle
    with cython.critical_section(self):
        timers_prefetch(self)
    while left:
        left -= 1
        with cython.critical_section(self):
            if not timers_keep_alarm(self):
                return True
            handle = entry_handle(self.running.next)
        handle_run_once(handle, True)
    return True
