# TimerTask, and what a timer does with one that takes the GIL.
#
# References. A pending task is held by the wheel: INCREF in schedule_task, DECREF by whoever takes it out of the wheel
# (TimerTask.cancel, pop, drop_all). The wheel is held by no task; a task holds a reference to the Timer struct.
#
# Garbage collection. A pending task is the wheel's, which is alive, so the cyclic collector could never free it and
# need not look at it: a million pending tasks would only slow it down. They are untracked when they go in; what comes
# out with references on it is tracked again.


cdef Py_ssize_t entry_offset = 0        # of TimerTask.task; filled in below
cdef Py_ssize_t TASK_SIZE = 0           # of a TimerTask with what the garbage collector has before it


cdef inline TimerTask entry_task(const Entry* entry):
    return <TimerTask><PyObject*>(<const char*>entry - entry_offset)


cdef class TimerTask:
    """TimerTask(delay_ms, callback=None, *args, **kwargs)

    Something to be run after a delay. Pass a callback, or subclass and override `run()`.

    Arguments:
        delay_ms: how long to wait, in milliseconds: an int (a float is rounded up). Zero or less: at once.
        callback: called with args and kwargs when the time has come; released as soon as it has run, or at cancel().

    Raises:
        TypeError: delay_ms is no number, or callback is not callable.
        ValueError: delay_ms is NaN or infinite.
        OverflowError: delay_ms does not fit into 64 bits.

    A task belongs to the first timer that it is added to. From its first add or cancel on, exactly one of `pending`,
    `expired` and `cancelled` is true.

    Thread-safety: every method may be called from any thread, also inside callbacks.

    The names are Kafka's (TimerTask.java).

    >>> from hwheel import ManualTimer, TimerTask
    >>> timer = ManualTimer()
    >>> task = timer.add(TimerTask(50, print, "fifty ms are over"))
    >>> timer.advance(49)
    >>> task.pending
    True
    >>> timer.advance(1)
    fifty ms are over
    >>> task.expired
    True
    """
    cdef Task task
    cdef object callback_
    cdef object arguments       # None, the only argument (TASK_ONE_ARGUMENT), or a tuple that nobody else has

    def __init__(self, delay_ms, callback=None, *args, **kwargs):
        cdef int64_t delay = milliseconds_argument(delay_ms, "delay_ms")
        if callback is not None:
            callback_argument(callback)
        if self.task.state != TASK_NEW or self.task.owner:
            raise ValueError("this task has been added or cancelled already; make a new one")
        self.task.delay_ms = delay
        task_set_call(self, callback, args, kwargs)

    def __dealloc__(self):
        task_leave_timer(&self.task)

    def run(self):
        """Called when the task expires. Override it, or leave it to call `callback(*args, **kwargs)`.

        What `TimingWheel.poll()` and `close()` return still carries its callback: `task.run()` runs it, once.

        Raises:
            RuntimeError: the callback has run already or was released by cancel().
        """
        if self.callback_ is None:
            if self.task.flags & TASK_HAD_CALLBACK:
                raise RuntimeError("the callback of this task has run already or was released by cancel()")
            return
        if self.task.state == TASK_PENDING or self.task.state == TASK_NEW or self.task.flags & TASK_REPEATS:
            task_call(self.callback_, self.arguments, self.task.flags)
        elif not task_called_once(self):
            raise_error()

    def cancel(self):
        """Keeps the task from running, if it is not too late: True if this call did it.

        A task that has fallen due but waits for its executor can still be cancelled. The callback and its arguments
        are released at once. Before any add: True, and the task stays cancelled. A task of `call_every` that is
        cancelled inside its own callback does not run again, and the answer is True.

        Runtime complexity: O(1).
        Thread-safety: any thread.
        """
        return task_cancel(self)

    def reschedule(self, delay_ms):
        """Moves a pending task in place: it now runs delay_ms from now, behind all others of its new tick.

        Returns False, and does nothing, if the task is not pending. "Now" is the timer's clock; in a bare TimingWheel
        it is the wheel's current_time_ms.

        Arguments:
            delay_ms: milliseconds, as in the constructor.
        Raises:
            TypeError, ValueError, OverflowError: as the constructor. The task stays where it was.

        Runtime complexity: O(1).
        Thread-safety: any thread.
        """
        cdef int64_t delay = milliseconds_argument(delay_ms, "delay_ms")
        cdef Timer* timer = <Timer*>hw_load(&self.task.owner)
        if timer is NULL or self.task.state != TASK_PENDING:
            return False
        return reschedule_task(timer, self, delay)

    @property
    def delay_ms(self):
        """The delay in ms that the task was made with, or rescheduled to."""
        return self.task.delay_ms

    @property
    def deadline_ms(self):
        """When the task falls due on its timer's clock, in ms. None before it is added."""
        if self.task.owner == 0 or self.task.state == TASK_NEW:
            return None
        return self.task.deadline_ms

    @property
    def pending(self):
        """True while the task waits to be run."""
        return self.task.state == TASK_PENDING

    @property
    def expired(self):
        """True once the task has been handed out to be run, also inside its own callback."""
        return self.task.state == TASK_EXPIRED

    @property
    def cancelled(self):
        """True after a cancel() that came in time, and for what close() returned."""
        return self.task.state == TASK_CANCELLED

    @property
    def callback(self):
        """The callback. None if there is none (any more)."""
        return self.callback_

    @property
    def args(self):
        """The callback's positional arguments, a tuple. None once they are released."""
        if task_is_released(self):
            return None
        if self.task.flags & TASK_ONE_ARGUMENT:
            return (self.arguments,)
        if self.arguments is None:
            return ()
        return tuple([*task_positional(self.arguments, self.task.flags)])

    @property
    def kwargs(self):
        """The callback's keyword arguments, a dict. None once they are released."""
        if task_is_released(self):
            return None
        return dict(task_keywords(self.arguments)) if self.task.flags & TASK_KEYWORDS else {}

    def __repr__(self):
        cdef str state = ("new", "pending", "expired", "cancelled")[self.task.state]
        cdef str what = "" if self.callback_ is None else f", {self.callback_!r}"
        return f"<{type(self).__name__} {state}, delay {self.task.delay_ms} ms{what}>"


