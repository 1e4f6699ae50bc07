# The part of dump() and load() that needs the core. dump() reads the tasks, and closes the timer at a moment when all pending
# tasks have been read. load() adds all tasks at once. src/hwheel/timers/dump.py defines the format.


cdef bint task_is_of_core(TimerTask self) noexcept:
    """Return True if a task consists of its times and its call. A subclass of a program may hold more."""
    cdef object kind = type(self)
    return (kind is TimerTask or kind is TermsTask or kind is PeriodicTask
            or kind is GroupTask or kind is GroupTermsTask or kind is GroupPeriodicTask)


cdef object task_facts(TimerTask self):
    """Return (deadline_ms, terms, repeats, random), or None if the task cannot be written.

    terms is None or (slack_ns, max_lateness_ns). repeats is None or, for call_every, (interval_ns, missed, next_ns,
    jitter_ns). random is the function that draws the jitter; None: the system's.
    """
    cdef PeriodicTask periodic
    cdef object terms = None, repeats = None, random = None
    if not task_is_of_core(self):
        return None
    if isinstance(self, TermsTask):
        terms = instant_ns(&(<TermsTask>self).terms.slack), instant_ns(&(<TermsTask>self).terms.max_lateness)
    if task_flags(&self.task) & TASK_REPEATS:
        periodic = self
        repeats = periodic.interval_ns, MISSED_NAMES[periodic.missed], periodic_next_ns(periodic), periodic.jitter_ns
        random = None if periodic.draw is system_random else periodic.draw
    return hw_peek64(&self.task.deadline_ms), terms, repeats, random


# --- dump() ------------------------------------------------------------------------------------------------------


cdef list core_unmarked_tasks(BaseTimer self, bint clear_marks):
    """Return the pending and the resting tasks that are not marked as writable. clear_marks: first clear their marks."""
    cdef list found = []
    cdef list tasks = timer_pending(self.timer)
    cdef TimerTask task
    cdef Turn turn
    tasks.extend(timer_resting(self.timer))
    turn_begin(&turn)
    while tasks:                        # pop() also releases the list in slices
        task = tasks.pop()
        if clear_marks:
            task_mark(task, TASK_WRITABLE, False)
        if not task_flags(&task.task) & TASK_WRITABLE:
            found.append(task)
        turn_step(&turn)
    found.reverse()
    return found


cdef bint core_close_if_writable(BaseTimer self) except -1:
    """Close the timer if all pending tasks are marked as writable. Return True if so."""
    cdef Timer* timer = self.timer
    cdef bint closed, writable
    with nogil:
        lock_wait(timer)
        closed = timer.closed
        writable = timer_is_writable_locked(timer)
        if writable and not closed:
            hw_poke(&timer.dumping, True)
            hw_poke(&timer.closed, True)
        lock_release(timer)
    if closed:
        raise TimerClosed("the timer is closed")
    return writable


cdef bint task_take_resting(Timer* timer, TimerTask task, int64_t deadline_ms) noexcept:
    """Cancel a task of call_every that cannot return to a closed timer. Return False if it was cancelled before."""
    cdef bint was_resting
    lock_with_gil(timer)
    was_resting = task_state(&task.task) == TASK_EXPIRED
    if was_resting:
        hw_poke(&task.task.state, TASK_CANCELLED)
        hw_poke64(&task.task.deadline_ms, deadline_ms)
        task_end_rest_locked(timer, &task.task)
        if task_flags(&task.task) & TASK_MEMBER:
            group_leave_locked(&task.task)
    lock_release(timer)
    return was_resting


cdef bint core_take_resting(BaseTimer self, list not_run) except False:
    """Append the tasks of call_every that ran while the timer was closed, with the deadlines of their next runs."""
    cdef Timer* timer = self.timer
    cdef PeriodicTask task
    cdef Deadline deadline
    for task in timer_resting(timer):
        timer_read_clock(timer, &deadline.now)
        list_reserve(not_run)
        try:
            periodic_next(task, &deadline.now, 0, &deadline.delay)     # without jitter, which load() draws
            deadline_set_or_raise(&deadline, timer)
            if task_take_resting(timer, task, deadline.deadline_ms):
                list_fill(not_run, task)
        finally:
            list_unreserve(not_run)
    return True


