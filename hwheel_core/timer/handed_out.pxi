# HandedOut: what was taken out of a timer for an executor that is not the timer's own, from then on until it is over.
#
# It is begun once, whoever asks: the executor, which may be given it twice, because a submit() that was interrupted is made
# again; or close(), which takes back what has not begun. And it is finished once: at the end of its run, or, if that was
# in another process, when the executor's future is done.
#
# It is what the executor is given. In this process the executor brings it back, and it knows what became of it; to another
# process only the call goes. So also where an executor never lets go of what it has not run, the callback is released.


def no_operation():
    """Run for a task that has neither a callback nor a run() of its own."""


cdef list core_not_run(BaseTimer self):
    """What close() is to return, so far."""
    if self.not_run is None:
        self.not_run = []
    list_drop_room(self.not_run)        # of a thread that is not here: this is the child of a fork
    return self.not_run


def call_for_result(callback, *args, **kwargs):
    """In another process, where what the callback returns is to be sent back. Otherwise it is not, because nobody who does
    not want it should have to return something that can be pickled."""
    return callback(*args, **kwargs)


def call_elsewhere(callback, args, kwargs, is_awaited):
    """What arrives of a HandedOut in another process."""
    if is_awaited:
        return functools.partial(call_for_result, callback, *args, **kwargs)
    return functools.partial(callback, *args, **kwargs)


cdef inline bint handed_is_begun(HandedOut self) noexcept:
    cdef bint is_begun
    with cython.critical_section(self):
        is_begun = self.begun
    return is_begun


cdef bint handed_drop_call(HandedOut self) except False:
    """It is over, and holds on to nothing: the executor's future, which may hold on to this, would keep it all alive."""
    self.registry.pop(self.number, None)
    self.future = self.source = self.callback = self.args = self.kwargs = self.indices = None
    return True


cdef bint handed_finish(HandedOut self, bint is_over) except False:
    """is_over: it will not run any more."""
    cdef bint first
    cdef object source = self.source
    with cython.critical_section(self):
        first = not self.is_finished
        self.is_finished = True
    if not first or self.registry is None:
        return True
    if is_over:
        handed_drop_call(self)
    else:
        self.registry.pop(self.number, None)
        self.future = None
    try:
        self.timer._restart(source)
    finally:
        if self.finish_signal is not None:
            try:
                self.finish_signal.release()
            except RuntimeError:
                pass                    # nobody has looked since the last time
    return True


cdef int64_t handed_out_count = 0


cdef HandedOut core_hand_out_next(BaseTimer self, dict registry):
    """The next of what is ready, in the registry; None when there is nothing.

    All memory is there before something cannot go back any more; where there is none, it stays the next."""
    cdef HandedOut handed = HandedOut.__new__(HandedOut)
    handed.timer = self
    handed.registry = registry
    handed.generation = self.timer.generation
    handed.number = hw_count_add(&handed_out_count, 1)
    registry[handed.number] = None      # room for it
    try:
        if handed_take_next(handed):
            registry[handed.number] = handed
            return handed
    finally:
        if registry[handed.number] is None:
            del registry[handed.number]
    return None


cdef bint handed_take_next(HandedOut self) except -1:
    """Takes the next of what is ready. False: nothing is."""
    cdef Timer* timer = self.timer.timer
    cdef Instant now
    cdef Entry* entry
    cdef TimerBatch batch
    self.kwargs = {}
    while True:
        entry = timer_take_next(timer, &now)
        if entry is NULL:
            return False
        if entry.place == ENTRY_OF_TASK:
            return handed_set_task(self, entry_task(entry))
        batch = <TimerBatch>entry_batch(entry).object
        self.source = batch
        self.callback = batch_callback(batch)   # before the last index is out and somebody may release it
        self.indices = timer_batch_room(batch, None)
        try:
            self.args = (self.indices,)
        except:
            timer_batch_put_back(batch)
            raise
        hw_give_away(<PyObject*>self.indices)
        hw_give_away(<PyObject*>self.args)
        timer_batch_take(batch, self.indices, &now)
        if len(self.indices):
            return True


