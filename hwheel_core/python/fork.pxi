# What becomes of a timer's tasks in the child of a fork, where none of its threads is.


cdef bint core_after_fork(BaseTimer self) except False:
    cdef Timer* timer = self.timer
    cdef Entry* entry
    cdef PeriodicTask task
    cdef list resting
    cdef Py_ssize_t i
    if not timer.forked:
        return True
    if hw_word_load(&self.closer) != PyThread_get_thread_ident():
        hw_word_store(&self.closer, 0)                 # it was another thread's
    timer_finish_batches(timer)
    resting = [None] * timer.resting_count
    lock_with_gil(timer)
    entry = timer.resting.next
    for i in range(min(len(resting), timer.resting_count)):
        resting[i] = entry_task(entry)
        entry = entry.next
    lock_release(timer)
    if self._keeps_at_fork():
        # Their threads are not here to put them back, but for the one that has forked.
        for task in filter(None, resting):
            if task.runner != PyThread_get_thread_ident():
                task.runner = 0
                self._restart(task)
    else:
        for task in filter(None, resting):
            task_cancel(task)
        timer_cancel_all(timer)
    timer.forked = False
    return True
