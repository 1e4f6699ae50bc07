# What is ready is run, by a thread of the timer's own or by the caller's.


cdef bint callback_failed(TimerCore self, object source, object error, bint in_caller) except False:
    """Reports what a callback raised; or raises it, where it is the caller's."""
    if in_caller and (self._raises or isinstance(error, (KeyboardInterrupt, SystemExit))):
        raise error
    self._report(source, error)
    return True


cdef bint run_task_of_subclass(TimerCore self, TimerTask task, bint in_caller) except False:
    try:
        task_track(task)
        if task.task.flags & TASK_REPEATS:
            periodic_run(task)
        else:
            task.run()
    except BaseException as error:
        callback_failed(self, task, error, in_caller)
    finally:
        if task.task.flags & TASK_REPEATS:
            self._restart(task)
    return True


cdef inline bint run_task(TimerCore self, TimerTask task, bint in_caller) except False:
    if task_has_attributes(task):
        return run_task_of_subclass(self, task, in_caller)
    # No try block on this way: it costs as much as the rest of what is done here.
    if not task_called_once(task):
        try:
            raise_error()
        except BaseException as error:
            callback_failed(self, task, error, in_caller)
    return True


cdef inline bint run_entry(TimerCore self, Entry* entry, const Instant* now, bint in_caller) except False:
    cdef TimerTask task
    cdef TimerBatch batch
    if entry.place == ENTRY_OF_BATCH:
        batch = <TimerBatch>entry_batch(entry).object
        callback = batch.callback_      # before the last index is out and somebody may release it
        indices = take_indices(batch, now)
        if batch.batch.pending == 0:
            batch.callback_ = None
        if len(indices):
            try:
                callback(indices)
            except BaseException as error:
                callback_failed(self, batch, error, in_caller)
    else:
        task = entry_task(entry)
        Py_DECREF(task)                 # the wheel's reference, of schedule_task
        run_task(self, task, in_caller)
    return True


cdef enum:
    CALLBACKS_A_LOOK = 64       # callbacks that are run before signals are looked at: Python code does so itself


cdef bint run_ready(TimerCore self, bint in_caller) except False:
    """_run_ready."""
    cdef Timer* timer = self.timer
    cdef int64_t generation = timer.generation
    cdef Instant now
    cdef Entry* entry
    cdef int count = 0
    while True:
        entry = pop_next(timer, &now)
        if entry is NULL:
            return True
        run_entry(self, entry, &now, in_caller)
        count += 1
        if in_caller:
            if count % CALLBACKS_A_LOOK == 0:
                PyErr_CheckSignals()
        elif timer.generation != generation:
            return True             # the callback has forked, and this is the child, which has other threads for the rest
