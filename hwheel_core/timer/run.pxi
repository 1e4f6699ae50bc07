# Running ready entries, in a thread of the timer or of the caller; and advancing a timer in virtual time.


cdef bint core_callback_failed(BaseTimer self, object source, object error, bint in_caller) except False:
    """Report the exception of a callback, or raise it in the caller's thread if the caller wants it."""
    if in_caller and (self._raises or isinstance(error, (KeyboardInterrupt, SystemExit))):
        raise error
    self._report_error(source, error)
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
    # No try block on the common path: it costs as much as the rest of this function.
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
        callback = batch_callback(batch)    # first: taking the last index may release it
        indices = timer_batch_take(batch, timer_batch_array(batch, None), now)
        if len(indices):
            try:
                callback(indices)
            except BaseException as error:
                core_callback_failed(self, batch, error, in_caller)
    else:
        task = entry_task(entry)
        Py_DECREF(task)                 # the wheel's reference, from task_schedule
        core_run_task(self, task, now, in_caller)
    return True


cdef enum:
    CALLBACKS_PER_SIGNAL_CHECK = 64     # compiled callbacks do not check for signals themselves


# When a Python function begins, CPython passes the GIL to a thread that waits for it. A series of compiled callbacks would never
# pass it on, so this function is called in between.
cdef object let_others_run = eval("lambda: None")


cdef bint core_run_ready(BaseTimer self, bint in_caller) except False:
    """Run everything that is ready, in order."""
    cdef Timer* timer = self.timer
    cdef int64_t generation = timer.generation
    cdef Instant now
    cdef Entry* entry
    cdef int count = 0
    cdef Turn turn
    cdef object context = context_enter()
    turn_begin(&turn)
    try:
        while True:
            entry = timer_take_next(timer, &now)
            if entry is NULL:
                return True
            core_run_entry(self, entry, &now, in_caller)
            context = context_after(context)
            count += 1
            if turn_is_over(&turn):
                turn_begin(&turn)
                let_others_run()
            if in_caller:
                if count % CALLBACKS_PER_SIGNAL_CHECK == 0:
                    PyErr_CheckSignals()
            elif timer.generation != generation:
                return True         # the callback has forked; the child has other threads for the rest
    finally:
        context_leave(context)


# --- virtual time ------------------------------------------------------------------------------------------------


cdef bint core_run_until(BaseTimer self, int64_t target_ms) except False:
    """Advance a manual timer to a time, one tick with entries after another, and run the callbacks of each tick."""
    cdef Timer* timer = self.timer
    cdef int64_t next_ms = 0, mine
    cdef bint ready, more
    core_check_set_up(self)
    if timer.clock != CLOCK_KIND_MANUAL:
        raise RuntimeError("only the clock of a manual timer can be advanced")
    if hw_peek(&timer.closed):
        raise TimerClosed("the timer is closed")
    mine = timer.generation + 1
    with cython.critical_section(self):
        if self.advancing == mine:
            raise RuntimeError("advance() is already running in this timer")
        self.advancing = mine
    try:
        while not hw_flag(&timer.stopping):
            lock_with_gil(timer)
            more = timer_next_locked(timer, &next_ms) and next_ms <= target_ms
            ready = not list_is_empty(&timer.ready)
            if not ready and not more:
                timer.latest_reading.ms = max(target_ms, timer.latest_reading.ms)
                lock_release(timer)
                return True
            lock_release(timer)
            if not ready:               # ready entries belong to the current tick: run them first
                with nogil:
                    timer_advance_manual(timer, next_ms)
            PyErr_CheckSignals()
            core_run_ready(self, True)
    finally:
        with cython.critical_section(self):
            self.advancing = 0
    return True


cdef bint core_advance_by(BaseTimer self, object seconds) except False:
    """Implement ManualTimer.advance."""
    cdef int64_t ms, target_ms
    cdef Instant now
    core_check_set_up(self)
    ms = whole_milliseconds(seconds, "seconds")
    timer_read_clock(self.timer, &now)
    if hw_add_overflows(now.ms, ms, &target_ms):
        raise OverflowError(f"the time does not fit into 64 bits of milliseconds: now + {seconds} s")
    return core_run_until(self, target_ms)


cdef bint core_advance_to(BaseTimer self, object when) except False:
    """Implement ManualTimer.advance_to."""
    cdef int64_t target_ms
    cdef Instant now
    core_check_set_up(self)
    target_ms = whole_milliseconds(when, "when")
    timer_read_clock(self.timer, &now)
    if target_ms < now.ms:
        raise ValueError(f"when must not be before the current time of {self.time()} s, got {when} s")
    return core_run_until(self, target_ms)
