# TimerGroup and the tasks that it creates, as Python sees them: each is a task of its kind with a Member behind it.


cdef enum:
    GROUP_SLICE = 4096      # number of members that a cancel removes before it releases the lock

cdef Py_ssize_t GROUP_TASK_SIZE = GroupTask.__basicsize__ - entry_offset      # of all fields of a GroupTask


# --- tasks of a group --------------------------------------------------------------------------------------------


cdef void member_end(Task* task, Member* self) noexcept:
    """Release the group of a task that is deallocated."""
    if self.group is NULL:
        return
    if self.next is not NULL:           # a task of call_every that was dispatched, but never put back
        lock_with_gil(<Timer*>task.owner)
        group_leave_locked(task)
        lock_release(<Timer*>task.owner)
    group_release(self.group)
    self.group = NULL


@cython.final
cdef class GroupTask(TimerTask):
    """The TimerTask that `TimerGroup.call_later` and `call_at` return."""


@cython.final
@cython.trashcan(True)      # see PeriodicTask
cdef class GroupTermsTask(TermsTask):
    """A GroupTask with `slack` or `max_lateness`."""

    def __dealloc__(self):
        member_end(&self.task, &self.member)


@cython.final
@cython.trashcan(True)      # see PeriodicTask
cdef class GroupPeriodicTask(PeriodicTask):
    """The TimerTask that `TimerGroup.call_every` returns."""

    def __dealloc__(self):
        member_end(&self.task, &self.member)


cdef TimerTask group_task_new(Group* group, Timer* timer, object callback, PyObject** args, Py_ssize_t count):
    """Return a GroupTask. This is a copy of task_new, because the compiler inlines task_new only while that has one caller."""
    cdef PyObject* created = hw_gc_new(<PyObject*>GroupTask)
    cdef PyObject** slots
    cdef GroupTask self
    if created is NULL:
        raise MemoryError
    memset(<char*>created + entry_offset, 0, GROUP_TASK_SIZE)
    slots = task_slots(created)
    Py_INCREF(None)                     # both are replaced by task_set_call
    slots[0] = <PyObject*>None
    Py_INCREF(None)
    slots[1] = <PyObject*>None
    self = <GroupTask>created
    Py_DECREF(self)                     # hw_gc_new's reference; `self` has its own
    task_set_call(self, callback, arguments_from(args, 0, count), None)
    task_untrack(self)
    member_init(&self.task, &self.member, group)
    task_own(self, timer)
    return self


cdef void group_task_dealloc(PyObject* self) noexcept:
    """Deallocate a GroupTask, as task_dealloc does a TimerTask."""
    PyObject_GC_UnTrack(self)
    if task_slots(self)[0] == <PyObject*>None and task_slots(self)[1] == <PyObject*>None:
        group_task_free(self)
    else:
        hw_free_in_turn(self, group_task_dealloc, group_task_free)


cdef void group_task_free(PyObject* self) noexcept:
    member_end(&(<GroupTask>self).task, &(<GroupTask>self).member)
    task_free(self)


hw_set_dealloc(<PyObject*>GroupTask, group_task_dealloc)    # see timer_task.pxi


# --- adding ------------------------------------------------------------------------------------------------------


cdef TimerGroup core_group(BaseTimer self):
    """Return a new group for BaseTimer.group."""
    cdef TimerGroup created
    core_check_set_up(self)
    created = TimerGroup.__new__(TimerGroup)
    created.timer = self
    created.group = group_new()
    if created.group is NULL:
        raise MemoryError
    return created


cdef inline bint group_check_set_up(TimerGroup self) except False:
    if self.group is NULL:
        raise RuntimeError("this TimerGroup was not created by group()")
    return True


cdef inline TimerTask group_add_call(TimerGroup self, Deadline* deadline, object callback, PyObject** args, Py_ssize_t count):
    """Create a task for a call and put it into the wheel, as core_add_call does."""
    cdef Timer* timer = self.timer.timer
    cdef TimerTask task
    deadline_set_or_raise(deadline, timer)
    task = group_task_new(self.group, timer, callback, args, count)
    task.task.delay_ms = deadline_delay_ms(deadline)
    task.task.deadline_ms = deadline.deadline_ms
    task_link_member(timer, task, deadline.expiration_ms, TAKE_DUE)
    return task


