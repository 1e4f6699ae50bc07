# HandedOut: a task, or expired timers of a batch, that was taken out of a timer for an executor of the user.
#
# A HandedOut is submitted to the executor and represents the run until its end. It begins once: in the executor, or in close(),
# which takes back runs that have not begun. The executor may receive it twice, because an interrupted submit() is repeated. It
# finishes once: at the end of the run, or, for a run in another process, when the executor's future is done. Another process
# receives only the call (HandedOut.__reduce__).
#
# A finished HandedOut releases the callback. So the callback is released even if the executor keeps its work items forever.


def no_operation():
    """Do nothing, for a task without a callback and without its own run()."""


cdef list core_not_run(BaseTimer self):
    """Return the list of tasks that close() has collected so far."""
    if self.not_run is None:
        self.not_run = []
    list_unreserve(self.not_run)        # in the child of a fork, a thread of the parent may have reserved the last place
    return self.not_run


def call_for_result(callback, *args, **kwargs):
    """Call the callback in another process and send its result back.

    Only used for awaited tasks: otherwise the result of a callback need not be picklable.
    """
    return callback(*args, **kwargs)


def call_elsewhere(callback, args, kwargs, is_awaited):
    """Return the function that represents a HandedOut in another process."""
    if is_awaited:
        return functools.partial(call_for_result, callback, *args, **kwargs)
    return functools.partial(callback, *args, **kwargs)


cdef inline bint handed_is_claimed(HandedOut self) noexcept:
    cdef bint is_claimed
    with cython.critical_section(self):
        is_claimed = self.claimed
    return is_claimed


cdef bint handed_drop_call(HandedOut self) except False:
    """Release everything: the executor's future may keep a finished HandedOut alive."""
    self.registry.pop(self.number, None)
    self.future = self.source = self.callback = self.args = self.kwargs = self.indices = None
    return True


cdef bint handed_finish(HandedOut self, bint will_not_run) except False:
    """Finish the run: add a task of call_every again, and signal.

    will_not_run: no thread will call the callback from now on, so release it.
    """
    cdef bint first
    cdef object source = self.source
    with cython.critical_section(self):
        first = not self.is_finished
        self.is_finished = True
    if not first or self.registry is None:
        return True
    if will_not_run:
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
                pass                    # the signal of an earlier run has not been received yet
    return True


cdef int64_t handed_out_count = 0


cdef HandedOut core_dispatch_next(BaseTimer self, dict registry):
    """Take the next ready entry, and enter it in the registry. Return None if nothing is ready.

    All memory is allocated before the entry is taken for good. If an allocation fails, the entry stays the next.
    """
    cdef HandedOut handed = HandedOut.__new__(HandedOut)
    handed.timer = self
    handed.registry = registry
    handed.generation = self.timer.generation
    handed.number = hw_count_add(&handed_out_count, 1)
    registry[handed.number] = None      # reserves room
    try:
        if handed_take_next(handed):
            registry[handed.number] = handed
            return handed
    finally:
        if registry[handed.number] is None:
            del registry[handed.number]
    return None


cdef bint handed_take_next(HandedOut self) except -1:
    """Take the next ready entry. Return False if nothing is ready."""
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
        self.callback = batch_callback(batch)   # first: taking the last index may release it
        self.indices = timer_batch_array(batch, None)
        try:
            self.args = (self.indices,)
        except:
            timer_batch_put_back(batch)
            raise
        hw_share_reference_count(<PyObject*>self.indices)
        hw_share_reference_count(<PyObject*>self.args)
        timer_batch_take(batch, self.indices, &now)
        if len(self.indices):
            return True


cdef inline bint task_is_only_a_call(TimerTask self) noexcept:
    """Return True if a run needs only the callback and its arguments, not the task itself."""
    return not task_has_attributes(self) or type(self) is TermsTask or type(self) is GroupTermsTask


cdef object handed_bound(object method):
    """Return a bound method; without a GIL a copy, which any thread can free at once (hw_share_reference_count)."""
    cdef object bound = method
    if HW_FREE_THREADED and isinstance(method, types.MethodType):
        bound = types.MethodType(method.__func__, method.__self__)
        hw_share_reference_count(<PyObject*>bound)
    return bound


