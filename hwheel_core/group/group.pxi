# A group: the tasks that belong together, of one connection for instance, in a list of their own beside the wheel's.
#
# The list runs through the tasks, so that one that expires or is cancelled leaves it at once, in O(1), and nothing is left of
# it. All of it stands under the timer's lock. The struct is freed with the last that refers to it, its Python object or a task
# that it has made: so a group that is dropped has nothing to say to its tasks, and a task never refers to a group that is gone.
#
# A task of call_every is in its group until it is cancelled, also while it runs, because it comes back.


cdef Group* group_new() noexcept nogil:
    """With one reference; NULL when there is no memory."""
    cdef Group* self = <Group*>PyMem_RawCalloc(1, sizeof(Group))
    if self is not NULL:
        self.members.prev = self.members.next = &self.members
        self.references = 1
    return self


cdef inline void group_release(Group* self) noexcept nogil:
    """Drops one reference; the last one frees. Members hold one each, so nobody is in it any more by then."""
    if hw_count_add(&self.references, -1) == 0:
        PyMem_RawFree(self)


cdef inline Member* task_member(const Task* task) noexcept nogil:
    return <Member*>(<const char*>task + (hw_peek(&task.flags) // MEMBER_STEP))


cdef inline Task* member_task(const Member* self) noexcept nogil:
    return <Task*>(<const char*>self - self.number % MEMBER_STEP)


cdef void group_join_locked(const Task* task) noexcept nogil:
    """Behind all others of its group, if it is not there yet."""
    cdef Member* self = task_member(task)
    cdef Group* group = self.group
    if self.next is not NULL:
        return
    group.joined += 1
    hw_bump(&group.count, 1)
    self.number = group.joined * MEMBER_STEP + (<const char*>self - <const char*>task)
    self.next = &group.members
    self.prev = group.members.prev
    self.prev.next = self
    group.members.prev = self


cdef void group_leave_locked(const Task* task) noexcept nogil:
    cdef Member* self = task_member(task)
    if self.next is NULL:
        return
    self.prev.next = self.next
    self.next.prev = self.prev
    self.next = NULL
    hw_bump(&self.group.count, -1)


cdef inline void member_init(Task* task, Member* self, Group* group) noexcept nogil:
    """For a task whose flags are set: it is of this group, and joins it when it is added."""
    hw_count_add(&group.references, 1)      # dropped by member_end
    self.group = group
    self.next = NULL
    task.flags |= <int32_t>((<char*>self - <char*>task) * MEMBER_STEP)
