# What a debug build (HWHEEL_DEBUG=1 when compiling) shows to its tests: the live counts, the invariant check, and
# of the wheel its hints and its bookmarks.


cdef bint debug_only() except False:
    if not HW_DEBUG:
        raise RuntimeError("hwheel was not built with HWHEEL_DEBUG=1")
    return True


def debug_live():
    """How many (timers, tasks that were ever added, batches, watchers of a purgatory) exist, in a debug build."""
    debug_only()
    return live[LIVE_TIMERS], live[LIVE_TASKS], live[LIVE_BATCHES], live[LIVE_WATCHERS]


def debug_check(timer):
    """Raises AssertionError if an invariant of a TimingWheel, a timer, a group or a container does not hold, in a debug
    build."""
    cdef Timer* checked
    cdef Entry* running = NULL
    cdef Entry* offered = NULL
    cdef int64_t length = 0, offered_length = 0
    cdef const char* fault = NULL
    debug_only()
    if isinstance(timer, ContainerCore):
        with cython.critical_section(timer):
            container_ready(timer)
            if isinstance(timer, ExpiringDictCore):
                fault = dict_check(timer)
            elif isinstance(timer, DelayQueueCore):
                fault = delay_queue_check(timer)
        if fault is not NULL:
            raise AssertionError(fault.decode())
        return
    if isinstance(timer, TimerGroup):
        group_ready(timer)
        lock_with_gil((<TimerGroup>timer).timer.timer)
        fault = group_check_locked((<TimerGroup>timer).group, (<TimerGroup>timer).timer.timer)
        lock_release((<TimerGroup>timer).timer.timer)
        if fault is not NULL:
            raise AssertionError(fault.decode())
        return
    if isinstance(timer, TimingWheel):
        timing_wheel_set_up(timer)
        checked = (<TimingWheel>timer).timer
    elif isinstance(timer, LoopTimers):
        checked = (<LoopTimers>timer).timer
        running = &(<LoopTimers>timer).running
        offered = &(<LoopTimers>timer).offered
    else:
        core_set_up(<BaseTimer?>timer)
        checked = (<BaseTimer>timer).timer
    lock_with_gil(checked)
    if running is not NULL:
        fault = list_check(running, &length)
        if fault is NULL:
            fault = list_check(offered, &offered_length)
        length += offered_length
        hw_bump(&checked.pending, -length)       # what the pass of a loop has taken out and not run yet
        checked.expired += length
    if fault is NULL:
        fault = timer_check_locked(checked)
    hw_bump(&checked.pending, length)
    checked.expired -= length
    lock_release(checked)
    if fault is not NULL:
        raise AssertionError(fault.decode())


def debug_hint(TimerTask task not None):
    """(where a task's entry is, what its hint names), as addresses, in a debug build; of a task that was added once."""
    debug_only()
    return <uintptr_t>&task.task.entry, <uintptr_t>entry_hinted(&task.task.entry)


def debug_tally(TimingWheel wheel not None, int level, int index, int most, between):
    """How many entries a bucket of a wheel holds, by a bookmark (wheel/bookmark.pxi), in a debug build: counted so many at a
    time, and after each time between() is called, without the lock."""
    cdef Bookmark bookmark
    cdef int64_t count, total = 0
    cdef Timer* timer
    debug_only()
    timing_wheel_set_up(wheel)
    timer = wheel.timer
    lock_with_gil(timer)
    bookmark_put(&bookmark, &timer.wheel, &timer.wheel.levels[level - 1].buckets[index])
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
