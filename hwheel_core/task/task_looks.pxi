# What is looked at without the guard under which it is written: old or new, and never half of both.


cdef inline TaskState task_state(const Task* self) noexcept nogil:
    """For a look without the lock."""
    return <TaskState>hw_peek(&self.state)


cdef inline int32_t task_flags(const Task* self) noexcept nogil:
    """For a look outside of the task's critical section."""
    return hw_peek(&self.flags)