cdef void tasks_track(list tasks) noexcept:
    """Track tasks that have left the wheel."""
    cdef Turn turn
    turn_begin(&turn)
    for task in tasks:
        if isinstance(task, TimerTask):
            task_track(task)
        turn_step(&turn)


# --- load() ------------------------------------------------------------------------------------------------------


cdef TimerTask task_of_record(tuple record, const Instant* now):
    """Return a new task for a record of core_add_records, without its times."""
    callback, args, kwargs, random, _, terms, periodic = record
    cdef type kind = TimerTask if terms is None else TermsTask if periodic is None else PeriodicTask
    cdef TimerTask task = kind.__new__(kind)
    task_set_call(task, callback, args, kwargs)
    if terms is not None:
        slack_ns, max_lateness_ns = terms
        instant_set_ns(&(<TermsTask>task).terms.slack, slack_ns)
        instant_set_ns(&(<TermsTask>task).terms.max_lateness, max_lateness_ns)
    if periodic is not None:
        periodic_set_record(task, periodic, random, now)
    return task


cdef bint periodic_set_record(PeriodicTask self, tuple periodic, object random, const Instant* now) except False:
    interval_ns, missed, next_ns, jitter_ns = periodic
    self.task.flags |= TASK_REPEATS
    self.missed = MISSED_NAMES.index(missed)
    instant_set_ns(&self.interval, interval_ns)
    self.interval_ns = interval_ns
    self.next_ns = instant_ns(now) + next_ns
    self.jitter_ns = jitter_ns
    if jitter_ns:
        self.draw = system_draw() if random is None else random
    return True


cdef int64_t core_load_records(BaseTimer self, object records, list tasks, const Instant* now) except -1:
    """Append a task for each record, set its times, and return the latest expiration. The tasks are untracked."""
    cdef int64_t last_ms = now.ms
    cdef TimerTask task
    cdef Deadline deadline
    deadline.now = now[0]
    for record in records:
        task = task_of_record(record, now)
        task_own(task, self.timer)
        tasks.append(task)
        task_untrack(task)              # at once: a million tracked tasks would cause long collections
        ns = record[4]
        deadline.delay = Instant(integer_argument(ns // NS_PER_MS, "a delay"), ns % NS_PER_MS)
        deadline_set_or_raise(&deadline, self.timer)
        task.task.delay_ms = deadline_delay_ms(&deadline)
        task.task.deadline_ms = deadline.deadline_ms
        task.task.entry.expiration_ms = deadline.expiration_ms
        last_ms = max(last_ms, deadline.expiration_ms)
    return last_ms


cdef bint core_add_all(BaseTimer self, list tasks, Task** pointers, int64_t last_ms) except False:
    """Add new, untracked tasks of this timer: all of them, or none and an exception. pointers: room for all."""
    cdef Timer* timer = self.timer
    cdef Status status = NEEDS_LEVEL
    cdef TimerTask task
    cdef Turn turn
    cdef int64_t count = len(tasks), i
    turn_begin(&turn)
    for i in range(count):
        task = tasks[i]
        pointers[i] = &task.task
        Py_INCREF(task)                 # the wheel's, as in task_link
        turn_step(&turn)
    try:
        with nogil:
            status = tasks_add(timer, pointers, count, last_ms)
    finally:
        if status != OK:
            for task in tasks:
                Py_DECREF(task)
    if status != OK:
        status_raise(timer, status)
    return True


cdef bint core_add_records(BaseTimer self, object records, list tasks) except False:
    """Add a task for each record at one moment, and append the tasks to an empty list: all of them, or none and an exception.

    A record is (callback, args, kwargs, random, delay_ns, terms, repeats), the last two as in task_facts, with times from now.
    """
    cdef Task** pointers = NULL
    cdef Instant now
    cdef int64_t last_ms
    core_ensure_started(self)
    timer_read_clock(self.timer, &now)
    try:
        last_ms = core_load_records(self, records, tasks, &now)
        pointers = <Task**>PyMem_RawMalloc((len(tasks) + 1) * sizeof(Task*))
        if pointers is NULL:
            raise MemoryError
        core_add_all(self, tasks, pointers, last_ms)
    except:
        tasks_track(tasks)
        raise
    finally:
        with nogil:
            PyMem_RawFree(pointers)
    return True
