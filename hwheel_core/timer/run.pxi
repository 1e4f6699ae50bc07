# What is ready is run, by a thread of the timer's own or by the caller's.


cdef bint core_callback_failed(BaseTimer self, object source, object error, bint in_caller) except False:
    """Reports what a callback raised; or raises it, where it is the caller's."""
    if in_caller and (self._raises or isinstance(error, (KeyboardInterrupt, SystemExit))):
        raise error
    self._report(source, error)
    return True


cdef bint core_run_subclass(BaseTimer self, TimerTask task, const Instant* now, bint in_caller) except False:
    try:
        task_track(task)
        if core_is_too_late(self, task, now):
            core_miss(self, task)
        elif task_flags(&task.task) & TASK_REPEATS:
            periodic_run(task)
        else:
            task_notify(task, task.run(), None)
    except BaseException as error:
        if not (isinstance(error, Exception) and task_notify(task, None, error)):
            core_callback_failed(self, task, error, in_caller)
    finally:
        if task_flags(&task.task) & TASK_REPEATS:
            self._restart(task)
    return True


cdef inline bint core_run_task(BaseTimer self, TimerTask task, const Instant* now, bint in_caller) except False:
    if task_has_attributes(task):
        return core_run_subclass(self, task, now, in_caller)
    # No try block on this way: it costs as much as the rest of what is done here.
    if not task_called_once(task):
        try:
            error_raise()
        except BaseException as error:
            core_callback_failed(self, task, error, in_caller)
    return True


cdef inline bint core_run_entry(BaseTimer self, Entry* entry, const Instant* now, bint in_caller) except False:
    cdef TimerTask task
    cdef TimerBatch batch
    if entry.place != ENTRY_OF_TASK:
        batch = <TimerBatch>entry_batch(entry).object
        callback = batch_callback(batch)    # before the last index is out and somebody may release it
        indices = timer_batch_take(batch, timer_batch_room(batch, None), now)
        if len(indices):
            try:
                callback(indices)
            except BaseException as error:
                core_callback_failed(self, batch, error, in_caller)
    else:
        task = entry_task(entry)
        Py_DECREF(task)                 # the wheel's reference, of task_schedule
        core_run_task(self, task, now, in_caller)
    return True


cdef enum:
    CALLBACKS_A_LOOK = 64       # callbacks that are run before signals are looked at: Python code does so itself


cdef bint core_run_ready(BaseTimer self, bint in_caller) except False:
    """_run_ready."""
    cdef Timer* timer = self.timer
    cdef int64_t generation = timer.generation
    cdef Instant now
    cdef Entry* entry
    cdef int count = 0
    cdef object context = context_enter()
    try:
        while True:
            entry = timer_take_next(timer, &now)
            if entry is NULL:
                return True
            core_run_entry(self, entry, &now, in_caller)
            context = context_after(context)
            count += 1
            if in_caller:
                if count % CALLBACKS_A_LOOK == 0:
                    PyErr_CheckSignals()
            elif timer.generation != generation:
                return True         # the callback has forked, and this is the child, which has other threads for the rest
    finally:
        context_leave(context)
