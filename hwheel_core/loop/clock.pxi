# The clock of a loop, as its timers read it.
#
# A loop's clock may go back, which a wheel's cannot. What is added for a time that the wheel's clock has passed goes to
# Timer.ready, which is kept in order by sorting; that is right, but slow for many. So after some of them the wheel is
# made anew at the loop's time.

cdef enum:
    BEHIND_LIMIT = 64           # entries that are kept by sorting, and a sixteenth of what is pending besides


cdef inline double timers_time(LoopTimers self) except? -1:
    """What loop.time() says, without the way there if it would only read the clock."""
    if not timers_are_as_known(self):
        timers_note_versions(self)
    if self.genuine_clock:
        return <double>hw_clock_ns() / 1e9      # rounded as time.monotonic() does
    return self.loop.time()


cdef void timers_turn_back(LoopTimers self, int64_t now_tick) noexcept:
    """Sets the wheel's clock back: takes everything out, and puts it in again. O(pending).

    What finds no place, because it is due or there is no memory for its level, stays in Timer.ready: kept by sorting.
    """
    cdef Timer* timer = self.timer
    cdef bint have_memory = True
    lock_with_gil(timer)
    while have_memory and not wheel_reaches_from(&timer.wheel, now_tick):
        lock_release(timer)
        have_memory = timer_grow(timer)
        lock_with_gil(timer)
    wheel_set_back(&timer.wheel, now_tick, &timer.ready)
    lock_release(timer)
    self.behind = 0
    self.unsorted = True


cdef inline void timers_note_tick(LoopTimers self, int64_t tick, double now) noexcept:
    """Before something is placed by this tick."""
    cdef int64_t clock_tick = self.timer.wheel.levels[0].current_time_ms
    if tick <= clock_tick:
        self.unsorted = True
        if tick_of(now) < clock_tick:
            self.behind += 1
            if self.behind > BEHIND_LIMIT + (hw_peek64(&self.timer.pending) >> 4):
                timers_turn_back(self, tick_of(now))
