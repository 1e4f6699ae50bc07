# A group of tasks that are cancelled together: when a task joins it and when a task leaves it.


cdef Group* group_new() noexcept nogil:
    """Return a group with one reference, or NULL if there is no memory."""
    cdef Group* self = <Group*>PyMem_RawCalloc(1, sizeof(Group))
    if self is not NULL:
        self.members.prev = self.members.next = &self.members
        self.references = 1
    return self


cdef inline void group_release(Group* self) noexcept nogil:
    """Drop a reference. The last one frees the group, which has no member then."""
    if hw_count_add(&self.references, -1) == 0:
        PyMem_RawFree(self)


cdef inline Member* task_member(const Task* task) noexcept nogil:
    return <Member*>(<const char*>task + (hw_peek(&task.flags) >> TASK_MEMBER_SHIFT))


cdef inline Task* member_task(const Member* self) noexcept nogil:
    return <Task*>(<const char*>self - self.task_offset)


cdef inline void member_init(Task* task, Member* self, Group* group) noexcept nogil:
    """Make a task, whose other flags are set, one of this group. It joins when it is added."""
    hw_count_add(&group.references, 1)      # dropped by member_end
    self.group = group
    self.next = NULL
    self.task_offset = <char*>self - <char*>task
    task.flags |= <int32_t>(self.task_offset << TASK_MEMBER_SHIFT)


cdef void group_join_locked(const Task* task) noexcept nogil:
    """Append a task to its group, unless it is there already."""
    cdef Member* self = task_member(task)
    cdef Group* group = self.group
    if self.next is not NULL:
        return
    group.joined += 1
    hw_bump(&group.count, 1)
    self.number = group.joined
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
