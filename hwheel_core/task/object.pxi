# Where the parts of a TimerTask lie, for what comes from an Entry to its object and for a hand-made dealloc.


cdef Py_ssize_t entry_offset = 0        # of TimerTask.task; filled in below
cdef Py_ssize_t TASK_SIZE = 0           # of a TimerTask with what the garbage collector has before it


cdef inline TimerTask entry_task(const Entry* entry):
    return <TimerTask><PyObject*>(<const char*>entry - entry_offset)


cdef inline PyObject** task_slots(PyObject* self) noexcept:
    """callback_ and arguments, which come right after `task`."""
    return <PyObject**>(<char*>self + entry_offset + sizeof(Task))


cdef inline bint task_has_attributes(TimerTask self) noexcept:
    """A subclass may hold more than what a callback task releases, and be part of a cycle through that."""
    return type(self) is not TimerTask and type(self) is not GroupTask


# Cython lays a class out in the order of its fields, behind CPython's head of an object (and its own table of methods, if
# there is one). If either changed that, importing the core would fail here.
cdef TimerTask sample = TimerTask(0)
entry_offset = <char*>&sample.task - <char*><PyObject*>sample
TASK_SIZE = TimerTask.__basicsize__ + 16
if task_slots(<PyObject*>sample)[0] != <PyObject*>sample.callback_ or TASK_SIZE != 16 + entry_offset + sizeof(Task) + 16:
    raise SystemError("a TimerTask is not laid out as task_layout.pxi takes for granted")
sample = None


cdef inline void task_own(TimerTask self, Timer* timer) noexcept:
    """Makes the timer the owner of a task that nobody else has seen yet."""
    timer_keep(timer)           # dropped in __dealloc__
    self.task.entry.place = ENTRY_OF_TASK
    hw_store(&self.task.owner, <uintptr_t>timer)
    debug_count(LIVE_TASKS, 1)


cdef void task_mark(TimerTask self, int32_t flag, bint is_set) noexcept:
    """Sets or clears one of the flags of a task that others may have seen."""
    with cython.critical_section(self):
        hw_poke(&self.task.flags, self.task.flags | flag if is_set else self.task.flags & ~flag)


cdef bint task_claim(TimerTask self, Timer* timer) except -1:
    """Makes the timer the owner of any task. True if it was not before."""
    cdef uintptr_t owner
    if task_has_attributes(self) and not task_flags(&self.task) & TASK_OWN_RUN and type(self).run is not TimerTask.run:
        task_mark(self, TASK_OWN_RUN, True)
    hw_mutex_lock(&orphans)
    owner = hw_load(&self.task.owner)
    if owner == 0:
        task_own(self, timer)
    hw_mutex_unlock(&orphans)
    if owner and owner != <uintptr_t>timer:
        raise ValueError("the task belongs to another timer")
    return owner == 0


cdef void task_disown(TimerTask self, Timer* timer) noexcept:
    """Undoes task_claim after an add that was refused; unless another add of the same task, by another thread or by the
    clock, has come in between and was not."""
    cdef bint disowned = False
    lock_with_gil(timer)
    hw_mutex_lock(&orphans)
    if task_state(&self.task) == TASK_NEW:
        hw_store(&self.task.owner, 0)
        disowned = True
    hw_mutex_unlock(&orphans)
    lock_release(timer)
    if disowned:
        debug_count(LIVE_TASKS, -1)
        timer_leave(timer)


cdef inline void task_leave_timer(Task* task) noexcept:
    if task.owner:
        # Of call_every, and never brought back: its timer, which holds what it has handed out, dies too. So nobody
        # comes upon it meanwhile.
        if entry_is_linked(&task.entry):
            lock_with_gil(<Timer*>task.owner)
            task_rest_no_more_locked(<Timer*>task.owner, task)
            lock_release(<Timer*>task.owner)
        timer_leave(<Timer*>task.owner)
        debug_count(LIVE_TASKS, -1)
