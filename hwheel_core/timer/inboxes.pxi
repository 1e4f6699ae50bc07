# A timer's inboxes come, go and are forked. What they are is said in inbox.pxi.


cdef bint inboxes_wanted(Timer* timer) noexcept nogil:
    """Whether threads have met at the lock so often that inboxes pay."""
    return timer.clock == CLOCK_KIND_MONOTONIC and hw_peek(&timer.met) >= HW_MEETINGS and not hw_load(&timer.inboxes)


cdef void inboxes_make(Timer* timer) noexcept nogil:
    """Takes the lock itself. Without memory all goes on without them."""
    cdef Inbox* boxes = <Inbox*>PyMem_RawCalloc(INBOXES, sizeof(Inbox))
    cdef int32_t i
    if boxes is NULL:
        return
    for i in range(INBOXES):
        hw_mutex_init(&boxes[i].lock)
        boxes[i].number = i
        boxes[i].from_ms = INT64_MAX
    lock_wait(timer)
    if not timer.inboxes:
        hw_store(&timer.inboxes, <uintptr_t>boxes)
        boxes = NULL
        inboxes_open_locked(timer)
    lock_release(timer)
    inboxes_free(boxes)         # another thread was faster


cdef void inboxes_free(Inbox* boxes) noexcept nogil:
    cdef int32_t i
    if boxes is NULL:
        return
    for i in range(INBOXES):
        hw_mutex_destroy(&boxes[i].lock)
    PyMem_RawFree(boxes)


cdef void inboxes_before_fork(Timer* timer) noexcept nogil:
    """Nobody is at an inbox while the process is copied, and nothing is in one: the timer's lock is held until after it."""
    if timer.inboxes:
        inboxes_lock(timer, (1 << INBOXES) - 1)
        inboxes_move_locked(timer, (1 << INBOXES) - 1)


cdef void inboxes_after_fork_in_parent(Timer* timer) noexcept nogil:
    if timer.inboxes:
        inboxes_release(timer, (1 << INBOXES) - 1)


cdef void inboxes_after_fork_in_child(Timer* timer) noexcept nogil:
    """As new: nobody sleeps here."""
    cdef Inbox* boxes = <Inbox*>timer.inboxes
    cdef int32_t i
    if boxes is NULL:
        return
    for i in range(INBOXES):
        hw_mutex_init(&boxes[i].lock)
        boxes[i].from_ms = INT64_MAX
