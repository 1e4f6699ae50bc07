# Adding, moving, and cancelling handles.
#
# A handle whose deadline has passed is left to the loop's own call_at, which defines what "in the next pass" means.


cdef inline bint handle_cancel(LoopHandle self) except False:
    """Implement LoopHandle.cancel()."""
    cdef Status status = NOT_PENDING
    cdef Timer* timer
    cdef object callback, arguments     # released at the end
    if self.timers is None:
        return True
    with cython.critical_section(self.timers):
        if self.is_cancelled:
            return True
        self.is_cancelled = True
        handle_show(self)
        if task_state(&self.task) == TASK_PENDING:
            timer = self.timers.timer
            lock_with_gil(timer)
            status = task_cancel_locked(timer, &self.task)
            lock_release(timer)
        try:
            if self.timers.debug:
                self.shown = repr(self)
        finally:
            callback = self.callback_
            arguments = self.arguments
            self.callback_ = None
            self.arguments = None
            if status == OK:
                Py_DECREF(self)         # the wheel's reference, from timers_insert
    return True


cdef inline bint timers_check_open(LoopTimers self) except False:
    if self.loop is None:
        raise RuntimeError("Event loop is closed" if self.is_loops else "these timeouts are closed")
    return True


cdef bint timers_add_level(Timer* timer, Status status) noexcept:
    """Add a level if the status asks for one, and keep the GIL. Return False if it does not, or if there is no memory."""
    return status == NEEDS_LEVEL and timer_grow(timer)


cdef bint timers_insert(LoopTimers self, LoopHandle handle, double now) except False:
    cdef Timer* timer = self.timer
    cdef int64_t tick = tick_of(handle.deadline), now_tick
    cdef Status status
    if hw_peek64(&timer.pending) == 0:
        now_tick = tick_of(now)
        if now_tick < timer.wheel.levels[0].current_time_ms:
            timers_set_back(self, now_tick)
        else:
            lock_with_gil(timer)
            queue_first_until(&timer.wheel, now_tick)       # drops buckets that cancels have emptied
            wheel_advance_clock(&timer.wheel, now_tick)
            lock_release(timer)
    timers_prepare_tick(self, tick, now)
    Py_INCREF(handle)                   # the wheel's reference; dropped when the handle leaves the wheel
    handle.task.owner = <uintptr_t>timer
    handle.task.entry.place = ENTRY_OF_TASK
    debug_count(LIVE_TASKS, 1)
    while True:
        lock_with_gil(timer)
        status = task_add_locked(timer, &handle.task, tick, TAKE_DUE)
        lock_release(timer)
        if status == OK:
            break
        if not timers_add_level(timer, status):
            Py_DECREF(handle)
            raise MemoryError
    if self.hides:
        handle_hide(handle)             # from now on, only code that calls handle_show drops the handle
    if timers_has_wakeup(self, tick, handle.deadline, now):
        return True                     # before the try block, which costs time even without an exception
    try:
        timers_want_wakeup(self, tick, handle.deadline, now)
    except:
        handle_cancel(handle)
        raise
    return True


cdef inline object timers_add(LoopTimers self, double now, double when, object given, object callback, tuple args,
                              object context):
    cdef LoopHandle handle
    if self.debug:
        self._check_call(callback)
    if not when > now or now < 0:       # also NaN: the loop decides
        return timers_ask_loop(self, when if given is None else given, callback, args, context)
    handle = LoopHandle.__new__(LoopHandle)
    handle.timers = self
    handle.deadline = when
    handle.first_deadline = handle.deadline
    handle.added = now
    handle.callback_ = callback
    handle.arguments = args
    handle.context = PyContext_CopyCurrent() if context is None else context
    if self.debug:
        handle.source_traceback = self._stack()
    with cython.critical_section(self):
        timers_check_open(self)         # another thread may have closed the loop in between
        timers_insert(self, handle, now)
    return handle


cdef inline object timers_call_later(LoopTimers self, object delay, object callback, tuple args, object context):
    cdef double now
    if delay is None:
        raise TypeError("delay must not be None")
    if self.asking:
        return self.base.call_later(delay, callback, *args, context=context)
    timers_check_open(self)
    now = timers_time(self)
    if PyFloat_CheckExact(delay):
        return timers_add(self, now, now + PyFloat_AS_DOUBLE(delay), None, callback, args, context)
    return timers_add(self, now, now + delay, None, callback, args, context)


cdef inline object timers_call_at(LoopTimers self, object when, object callback, tuple args, object context):
    cdef double now
    cdef object handle
    if when is None:
        raise TypeError("when cannot be None")
    if self.asking:
        return self.base.call_at(when, callback, *args, context=context)
    timers_check_open(self)
    try:
        now = timers_time(self)
    except Exception:
        now = -1                        # ask the loop, whose own call_at needs no clock
    handle = timers_add(self, now, when, when, callback, args, context)
    if type(when) is int and type(handle) is LoopHandle:
        (<LoopHandle>handle).when_is_int = fabs((<LoopHandle>handle).deadline) < MAX_EXACT_INT
    return handle


cdef bint timers_move(LoopTimers self, LoopHandle handle, double now, double when) except -1:
    cdef Timer* timer = self.timer
    cdef int64_t tick = tick_of(when)
    cdef double when_before = handle.deadline
    cdef double added_before = handle.added
    cdef bint was_int = handle.when_is_int
    cdef Status status
    timers_prepare_tick(self, tick, now)
    while True:
        status = timers_place(timer, handle, tick, now, when)
        if not timers_add_level(timer, status):
            break
    if status == NEEDS_LEVEL:
        raise MemoryError
    if status == OK and not timers_has_wakeup(self, tick, when, now):
        try:
            timers_want_wakeup(self, tick, when, now)
        except:
            timers_place(timer, handle, tick_of(when_before), added_before, when_before)    # its level exists
            handle.when_is_int = was_int
            timers_ensure_wakeup(self)
            raise
    return status == OK


cdef Status timers_place(Timer* timer, LoopHandle handle, int64_t tick, double added, double when) noexcept:
    """Move a pending handle."""
    cdef Status status
    lock_with_gil(timer)
    status = task_reschedule_locked(timer, &handle.task, tick, 0, 0)
    if status == OK:
        handle.deadline = when
        handle.added = added
        handle.when_is_int = False
        handle.offered = False
    lock_release(timer)
    return status


cdef void timers_drop_all(LoopTimers self) noexcept:
    """Drop the wheel's references to all pending handles, which count neither as run nor as cancelled."""
    cdef Timer* timer = self.timer
    cdef Entry dropped
    cdef Entry* entry
    list_init(&dropped)
    lock_with_gil(timer)
    while timer_step_locked(timer, INT64_MAX):
        pass
    list_move_to_end(&self.offered, &dropped)
    list_move_to_end(&self.running, &dropped)
    list_move_to_end(&timer.ready, &dropped)
    entry = dropped.next
    while entry is not &dropped:
        hw_poke(&(<Task*>entry).state, TASK_EXPIRED)
        entry = entry.next
    lock_release(timer)
    while not list_is_empty(&dropped):
        entry = dropped.next
        lock_with_gil(timer)
        wheel_remove(&timer.wheel, entry)
        hw_bump(&timer.pending, -1)
        timer.returned += 1
        lock_release(timer)
        # The handle may live on, and CPython deallocates only tracked contexts.
        handle_show(entry_handle(entry))
        Py_DECREF(entry_handle(entry))  # the wheel's reference, from timers_insert
