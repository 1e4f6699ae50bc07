# A pass of an event loop over its wheel: at a wake-up, due handles are taken out of the wheel and run.
#
# asyncio specifies that a handle added during a pass waits for the next one. A pass begins after `wakeup_s`, so a handle added
# before `wakeup_s` was added before this pass. Other handles, and all handles behind them in order, wait for the next pass.


cdef inline bint wheel_is_due(const Wheel* self, int64_t now_tick) noexcept:
    return self.queue_length > 0 and entry_tick(&self.queue[0].entries) <= now_tick


cdef bint timers_take_due(LoopTimers self, double now, double wakeup_s) except False:
    """Move the handles that this pass runs to `running`. Other due handles stay in Timer.ready, in order."""
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
            with nogil:                 # let other threads take the GIL during a long cascade
                pass
            lock_with_gil(timer)
    wheel_advance_clock(wheel, now_tick)            # no bucket is due, so the clock skips no bucket
    timers_sort_ready_locked(self)
    while True:
        entry = ready.next
        if entry is ready or entry_deadline(entry) > now or entry_deadline(entry) == INFINITY:
            break
        if entry_deadline(entry) > wakeup_s and entry_added(entry) >= wakeup_s:
            break
        entry_unlink(entry)
        wheel.removals += 1
        list_append(&self.running, entry)
    lock_release(timer)
    return True


cdef bint timers_begin_pass(LoopTimers self, double wakeup_s, bint soon) except -1:
    """Move due handles to `running`. Return False if it is too early; another wake-up is set then."""
    cdef double now = timers_time(self)
    if isnan(now):
        if isinf(wakeup_s):
            timers_set_soon(self, wakeup_s)
        else:
            timers_set_wakeup_by(self, wakeup_s)
        return False
    if not soon and now < wakeup_s:
        timers_wait_longer(self, wakeup_s, now)
        return False
    self.pass_s = now
    if not list_is_empty(&self.offered) and now >= self.offered_s + OVERDUE_S:
        timers_take_back_offered(self)
    timers_take_due(self, now, wakeup_s)
    return True


cdef bint timers_wake_up(LoopTimers self, int64_t number) except False:
    """Run a pass for the wake-up of this number, if it is the current one."""
    cdef double wakeup_s
    cdef bint soon
    cdef bint begins
    with cython.critical_section(self):
        if number != self.wakeup_number or self.loop is None:
            return True
        wakeup_s = self.wakeup_s
        soon = self.wakeup_tick == SOON
        timers_forget_wakeup(self)
        self.wakeup_context = None       # this pass runs in that context
    try:
        with cython.critical_section(self):
            # Handles in `running` were due when they were moved there, even if the clock has gone back.
            begins = not list_is_empty(&self.running) or timers_begin_pass(self, wakeup_s, soon)
        if begins:
            if self.debug or handle_run_is_replaced():
                with cython.critical_section(self):
                    timers_offer(self)
            else:
                timers_run(self)
            with cython.critical_section(self):
                if list_is_empty(&self.running):
                    timers_set_next_wakeup(self)
    except:
        with cython.critical_section(self):
            timers_ensure_wakeup(self)
        raise
    return True


cdef bint timers_recover(LoopTimers self) except False:
    """Prepare the loop to run again after an exception, which may have lost calls that the loop was about to make."""
    self.interrupted = False
    timers_take_back_offered(self)
    if hw_peek64(&self.timer.pending):
        timers_set_soon(self, self.pass_s)
    return True
