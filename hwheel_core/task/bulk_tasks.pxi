# Many tasks go into a timer at one moment: all of them, or none.


cdef Status tasks_add(Timer* timer, Task** tasks, int64_t count, int64_t now_ms, int64_t last_ms, WhenDue when_due) noexcept nogil:
    """task_add_locked for new tasks, in their order, by the expiration_ms that each has. OK, or nothing is added: CLOSED, FULL,
    NOT_YET, or NEEDS_LEVEL when there is no memory for a level. last_ms: when the last of them falls due."""
    cdef Status status
    cdef int64_t i
    lock_wait(timer)
    status = timer_reach(timer, now_ms, last_ms, when_due)      # so that none of them is refused
    if timer.closed:
        status = CLOSED
    elif count > timer.max_pending - timer.pending - timer.resting_count:
        status = FULL
    if status == OK:
        for i in range(count):
            task_add_locked(timer, tasks[i], tasks[i].entry.expiration_ms, TAKE_DUE)
    lock_release(timer)
    return status
