# TimerGroup: timers that belong together, as Python sees them. The list of them is in group/group.pxi.


cdef TimerGroup core_group(BaseTimer self):
    """BaseTimer.group."""
    cdef TimerGroup made
    core_set_up(self)
    made = TimerGroup.__new__(TimerGroup)
    made.timer = self
    made.group = group_new()
    if made.group is NULL:
        raise MemoryError
    return made


cdef inline bint group_ready(TimerGroup self) except False:
    if self.group is NULL:
        raise RuntimeError("this group has not been set up: a TimerGroup is made by group()")
    return True


cdef inline TimerTask group_add_call(TimerGroup self, const Instant* now, const Instant* delay, object callback,
                                     PyObject** args, Py_ssize_t count):
    """core_add_call for a task of a group."""
    cdef Timer* timer = self.timer.timer
    cdef int64_t deadline_ms, expiration_ms
    cdef TimerTask task
    timer_due_or_raise(timer, now, delay, &deadline_ms, &expiration_ms)
    task = group_task_new(self.group, timer, callback, args, count)
    task.task.delay_ms = delay.ms + (1 if delay.ns else 0)
    task.task.deadline_ms = deadline_ms
    task_link_member(timer, task, expiration_ms, timer_when_due(timer, delay))
    timer_heed_clock(timer, now)
    return task


cdef TimerTask group_call_later(TimerGroup self, object delay, object callback, PyObject** args, Py_ssize_t count):
    """call_later, for any way in which its arguments come."""
    cdef Instant now, length
    group_ready(self)
    seconds_argument(delay, "delay", &length)
    callback_argument(callback)
    core_ready(self.timer)
    timer_read_clock(self.timer.timer, &now)
    return group_add_call(self, &now, &length, callback, args, count)


cdef TimerTask group_call_at(TimerGroup self, object when, object callback, PyObject** args, Py_ssize_t count):
    """call_at, for any way in which its arguments come."""
    cdef Instant now, length
    group_ready(self)
    seconds_argument(when, "when", &length)
    callback_argument(callback)
    core_ready(self.timer)
    timer_read_clock(self.timer.timer, &now)
    way_until(when, &now, &length)
    return group_add_call(self, &now, &length, callback, args, count)


cdef Member* group_cancel_slice_locked(Group* self, Timer* timer, int64_t last, int64_t* count_out) noexcept:
    """Cancels the first GROUP_SLICE of those that have joined up to the last. They come back in a chain through `prev`, each
    with a reference for the caller to drop."""
    cdef Member* first = NULL
    cdef Member* end = NULL
    cdef Member* member = self.members.next
    cdef Member* following
    cdef Task* task
    cdef int64_t count = 0
    while count < GROUP_SLICE and member is not &self.members and member.number // MEMBER_STEP <= last:
        following = member.next
        hw_prefetch(following.next)
        task = member_task(member)
        if task_cancel_locked(timer, task) != OK:       # of call_every, and it runs: the wheel has no reference to it
            Py_INCREF(entry_task(&task.entry))
        if end is NULL:
            first = member
        else:
            end.prev = member
        end = member
        member.prev = NULL
        count += 1
        member = following
    count_out[0] += count
    return first


cdef int64_t group_cancel(TimerGroup self, bint closes) except -1:
    """Cancels all that have joined so far. With `closes` none joins any more."""
    cdef Timer* timer = self.timer.timer
    cdef Group* group = self.group
    cdef int64_t count = 0, last
    cdef Member* member
    cdef TimerTask task
    lock_with_gil(timer)
    last = group.joined
    if closes:
        hw_poke(&group.closed, True)
    while True:
        member = group_cancel_slice_locked(group, timer, last, &count)
        lock_release(timer)
        if member is NULL:
            return count
        while member is not NULL:       # whoever is cancelled joins no group any more: the chain is this thread's
            task = entry_task(&member_task(member).entry)
            member = member.prev
            task_drop_call(task)
            Py_DECREF(task)             # the wheel's reference, of task_schedule, or that of the slice
        lock_with_gil(timer)


