# call_later, call_at, and add: a call or a task enters a timer.
#
# The common path creates no tuple for the arguments: core_call_later -> core_add_call -> task_link -> timer_insert_locked.


cdef inline bint core_schedule(BaseTimer self, TimerTask task, Deadline* deadline) except False:
    """Set the deadline of a task from its `now` and `delay`, and put the task into the wheel."""
    if isinstance(task, TermsTask):
        terms_set_deadline(self.timer, task, deadline)
    else:
        deadline_set_or_raise(deadline, self.timer)
    if task_state(&task.task) == TASK_NEW:
        hw_poke64(&task.task.delay_ms, deadline_delay_ms(deadline))
    elif task_state(&task.task) == TASK_PENDING:
        raise ValueError("the task is pending already")
    hw_poke64(&task.task.deadline_ms, deadline.deadline_ms)
    task_schedule(self.timer, task, deadline.expiration_ms, TAKE_DUE)
    return True


cdef inline TimerTask core_add_call(BaseTimer self, Deadline* deadline, object callback, PyObject** args, Py_ssize_t count):
    """Create a task for a call and put it into the wheel."""
    cdef TimerTask task
    deadline_set_or_raise(deadline, self.timer)
    task = task_new(self.timer, callback, args, count)
    task.task.delay_ms = deadline_delay_ms(deadline)
    task.task.deadline_ms = deadline.deadline_ms
    task_link(self.timer, task, deadline.expiration_ms, TAKE_DUE, deadline.now.ms * NS_PER_MS + deadline.now.ns)
    return task


cdef TimerTask core_call_later(BaseTimer self, object delay, object callback, PyObject** args, Py_ssize_t count):
    cdef Deadline deadline
    seconds_argument(delay, "delay", &deadline.delay)
    callback_argument(callback)
    core_ensure_started(self)
    timer_read_clock(self.timer, &deadline.now)
    return core_add_call(self, &deadline, callback, args, count)


cdef TimerTask core_call_at(BaseTimer self, object when, object callback, PyObject** args, Py_ssize_t count):
    cdef Deadline deadline
    seconds_argument(when, "when", &deadline.delay)
    callback_argument(callback)
    core_ensure_started(self)
    deadline_count_from_now(&deadline, self.timer, when)
    return core_add_call(self, &deadline, callback, args, count)


cdef TimerTask core_call_on_terms(BaseTimer self, TimerGroup group, object time, bint is_delay, object callback, tuple args,
                                  object slack, object max_lateness):
    """Implement call_later or call_at with slack or max_lateness; with a group, in that group."""
    cdef Deadline deadline
    cdef Terms terms
    seconds_argument(time, "delay" if is_delay else "when", &deadline.delay)
    callback_argument(callback)
    terms_argument(slack, max_lateness, &terms)
    core_ensure_started(self)
    if is_delay:
        timer_read_clock(self.timer, &deadline.now)
    else:
        deadline_count_from_now(&deadline, self.timer, time)
    return core_add_on_terms(self, group, &deadline, callback, args, &terms)


cdef TimerTask core_add_on_terms(BaseTimer self, TimerGroup group, Deadline* deadline, object callback, tuple args,
                                 const Terms* terms):
    """Create a task with terms, in a group or not, and put it into the wheel."""
    cdef TermsTask task = TermsTask.__new__(TermsTask) if group is None else GroupTermsTask.__new__(GroupTermsTask)
    task.terms = terms[0]
    task_set_call(task, callback, args, None)
    if group is not None:
        member_init(&task.task, &(<GroupTermsTask>task).member, group.group)
    task_own(task, self.timer)
    core_schedule(self, task, deadline)
    return task


# --- fast calls --------------------------------------------------------------------------------------------------
#
# The methods that Cython compiles collect positional arguments in a tuple. The functions below replace them in the types' dicts,
# and leave calls with keywords or missing arguments to them. If a method did not exist, importing the core would fail here. If
# CPython kept using the old method, calls would be correct but slower; only `make bench` would show it.

cdef PyMethodDef core_call_later_def
cdef PyMethodDef core_call_at_def
cdef object compiled_call_later = None
cdef object compiled_call_at = None


cdef object core_call_slowly(object method, PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    """Call the method that Cython compiled, which handles keywords and missing arguments."""
    cdef tuple names = () if keywords is NULL else <tuple>keywords
    cdef list positional = []
    cdef dict named = {}
    cdef Py_ssize_t i
    for i in range(count):
        positional.append(<object>args[i])
    for i in range(len(names)):
        named[names[i]] = <object>args[count + i]
    return method(<object>self, *positional, **named)


cdef object core_call_later_fast(PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    if count < 2 or keywords is not NULL:
        return core_call_slowly(compiled_call_later, self, args, count, keywords)
    return core_call_later(<BaseTimer>self, <object>args[0], <object>args[1], args + 2, count - 2)


cdef object core_call_at_fast(PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    if count < 2 or keywords is not NULL:
        return core_call_slowly(compiled_call_at, self, args, count, keywords)
    return core_call_at(<BaseTimer>self, <object>args[0], <object>args[1], args + 2, count - 2)


compiled_call_later = <object>hw_use_fastcall(<PyObject*>BaseTimer, "call_later", &core_call_later_def,
                                              <void*>core_call_later_fast)
compiled_call_at = <object>hw_use_fastcall(<PyObject*>BaseTimer, "call_at", &core_call_at_def, <void*>core_call_at_fast)
