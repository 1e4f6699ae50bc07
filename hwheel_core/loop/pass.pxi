# A pass of an event loop over its wheel: the alarm rings, and what is due is taken out, and run.
#
# asyncio says: what is added while a pass runs waits for the next one. When the alarm rings, this pass began after
# `alarm_s`; so what was added before `alarm_s` was added before this pass. The rest waits, at the cost of one more pass,
# and so does everything behind it, because order comes first.


cdef inline bint wheel_is_due(const Wheel* self, int64_t now_tick) noexcept:
    return self.queue_length > 0 and self.queue[0].entries.expiration_ms <= now_tick


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
    timers_sort_ready_locked(self)
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


cdef bint timers_begin_pass(LoopTimers self, double alarm_s, bint soon) except -1:
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


cdef bint timers_ring(LoopTimers self, int64_t number) except False:
    """The alarm of this number rings: a pass, unless it does not count any more."""
    cdef double alarm_s
    cdef bint soon
    cdef bint begins
    with cython.critical_section(self):
        if number != self.alarm_number or self.loop is None:
            return True
        alarm_s = self.alarm_s
        soon = self.alarm_tick == SOON
        timers_forget_alarm(self)
        self.alarm_context = None       # this pass is inside it
    try:
        with cython.critical_section(self):
            # What is in `running` was due when it came there, whatever the clock says by now.
            begins = not list_is_empty(&self.running) or timers_begin_pass(self, alarm_s, soon)
        if begins:
            if self.debug or runs_are_watched():
                with cython.critical_section(self):
                    timers_offer(self)
            else:
                timers_run(self)
            with cython.critical_section(self):
                if list_is_empty(&self.running):
                    timers_set_next_alarm(self)
    except:
        with cython.critical_section(self):
            timers_ensure_alarm(self)
        raise
    return True


cdef bint timers_recover(LoopTimers self) except False:
    """Before the loop runs again after an exception has left it: by that it may have lost what it was about to call."""
    self.interrupted = False
    timers_withdraw(self)
    if hw_peek64(&self.timer.pending):
        timers_set_soon(self, self.pass_s)
    return True