cdef inline bint task_is_only_a_call(TimerTask self) noexcept:
    """Nothing of it needs to be there for its run but the callback and its arguments."""
    return not task_has_attributes(self) or type(self) is TermsTask or type(self) is GroupTermsTask


cdef object handed_bound(object method):
    """The same method of the same object, given away (hw_give_away) where that is not sure to be new."""
    cdef object bound = method
    if HW_FREE_THREADED and isinstance(method, types.MethodType):
        bound = types.MethodType(method.__func__, method.__self__)
        hw_give_away(<PyObject*>bound)
    return bound


cdef bint handed_set_task(HandedOut self, TimerTask task) except -1:
    """A task that was taken out. When there is no memory to hand it out, it goes back."""
    cdef bint repeats = task_flags(&task.task) & TASK_REPEATS
    cdef bint is_plain = task_is_only_a_call(task)
    self.source = task
    self.args = ()
    try:
        if not is_plain:
            task_track(task)
        if not is_plain and not repeats:
            self.callback = handed_bound(task.run)
        else:
            self.callback = task_callback(task)
        if self.callback is None:
            self.callback = no_operation
        elif is_plain or repeats:
            self.args = task.args or ()
            self.kwargs = task.kwargs or {}
            hw_give_away(<PyObject*>self.args)
            hw_give_away(<PyObject*>self.kwargs)
    except MemoryError:
        task_put_back(task)
        raise
    except:
        Py_DECREF(task)
        raise
    if is_plain:
        task_drop_call(task)
    Py_DECREF(task)                     # the wheel's reference, of task_schedule
    return True


cdef bint handed_cancel_future(HandedOut self) except -1:
    """False if the future says that the run has begun. One that cannot be asked is not needed: begin() decides."""
    if self.future is None:
        return True
    try:
        return bool(self.future.cancel())
    except Exception:
        return True


cdef bint handed_set_call_back(HandedOut self, TimerTask task) except False:
    """Undoes that of handed_set_task which has moved the call out of the task."""
    if task_is_only_a_call(task) and self.callback is not no_operation:
        task_set_call(task, self.callback, self.args, self.kwargs)
    return True


cdef bint handed_is_too_late(HandedOut self) except -1:
    """Whether its time is over for it. Where the clock fails nobody can say so."""
    cdef Instant now
    if not isinstance(self.source, TermsTask):
        return False
    try:
        timer_read_clock(self.timer.timer, &now)
    except Exception:
        return False
    return core_is_too_late(self.timer, self.source, &now)


cdef bint handed_miss(HandedOut self) except False:
    """In the place of its run."""
    handed_set_call_back(self, self.source)
    return core_miss(self.timer, self.source)


cdef bint handed_take_back(HandedOut self) except -1:
    """Undoes core_hand_out_next, if the run has not begun. It may be interrupted, and called again."""
    cdef Timer* timer = self.timer.timer
    cdef TimerTask task = None
    cdef object source = self.source
    cdef list not_run
    cdef int64_t count = 1
    cdef bint first = True, over
    self.is_taken_back = True           # so that the future's end means nothing any more
    if self.is_finished or handed_is_begun(self) or not handed_cancel_future(self) or not self.begin():
        self.is_taken_back = False
        return False
    with cython.critical_section(self):
        over = self.is_finished         # by the end of its future, just now
        self.is_finished = True
    if over:
        self.is_taken_back = False
        return False
    not_run = core_not_run(self.timer)
    try:
        list_make_room(not_run)
        if self.indices is not None:
            first = timer_batch_keep(self.source, self.indices)
            batch_set_callback(self.source, self.callback)
            count = len(self.indices)
        else:
            task = self.source
            handed_set_call_back(self, task)            # its group has been left
    except MemoryError:
        list_drop_room(not_run)
        self.is_finished = self.begun = False
        raise
    lock_with_gil(timer)
    timer.expired -= count
    timer.returned += count
    if task is not None and task_state(&task.task) != TASK_PENDING:
        hw_poke(&task.task.state, TASK_CANCELLED)
        task_rest_no_more_locked(timer, &task.task)
        if task_flags(&task.task) & TASK_MEMBER:
            group_leave_locked(&task.task)
    lock_release(timer)
    if first:
        list_fill_room(not_run, source)
    else:
        list_drop_room(not_run)
    handed_drop_call(self)
    if task is not None:
        task_notify(task, None, None, True)
    return True


