# Terms of a call, apart from its deadline. `slack` postpones the deadline to share a wake-up with other timers: see
# timer/deadline.pxi. `max_lateness` skips a call that would start too late. A subclass holds both, so they cost a plain task
# nothing.


cdef bint term_argument(object value, str name, Instant* length_out) except False:
    """Convert a duration in seconds that is not negative."""
    seconds_argument(value, name, length_out)
    if length_out.ms < 0:
        raise ValueError(f"{name} must not be negative, got {value!r}")
    return True


cdef bint terms_argument(object slack, object max_lateness, Terms* terms_out) except False:
    """Convert the arguments `slack` and `max_lateness`."""
    memset(terms_out, 0, sizeof(Terms))
    term_argument(slack, "slack", &terms_out.slack)
    if max_lateness is not None:
        term_argument(max_lateness, "max_lateness", &terms_out.max_lateness)
        if terms_out.max_lateness.ms == 0 and terms_out.max_lateness.ns == 0:
            raise ValueError("max_lateness must be positive, got 0: no call starts at the very nanosecond of its deadline")
    return True


cdef inline bint terms_are_asked_for(object slack, object max_lateness) except -1:
    return max_lateness is not None or not PyLong_CheckExact(slack) or slack != 0


cdef bint terms_set_deadline(Timer* timer, TermsTask self, Deadline* deadline) except False:
    """Set a deadline, and postpone it by the slack."""
    cdef int64_t asked_ms
    deadline_set_or_raise(deadline, timer)
    asked_ms = deadline.deadline_ms
    if not deadline_postpone(deadline, timer, &self.terms.slack):
        raise OverflowError("the deadline and its slack do not fit into 64 bits of milliseconds: "
                            f"now + {deadline.delay.ms} ms + {self.terms.slack.ms} ms")
    self.terms.put_off_ms = deadline.deadline_ms - asked_ms
    return True


@cython.trashcan(True)      # see PeriodicTask
cdef class TermsTask(TimerTask):
    """The TimerTask of a call with `slack` or `max_lateness`. They also apply after a reschedule."""

    def _set_terms(self, slack, max_lateness):
        """Set the terms of a task that has not been added."""
        cdef Terms terms
        terms_argument(slack, max_lateness, &terms)
        self.terms = terms

    @property
    def _put_off_ms(self):
        """By how many milliseconds the slack has postponed the deadline."""
        return self.terms.put_off_ms

    def reschedule(self, delay):
        """Move a pending task as TimerTask.reschedule does. Its slack and max_lateness still apply."""
        cdef Deadline deadline
        cdef Timer* timer
        seconds_argument(delay, "delay", &deadline.delay)
        timer = <Timer*>hw_load(&self.task.owner)
        if timer is NULL or task_state(&self.task) != TASK_PENDING:
            return False
        timer_read_clock(timer, &deadline.now)
        terms_set_deadline(timer, self, &deadline)
        return task_move(timer, self, &deadline)


# --- missed deadlines --------------------------------------------------------------------------------------------


cdef bint terms_forbid_start(TermsTask self, const Instant* now) noexcept:
    """Return True if a call that starts now is later than max_lateness."""
    cdef Instant deadline = Instant(self.task.deadline_ms, 0)
    cdef Instant latest
    if self.terms.max_lateness.ms == 0 and self.terms.max_lateness.ns == 0:
        return False
    if not instant_add(&deadline, &self.terms.max_lateness, &latest):
        return False
    return now.ms > latest.ms or (now.ms == latest.ms and now.ns > latest.ns)


cdef bint core_is_too_late(BaseTimer self, TimerTask task, const Instant* now) noexcept:
    """Return True if a task that starts now must be skipped. Otherwise clear TASK_MISSED."""
    if not isinstance(task, TermsTask):
        return False
    if not terms_forbid_start(task, now):
        if task_flags(&task.task) & TASK_MISSED:
            task_mark(task, TASK_MISSED, False)     # of an earlier run of call_every
        return False
    return True


cdef bint core_miss(BaseTimer self, TimerTask task) except False:
    """Count and report a skipped task. on_missed may read its callback and arguments, and even run it."""
    cdef Timer* timer = self.timer
    cdef object missed
    task_mark(task, TASK_MISSED, True)
    lock_with_gil(timer)
    timer.missed += 1
    lock_release(timer)
    try:
        missed = TimerMissed("the task was later than its max_lateness, and did not run")   # allocated before any report
        try:
            self._report_missed(task)
        finally:
            # After on_missed, because a waiter may cancel the task, which releases the callback.
            task_notify(task, None, missed)
    finally:
        if not task_flags(&task.task) & TASK_REPEATS:
            task_drop_call(task)
    return True
