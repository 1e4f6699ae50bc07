# A task, or a call, goes into a timer.


cdef inline bint timer_due_or_raise(Timer* timer, const Instant* now, const Instant* delay, int64_t* deadline_ms_out,
                                    int64_t* expiration_ms_out) except False:
    if not timer_due(timer, now, delay, deadline_ms_out, expiration_ms_out):
        raise OverflowError(f"the deadline does not fit into 64 bits of milliseconds: now + {delay.ms} ms")
    return True


cdef inline bint core_schedule(BaseTimer self, TimerTask task, const Instant* now, const Instant* delay) except False:
    """Sets a task's times and puts it into the wheel."""
    cdef int64_t deadline_ms, expiration_ms
    timer_due_or_raise(self.timer, now, delay, &deadline_ms, &expiration_ms)
    if task.task.state == TASK_NEW:
        task.task.delay_ms = delay.ms + (1 if delay.ns else 0)
    elif task.task.state == TASK_PENDING:
        raise ValueError("the task is pending already")
    task.task.deadline_ms = deadline_ms
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
    task_link(self.timer, task, expiration_ms, timer_when_due(self.timer, delay))
    timer_heed_clock(self.timer, now)
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
    delay_until(when, &now, &length)
    return core_add_call(self, &now, &length, callback, args, count)


cdef inline bint delay_until(object when, const Instant* now, Instant* then) except False:
    """From a point of time to the way from now to it."""
    # Neither is beyond a quarter of what fits, or the sum of both is refused.
    if hw_add_overflows(then.ms, -now.ms, &then.ms):
        raise OverflowError(f"when does not fit into 64 bits of milliseconds: {when!r}")
    then.ns -= now.ns
    if then.ns < 0:
        then.ns += NS_PER_MS
        then.ms -= 1
    return True