cdef TimerTask group_call_later(TimerGroup self, object delay, object callback, PyObject** args, Py_ssize_t count):
    """Implement call_later without terms."""
    cdef Deadline deadline
    group_check_set_up(self)
    seconds_argument(delay, "delay", &deadline.delay)
    callback_argument(callback)
    core_ensure_started(self.timer)
    timer_read_clock(self.timer.timer, &deadline.now)
    return group_add_call(self, &deadline, callback, args, count)


cdef TimerTask group_call_at(TimerGroup self, object when, object callback, PyObject** args, Py_ssize_t count):
    """Implement call_at without terms."""
    cdef Deadline deadline
    group_check_set_up(self)
    seconds_argument(when, "when", &deadline.delay)
    callback_argument(callback)
    core_ensure_started(self.timer)
    deadline_count_from_now(&deadline, self.timer.timer, when)
    return group_add_call(self, &deadline, callback, args, count)


# --- cancelling --------------------------------------------------------------------------------------------------


cdef Member* group_cancel_slice_locked(Group* self, Timer* timer, int64_t last, int64_t* count_out) noexcept:
    """Cancel the first GROUP_SLICE members, up to the number `last`.

    Return them as a chain through `prev`. The caller drops one reference of each.
    """
    cdef Member* first = NULL
    cdef Member* end = NULL
    cdef Member* member = self.members.next
    cdef Member* following
    cdef Task* task
    cdef int64_t count = 0
    while count < GROUP_SLICE and member is not &self.members and <int64_t>member.number <= last:
        following = member.next
        hw_prefetch(following.next)
        task = member_task(member)
        if task_cancel_locked(timer, task) != OK:       # a running task of call_every: the wheel has no reference to it
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
    """Cancel all present members. Return their number. closes: from now on, no more tasks can join."""
    cdef Timer* timer = self.timer.timer
    cdef Group* group = self.group
    cdef int64_t count = 0, last
    cdef Member* member
    cdef TimerTask task
    cdef Turn turn
    turn_begin(&turn)
    lock_with_gil(timer)
    last = group.joined
    if closes:
        hw_poke(&group.closed, True)
    while True:
        member = group_cancel_slice_locked(group, timer, last, &count)
        lock_release(timer)
        if member is NULL:
            return count
        while member is not NULL:       # a cancelled task joins no group again, so no other thread changes the chain
            task = entry_task(&member_task(member).entry)
            member = member.prev
            task_drop_call(task)
            Py_DECREF(task)             # the wheel's reference (task_schedule), or that of the slice
            task = None
            turn_step(&turn)
        lock_with_gil(timer)