cdef bint task_cancel(TimerTask self) except -1:
    """TimerTask.cancel."""
    cdef Timer* timer = <Timer*>hw_load(&self.task.owner)
    cdef Status status = NOT_PENDING
    if timer is NULL:
        pthread_mutex_lock(&orphans)
        timer = <Timer*>hw_load(&self.task.owner)
        if timer is NULL and self.task.state == TASK_NEW:
            self.task.state = TASK_CANCELLED
            status = WAS_CANCELLED
        pthread_mutex_unlock(&orphans)
    if timer is not NULL:
        # Three cache misses that need not wait for one another, nor for the lock.
        hw_prefetch(self.task.entry.prev)
        hw_prefetch(self.task.entry.next)
        hw_prefetch(task_slots(<PyObject*>self))
        if lock_try(timer):
            status = task_cancel_locked(timer, &self.task)
            lock_release(timer)
        else:
            with nogil:
                lock_wait(timer)
                status = task_cancel_locked(timer, &self.task)
                lock_release(timer)
    if status == NOT_PENDING:
        return False
    task_let_go(self)
    if status == OK:
        Py_DECREF(self)             # the wheel's reference, of schedule_task
    return True


cdef void task_dealloc(PyObject* self) noexcept:
    """tp_dealloc of TimerTask. Cython's own saves and restores the exception that is set around a __dealloc__, which
    nothing here needs and which costs as much as the rest; it is still what PeriodicTask's calls."""
    cdef PyObject* callback = <PyObject*>(<TimerTask>self).callback_
    cdef PyObject* arguments = <PyObject*>(<TimerTask>self).arguments
    PyObject_GC_UnTrack(self)
    task_leave_timer(&(<TimerTask>self).task)
    Py_XDECREF(callback)
    Py_XDECREF(arguments)
    hw_type_free(self)


cdef inline void task_leave_timer(Task* task) noexcept:
    if task.owner:
        timer_release(<Timer*>task.owner)
        debug_count(LIVE_TASKS, -1)


cdef bint task_is_released(TimerTask self) noexcept:
    return self.task.flags & TASK_HAD_CALLBACK and self.callback_ is None


cdef inline void task_set_call(TimerTask self, object callback, tuple args, dict kwargs):
    cdef Py_ssize_t count = len(args)
    cdef int32_t flags = 0 if callback is None else TASK_HAD_CALLBACK
    self.callback_ = callback
    if kwargs:
        self.arguments = (*args, kwargs)
        flags |= TASK_KEYWORDS
    elif count == 1:
        self.arguments = <object>PyTuple_GET_ITEM(args, 0)
        flags |= TASK_ONE_ARGUMENT
    elif count:
        self.arguments = args
    else:
        self.arguments = None
    self.task.flags = flags


cdef inline PyObject** task_slots(PyObject* self) noexcept:
    """callback_ and arguments, which come right after `task`."""
    return <PyObject**>(<char*>self + entry_offset + sizeof(Task))