cdef bint handed_set_task(HandedOut self, TimerTask task) except -1:
    """Set the call of a task that was taken out. If an allocation fails, put the task back."""
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
            hw_share_reference_count(<PyObject*>self.args)
            hw_share_reference_count(<PyObject*>self.kwargs)
    except MemoryError:
        task_put_back(task)
        raise
    except:
        Py_DECREF(task)
        raise
    if is_plain:
        task_drop_call(task)
    Py_DECREF(task)                     # the wheel's reference, from task_schedule
    return True


cdef bint handed_cancel_future(HandedOut self) except -1:
    """Cancel the executor's future. Return False if it reports that the run has begun. If it cannot tell, begin() decides."""
    if self.future is None:
        return True
    try:
        return bool(self.future.cancel())
    except Exception:
        return True


cdef bint handed_set_call_back(HandedOut self, TimerTask task) except False:
    """Move the call back into the task, as it was before handed_set_task."""
    if task_is_only_a_call(task) and self.callback is not no_operation:
        task_set_call(task, self.callback, self.args, self.kwargs)
    return True


cdef bint handed_is_too_late(HandedOut self) except -1:
    """Return True if the task is later than its max_lateness, False if the clock fails."""
    cdef Instant now
    if not isinstance(self.source, TermsTask):
        return False
    try:
        timer_read_clock(self.timer.timer, &now)
    except Exception:
        return False
    return core_is_too_late(self.timer, self.source, &now)


cdef bint handed_miss(HandedOut self) except False:
    """Report the task as missed instead of running it."""
    handed_set_call_back(self, self.source)
    return core_miss(self.timer, self.source)


cdef bint handed_claim(HandedOut self) except -1:
    """Claim a run that has not begun for close(). Return False if it has begun or finished."""
    cdef bint over
    if self.is_finished or handed_is_claimed(self) or not handed_cancel_future(self) or not self.begin():
        return False
    with cython.critical_section(self):
        over = self.is_finished         # by the end of its future, just now
        self.is_finished = True
    return not over


cdef bint handed_set_back(HandedOut self) except -1:
    """Move the call back into the task or batch. Return False if the batch is in the result of close() already."""
    if self.indices is None:
        handed_set_call_back(self, self.source)
        return True
    cdef bint first = timer_batch_keep(self.source, self.indices)
    batch_set_callback(self.source, self.callback)
    return first


cdef void handed_count_returned(HandedOut self) noexcept:
    """Count the timers as returned by close() instead of expired, and cancel a task."""
    cdef Timer* timer = self.timer.timer
    cdef int64_t count = 1 if self.indices is None else len(self.indices)
    cdef Task* task = &(<TimerTask>self.source).task if self.indices is None else NULL
    lock_with_gil(timer)
    timer.expired -= count
    timer.returned += count
    if task is not NULL and task_state(task) != TASK_PENDING:
        hw_poke(&task.state, TASK_CANCELLED)
        task_end_rest_locked(timer, task)
        if task_flags(task) & TASK_MEMBER:
            group_leave_locked(task)
    lock_release(timer)


cdef bint handed_take_back(HandedOut self) except -1:
    """Undo core_dispatch_next if the run has not begun, and add the task or batch to the result of close().

    It may be interrupted and called again.
    """
    cdef object source = self.source
    cdef bint is_task = self.indices is None
    cdef list not_run
    self.is_taken_back = True           # from now on, the end of the future does not finish the run
    if not handed_claim(self):
        self.is_taken_back = False
        return False
    not_run = core_not_run(self.timer)
    try:
        list_reserve(not_run)
        if handed_set_back(self):
            list_fill(not_run, source)
        else:
            list_unreserve(not_run)
    except MemoryError:
        list_unreserve(not_run)
        self.is_finished = self.claimed = False
        raise
    handed_count_returned(self)
    handed_drop_call(self)
    if is_task:
        task_notify(source, None, None, True)
    return True


