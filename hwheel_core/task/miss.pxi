# A task misses its time when it would begin later than its max_lateness: it is not run, but counted, and told.


cdef bint core_is_too_late(BaseTimer self, TimerTask task, const Instant* now) noexcept:
    """now: when it would begin."""
    if not isinstance(task, TermsTask):
        return False
    if not terms_are_over(task, now):
        if task_flags(&task.task) & TASK_MISSED:
            task_mark(task, TASK_MISSED, False)     # of an earlier run of call_every
        return False
    return True


cdef bint core_miss(BaseTimer self, TimerTask task) except False:
    """In the place of its run. Who is told may look at the callback and its arguments, and run it after all."""
    cdef Timer* timer = self.timer
    cdef object missed
    task_mark(task, TASK_MISSED, True)
    lock_with_gil(timer)
    timer.missed += 1
    lock_release(timer)
    try:
        missed = TimerMissed("the task was later than its max_lateness, and did not run")   # while nobody has been told
        try:
            self._miss(task)
        finally:
            # After on_missed, because who waits may cancel the task, and with it goes its callback.
            task_tell(task, None, missed)
    finally:
        if not task_flags(&task.task) & TASK_REPEATS:
            task_drop_call(task)
    return True
