# Running due handles.
#
# Due handles wait in `running`. Before each callback, the pass requests a wake-up: for the next pass while `running` is not
# empty, otherwise for the next deadline. So a nested loop, or the next pass after an exception, runs the rest.

cdef enum:
    RUN_LIMIT = 64              # most callbacks per pass


cdef bint timeout_expire(Timeout self) except False:
    """Cancel the task of an active Timeout. Its handle calls this when it expires."""
    if self.state == TIMEOUT_ACTIVE:
        self.handle = None
        self.task.cancel()
        self.state = TIMEOUT_EXPIRING
    return True


cdef inline bint handle_call(LoopHandle handle, object run) except False:
    """Call the callback, inside `run` if that is not None."""
    # These are own references, because the callback may cancel its handle.
    cdef object callback
    cdef tuple arguments
    with cython.critical_section(handle.timers):
        callback = handle.callback_
        arguments = handle.arguments
    if handle.context is None and isinstance(callback, Timeout):
        timeout_expire(<Timeout>callback)
    elif arguments is None:             # cancelled by another thread
        pass
    elif run is None:
        callback(*arguments)
    else:
        run(callback, *arguments)
    return True


cdef inline bint handle_drop_call(LoopHandle handle) noexcept:
    cdef object callback, arguments     # released at the end
    with cython.critical_section(handle.timers):
        callback = handle.callback_
        arguments = handle.arguments
        handle.callback_ = None
        handle.arguments = None
    return True


cdef bint handle_report_outside(LoopTimers self, LoopHandle handle, object error) except False:
    """Report an exception, for a caller inside the handle's context.

    Leave the context for the report: from CPython 3.12 on, the loop enters it for its exception handler, and a context cannot be
    entered twice.
    """
    cdef bint left = False
    if PyContext_CheckExact(handle.context):
        try:
            PyContext_Exit(handle.context)
            left = True
        except RuntimeError:            # not entered by the caller
            pass
    try:
        self._report(handle, error)
    finally:
        if left:
            PyContext_Enter(handle.context)
    return True


cdef inline bint handle_run(LoopTimers self, LoopHandle handle, bint enter) except False:
    """Call the callback and report its exception. Only SystemExit and KeyboardInterrupt end the pass.

    enter: True to enter the handle's context for the call.
    """
    try:
        if not enter or handle.context is None:
            handle_call(handle, None)
        elif PyContext_CheckExact(handle.context):
            PyContext_Enter(handle.context)
            try:
                handle_call(handle, None)
            finally:
                PyContext_Exit(handle.context)
        else:
            handle_call(handle, handle.context.run)
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
    """Remove a pending handle and run it. enter: True to enter its context for the call."""
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
    Py_DECREF(handle)                   # the wheel's reference, from timers_insert
    handle_show(handle)
    handle_run(timers, handle, enter)
    return True


cdef inline bint timers_keep_wakeup(LoopTimers self) except -1:
    """Set the wake-up needed before the next callback of `running`. Return False if `running` is empty."""
    if list_is_empty(&self.running):
        return False
    if self.running.next.next is &self.running:
        timers_set_next_wakeup(self)
    elif self.wakeup_tick != SOON:
        timers_set_soon(self, self.pass_s)
    return not list_is_empty(&self.running)         # the loop's code ran in between, and may have emptied it


cdef void timers_prefetch(LoopTimers self) noexcept:
    """Prefetch the objects that the pass will touch.

    Handles that expire together were rarely created together. So each handle, its arguments, and a future among the
    arguments cause cache misses. If all are prefetched together, the pass waits once instead of once per object.
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
    """Run handles of `running`, at most RUN_LIMIT."""
    cdef int left = RUN_LIMIT
    cdef LoopHandle handle
    with cython.critical_section(self):
        timers_prefetch(self)
    while left:
        left -= 1
        with cython.critical_section(self):
            if not timers_keep_wakeup(self):
                return True
            handle = entry_handle(self.running.next)
        handle_run_once(handle, True)
    return True


# --- through the loop ------------------------------------------------------------------------------------------------
#
# If a program observes the calls of its loop, each callback must be a call of the loop itself. This is the case in asyncio's
# debug mode, which times each call, and if asyncio.Handle._run has been replaced. Reports about slow callbacks then name the
# right callback.
#
# An interrupted loop may lose such a call or make it twice. So the handle stays in `LoopTimers.offered` until the loop calls
# it. Each handle is called once. A handle that moves before the call is not called. A call that is overdue counts as lost and
# is requested again.


cdef void handle_move_between(LoopTimers self, LoopHandle handle, Entry* target, bint to_front) noexcept:
    lock_with_gil(self.timer)
    wheel_remove(&self.timer.wheel, &handle.task.entry)
    if to_front:
        list_push(target, &handle.task.entry)
    else:
        list_append(target, &handle.task.entry)
    lock_release(self.timer)


cdef void timers_take_back_offered(LoopTimers self) noexcept:
    """Move offered handles back to the front of `running`."""
    lock_with_gil(self.timer)
    # Append `running` to `offered`, then move all back.
    list_move_to_end(&self.running, &self.offered)
    list_move_to_end(&self.offered, &self.running)
    lock_release(self.timer)


cdef class LoopCall:
    """The callable that the core passes to the loop. To monitoring tools it looks like the callback."""

    def __call__(self, *args):
        if self.handle.offered:
            handle_run_once(self.handle, False)

    def __getattr__(self, name):
        if name == "__wrapped__":
            return getattr(self.callback, name, self.callback)
        return getattr(self.callback, name)

    def __repr__(self):
        return repr(self.callback)

    @property
    def __class__(self):
        return self.callback.__class__


cdef bint timers_offer(LoopTimers self) except False:
    """Ask the loop to call the handles of `running`, at most RUN_LIMIT."""
    cdef LoopHandle handle
    cdef LoopCall call
    cdef int left = RUN_LIMIT
    self.offered_s = self.pass_s
    while left and timers_keep_wakeup(self):
        left -= 1
        handle = entry_handle(self.running.next)
        call = LoopCall.__new__(LoopCall)
        call.handle = handle
        call.callback = handle.callback_
        handle.offered = True
        handle_move_between(self, handle, &self.offered, False)
        try:
            asked = self.base.call_soon(call, *handle.arguments, context=handle.context)
        except:
            if task_state(&handle.task) == TASK_PENDING:
                handle_move_between(self, handle, &self.running, True)
            raise
        self._name(asked, handle)
    return True
