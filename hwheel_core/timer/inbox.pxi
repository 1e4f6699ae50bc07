# Inboxes: without a GIL, threads add to inboxes instead of competing for the timer's lock.
#
# An add writes a letter with its task into an inbox, and a cancel removes the task if the letter is still there. A thread that
# takes the timer's lock first moves all letters into the wheel (lock_entered), so code under the lock only sees the wheel. Only
# add, cancel, sleep, close, and fork know about inboxes. A timer gets its inboxes after HW_MEETINGS waits for its lock; a timer
# that one thread uses has none.
#
# Never late. A letter wakes no thread. So an inbox only accepts tasks that expire when the last sleeper wakes up, or later;
# that sleeper then takes the lock and empties the inboxes. A thread that is about to sleep publishes the end of its sleep
# (inboxes_open_locked), and empties the inboxes once more. An earlier task goes through the lock and wakes the sleeper.
# No task is missed or left behind: tools/schedules checks every schedule of adders, sleepers, forks, and close().
#
# In order. An add through the lock empties the inboxes first, so it comes after all letters. Letters of two inboxes are ordered
# by the clock readings of their adds. An add that begins after another add has returned reads a later time, if a step of the
# clock is shorter than an add. This holds for the monotonic clock of every platform with a free-threaded CPython (at most
# 100 ns). Timers on other clocks have no inboxes.
#
# Locks. A thread holds an inbox's lock for a few instructions. Only the holder of the timer's lock waits for it; an adder that
# finds it taken tries the next inbox, and then the timer's lock. A thread that empties the inboxes first locks all
# inboxes with letters. So letters are moved in the order in which they were written, also across inboxes.


cdef bint inbox_add(Timer* timer, Task* task, int64_t expiration_ms, int64_t added_ns) noexcept nogil:
    """Put a new task, which no other thread has seen, into an inbox. Return False if the add must take the lock.

    added_ns is the reading of the timer's clock.
    """
    cdef Inbox* boxes = <Inbox*>hw_load(&timer.inboxes)
    cdef Inbox* box
    cdef int32_t first, i
    cdef bint fits
    if boxes is NULL:
        return False
    first = hw_thread_number()
    for i in range(INBOXES):
        box = &boxes[(first + i) & (INBOXES - 1)]
        if hw_mutex_trylock(&box.lock):
            fits = box.from_ms <= expiration_ms < box.until_ms and box.length < INBOX_CAPACITY
            if fits:
                inbox_append(timer, box, task, expiration_ms, added_ns)
            hw_mutex_unlock(&box.lock)
            return fits
    return False


cdef inline void inbox_append(Timer* timer, Inbox* box, Task* task, int64_t expiration_ms, int64_t added_ns) noexcept nogil:
    # Two threads may use one inbox. If the one with the earlier reading comes second, its letter gets the later reading.
    box.last_ns = max(box.last_ns, added_ns)
    box.letters[box.length] = InboxEntry(task, box.last_ns)
    hw_poke64(&task.entry.expiration_ms, expiration_ms)
    task.entry.letter = box.length
    hw_poke32(&task.entry.place, ENTRY_OF_INBOX - box.number)
    hw_poke(&task.state, TASK_PENDING)
    box.length += 1
    box.pending += 1
    box.added += 1
    if box.added == 1:
        hw_set_bits(&timer.mail, 1 << box.number)


cdef bint inbox_cancel(Timer* timer, Task* task) noexcept nogil:
    """Cancel a task that is in an inbox. Return False if it is in none, or if the inbox is locked."""
    cdef int32_t place = hw_peek32(&task.entry.place)
    cdef Inbox* box
    cdef bint found
    if place > ENTRY_OF_INBOX:
        return False
    box = &(<Inbox*>hw_load(&timer.inboxes))[ENTRY_OF_INBOX - place]
    if not hw_mutex_trylock(&box.lock):
        return False
    found = task.entry.place == place           # otherwise it has just moved to the wheel
    if found:
        box.letters[task.entry.letter].task = NULL
        hw_poke32(&task.entry.place, ENTRY_OF_TASK)
        hw_poke(&task.state, TASK_CANCELLED)
        box.pending -= 1
        box.cancelled += 1
        while box.length and box.letters[box.length - 1].task is NULL:
            box.length -= 1
    hw_mutex_unlock(&box.lock)
    return found


# --- emptying ----------------------------------------------------------------------------------------------------


cdef int inboxes_hold_locked(Timer* timer) noexcept nogil:
    """Lock all inboxes that hold something, and return their bits.

    This includes an inbox that gets its first letter while this thread waits for another inbox. Otherwise later letters of the
    other inboxes would be moved before that letter.
    """
    cdef int held = 0, wanted = hw_peek(&timer.mail)
    while wanted != held:
        # Always lock in the same order. Only one thread does this at a time, but lock checkers cannot know that.
        inboxes_release(timer, held)
        held = wanted
        inboxes_lock(timer, held)
        wanted = hw_peek(&timer.mail)       # only this thread clears bits
    return held


cdef void inboxes_lock(Timer* timer, int chosen) noexcept nogil:
    cdef Inbox* boxes = <Inbox*>timer.inboxes
    cdef int32_t i
    for i in range(INBOXES):
        if chosen & 1 << i:
            hw_mutex_lock(&boxes[i].lock)


