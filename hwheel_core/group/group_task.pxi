# The tasks that a group makes: a TimerTask or a PeriodicTask with a Member behind it.


cdef Py_ssize_t GROUP_TASK_SIZE = GroupTask.__basicsize__ - entry_offset      # of all of its fields


cdef inline void member_init(Task* task, Member* self, Group* group) noexcept:
    """For a task whose flags are set: it is of this group, and joins it when it is added."""
    hw_count_add(&group.references, 1)      # dropped by member_end
    self.group = group
    self.next = NULL
    task.flags |= <int32_t>((<char*>self - <char*>task) * MEMBER_STEP)


cdef void member_end(Task* task, Member* self) noexcept:
    """For a task that dies."""
    if self.group is NULL:
        return
    if self.next is not NULL:           # of call_every, and never brought back: see task_leave_timer
        lock_with_gil(<Timer*>task.owner)
        group_leave_locked(task)
        lock_release(<Timer*>task.owner)
    group_release(self.group)
    self.group = NULL


@cython.final
cdef class GroupTask(TimerTask):
    """What `call_later` and `call_at` of a TimerGroup return."""


@cython.final
@cython.trashcan(True)      # as of PeriodicTask
cdef class GroupTermsTask(TermsTask):
    """The same with `slack` or `max_lateness`."""

    def __dealloc__(self):
        member_end(&self.task, &self.member)


@cython.final
@cython.trashcan(True)      # as of PeriodicTask
cdef class GroupPeriodicTask(PeriodicTask):
    """What `call_every` of a TimerGroup returns."""

    def __dealloc__(self):
        member_end(&self.task, &self.member)


cdef TimerTask group_task_new(Group* group, Timer* timer, object callback, PyObject** args, Py_ssize_t count):
    """task_new for a task of a group. Not by way of that, which is inlined where it stands as long as it has one caller."""
    cdef PyObject* made = hw_gc_new(<PyObject*>GroupTask)
    cdef PyObject** slots
    cdef GroupTask self
    if made is NULL:
        raise MemoryError
    memset(<char*>made + entry_offset, 0, GROUP_TASK_SIZE)
    slots = task_slots(made)
    Py_INCREF(None)                     # both replaced by task_set_call
    slots[0] = <PyObject*>None
    Py_INCREF(None)
    slots[1] = <PyObject*>None
    self = <GroupTask>made
    Py_DECREF(self)                     # the reference that it was made with; `self` has one of its own
    task_set_call(self, callback, arguments_from(args, 0, count), None)
    task_untrack(self)
    member_init(&self.task, &self.member, group)
    task_own(self, timer)
    return self


cdef void group_task_dealloc(PyObject* self) noexcept:
    """task_dealloc for a task of a group."""
    PyObject_GC_UnTrack(self)
    if task_slots(self)[0] == <PyObject*>None and task_slots(self)[1] == <PyObject*>None:
        group_task_free(self)
    else:
        hw_free_in_turn(self, group_task_dealloc, group_task_free)


cdef void group_task_free(PyObject* self) noexcept:
    member_end(&(<GroupTask>self).task, &(<GroupTask>self).member)
    task_free(self)


hw_set_dealloc(<PyObject*>GroupTask, group_task_dealloc)    # see task.pxi
