# From a status of the plain C half to an exception; the lock is free by then.


cdef bint error_raise() except False:
    """Raises the exception that is set already."""
    return False


cdef int status_raise(Timer* timer, Status status) except -1:
    """The one place where a status becomes an exception; the lock is free by now."""
    if status == CLOSED:
        raise TimerClosed("the timer is closed")
    if status == GROUP_CLOSED:
        raise TimerClosed("the group is closed")
    if status == FULL:
        raise TimerFull(f"the timer holds max_pending={timer.max_pending} timers already")
    if status == WAS_PENDING:
        raise ValueError("the task is pending already")
    if status == SPENT:
        raise ValueError("the task has expired and its callback is gone; make a new one")
    raise MemoryError