cdef class HandedOut:
    def __init__(self):
        raise TypeError("a HandedOut is created by a timer only")

    def __reduce__(self):
        callback = task_unwrapped(self.callback)
        is_awaited = type(self.callback) is Awaited and bool((<Awaited>self.callback).waiters)
        return call_elsewhere, (no_operation if callback is None else callback, self.args, self.kwargs, is_awaited)

    def run(self):
        """Run the callback in this thread.

        Does nothing if the run has begun or was taken back, or in the child of a fork that inherited the executor's queue.
        """
        cdef BaseTimer timer = self.timer
        if timer is None or self.generation != timer.timer.generation or handed_is_claimed(self):
            return
        context = context_enter()           # if this allocation fails, the run has not begun
        if not self.begin():
            context_leave(context)
            return
        try:
            if handed_is_too_late(self):
                handed_miss(self)
            elif isinstance(self.source, PeriodicTask):
                periodic_run(self.source)       # does nothing if it was cancelled
            else:
                result = self.callback(*self.args, **self.kwargs)
                if isinstance(self.source, TimerTask):
                    task_notify(self.source, result, None)      # has an effect if the task has its own run()
        except BaseException as error:
            in_caller = hw_load(&self.caller) == PyThread_get_thread_ident()
            if in_caller and isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            if not (isinstance(self.source, TimerTask) and isinstance(error, Exception)
                    and task_notify(self.source, None, error)):
                timer._report_error(self.source, error)
        finally:
            context_leave(context)
            self.finish()

    @property
    def is_begun(self):
        """True if the run has begun or was taken back."""
        return handed_is_claimed(self)

    @property
    def is_running(self):
        """True from the beginning to the end of the run. For a run in another process, the executor's future says so."""
        if self.is_finished or handed_is_claimed(self):
            return not self.is_finished
        future = self.future
        try:
            return future is not None and bool(future.running())
        except Exception:
            return False                    # not every future has this method

    def answer(self, result, error):
        """Pass the result of a run in another process to coroutines that await the task. Return False if no coroutine does."""
        callback = self.callback
        return type(callback) is Awaited and awaited_notify(callback, result, error)

    def is_too_late(self):
        """Return True if run() would report the task as missed: for a run in another process, which cannot report it."""
        return self.timer is not None and handed_is_too_late(self)

    def begin(self):
        """Claim the run. Return True to exactly one caller."""
        cdef bint first
        with cython.critical_section(self):
            first = not self.claimed
            self.claimed = True
        return first

    def give_up(self):
        """Finish a run whose outcome is unknown. If the executor runs it later, it still calls the callback.

        It does not if this is a task of call_every, which is back in the timer by then.
        """
        cdef bint will_not_run = isinstance(self.source, PeriodicTask)
        if will_not_run:
            self.begin()
        handed_finish(self, will_not_run)

    def finish(self):
        """Finish the run, and add a task of call_every again."""
        handed_finish(self, True)

    def set_future(self, future):
        """Store the future for close() to cancel.

        Ignore it if the run has finished. The future refers to its callback, and the callback to this object, so the reference
        would be a cycle that nothing breaks.
        """
        with cython.critical_section(self):
            if not self.is_finished:
                self.future = future


cdef bint core_dispatch(BaseTimer self, dict registry, object again, object submit, bint in_caller) except False:
    """Take out everything that is ready, and call submit(handed_out) for each HandedOut.

    again: a deque of those whose submit() was interrupted.
    """
    cdef HandedOut handed
    core_check_set_up(self)
    while True:
        handed = None
        if again:
            try:
                handed = again.popleft()
            except IndexError:
                pass                        # another thread was faster
        if handed is None:
            handed = core_dispatch_next(self, registry)
            if handed is None:
                return True
        hw_store(&handed.caller, PyThread_get_thread_ident() if in_caller else 0)
        try:
            submit(handed)
        except:
            if not handed_is_claimed(handed):
                again.appendleft(handed)
            raise
        finally:
            hw_store(&handed.caller, 0)        # atomic: another thread may be running it by now
        if in_caller:
            PyErr_CheckSignals()
