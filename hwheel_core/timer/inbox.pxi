# Where there is no GIL: places in which threads put what they add, so that they need not meet at the timer's lock. A thread
# puts a call into an inbox, and takes it out again if it is cancelled before anybody has looked. Whoever takes the timer's
# lock empties all inboxes into the wheel first (lock_entered), so that under the lock there is nothing but the wheel. Only
# those know of them who add, cancel, lie down, close and fork. They are made when threads have met at the lock often enough
# (inboxes.pxi); a timer that one thread uses has none.
#
# Never late. What is put into an inbox wakes nobody. So an inbox takes only what falls due when the last of the sleepers
# wakes up by himself, or later; he takes the lock then. Who lies down says when that is (inboxes_open_locked), and
# looks once more at what has come meanwhile. What is earlier goes through the lock, and wakes him. tools/proof/inboxes.py looks
# at every state of two who add, two who sleep and one who closes: nothing is slept through, and nothing is left behind.
#
# In order. What was added through the lock comes behind all that was in the inboxes, since it has emptied them. Of two
# inboxes that goes first whose add has read the clock earlier: an add that began after another had returned, in another
# thread that knows of it, has read a later time. That holds for a clock whose steps are shorter than an add takes: the
# system's, in 100 ns at most wherever there is a CPython without a GIL. On other clocks there are no inboxes.
#
# Locks. An inbox's lock is held for a few instructions; only who has the timer's lock waits for it, others try the next
# inbox, and then the timer's lock. Who empties them holds the locks of all that there is something in: what was put into one
# before something was put into another is moved before that, too.


cdef bint inbox_add(Timer* timer, Task* task, int64_t expiration_ms, int64_t added_ns) noexcept nogil:
    """Puts in a new task that nobody else has seen; False: it has to go through the lock.

    added_ns: what the timer's clock said, for the order.
    """
    cdef Inbox* boxes = <Inbox*>hw_load(&timer.inboxes)
    cdef Inbox* box
    cdef int32_t first, i
    cdef bint taken
    if boxes is NULL:
        return False
    first = hw_thread_number()
    for i in range(INBOXES):
        box = &boxes[(first + i) & (INBOXES - 1)]
        if hw_mutex_trylock(&box.lock):
            taken = box.from_ms <= expiration_ms < box.until_ms and box.length < INBOX_ROOM
            if taken:
                inbox_append(timer, box, task, expiration_ms, added_ns)
            hw_mutex_unlock(&box.lock)
            return taken
    return False


cdef inline void inbox_append(Timer* timer, Inbox* box, Task* task, int64_t expiration_ms, int64_t added_ns) noexcept nogil:
    # Two threads may use one inbox, and the one that read the clock first come second: it is as if it had read it now.
    box.last_ns = max(box.last_ns, added_ns)
    box.letters[box.length] = Letter(task, box.last_ns)
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
    """Takes a task out again. False: it is in no inbox, or another thread is at that one."""
    cdef int32_t place = hw_peek32(&task.entry.place)
    cdef Inbox* box
    cdef bint found
    if place > ENTRY_OF_INBOX:
        return False
    box = &(<Inbox*>hw_load(&timer.inboxes))[ENTRY_OF_INBOX - place]
    if not hw_mutex_trylock(&box.lock):
        return False
    found = task.entry.place == place           # else it has been moved to the wheel meanwhile
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


cdef int inboxes_hold_locked(Timer* timer) noexcept nogil:
    """Takes the locks of all inboxes with something in them: their bits. An inbox that gets its first while others are waited
    for is one of them, because what comes into those after that would be moved before it."""
    cdef int held = 0, wanted = hw_peek(&timer.mail)
    while wanted != held:
        # In one order, though only one thread at a time does this: so that no tool has to be told.
        inboxes_release(timer, held)
        held = wanted
        inboxes_lock(timer, held)
        wanted = hw_peek(&timer.mail)       # no bit goes meanwhile
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


cdef void inboxes_empty_locked(Timer* timer) noexcept nogil:
    """Puts what is in the inboxes into the wheel, in the order in which it was added."""
    cdef int held = inboxes_hold_locked(timer)
    inboxes_move_locked(timer, held)
    inboxes_release(timer, held)


cdef void inboxes_move_locked(Timer* timer, int held) noexcept nogil:
    cdef Inbox* boxes = <Inbox*>timer.inboxes
    cdef Inbox* box
    cdef Inbox* first
    cdef int32_t i
    while True:
        first = NULL
        for i in range(INBOXES):
            if held & 1 << i:
                box = &boxes[i]
                while box.moved < box.length and box.letters[box.moved].task is NULL:
                    box.moved += 1
                if box.moved < box.length and (
                        first is NULL or box.letters[box.moved].added_ns < first.letters[first.moved].added_ns):
                    first = box
        if first is NULL:
            break
        inbox_move_locked(timer, first.letters[first.moved].task)
        first.moved += 1
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
    # There is a level for it, or it would not have been taken: levels stay, and this clock does not go back.
    timer_insert_locked(timer, &task.entry, TAKE_DUE)


cdef void inboxes_open_locked(Timer* timer) noexcept nogil:
    """Says what may be put into an inbox from now on: for who lies down, for who closes, and where they are new."""
    cdef Inbox* boxes = <Inbox*>timer.inboxes
    cdef const Level* top = &timer.wheel.levels[timer.wheel.level_count - 1]
    cdef int64_t from_ms = INT64_MAX, until_ms = INT64_MAX
    cdef int32_t i
    if boxes is NULL:
        return
    # INT64_MIN: nobody sleeps, or who does is about to be woken, and lies down anew.
    if not timer.closed and timer.max_pending == INT64_MAX and timer.reaper_until_ms != INT64_MIN:
        from_ms = timer.reaper_until_ms
        if top.interval_ms < <uint64_t>(INT64_MAX - top.current_time_ms):
            until_ms = top.current_time_ms + <int64_t>top.interval_ms
    for i in range(INBOXES):
        hw_mutex_lock(&boxes[i].lock)
        boxes[i].from_ms = from_ms
        boxes[i].until_ms = until_ms
        hw_mutex_unlock(&boxes[i].lock)
    inboxes_empty_locked(timer)