cdef class HandedOut:
    def __init__(self):
        raise TypeError("made by a timer that hands out")

    def __reduce__(self):
        callback = task_unwrapped(self.callback)
        is_awaited = type(self.callback) is Awaited and bool((<Awaited>self.callback).waiters)
        return call_elsewhere, (no_operation if callback is None else callback, self.args, self.kwargs, is_awaited)

    def run(self):
        """The run, in a thread of this process. Nothing happens if it was begun or taken back before; nor in the child of a
        fork that the executor's queue has come through, where what was handed out is the parent's."""
        cdef BaseTimer timer = self.timer
        if timer is None or self.generation != timer.timer.generation or handed_is_begun(self):
            return
        context = context_enter()           # for which there may be no memory: then it has not begun
        if not self.begin():
            context_leave(context)
            return
        try:
            if handed_is_too_late(self):
                handed_miss(self)
            elif isinstance(self.source, PeriodicTask):
                periodic_run(self.source)       # unless it was cancelled meanwhile
            else:
                result = self.callback(*self.args, **self.kwargs)
                if isinstance(self.source, TimerTask):
                    task_notify(self.source, result, None)    # of a run() of its own
        except BaseException as error:
            in_caller = hw_load(&self.caller) == PyThread_get_thread_ident()
            if in_caller and isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            if not (isinstance(self.source, TimerTask) and isinstance(error, Exception)
                    and task_notify(self.source, None, error)):
                timer._report(self.source, error)
        finally:
            context_leave(context)
            self.finish()

    @property
    def is_begun(self):
        """Whether its run has begun, or never will, because it was taken back."""
        return handed_is_begun(self)

    def answer(self, result, error):
        """Of a run in another process: tells who awaits the task. False: nobody does."""
        callback = self.callback
        return type(callback) is Awaited and awaited_notify(callback, result, error)

    def is_too_late(self):
        """Whether run() would tell of it as missed: for who hands it to another process, where nobody would."""
        return self.timer is not None and handed_is_too_late(self)

    def begin(self):
        """True for one caller."""
        cdef bint first
        with cython.critical_section(self):
            first = not self.begun
            self.begun = True
        return first

    def give_up(self):
        """Finishes it without a run that is known of. If the executor comes with it after all, it runs; but not one of
        call_every, which is back in the timer by then."""
        cdef bint will_not_run = isinstance(self.source, PeriodicTask)
        if will_not_run:
            self.begin()
        handed_finish(self, will_not_run)

    def finish(self):
        """It is over: a task of call_every goes back into the timer."""
        handed_finish(self, True)

    def set_future(self, future):
        """So that close() can cancel it. A future holds on to what is called when it is done, and that to this: so not once
        it is over."""
        with cython.critical_section(self):
            if not self.is_finished:
                self.future = future


cdef bint core_hand_out(BaseTimer self, dict registry, object again, object submit, bint in_caller) except False:
    """Takes out what is ready, each as a HandedOut, and calls submit(handed_out) for it.

    again: a deque of what was taken out before, but whose submit() was interrupted.
    """
    cdef HandedOut handed
    core_set_up(self)
    while True:
        handed = None
        if again:
            try:
                handed = again.popleft()
            except IndexError:
                pass                        # another thread was faster
        if handed is None:
            handed = core_hand_out_next(self, registry)
            if handed is None:
                return True
        hw_store(&handed.caller, PyThread_get_thread_ident() if in_caller else 0)
        try:
            submit(handed)
        except:
            if not handed_is_begun(handed):
                again.appendleft(handed)
            raise
        finally:
            hw_store(&handed.caller, 0)        # by now another thread may run it, and look
        if in_caller:
            PyErr_CheckSignals()
