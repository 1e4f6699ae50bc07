# What dump() and load() need of the core: tasks are looked at, the timer is closed at a moment when all that is pending is
# known, and tasks come into a timer all at once. What is written, and how, is in src/hwheel/timers/dump.py.


cdef bint task_is_of_calls(TimerTask self) noexcept:
    """Whether all that there is of it is its times and its call: no subclass, which may hold more."""
    cdef object kind = type(self)
    return (kind is TimerTask or kind is TermsTask or kind is PeriodicTask
            or kind is GroupTask or kind is GroupTermsTask or kind is GroupPeriodicTask)


cdef object task_facts(TimerTask self):
    """(deadline_ms, terms, repeats, random); None: it cannot be written.

    terms: None, or (slack_ns, max_lateness_ns). repeats: None, or of call_every (interval_ns, missed, next_ns, jitter_ns).
    random: what draws its jitter, or None for the system.
    """
    cdef PeriodicTask periodic
    cdef object terms = None, repeats = None, random = None
    if not task_is_of_calls(self):
        return None
    if isinstance(self, TermsTask):
        terms = instant_ns(&(<TermsTask>self).terms.slack), instant_ns(&(<TermsTask>self).terms.max_lateness)
    if task_flags(&self.task) & TASK_REPEATS:
        periodic = self
        repeats = periodic.interval_ns, MISSED_NAMES[periodic.missed], periodic_next_ns(periodic), periodic.jitter_ns
        random = None if periodic.draw is system_random else periodic.draw
    return hw_peek64(&self.task.deadline_ms), terms, repeats, random


cdef list core_writable(BaseTimer self, bint anew):
    """What is pending, or runs and comes back, and was not found to be writable yet."""
    cdef list found = []
    cdef TimerTask task
    for task in timer_pending(self.timer) + timer_resting(self.timer):
        if anew:
            task_mark(task, TASK_WRITABLE, False)
        if not task_flags(&task.task) & TASK_WRITABLE:
            found.append(task)
    return found


cdef bint core_close_if_writable(BaseTimer self) except -1:
    """Closes the timer, if at this moment all that is pending was found to be writable."""
    cdef Timer* timer = self.timer
    cdef bint closed, writable
    lock_with_gil(timer)
    closed = timer.closed
    writable = timer_is_writable_locked(timer)
    if writable and not closed:
        hw_poke(&timer.dumping, True)
        hw_poke(&timer.closed, True)
    lock_release(timer)
    if closed:
        raise TimerClosed("the timer is closed")
    return writable


cdef bint core_take_resting(BaseTimer self, list not_run) except False:
    """At the end of dump(): tasks of call_every that ran while the timer was closed do not come back by themselves. They are
    among what had not run, at the time of their next run."""
    cdef Timer* timer = self.timer
    cdef PeriodicTask task
    cdef Instant now, delay
    cdef int64_t deadline_ms, expiration_ms
    cdef bint taken
    for task in timer_resting(timer):
        timer_read_clock(timer, &now)
        list_make_room(not_run)
        try:
            periodic_next(task, &now, 0, &delay)       # load() draws anew
            timer_due_or_raise(timer, &now, &delay, &deadline_ms, &expiration_ms)
            lock_with_gil(timer)
            taken = task_state(&task.task) == TASK_EXPIRED
            if taken:
                hw_poke(&task.task.state, TASK_CANCELLED)
                hw_poke64(&task.task.deadline_ms, deadline_ms)
                task_rest_no_more_locked(timer, &task.task)
                if task_flags(&task.task) & TASK_MEMBER:
                    group_leave_locked(&task.task)
            lock_release(timer)
            if taken:
                list_fill_room(not_run, task)
        finally:
            list_drop_room(not_run)
    return True


cdef TimerTask task_of_record(BaseTimer self, object callback, tuple args, dict kwargs, object random, object terms,
                              object periodic, const Instant* now):
    """A new task of this timer, of what task_facts says, but that its times are counted from now."""
    cdef TimerTask task
    cdef PeriodicTask repeats
    if periodic is not None:
        task = PeriodicTask.__new__(PeriodicTask)
    elif terms is not None:
        task = TermsTask.__new__(TermsTask)
    else:
        task = TimerTask.__new__(TimerTask)
    task_set_call(task, callback, args, kwargs)
    if terms is not None:
        slack_ns, max_lateness_ns = terms
        instant_set_ns(&(<TermsTask>task).terms.slack, slack_ns)
        instant_set_ns(&(<TermsTask>task).terms.max_lateness, max_lateness_ns)
    if periodic is not None:
        interval_ns, missed, next_ns, jitter_ns = periodic
        repeats = task
        task.task.flags |= TASK_REPEATS
        repeats.missed = MISSED_NAMES.index(missed)
        repeats.interval = Instant(interval_ns // NS_PER_MS, interval_ns % NS_PER_MS)
        repeats.interval_ns = interval_ns
        repeats.next_ns = instant_ns(now) + next_ns
        repeats.jitter_ns = jitter_ns
        repeats.draw = None if not jitter_ns else system_draw() if random is None else random
    task_own(task, self.timer)
    return task


cdef bint core_add_records(BaseTimer self, list records, list tasks) except False:
    """Adds a task for each (callback, args, kwargs, random, ns from now, terms, periodic), in this order, and appends them to
    an empty list; or an exception says why none is added. They are all there at one moment, and no memory is wanted after
    it."""
    cdef Timer* timer = self.timer
    cdef Task** pointers = NULL
    cdef TimerTask task
    cdef Instant now, delay
    cdef int64_t deadline_ms, count, last_ms, i
    cdef WhenDue due = ASK_WHEN_DUE if timer.clock == CLOCK_KIND_CALLABLE else TAKE_DUE
    cdef Status status = NOT_YET
    core_ready(self)
    timer_read_clock(timer, &now)
    last_ms = now.ms
    try:
        for callback, args, kwargs, random, ns, terms, periodic in records:
            task = task_of_record(self, callback, args, kwargs, random, terms, periodic, &now)
            tasks.append(task)
            delay = Instant(integer_argument(ns // NS_PER_MS, "a delay"), ns % NS_PER_MS)
            timer_due_or_raise(timer, &now, &delay, &deadline_ms, &task.task.entry.expiration_ms)
            task.task.delay_ms = delay.ms + (1 if delay.ns else 0)
            task.task.deadline_ms = deadline_ms
            last_ms = max(last_ms, task.task.entry.expiration_ms)
        count = len(tasks)
        pointers = <Task**>PyMem_RawMalloc((count + 1) * sizeof(Task*))
        if pointers is NULL:
            raise MemoryError
        for i in range(count):
            task = tasks[i]
            pointers[i] = &task.task
            task_untrack(task)
            Py_INCREF(task)             # the wheel's, as in task_link; dropped below if it is not added
        try:
            while True:
                with nogil:
                    status = tasks_add(timer, pointers, count, now.ms, last_ms, due)
                if status != NOT_YET or not timer_make_room(timer, None, status, &due):
                    break
        finally:
            if status != OK:
                for task in tasks:
                    task_track(task)
                    Py_DECREF(task)
        if status != OK:
            status_raise(timer, status)
        timer_heed_clock(timer, &now)
        return True
    finally:
        PyMem_RawFree(pointers)