cdef inline TimerTask new_call(Timer* timer, object callback, PyObject** args, Py_ssize_t count):
    """What TimerTask(..., callback, *args) makes, owned by a timer, but never seen by the garbage collector: for a task
    that is about to be pending."""
    cdef PyObject* made = hw_gc_new(<PyObject*>TimerTask)
    cdef PyObject** slots
    cdef TimerTask self
    cdef tuple arguments
    if made is NULL:
        raise MemoryError
    memset(<char*>made + entry_offset, 0, sizeof(Task))
    slots = task_slots(made)
    Py_INCREF(callback)                 # both dropped by task_let_go, task_called_once or task_dealloc
    slots[0] = <PyObject*>callback
    Py_INCREF(None)
    slots[1] = <PyObject*>None
    self = <TimerTask>made
    Py_DECREF(self)                     # the reference that it was made with; `self` has one of its own
    self.task.flags = TASK_HAD_CALLBACK
    if count == 1:
        self.arguments = <object>args[0]
        self.task.flags |= TASK_ONE_ARGUMENT
    elif count:
        arguments = PyTuple_New(count)
        for i in range(count):
            Py_INCREF(<object>args[i])
            PyTuple_SET_ITEM(arguments, i, <object>args[i])
        PyObject_GC_UnTrack(<PyObject*>arguments)
        self.arguments = arguments
    task_own(self, timer)
    return self


cdef tuple task_positional(tuple arguments, int32_t flags):
    return arguments[:len(arguments) - 1] if flags & TASK_KEYWORDS else arguments


cdef dict task_keywords(tuple arguments):
    return arguments[len(arguments) - 1]


cdef inline void task_let_go(TimerTask self):
    """Releases the callback and its arguments: after a cancel."""
    if task_has_attributes(self):
        task_track(self)
    with cython.critical_section(self):
        self.callback_ = None
        self.arguments = None
        self.task.flags &= ~TASK_ONE_ARGUMENT & ~TASK_KEYWORDS


cdef inline bint task_has_attributes(TimerTask self) noexcept:
    """A subclass may hold more than what a callback task releases, and be part of a cycle through that."""
    return type(self) is not TimerTask


cdef inline PyObject* task_call_raw(object callback, object arguments, int32_t flags) noexcept:
    """The result, a new reference, or NULL and an exception is set."""
    cdef PyObject* only = <PyObject*>arguments
    cdef PyObject** positional = &only
    cdef size_t count = 1
    cdef PyObject* keywords
    if not flags & TASK_ONE_ARGUMENT:
        if arguments is None:
            count = 0
        else:
            positional = hw_tuple_items(<PyObject*>arguments)
            count = len(<tuple>arguments)
            if flags & TASK_KEYWORDS:
                count -= 1
                keywords = positional[count]
                return PyObject_VectorcallDict(callback, positional, count, keywords)
    return PyObject_Vectorcall(callback, positional, count, NULL)


cdef bint raise_error() except False:
    """Raises the exception that is set already."""
    return False


cdef bint task_call(object callback, object arguments, int32_t flags) except False:
    cdef PyObject* result = task_call_raw(callback, arguments, flags)
    if result is NULL:
        return raise_error()
    Py_DECREF(<object>result)
    return True


cdef inline bint task_called_once(TimerTask self) noexcept:
    """Calls the callback; by then the task has let go of it, so that it dies with the call. False: an exception is set."""
    cdef object callback, arguments
    cdef int32_t flags
    cdef PyObject* result
    with cython.critical_section(self):
        callback = self.callback_
        arguments = self.arguments
        flags = self.task.flags
        self.callback_ = None
        self.arguments = None
        self.task.flags = flags & ~TASK_ONE_ARGUMENT & ~TASK_KEYWORDS
    if callback is None:
        return True
    result = task_call_raw(callback, arguments, flags)
    if result is NULL:
        return False
    Py_DECREF(<object>result)
    return True


cdef inline void gc_track(object tracked) noexcept:
    if not PyObject_GC_IsTracked(<PyObject*>tracked):
        PyObject_GC_Track(<PyObject*>tracked)


cdef inline void task_untrack(TimerTask self) noexcept:
    PyObject_GC_UnTrack(<PyObject*>self)
    if self.arguments is not None and not self.task.flags & TASK_ONE_ARGUMENT:
        PyObject_GC_UnTrack(<PyObject*>self.arguments)
        if self.task.flags & TASK_KEYWORDS:
            keywords = task_keywords(self.arguments)
            PyObject_GC_UnTrack(<PyObject*>keywords)


