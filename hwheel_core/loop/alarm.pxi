# The alarm: the one timer, or the one call in the next pass, that a LoopTimers wants of the loop itself.
#
# Nothing that is pending may ever be without an alarm, whatever is raised when and wherever: KeyboardInterrupt comes at
# any line of the loop's own code. So an alarm counts from the moment on at which the loop has taken it, the one before
# counts until then, and each has a number: one that the loop took and that does not count rings in vain.
#
# Each alarm has a context of its own, because a context can be entered only once: a callback that runs the loop itself,
# as some programs do, is still inside the context of the alarm that it was run by.

cdef enum:
    ENSURE_TRIES = 3
    SCAN_LIMIT = 64             # entries that are looked at for the latest deadline of a tick
    MAX_ALARM_S = 86400         # how far ahead the loop itself is asked for an alarm

cdef int64_t NEVER = INT64_MAX          # LoopTimers.alarm_tick where there is no alarm
cdef int64_t SOON = INT64_MIN           # in the next pass, whatever the clock says
cdef double OVERDUE_S = 1.0     # an alarm that has not rung so long after its time is asked for again
cdef double CANNOT_TELL_S = 1e-6        # what a clock may not be able to tell


cdef object timers_ask_loop(LoopTimers self, object when, object callback, tuple args, object context):
    """Asks the loop itself for a timer, by its own call_at."""
    cdef bint was_asking = self.asking          # a signal's handler may come in between
    self.asking = True
    try:
        return self.base.call_at(when, callback, *args, context=context)
    finally:
        self.asking = was_asking


# --- the alarm that counts ---------------------------------------------------------------------------------------

cdef inline void timers_forget_alarm(LoopTimers self) noexcept:
    self.alarm = None
    self.alarm_number = 0
    self.alarm_tick = NEVER
    self.alarm_s = INFINITY


cdef inline int64_t timers_new_alarm(LoopTimers self) except -1:
    """The number of an alarm that the loop is about to be asked for; it has a context then."""
    self.last_number += 1
    if self.alarm_context is None:
        self.alarm_context = PyContext_Copy(context_empty)
    return self.last_number


cdef bint timers_take_alarm(LoopTimers self, object alarm, int64_t number, int64_t tick, double when) except False:
    """The loop has taken it: from now on it counts, and the one before does not."""
    earlier = self.alarm
    if self.loop is None or (self.alarm_number > number and self.alarm_tick <= tick):
        alarm.cancel()          # closed, or asked for an earlier one by a signal's handler in the meantime
        return True
    self.alarm = alarm
    self.alarm_number = number
    self.alarm_tick = tick
    self.alarm_s = when
    if earlier is not None:
        earlier.cancel()
    return True


cdef bint timers_set_alarm(LoopTimers self, double when) except False:
    """Asks the loop for a wake-up, in place of the one that it was asked for before."""
    cdef int64_t number
    if self.loop is None:
        return True
    number = timers_new_alarm(self)
    alarm = timers_ask_loop(self, when, self._ring, (number,), self.alarm_context)
    return timers_take_alarm(self, alarm, number, tick_of(when), when)


cdef bint timers_set_soon(LoopTimers self, double added_before_s) except False:
    """Asks the loop for the next pass, in which all that was added before this time may run."""
    cdef int64_t number
    if self.loop is None:
        return True
    number = timers_new_alarm(self)
    alarm = self.base.call_soon(self._ring, number, context=self.alarm_context)
    return timers_take_alarm(self, alarm, number, SOON, added_before_s)


cdef void timers_ensure_alarm(LoopTimers self) noexcept:
    """After an exception: whatever is pending shall be looked after in the next pass."""
    cdef int tries = 0
    while tries < ENSURE_TRIES and self.alarm_tick != SOON and self.loop is not None and hw_peek64(&self.timer.pending):
        try:
            timers_set_soon(self, self.pass_s)
        except BaseException:
            tries += 1          # a second interrupt within microseconds; the first one is on its way already


cdef void timers_heed_failure(LoopTimers self, object handle) noexcept:
    """The loop could not call what this handle stands for. If that was the alarm, there is another one."""
    if handle is not None and handle is self.alarm:
        timers_forget_alarm(self)
        timers_ensure_alarm(self)


# --- when it is to ring ------------------------------------------------------------------------------------------

cdef inline bint timers_alarm_is_after(LoopTimers self, int64_t tick, double when) noexcept:
    """The alarm, if there is one, is for a later tick than this one, that of `when`."""
    return tick < self.alarm_tick or (tick == self.alarm_tick and tick_is_of_all(tick) and when < self.alarm_s)


cdef inline bint timers_want_alarm(LoopTimers self, int64_t tick, double when, double now) except False:
    """For what has been put into the wheel at `now`."""
    if timers_alarm_is_after(self, tick, when):
        timers_set_alarm(self, min(when, now + MAX_ALARM_S))
    elif now > self.alarm_s + OVERDUE_S:
        timers_set_soon(self, now)
    return True


cdef bint timers_set_alarm_by(LoopTimers self, double when) except False:
    """timers_set_alarm, unless there is one that is as early."""
    if timers_alarm_is_after(self, tick_of(when), when):
        timers_set_alarm(self, when)
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


cdef double handles_latest(const Entry* head) noexcept:
    """The latest deadline of a list's first tick, of at most SCAN_LIMIT entries. (What is later gets another alarm.)

    Of a tick of all times the first: then the list is Timer.ready, which is in order.
    """
    cdef const Entry* entry = head.next
    cdef int64_t tick = entry.expiration_ms
    cdef double latest = -INFINITY
    cdef int count = 0
    if tick_is_of_all(tick):
        return entry_deadline(entry)
    while entry is not head and entry.expiration_ms == tick and count < SCAN_LIMIT:
        latest = max(latest, entry_deadline(entry))
        entry = entry.next
        count += 1
    return latest


cdef double timers_next_locked(LoopTimers self) noexcept:
    """The latest deadline of the earliest tick, or when a coarse bucket has to be looked into. Infinity: never."""
    cdef Entry* ready = &self.timer.ready
    cdef const Bucket* bucket
    if not list_is_empty(ready):
        timers_sort_ready_locked(self)
        return handles_latest(ready)
    bucket = queue_first(&self.timer.wheel)
    if bucket is NULL:
        return INFINITY
    if bucket.level == 1 and bucket.entries.expiration_ms < LAST_TICK:
        return handles_latest(&bucket.entries)
    return <double>bucket.entries.expiration_ms / TICKS_PER_S


cdef bint timers_set_next_alarm(LoopTimers self) except False:
    """The alarm for what is pending now, unless there is one that is early enough."""
    cdef double when, now = self.pass_s
    lock_with_gil(self.timer)
    when = timers_next_locked(self)
    lock_release(self.timer)
    if not list_is_empty(&self.offered):
        when = min(when, self.offered_s + OVERDUE_S)
    if isinf(when):
        if self.alarm_tick == SOON:
            earlier = self.alarm
            timers_forget_alarm(self)
            earlier.cancel()
    elif when <= now:
        if self.alarm_tick != SOON:
            timers_set_soon(self, now)      # is due, and was added too late for this pass
    elif when - now < CANNOT_TELL_S:
        timers_wait_on(self, when, now)
    elif self.alarm_tick == SOON or timers_alarm_is_after(self, tick_of(when), when):
        timers_set_alarm(self, min(when, now + MAX_ALARM_S))
    return True
