# A pass of an event loop over its wheel: what is due is taken out, and run. See loop_timers.pxi.


cdef bint timers_take_due(LoopTimers self, double now, double alarm_s) except False:
    """Moves what this pass runs to `running`; the rest of what is due stays in Timer.ready, in order."""
    cdef Timer* timer = self.timer
    cdef Entry* ready = &timer.ready
    cdef Entry* entry
    cdef int64_t now_tick = tick_of(now)
    lock_with_gil(timer)
    while timer_step_locked(timer, now_tick):
        lock_release(timer)
        with nogil:                     # a long cascade lets other threads have the GIL
            pass
        lock_with_gil(timer)
    wheel_advance_clock(&timer.wheel, now_tick)     # passes over no bucket: none is due
    list_sort(ready)
    timer.wheel.removals += 1           # what is remembered of the list's order (Timer.delivered) is no longer true
    while True:
        entry = ready.next
        if entry is ready or entry_deadline(entry) > now:
            break
        if entry_deadline(entry) > alarm_s and entry_added(entry) >= alarm_s:
            break
        entry_unlink(entry)
        timer.wheel.removals += 1
        list_append(&self.running, entry)
    lock_release(timer)
    return True


cdef inline double entry_added(const Entry* entry) noexcept:
    return (<LoopHandle><PyObject*>(<const char*>entry - loop_entry_offset)).added


cdef bint timers_prefetch(LoopTimers self) noexcept:
    """Sees to it that what the pass will touch is in the cache. True if there is more than one pass may run.

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
    return entry is not &self.running


cdef bint timers_run(LoopTimers self) except False:
    cdef Timer* timer = self.timer
    cdef LoopHandle handle
    cdef Entry* entry
    cdef int left = RUN_LIMIT
    try:
        while left:
            left -= 1
            lock_with_gil(timer)
            entry = self.running.next
            if entry is &self.running:
                lock_release(timer)
                break
            wheel_remove(&timer.wheel, entry)
            timer.pending -= 1
            timer.expired += 1
            (<Task*>entry).state = TASK_EXPIRED
            lock_release(timer)
            handle = entry_handle(entry)
            Py_DECREF(handle)           # the wheel's reference, of timers_insert
            handle_show(handle)
            handle_run(self, handle)
    except:
        # KeyboardInterrupt or SystemExit, on its way out of the loop: the rest is for the next pass.
        if not list_is_empty(&self.running) and self.loop is not None:
            timers_set_alarm(self, timers_time(self))
        raise
    return True


cdef inline bint handle_run(LoopTimers self, LoopHandle handle) except False:
    cdef double start = timers_time(self) if self.debug else -INFINITY
    try:
        if PyContext_CheckExact(handle.context):
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
        self._report(handle, error)
    if start != -INFINITY and self.loop is not None:
        self._time_call(handle, timers_time(self) - start)
    handle.callback_ = None
    handle.arguments = None
    return True


cdef inline bint handle_call(LoopHandle handle) except False:
    # References of its own: the callback may cancel its handle.
    cdef object callback = handle.callback_
    cdef tuple arguments = handle.arguments
    callback(*arguments)
    return True