cdef void inboxes_release(Timer* timer, int held) noexcept nogil:
    cdef Inbox* boxes = <Inbox*>timer.inboxes
    cdef int32_t i
    for i in range(INBOXES):
        if held & 1 << i:
            hw_mutex_unlock(&boxes[i].lock)


cdef void inboxes_drain_locked(Timer* timer) noexcept nogil:
    """Move all letters into the wheel, in the order in which they were added."""
    cdef int held = inboxes_hold_locked(timer)
    inboxes_move_locked(timer, held)
    inboxes_release(timer, held)


cdef Inbox* inboxes_first(Inbox* boxes, int held) noexcept nogil:
    """Return the inbox with the oldest letter that is not moved yet, or NULL. Skip cancelled letters."""
    cdef Inbox* box
    cdef Inbox* first = NULL
    cdef int32_t i
    for i in range(INBOXES):
        if held & 1 << i:
            box = &boxes[i]
            while box.moved < box.length and box.letters[box.moved].task is NULL:
                box.moved += 1
            if box.moved < box.length and (
                    first is NULL or box.letters[box.moved].added_ns < first.letters[first.moved].added_ns):
                first = box
    return first


cdef void inboxes_move_locked(Timer* timer, int held) noexcept nogil:
    cdef Inbox* boxes = <Inbox*>timer.inboxes
    cdef Inbox* box = inboxes_first(boxes, held)
    cdef int32_t i
    while box is not NULL:
        inbox_move_locked(timer, box.letters[box.moved].task)
        box.moved += 1
        box = inboxes_first(boxes, held)
    for i in range(INBOXES):
        if held & 1 << i:
            box = &boxes[i]
            timer.added += box.added
            timer.cancelled += box.cancelled
            hw_bump(&timer.pending, box.pending)
            box.length = box.moved = 0
            box.pending = box.added = box.cancelled = 0
    hw_clear_bits(&timer.mail, held)


cdef inline void inbox_move_locked(Timer* timer, Task* task) noexcept nogil:
    hw_poke32(&task.entry.place, ENTRY_OF_TASK)
    # Its level exists, or the inbox would not have accepted it. Levels stay, and a monotonic clock does not go back.
    timer_insert_locked(timer, &task.entry, TAKE_DUE)


# --- life cycle --------------------------------------------------------------------------------------------------


cdef void inboxes_open_locked(Timer* timer) noexcept nogil:
    """Set the range of times that inboxes accept, then empty them. Called before a sleep, by close(), and for new inboxes."""
    cdef Inbox* boxes = <Inbox*>timer.inboxes
    cdef const Level* top = &timer.wheel.levels[timer.wheel.level_count - 1]
    cdef int64_t from_ms = INT64_MAX, until_ms = INT64_MAX
    cdef int32_t i
    if boxes is NULL:
        return
    # INT64_MIN: no thread sleeps, or the sleepers are about to wake up and will call this again.
    if not timer.closed and timer.max_pending == INT64_MAX and timer.reaper_until_ms != INT64_MIN:
        from_ms = timer.reaper_until_ms
        if top.interval_ms < <uint64_t>(INT64_MAX - top.current_time_ms):
            until_ms = top.current_time_ms + <int64_t>top.interval_ms
    for i in range(INBOXES):
        hw_mutex_lock(&boxes[i].lock)
        boxes[i].from_ms = from_ms
        boxes[i].until_ms = until_ms
        hw_mutex_unlock(&boxes[i].lock)
    inboxes_drain_locked(timer)


cdef bint inboxes_wanted(Timer* timer) noexcept nogil:
    """Return True if threads have waited for the lock so often that inboxes pay."""
    return timer.clock == CLOCK_KIND_MONOTONIC and hw_peek(&timer.met) >= HW_MEETINGS and not hw_load(&timer.inboxes)


cdef Inbox* inboxes_new() noexcept nogil:
    cdef Inbox* boxes = <Inbox*>PyMem_RawCalloc(INBOXES, sizeof(Inbox))
    cdef int32_t i
    if boxes is not NULL:
        for i in range(INBOXES):
            hw_mutex_init(&boxes[i].lock)
            boxes[i].number = i
            boxes[i].from_ms = INT64_MAX
    return boxes


cdef void inboxes_free(Inbox* boxes) noexcept nogil:
    cdef int32_t i
    if boxes is NULL:
        return
    for i in range(INBOXES):
        hw_mutex_destroy(&boxes[i].lock)
    PyMem_RawFree(boxes)


cdef void inboxes_before_fork(Timer* timer) noexcept nogil:
    """Lock and empty all inboxes until the fork is over. The timer's lock is held."""
    if timer.inboxes:
        inboxes_lock(timer, (1 << INBOXES) - 1)
        inboxes_move_locked(timer, (1 << INBOXES) - 1)


cdef void inboxes_after_fork_in_parent(Timer* timer) noexcept nogil:
    if timer.inboxes:
        inboxes_release(timer, (1 << INBOXES) - 1)


cdef void inboxes_after_fork_in_child(Timer* timer) noexcept nogil:
    """Reset the inboxes: no thread sleeps in the child."""
    cdef Inbox* boxes = <Inbox*>timer.inboxes
    cdef int32_t i
    if boxes is NULL:
        return
    for i in range(INBOXES):
        hw_mutex_init(&boxes[i].lock)
        boxes[i].from_ms = INT64_MAX
