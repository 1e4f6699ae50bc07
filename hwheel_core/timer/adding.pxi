# A task, or a call, goes into a timer.


cdef inline bint core_schedule(BaseTimer self, TimerTask task, const Instant* now, const Instant* delay) except False:
    """Sets a task's times and puts it into the wheel."""
    cdef int64_t deadline_ms, expiration_ms
    if isinstance(task, TermsTask):
        terms_due(self.timer, task, now, delay, &deadline_ms, &expiration_ms)
    else:
        timer_due_or_raise(self.timer, now, delay, &deadline_ms, &expiration_ms)
    if task_state(&task.task) == TASK_NEW:
        hw_poke64(&task.task.delay_ms, delay.ms + (1 if delay.ns else 0))
    elif task_state(&task.task) == TASK_PENDING:
        raise ValueError("the task is pending already")
    hw_poke64(&task.task.deadline_ms, deadline_ms)
    task_schedule(self.timer, task, expiration_ms, timer_when_due(self.timer, delay))
    timer_heed_clock(self.timer, now)
    return True


cdef inline TimerTask core_add_call(BaseTimer self, const Instant* now, const Instant* delay, object callback,
                                    PyObject** args, Py_ssize_t count):
    """Makes a task of a call and puts it into the wheel."""
    cdef int64_t deadline_ms, expiration_ms
    cdef TimerTask task
    timer_due_or_raise(self.timer, now, delay, &deadline_ms, &expiration_ms)
    task = task_new(self.timer, callback, args, count)
    task.task.delay_ms = delay.ms + (1 if delay.ns else 0)
    task.task.deadline_ms = deadline_ms
    task_link(self.timer, task, expiration_ms, timer_when_due(self.timer, delay), now.ms * NS_PER_MS + now.ns)
    timer_heed_clock(self.timer, now)
    return task


cdef TimerTask core_add_on_terms(BaseTimer self, TimerGroup group, const Instant* now, const Instant* delay,
                                 object callback, tuple args, const Terms* terms):
    """core_add_call, for a call that asks for more than its time; with a group, for one of that."""
    cdef TermsTask task = TermsTask.__new__(TermsTask) if group is None else GroupTermsTask.__new__(GroupTermsTask)
    task.terms = terms[0]
    task_set_call(task, callback, args, None)
    if group is not None:
        member_init(&task.task, &(<GroupTermsTask>task).member, group.group)
    task_own(task, self.timer)
    core_schedule(self, task, now, delay)
    return task


# The common way into call_later and call_at: positional arguments, and no tuple made of them.


cdef TimerTask core_call_later(BaseTimer self, object delay, object callback, PyObject** args, Py_ssize_t count):
    """call_later, for any way in which its arguments come."""
    cdef Instant now, length
    seconds_argument(delay, "delay", &length)
    callback_argument(callback)
    core_ready(self)
    timer_read_clock(self.timer, &now)
    return core_add_call(self, &now, &length, callback, args, count)


cdef TimerTask core_call_at(BaseTimer self, object when, object callback, PyObject** args, Py_ssize_t count):
    """call_at, for any way in which its arguments come."""
    cdef Instant now, length
    seconds_argument(when, "when", &length)
    callback_argument(callback)
    core_ready(self)
    timer_read_clock(self.timer, &now)
    way_until(when, &now, &length)
    return core_add_call(self, &now, &length, callback, args, count)


cdef inline bint way_until(object when, const Instant* now, Instant* length) except False:
    """From a point in time to the way that it is to it; neither is beyond a quarter of what fits, or the sum of both is
    refused."""
    if hw_add_overflows(length.ms, -now.ms, &length.ms):
        raise OverflowError(f"when does not fit into 64 bits of milliseconds: {when!r}")
    length.ns -= now.ns
    if length.ns < 0:
        length.ns += NS_PER_MS
        length.ms -= 1
    return True


cdef TimerTask core_call_on_terms(BaseTimer self, TimerGroup group, object time, bint is_way, object callback, tuple args,
                                  object slack, object max_lateness):
    """call_later, or else call_at, on terms; with a group, the group's."""
    cdef Instant now, length
    cdef Terms terms
    seconds_argument(time, "delay" if is_way else "when", &length)
    callback_argument(callback)
    terms_argument(slack, max_lateness, &terms)
    core_ready(self)
    timer_read_clock(self.timer, &now)
    if not is_way:
        way_until(time, &now, &length)
    return core_add_on_terms(self, group, &now, &length, callback, args, &terms)
