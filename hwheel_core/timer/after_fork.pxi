# What becomes of a timer's tasks in the child of a fork, where none of its threads is.


cdef bint core_after_fork(BaseTimer self) except False:
    cdef Timer* timer = self.timer
    cdef PeriodicTask task
    cdef list resting
    if not hw_peek(&timer.forked):
        return True
    if hw_word_load(&self.closer) != PyThread_get_thread_ident():
        hw_word_store(&self.closer, 0)                 # it was another thread's
    timer_finish_batches(timer)
    resting = timer_resting(timer)
    if self._keeps_at_fork():
        # Their threads are not here to put them back, but for the one that has forked.
        for task in resting:
            if task.runner != PyThread_get_thread_ident():
                task.runner = 0
                self._restart(task)
    else:
        for task in resting:
            task_cancel(task)
        timer_cancel_all(timer)
    hw_poke(&timer.forked, False)
    return True
