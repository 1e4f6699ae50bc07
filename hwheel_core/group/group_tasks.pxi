# The tasks of a group under their Timer's lock: one is added, all are cancelled.


cdef enum:
    GROUP_SLICE = 4096      # members that are cancelled under one hold of the lock


cdef Status group_add_locked(Timer* timer, Task* task, int64_t expiration_ms, WhenDue when_due) noexcept nogil:
    """task_add_locked for a task that a group has made: it is pending and a member, or neither. One of call_every that comes
    back from a run is a member still."""
    cdef Status status
    if task.state == TASK_NEW and task_member(task).group.closed:
        return GROUP_CLOSED
    status = task_add_locked(timer, task, expiration_ms, when_due)
    if status == OK:
        group_join_locked(task)
    return status


cdef inline Status task_enter_locked(Timer* timer, Task* task, int64_t expiration_ms, WhenDue when_due) noexcept nogil:
    """task_add_locked for any task."""
    if task_flags(task) & TASK_MEMBER:
        return group_add_locked(timer, task, expiration_ms, when_due)
    return task_add_locked(timer, task, expiration_ms, when_due)
