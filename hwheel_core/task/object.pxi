# A TimerTask as an object: the offsets of its fields, and its owner.
#
# A task belongs to the first timer that it is added to, and holds a reference to the Timer struct as long as it lives.


cdef inline void orphans_lock_without_gil() noexcept nogil:
    """Take `orphans` for a short read that the GIL guards where there is one."""
    if HW_FREE_THREADED:
        hw_mutex_lock(&orphans)


cdef inline void orphans_unlock_without_gil() noexcept nogil:
    if HW_FREE_THREADED:
        hw_mutex_unlock(&orphans)


cdef Py_ssize_t entry_offset = 0        # of TimerTask.task in the object; set below
cdef Py_ssize_t TASK_SIZE = 0           # of a TimerTask with the garbage collector's header


cdef inline TimerTask entry_task(const Entry* entry):
    return <TimerTask><PyObject*>(<const char*>entry - entry_offset)


cdef inline PyObject** task_slots(PyObject* self) noexcept:
    """Return the address of callback_ and arguments, which follow `task`."""
    return <PyObject**>(<char*>self + entry_offset + sizeof(Task))


cdef inline bint task_has_attributes(TimerTask self) noexcept:
    """Return True for a subclass, which may refer to more objects than the call, and be part of a cycle."""
    return type(self) is not TimerTask and type(self) is not GroupTask


# Cython lays a class out in the order of its fields, after CPython's object head. If either changes, the import fails here.
cdef TimerTask sample = TimerTask(0)
entry_offset = <char*>&sample.task - <char*><PyObject*>sample
TASK_SIZE = TimerTask.__basicsize__ + 16
if task_slots(<PyObject*>sample)[0] != <PyObject*>sample.callback_ or TASK_SIZE != 16 + entry_offset + sizeof(Task) + 16:
    raise SystemError("the layout of TimerTask differs from what task/object.pxi requires")
sample = None


# --- ownership ---------------------------------------------------------------------------------------------------


cdef inline void task_own(TimerTask self, Timer* timer) noexcept:
    """Set the owner of a task that no other thread has seen."""
    timer_keep(timer)           # dropped in __dealloc__
    self.task.entry.place = ENTRY_OF_TASK
    hw_store(&self.task.owner, <uintptr_t>timer)
    debug_count(LIVE_TASKS, 1)


cdef void task_mark(TimerTask self, int32_t flag, bint is_set) noexcept:
    """Set or clear a flag of a task that other threads may have seen."""
    with cython.critical_section(self):
        hw_poke(&self.task.flags, self.task.flags | flag if is_set else self.task.flags & ~flag)


cdef bint task_claim(TimerTask self, Timer* timer) except -1:
    """Set the owner of any task. Return True if it had none."""
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
    """Undo task_claim after a refused add, unless another add of the same task has succeeded since."""
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
    """Release the timer of a task that is deallocated."""
    if task.owner:
        # Linked: a task of call_every that was dispatched, but never put back.
        if entry_is_linked(&task.entry):
            lock_with_gil(<Timer*>task.owner)
            task_end_rest_locked(<Timer*>task.owner, task)
            lock_release(<Timer*>task.owner)
        timer_leave(<Timer*>task.owner)
        debug_count(LIVE_TASKS, -1)
