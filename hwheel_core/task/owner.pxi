# A TimerTask belongs to its first timer for ever, and holds a reference to the Timer struct.


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