cdef void task_track(TimerTask self) noexcept:
    gc_track(self)
    if self.arguments is not None and not self.task.flags & TASK_ONE_ARGUMENT:
        gc_track(self.arguments)
        if self.task.flags & TASK_KEYWORDS:
            gc_track(task_keywords(self.arguments))


# --- into a timer ------------------------------------------------------------------------------------------------

cdef inline void task_own(TimerTask self, Timer* timer) noexcept:
    """Makes the timer the owner of a task that nobody else has seen yet."""
    hw_count_add(&timer.references, 1)      # dropped in __dealloc__
    self.task.entry.place = ENTRY_OF_TASK
    self.task.owner = <uintptr_t>timer
    debug_count(LIVE_TASKS, 1)


cdef bint task_claim(TimerTask self, Timer* timer) except -1:
    """Makes the timer the owner of any task. True if it was not before."""
    cdef uintptr_t owner
    if task_has_attributes(self) and not self.task.flags & TASK_OWN_RUN and type(self).run is not TimerTask.run:
        self.task.flags |= TASK_OWN_RUN
    pthread_mutex_lock(&orphans)
    owner = hw_load(&self.task.owner)
    if owner == 0:
        task_own(self, timer)
    pthread_mutex_unlock(&orphans)
    if owner and owner != <uintptr_t>timer:
        raise ValueError("the task belongs to another timer")
    return owner == 0


cdef void task_disown(TimerTask self, Timer* timer) noexcept:
    """Undoes task_claim after an add that was refused."""
    pthread_mutex_lock(&orphans)
    hw_store(&self.task.owner, 0)
    pthread_mutex_unlock(&orphans)
    debug_count(LIVE_TASKS, -1)
    timer_release(timer)


cdef Status schedule_task(Timer* timer, TimerTask self, int64_t expiration_ms, bint take_due) except *:
    """Links a task that the timer owns. Raises where there is no room; else OK, WAS_DUE or WAS_CANCELLED."""
    task_untrack(self)
    return link_task(timer, self, expiration_ms, take_due)


cdef inline Status link_task(Timer* timer, TimerTask self, int64_t expiration_ms, bint take_due) except *:
    """schedule_task for a task that the garbage collector does not look at."""
    cdef Status status
    Py_INCREF(self)                     # the wheel's; dropped by who takes the task out, or below
    while True:
        if lock_try(timer):
            status = task_add_locked(timer, &self.task, expiration_ms, take_due)
            lock_release(timer)
        else:
            with nogil:
                lock_wait(timer)
                status = task_add_locked(timer, &self.task, expiration_ms, take_due)
                lock_release(timer)
        if status == OK:
            return OK
        if not make_room(timer, status):
            break
    task_track(self)
    Py_DECREF(self)
    if status == WAS_DUE or status == WAS_CANCELLED:
        return status
    raise_status(timer, status)


cdef bint reschedule_task(Timer* timer, TimerTask self, int64_t delay_ms) except -1:
    """Moves a pending task; False if it is not pending."""
    cdef Status status
    cdef int64_t deadline_ms, expiration_ms
    cdef Instant now
    cdef Instant delay = Instant(delay_ms, 0)
    read_clock(timer, &now)
    if not timer_due(timer, &now, &delay, &deadline_ms, &expiration_ms):
        raise OverflowError(f"the deadline does not fit into 64 bits of milliseconds: now + {delay_ms} ms")
    while True:
        if lock_try(timer):
            status = task_reschedule_locked(timer, &self.task, expiration_ms, delay_ms, deadline_ms)
            lock_release(timer)
        else:
            with nogil:
                lock_wait(timer)
                status = task_reschedule_locked(timer, &self.task, expiration_ms, delay_ms, deadline_ms)
                lock_release(timer)
        if not make_room(timer, status):
            return status == OK


cdef bint make_room(Timer* timer, Status status) except -1:
    """After NEEDS_LEVEL or STALE: does what is missing, and True: try again."""
    cdef bint have_memory
    if status == NEEDS_LEVEL:
        with nogil:
            have_memory = timer_grow(timer)
        if not have_memory:
            raise MemoryError
        return True
    if status == STALE:
        with nogil:
            timer_advance(timer, timer.wheel.levels[0].current_time_ms)
        return True
    return False


cdef int raise_status(Timer* timer, Status status) except -1:
    """The one place where a status becomes an exception; the lock is free by now."""
    if status == CLOSED:
        raise TimerClosed("the timer is closed")
    if status == FULL:
        raise TimerFull(f"the timer holds max_pending={timer.max_pending} timers already")
    if status == WAS_PENDING:
        raise ValueError("the task is pending already")
    if status == SPENT:
        raise ValueError("the task has expired and its callback is gone; make a new one")
    raise MemoryError