cdef class TimerGroup:
    """Timers that are cancelled together, for example those of one connection. Created by `BaseTimer.group`.

    Its timers belong to the timer and run like all others. A timer that has run or is cancelled leaves the group, so a
    long-lived group does not grow. `len(group)` is the number of pending timers; a timer of `call_every` also counts while
    it runs. A `with` block closes the group at its end.

    A group and its timers do not keep each other alive. The timers of a group that is garbage-collected still run.

    Thread-safe: any thread may call any method, also inside callbacks.

    Example:
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
        raise TypeError("group() creates TimerGroup objects")

    def __dealloc__(self):
        if self.group is not NULL:
            group_release(self.group)

    def call_later(self, delay, callback, *args, slack=0, max_lateness=None, context=None):
        """Call `callback(*args)` after `delay` seconds. Same as the timer's `call_later`, for a task of this group.

        Raises:
            TimerClosed: The group or its timer is closed.
            TypeError, ValueError, OverflowError, TimerFull: As for the timer's method.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> connection = timer.group()
            >>> task = connection.call_later(30, print, "idle")
            >>> timer.advance(30)
            idle
        """
        if context is not None:
            callback, args = context_run(context, callback), (callback, *args)
        if terms_are_asked_for(slack, max_lateness):
            group_check_set_up(self)
            return core_call_on_terms(self.timer, self, delay, True, callback, args, slack, max_lateness)
        return group_call_later(self, delay, callback, hw_tuple_items(<PyObject*>args), len(args))

    def call_at(self, when, callback, *args, slack=0, max_lateness=None, context=None):
        """Call `callback(*args)` at a time on the timer's clock. Same as the timer's `call_at`, for a task of this group.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> connection = timer.group()
            >>> task = connection.call_at(30, print, "idle")
            >>> timer.advance_to(30)
            idle
        """
        if context is not None:
            callback, args = context_run(context, callback), (callback, *args)
        if terms_are_asked_for(slack, max_lateness):
            group_check_set_up(self)
            return core_call_on_terms(self.timer, self, when, False, callback, args, slack, max_lateness)
        return group_call_at(self, when, callback, hw_tuple_items(<PyObject*>args), len(args))

    def call_every(self, interval, callback, *args, missed_ticks="skip", slack=0, jitter=0, random=None, max_lateness=None,
                   context=None):
        """Call `callback(*args)` every `interval` seconds. Same as the timer's `call_every`, for a task of this group.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> connection = timer.group()
            >>> task = connection.call_every(10, print, "ping")
            >>> timer.advance(20)
            ping
            ping
            >>> connection.cancel()
            1
        """
        cdef GroupPeriodicTask task
        group_check_set_up(self)
        task = GroupPeriodicTask.__new__(GroupPeriodicTask)
        periodic_set_interval(task, interval, missed_ticks)
        periodic_set_call(task, context, callback, args)
        periodic_set_jitter(task, jitter, random)
        terms_argument(slack, max_lateness, &task.terms)
        member_init(&task.task, &task.member, self.group)
        core_start_periodic(self.timer, task)
        return task

    def cancel(self):
        """Cancel all timers of the group, and release their callbacks.

        A call that is running continues to its end. Many timers are cancelled in slices of 4,096, in the order in which they
        were added, and other threads run in between. Timers that are added to the group during the call stay.

        Returns:
            The number of timers that this call kept from running (again).

        O(len(group)), independent of the number of timers in the timer. Thread-safe.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> connection = timer.group()
            >>> tasks = [connection.call_later(30, print) for _ in range(3)]
            >>> connection.cancel(), len(connection)
            (3, 0)
        """
        group_check_set_up(self)
        return group_cancel(self, False)

    def close(self):
        """Refuse new timers, and cancel all present ones. Return their number. May be called again.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> connection = timer.group()
            >>> task = connection.call_later(30, print)
            >>> connection.close(), connection.closed
            (1, True)
        """
        group_check_set_up(self)
        return group_cancel(self, True)

    @property
    def closed(self):
        """True after close()."""
        return self.group is NULL or hw_peek(&self.group.closed) != 0

    def __enter__(self):
        group_check_set_up(self)
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __len__(self):
        return 0 if self.group is NULL else hw_peek64(&self.group.count)

    def __bool__(self):
        """Return True, also for an empty group."""
        return True

    def __repr__(self):
        return f"<TimerGroup of {self.timer!r}, {'closed' if self.closed else len(self)}>"


hw_set_name(<PyObject*>TimerGroup, "hwheel.TimerGroup")     # see timer_task.pxi


# --- fast calls: see timer/adding.pxi ----------------------------------------------------------------------------

cdef PyMethodDef group_call_later_def
cdef PyMethodDef group_call_at_def
cdef object compiled_group_call_later = None
cdef object compiled_group_call_at = None


cdef object group_call_later_fast(PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    if count < 2 or keywords is not NULL:
        return core_call_slowly(compiled_group_call_later, self, args, count, keywords)
    return group_call_later(<TimerGroup>self, <object>args[0], <object>args[1], args + 2, count - 2)


cdef object group_call_at_fast(PyObject* self, PyObject** args, Py_ssize_t count, PyObject* keywords):
    if count < 2 or keywords is not NULL:
        return core_call_slowly(compiled_group_call_at, self, args, count, keywords)
    return group_call_at(<TimerGroup>self, <object>args[0], <object>args[1], args + 2, count - 2)


compiled_group_call_later = <object>hw_use_fastcall(<PyObject*>TimerGroup, "call_later", &group_call_later_def,
                                               <void*>group_call_later_fast)
compiled_group_call_at = <object>hw_use_fastcall(<PyObject*>TimerGroup, "call_at", &group_call_at_def, <void*>group_call_at_fast)
