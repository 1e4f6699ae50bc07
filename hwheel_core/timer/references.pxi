# A task holds a reference to its Timer for as long as it lives.
#
# So that threads with inboxes do not meet at that count instead of at the lock, a thread takes many references at once, gives
# them to its tasks, and gets them back from those that die: they are a number in its inbox. It ends with the timer's Python
# object; from then on it is far below zero, and each reference goes to the Timer.

cdef int64_t NO_MORE = INT64_MAX // 2       # no member of an enum: C may keep 32 bits of those


cdef inline Inbox* inbox_of_thread(Timer* timer) noexcept nogil:
    cdef Inbox* boxes = <Inbox*>hw_load(&timer.inboxes)
    return NULL if boxes is NULL else &boxes[hw_thread_number() & (INBOXES - 1)]


cdef inline void timer_keep(Timer* self) noexcept nogil:
    """Takes a reference for a task that is made; by who has the timer's Python object."""
    cdef Inbox* box = inbox_of_thread(self) if HW_INBOXES else NULL
    if box is NULL:
        hw_count_add(&self.references, 1)
    elif hw_count_add(&box.references, -1) < 0:
        # It was one too many: that is made good.
        hw_count_add(&self.references, INBOX_REFERENCES)
        hw_count_add(&box.references, INBOX_REFERENCES)


cdef inline void timer_leave(Timer* self) noexcept nogil:
    """Drops a task's reference. In one step, below zero too, where timer_keep may be for a moment: what was given back here
    and taken out again could be counted by inboxes_end in between."""
    cdef Inbox* box = inbox_of_thread(self) if HW_INBOXES else NULL
    if box is NULL or hw_count_add(&box.references, 1) < -(NO_MORE // 2):
        timer_release(self)


cdef void inboxes_end(Timer* self) noexcept nogil:
    """Gives back the references that nobody has: when the timer's Python object, which has one itself, is about to go."""
    cdef Inbox* boxes = <Inbox*>self.inboxes
    cdef int64_t i, left
    if boxes is NULL:
        return
    for i in range(INBOXES):
        left = hw_count_add(&boxes[i].references, -NO_MORE) + NO_MORE
        hw_count_add(&self.references, -left)
