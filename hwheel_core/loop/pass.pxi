# A pass of an event loop over its wheel: what is due is taken out, and run. See loop_timers.pxi.
#
# What is to run waits in `running`. An alarm is set before each callback: for the next pass as long as anything is left in
# `running`, for the next deadline otherwise. So a callback that runs the loop itself goes on with what is left, and one
# that leaves the loop by an exception keeps nothing from running later.

cdef double CANNOT_TELL_S = 1e-6        # what a clock may not be able to tell


cdef bint timers_ring(LoopTimers self, int64_t number) except False:
    cdef double alarm_s = self.alarm_s
    cdef bint soon = self.alarm_tick == SOON
    if number != self.alarm_number or self.loop is None:
        return True
    timers_forget_alarm(self)
    self.alarm_context = None           # this pass is inside it
    try:
        # What is in `running` was due when it came there, whatever the clock says by now.
        if not list_is_empty(&self.running) or timers_look(self, alarm_s, soon):
            if self.debug or runs_are_watched():
                timers_offer(self)
            else:
                timers_run(self)
            if list_is_empty(&self.running):
                timers_set_next_alarm(self)
    except:
        timers_ensure_alarm(self)
        raise
    return True


cdef bint timers_look(LoopTimers self, double alarm_s, bint soon) except -1:
    """Moves what is due to `running`. False if it is too early: then there is another alarm."""
    cdef double now = timers_time(self)
    if isnan(now):
        if isinf(alarm_s):
            timers_set_soon(self, alarm_s)
        else:
            timers_set_alarm_by(self, alarm_s)
        return False
    if not soon and now < alarm_s:
        timers_wait_on(self, alarm_s, now)
        return False
    self.pass_s = now
    if not list_is_empty(&self.offered) and now >= self.offered_s + OVERDUE_S:
        timers_withdraw(self)
    timers_take_due(self, now, alarm_s)
    return True


cdef bint timers_wait_on(LoopTimers self, double when, double now) except False:
    """The loop was early. Asks it again, so that neither a clock that runs nor one that a test moves makes it late.

    A loop may be early by what its clock cannot tell (asyncio: a nanosecond; uvloop: half a millisecond). Asked for
    exactly the time that is left, some sleep for a whole millisecond, some for nothing at all. So, for less than a
    microsecond: another pass, in which a clock that runs has gone on; then a tick, for a clock that stands until the loop
    sleeps long enough. For more: exactly what is left; then a millisecond, the least that uvloop knows.
    """
    self.early_times = self.early_times + 1 if now == self.early_s else 0
    self.early_s = now
    if when - now >= CANNOT_TELL_S:
        timers_set_alarm_by(self, when if self.early_times == 0 else max(when, now + 0.001))
    elif self.early_times > 0:
        timers_set_alarm(self, now + 1.0 / TICKS_PER_S)
    elif self.alarm_tick != SOON:
        timers_set_soon(self, when)
    return True


cdef bint timers_take_due(LoopTimers self, double now, double alarm_s) except False:
    """Moves what this pass runs to `running`; the rest of what is due stays in Timer.ready, in order."""
    cdef Timer* timer = self.timer
    cdef Wheel* wheel = &timer.wheel
    cdef Entry* ready = &timer.ready
    cdef Entry* entry
    cdef int64_t now_tick = tick_of(now)
    lock_with_gil(timer)
    if not wheel_is_idle(wheel) or wheel_is_due(wheel, now_tick):
        self.unsorted = True
        while timer_step_locked(timer, now_tick):
            lock_release(timer)
            with nogil:                 # a long cascade lets other threads have the GIL
                pass
            lock_with_gil(timer)
    wheel_advance_clock(wheel, now_tick)            # passes over no bucket: none is due
    timers_sort_locked(self)
    while True:
        entry = ready.next
        if entry is ready or entry_deadline(entry) > now or entry_deadline(entry) == INFINITY:
            break
        if entry_deadline(entry) > alarm_s and entry_added(entry) >= alarm_s:
            break
        entry_unlink(entry)
        wheel.removals += 1
        list_append(&self.running, entry)
    lock_release(timer)
    return True


cdef inline bint wheel_is_due(const Wheel* self, int64_t now_tick) noexcept:
    return self.queue_length > 0 and self.queue[0].entries.expiration_ms <= now_tick


cdef inline double entry_added(const Entry* entry) noexcept:
    return (<LoopHandle><PyObject*>(<const char*>entry - loop_entry_offset)).added


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
    cdef int left = RUN_LIMIT
    timers_prefetch(self)
    while left and timers_keep_alarm(self):
        left -= 1
        handle_run_once(entry_handle(self.running.next), True)
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


cdef bint handle_run_once(LoopHandle handle, bint enter) except False:
    """Takes a handle out of wherever it waits, and runs it; nothing if it does not wait. enter: its context, too."""
    cdef LoopTimers timers = handle.timers
    cdef Timer* timer = timers.timer
    if handle.task.state != TASK_PENDING:
        return True
    lock_with_gil(timer)
    wheel_remove(&timer.wheel, &handle.task.entry)
    timer.pending -= 1
    timer.expired += 1
    handle.task.state = TASK_EXPIRED
    lock_release(timer)
    Py_DECREF(handle)                   # the wheel's reference, of timers_insert
    handle_show(handle)
    handle_run(timers, handle, enter)
    return True


cdef inline bint handle_run(LoopTimers self, LoopHandle handle, bint enter) except False:
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


cdef inline bint handle_call(LoopHandle handle) except False:
    # References of its own: the callback may cancel its handle.
    cdef object callback = handle.callback_
    cdef tuple arguments = handle.arguments
    callback(*arguments)
    return True


cdef bint timers_recover(LoopTimers self) except False:
    """Before the loop runs again after an exception has left it, with which it may have lost what it was about to call."""
    self.interrupted = False
    timers_withdraw(self)
    if self.timer.pending:
        timers_set_soon(self, self.pass_s)
    return True
