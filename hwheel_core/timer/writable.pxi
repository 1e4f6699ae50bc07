# For dump(): whether all that is pending can be written.


cdef bint list_is_writable(const Entry* head) noexcept nogil:
    cdef const Entry* entry = head.next
    while entry is not head:
        hw_prefetch(entry_hinted(entry))
        if entry.place != ENTRY_OF_TASK or not task_flags(<const Task*>entry) & TASK_WRITABLE:
            return False
        entry = entry.next
    return True


cdef bint timer_is_writable_locked(const Timer* self) noexcept nogil:
    """Whether nothing is pending, or on its way back from a run, but tasks that dump() has looked at."""
    cdef const Wheel* wheel = &self.wheel
    cdef int32_t i
    if self.adding or self.batches is not NULL:
        return False
    if not (list_is_writable(&self.ready) and list_is_writable(&self.resting) and list_is_writable(&wheel.due)
            and list_is_writable(&wheel.flush)):
        return False
    for i in range(wheel.queue_length):         # which has every bucket that holds something
        if not list_is_writable(&wheel.queue[i].entries):
            return False
    return True
