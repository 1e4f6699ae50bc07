# Functions of a debug build (HWHEEL_DEBUG=1 at compile time) for tests: live counts, checks of invariants, and the hints,
# bookmarks, and steps of a wheel.


cdef bint debug_only() except False:
    if not HW_DEBUG:
        raise RuntimeError("hwheel was not built with HWHEEL_DEBUG=1")
    return True


def debug_live():
    """Return the numbers of live (timers, tasks that were ever added, batches, watchers of purgatories)."""
    debug_only()
    return live[LIVE_TIMERS], live[LIVE_TASKS], live[LIVE_BATCHES], live[LIVE_WATCHERS]


cdef const char* container_check(ContainerCore self) except? NULL:
    """Return a fault, or NULL."""
    with cython.critical_section(self):
        container_enter(self)
        if isinstance(self, ExpiringDictCore):
            return dict_check(self)
        if isinstance(self, CacheCore):
            return cache_check(self)
        if isinstance(self, DelayQueueCore):
            return delay_queue_check(self)
    return NULL


cdef const char* timer_group_check(TimerGroup self) except? NULL:
    """Return a fault, or NULL."""
    cdef const char* fault
    group_check_set_up(self)
    lock_with_gil(self.timer.timer)
    fault = group_check_locked(self.group, self.timer.timer)
    lock_release(self.timer.timer)
    return fault


cdef const char* loop_timers_check(LoopTimers self) noexcept:
    """Return a fault, or NULL."""
    cdef Timer* timer = self.timer
    cdef int64_t running = 0, offered = 0
    cdef const char* fault
    lock_with_gil(timer)
    fault = list_check(&self.running, &running)
    if fault is NULL:
        fault = list_check(&self.offered, &offered)
    if fault is NULL:
        # A pass has taken these entries out of the wheel, and has not run them yet.
        hw_bump(&timer.pending, -(running + offered))
        timer.expired += running + offered
        fault = timer_check_locked(timer)
        hw_bump(&timer.pending, running + offered)
        timer.expired -= running + offered
    lock_release(timer)
    return fault


cdef const char* timer_check(Timer* self) noexcept:
    """Return a fault, or NULL."""
    cdef const char* fault
    lock_with_gil(self)
    fault = timer_check_locked(self)
    lock_release(self)
    return fault


def debug_check(timer):
    """Raise AssertionError if an invariant of a TimingWheel, timer, group, or container is violated."""
    cdef const char* fault = NULL
    debug_only()
    if isinstance(timer, ContainerCore):
        fault = container_check(timer)
    elif isinstance(timer, TimerGroup):
        fault = timer_group_check(timer)
    elif isinstance(timer, LoopTimers):
        fault = loop_timers_check(timer)
    elif isinstance(timer, TimingWheel):
        timing_wheel_check_set_up(timer)
        fault = timer_check((<TimingWheel>timer).timer)
    else:
        core_check_set_up(<BaseTimer?>timer)
        fault = timer_check((<BaseTimer>timer).timer)
    if fault is not NULL:
        raise AssertionError(fault.decode())


def debug_hint(TimerTask task not None):
    """Return the addresses of a task's entry and of the target of its hint."""
    debug_only()
    return <uintptr_t>&task.task.entry, <uintptr_t>entry_hinted(&task.task.entry)


def debug_tally(TimingWheel wheel not None, int level, int index, int most, between):
    """Count the entries of a bucket with a bookmark, `most` at a time. Call between() after each step, without the lock."""
    cdef Bookmark bookmark
    cdef int64_t count, total = 0
    cdef Timer* timer
    debug_only()
    timing_wheel_check_set_up(wheel)
    timer = wheel.timer
    lock_with_gil(timer)
    bookmark_put(&bookmark, &timer.wheel, &timer.wheel.levels[level - 1].buckets[index].entries)
    lock_release(timer)
    try:
        while True:
            lock_with_gil(timer)
            count = bookmark_count(&bookmark, most)
            lock_release(timer)
            total += count
            if count < most:
                return total
            between()
    finally:
        lock_with_gil(timer)
        bookmark_remove(&bookmark, &timer.wheel)
        lock_release(timer)


def debug_step(TimingWheel wheel not None, int64_t now_ms, int budget):
    """Do one wheel_step. Due entries stay in the wheel, for poll().

    Returns:
        (status, rest of the budget, number of cascaded entries, time of the next bucket, whether the wheel is idle).
    """
    cdef Timer* timer
    cdef StepStatus status
    cdef int64_t before, cascaded, next_ms = 0
    cdef bint has_next, idle
    debug_only()
    timing_wheel_check_set_up(wheel)
    timer = wheel.timer
    lock_with_gil(timer)
    before = timer.wheel.cascaded
    status = wheel_step(&timer.wheel, now_ms, &budget)
    cascaded = timer.wheel.cascaded - before
    has_next = wheel_next(&timer.wheel, &next_ms)
    idle = wheel_is_idle(&timer.wheel)
    lock_release(timer)
    return ("done", "more", "tick")[status], budget, cascaded, next_ms if has_next else None, bool(idle)