cdef class TimerGroup:
    """What `timer.group()` returns: timers that belong together, of one connection, request or session, say.

    They are the timer's, and run as all of its do; the group cancels them at once. One that has run or was cancelled
    has left its group, which may live for long and never grows by what is over. `len(group)` is how many there are: those
    that are pending, and those of `call_every` while they run. In a `with` block it is closed at the end.

    A group that is dropped lets its timers go on: they run. So it does not keep them, nor they it.

    Thread-safety: every method may be called from any thread, also inside callbacks.

    >>> from hwheel import ManualTimer
    >>> timer = ManualTimer()
    >>> with timer.group() as connection:
    ...     idle = connection.call_later(30, print, "idle for too long")
    ...     ping = connection.call_every(10, print, "ping")
    ...     timer.advance(25)
    ...     len(connection)
    ping
    ping
    2
    >>> len(timer)
    0
    """

    def __init__(self):
        raise TypeError("a TimerGroup is made by group()")

    def __dealloc__(self):
        if self.group is not NULL:
            group_release(self.group)

    def call_later(self, delay, callback, *args, slack=0, max_lateness=None, context=None):
        """As the timer's: calls `callback(*args)` in `delay` seconds. Returns the TimerTask.

        Raises:
            TypeError, ValueError, OverflowError, TimerFull: as the timer's.
            TimerClosed: the group or its timer is closed.

        Runtime complexity: O(1).
        """
        if context is not None:
            callback, args = context_run(context, callback), (callback, *args)
        if terms_are_asked_for(slack, max_lateness):
            group_ready(self)
            return core_call_on_terms(self.timer, self, delay, True, callback, args, slack, max_lateness)
        return group_call_later(self, delay, callback, hw_tuple_items(<PyObject*>args), len(args))

    def call_at(self, when, callback, *args, slack=0, max_lateness=None, context=None):
        """As the timer's: the same at a time on the timer's clock, in seconds."""
        if context is not None:
            callback, args = context_run(context, callback), (callback, *args)
        if terms_are_asked_for(slack, max_lateness):
            group_ready(self)
            return core_call_on_terms(self.timer, self, when, False, callback, args, slack, max_lateness)
        return group_call_at(self, when, callback, hw_tuple_items(<PyObject*>args), len(args))

    def call_every(self, interval, callback, *args, missed_ticks="skip", slack=0, jitter=0, random=None, max_lateness=None,
                   context=None):
        """As the timer's: calls `callback(*args)` every `interval` seconds, until it is cancelled."""
        group_ready(self)
        return core_call_every(self.timer, self, interval, callback, args, missed_ticks, slack, jitter, random, max_lateness,
                               context)

    def cancel(self):
        """Cancels all of them, and releases their callbacks. Returns how many it kept from running (again).

        What has been handed out runs to its end. Up to 4,096 are cancelled at one moment; of more, so many at a time, in the
        order in which they were added, so that an `add` waits for no more. What is added meanwhile stays.

        Runtime complexity: O(len(group)), however many the timer holds.
        """
        group_ready(self)
        return group_cancel(self, False)

    def close(self):
        """Makes no more timers, and cancels all that there are. Returns how many. Closing again is fine."""
        group_ready(self)
        return group_cancel(self, True)

    @property
    def closed(self):
        """True from close() on."""
        return self.group is NULL or hw_peek(&self.group.closed) != 0

    def __enter__(self):
        group_ready(self)
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __len__(self):
        return 0 if self.group is NULL else hw_peek64(&self.group.count)

    def __bool__(self):
        """True, also when there are none."""
        return True

    def __repr__(self):
        return f"<TimerGroup of {self.timer!r}, {'closed' if self.closed else len(self)}>"


hw_set_name(<PyObject*>TimerGroup, "hwheel.TimerGroup")     # see task.pxi
