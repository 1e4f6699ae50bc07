# The wake-up: the one timer, or the one call in the next pass, that a LoopTimers requests from the loop itself.
#
# As long as a handle is pending, a wake-up must be set, even if KeyboardInterrupt is raised at any line of the loop's own
# code. Therefore the old wake-up stays current until the loop has accepted the new one. Each wake-up has a number: a wake-up
# that is not current does nothing.
#
# Each wake-up has its own context, because a context that is entered cannot be entered again. A callback that runs the loop
# itself, as nest-asyncio does, is still inside the context of the wake-up that called it.

cdef enum:
    ENSURE_TRIES = 3
    SCAN_LIMIT = 64             # entries inspected for the latest deadline of a tick
    MAX_WAKEUP_S = 86400        # the farthest wake-up to request

cdef int64_t NEVER = INT64_MAX          # LoopTimers.wakeup_tick if no wake-up is set
cdef int64_t SOON = INT64_MIN           # in the next pass, regardless of the clock
cdef double OVERDUE_S = 1.0             # a wake-up that is later than this is requested again
cdef double RESOLUTION_S = 1e-6         # a smaller difference may be due to the clock's resolution


cdef object timers_ask_loop(LoopTimers self, object when, object callback, tuple args, object context):
    """Request a timer with the loop's own call_at."""
    cdef bint was_asking = self.asking          # True inside a signal handler that interrupts this
    self.asking = True
    try:
        return self.base.call_at(when, callback, *args, context=context)
    finally:
        self.asking = was_asking


# --- the current wake-up ---------------------------------------------------------------------------------------------

cdef inline void timers_forget_wakeup(LoopTimers self) noexcept:
    self.wakeup = None
    self.wakeup_number = 0
    self.wakeup_tick = NEVER
    self.wakeup_s = INFINITY


cdef inline int64_t timers_new_wakeup(LoopTimers self) except -1:
    """Return the number of the next wake-up, and make sure that it has a context."""
    self.last_number += 1
    if self.wakeup_context is None:
        self.wakeup_context = PyContext_Copy(context_empty)
    return self.last_number


cdef bint timers_adopt_wakeup(LoopTimers self, object wakeup, int64_t number, int64_t tick, double when) except False:
    """Make a wake-up that the loop has accepted the current one, and cancel the one before."""
    earlier = self.wakeup
    if self.loop is None or (self.wakeup_number > number and self.wakeup_tick <= tick):
        wakeup.cancel()         # the loop is closed, or a signal handler has requested an earlier wake-up in between
        return True
    self.wakeup = wakeup
    self.wakeup_number = number
    self.wakeup_tick = tick
    self.wakeup_s = when
    if earlier is not None:
        earlier.cancel()
    return True


cdef bint timers_set_wakeup(LoopTimers self, double when) except False:
    """Request a wake-up that replaces the current one."""
    cdef int64_t number
    if self.loop is None:
        return True
    number = timers_new_wakeup(self)
    wakeup = timers_ask_loop(self, when, self._on_wakeup, (number,), self.wakeup_context)
    return timers_adopt_wakeup(self, wakeup, number, tick_of(when), when)


cdef bint timers_set_soon(LoopTimers self, double added_before_s) except False:
    """Request a wake-up in the next pass, which may run handles added before this time."""
    cdef int64_t number
    if self.loop is None:
        return True
    number = timers_new_wakeup(self)
    wakeup = self.base.call_soon(self._on_wakeup, number, context=self.wakeup_context)
    return timers_adopt_wakeup(self, wakeup, number, SOON, added_before_s)


cdef void timers_ensure_wakeup(LoopTimers self) noexcept:
    """After an exception: request a wake-up in the next pass if anything is pending."""
    cdef int tries = 0
    while tries < ENSURE_TRIES and self.wakeup_tick != SOON and self.loop is not None and hw_peek64(&self.timer.pending):
        try:
            timers_set_soon(self, self.pass_s)
        except BaseException:
            tries += 1          # a second interrupt within microseconds; the caller raises the first one


cdef void timers_handle_failure(LoopTimers self, object handle) noexcept:
    """Replace the wake-up if its handle is the one that the loop failed to call."""
    if handle is not None and handle is self.wakeup:
        timers_forget_wakeup(self)
        timers_ensure_wakeup(self)


# --- the time of the wake-up -----------------------------------------------------------------------------------------

