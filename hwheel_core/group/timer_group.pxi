# TimerGroup: timers that belong together, as Python sees them. The list of them is in group/group.pxi.


cdef enum:
    GROUP_SLICE = 4096      # members that are cancelled under one hold of the lock


cdef Py_ssize_t GROUP_TASK_SIZE = GroupTask.__basicsize__ - entry_offset      # of all of its fields


cdef void member_end(Task* task, Member* self) noexcept:
    """For a task that dies."""
    if self.group is NULL:
        return
    if self.next is not NULL:           # of call_every, and never brought back: see task_leave_timer
        lock_with_gil(<Timer*>task.owner)
        group_leave_locked(task)
        lock_release(<Timer*>task.owner)
    group_release(self.group)
    self.group = NULL


@cython.final
cdef class GroupTask(TimerTask):
    """What `call_later` and `call_at` of a TimerGroup return."""


@cython.final
@cython.trashcan(True)      # as of PeriodicTask
cdef class GroupTermsTask(TermsTask):
    """The same with `slack` or `max_lateness`."""

    def __dealloc__(self):
        member_end(&self.task, &self.member)


@cython.final
@cython.trashcan(True)      # as of PeriodicTask
cdef class GroupPeriodicTask(PeriodicTask):
    """What `call_every` of a TimerGroup returns."""

    def __dealloc__(self):
        member_end(&self.task, &self.member)


cdef TimerTask group_task_new(Group* group, Timer* timer, object callback, PyObject** args, Py_ssize_t count):
    """task_new for a task of a group. Not by way of that, which is inlined where it stands as long as it has one caller."""
    cdef PyObject* made = hw_gc_new(<PyObject*>GroupTask)
    cdef PyObject** slots
    cdef GroupTask self
    if made is NULL:
        raise MemoryError
    memset(<char*>made + entry_offset, 0, GROUP_TASK_SIZE)
    slots = task_slots(made)
    Py_INCREF(None)                     # both replaced by task_set_call
    slots[0] = <PyObject*>None
    Py_INCREF(None)
    slots[1] = <PyObject*>None
    self = <GroupTask>made
    Py_DECREF(self)                     # the reference that it was made with; `self` has one of its own
    task_set_call(self, callback, arguments_from(args, 0, count), None)
    task_untrack(self)
    member_init(&self.task, &self.member, group)
    task_own(self, timer)
    return self


cdef void group_task_dealloc(PyObject* self) noexcept:
    """task_dealloc for a task of a group."""
    PyObject_GC_UnTrack(self)
    if task_slots(self)[0] == <PyObject*>None and task_slots(self)[1] == <PyObject*>None:
        group_task_free(self)
    else:
        hw_free_in_turn(self, group_task_dealloc, group_task_free)


cdef void group_task_free(PyObject* self) noexcept:
    member_end(&(<GroupTask>self).task, &(<GroupTask>self).member)
    task_free(self)


hw_set_dealloc(<PyObject*>GroupTask, group_task_dealloc)    # see task.pxi


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