cdef inline bint timers_wakeup_is_after(LoopTimers self, int64_t tick, double when) noexcept:
    """Return True if no wake-up is set, or if it is later than `when`. `tick` is the tick of `when`."""
    return tick < self.wakeup_tick or (tick == self.wakeup_tick and tick_is_clamped(tick) and when < self.wakeup_s)


cdef inline bint timers_has_wakeup(LoopTimers self, int64_t tick, double when, double now) noexcept:
    """Return True if the current wake-up is early enough for a handle that is added at `now`."""
    return not timers_wakeup_is_after(self, tick, when) and not now > self.wakeup_s + OVERDUE_S


cdef bint timers_want_wakeup(LoopTimers self, int64_t tick, double when, double now) except False:
    """Set the wake-up for a handle that was added at `now`."""
    if timers_wakeup_is_after(self, tick, when):
        timers_set_wakeup(self, min(when, now + MAX_WAKEUP_S))
    elif now > self.wakeup_s + OVERDUE_S:
        timers_set_soon(self, now)
    return True


cdef bint timers_set_wakeup_by(LoopTimers self, double when) except False:
    """Request a wake-up unless the current one is early enough."""
    if timers_wakeup_is_after(self, tick_of(when), when):
        timers_set_wakeup(self, when)
    return True


cdef bint timers_wait_longer(LoopTimers self, double when, double now) except False:
    """Request another wake-up after one that came early.

    A loop may wake up early by its clock resolution (asyncio: a nanosecond; uvloop: half a millisecond). If asked for
    the exact remaining time, some loops sleep for a millisecond and some not at all. If less than a microsecond remains, first
    request another pass: a running clock has advanced by then. If that does not help, request one tick, for a virtual clock
    that moves only when the loop sleeps. If more remains, first request exactly that time, then a millisecond, the resolution
    of uvloop.
    """
    self.early_times = self.early_times + 1 if now == self.early_s else 0
    self.early_s = now
    if when - now >= RESOLUTION_S:
        timers_set_wakeup_by(self, when if self.early_times == 0 else max(when, now + 0.001))
    elif self.early_times > 0:
        timers_set_wakeup(self, now + 1.0 / TICKS_PER_S)
    elif self.wakeup_tick != SOON:
        timers_set_soon(self, when)
    return True


cdef double handles_latest(const Entry* head) noexcept:
    """Return the latest deadline of a list's first tick. Handles beyond SCAN_LIMIT are not inspected: they get another wake-up.

    For a clamped tick, return the first deadline: the list is Timer.ready then, which is sorted.
    """
    cdef const Entry* entry = head.next
    cdef int64_t tick = entry_tick(entry)
    cdef double latest = -INFINITY
    cdef int count = 0
    if tick_is_clamped(tick):
        return entry_deadline(entry)
    while entry is not head and entry_tick(entry) == tick and count < SCAN_LIMIT:
        latest = max(latest, entry_deadline(entry))
        entry = entry.next
        count += 1
    return latest


cdef double timers_next_locked(LoopTimers self) noexcept:
    """Return the latest deadline of the earliest tick, or the time of a coarse bucket's cascade; infinity: nothing pending."""
    cdef Entry* ready = &self.timer.ready
    cdef const Bucket* bucket
    if not list_is_empty(ready):
        timers_sort_ready_locked(self)
        return handles_latest(ready)
    bucket = queue_first(&self.timer.wheel)
    if bucket is NULL:
        return INFINITY
    if bucket.level == 1 and entry_tick(&bucket.entries) < LAST_LOOP_TICK:
        return handles_latest(&bucket.entries)
    return <double>entry_tick(&bucket.entries) / TICKS_PER_S


cdef bint timers_set_next_wakeup(LoopTimers self) except False:
    """Set the wake-up for the pending handles, unless the current one is early enough."""
    cdef double when, now = self.pass_s
    lock_with_gil(self.timer)
    when = timers_next_locked(self)
    lock_release(self.timer)
    if not list_is_empty(&self.offered):
        when = min(when, self.offered_s + OVERDUE_S)
    if isinf(when):
        if self.wakeup_tick == SOON:
            earlier = self.wakeup
            timers_forget_wakeup(self)
            earlier.cancel()
    elif when <= now:
        if self.wakeup_tick != SOON:
            timers_set_soon(self, now)      # due, but added too late for this pass
    elif when - now < RESOLUTION_S:
        timers_wait_longer(self, when, now)
    elif self.wakeup_tick == SOON or timers_wakeup_is_after(self, tick_of(when), when):
        timers_set_wakeup(self, min(when, now + MAX_WAKEUP_S))
    return True
