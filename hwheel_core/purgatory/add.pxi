# How an operation comes into a purgatory.


cdef bint purgatory_end_looks(PurgatoryCore self, OperationCore operation, Watcher* watcher) except False:
    """After the two looks at an operation that is added, if they have completed it, or one has raised. One that was completed
    before it was watched has not been counted yet; one that was watched by then leaves the lists that it was put into."""
    cdef bint has_left, was_watched
    with cython.critical_section(self):
        has_left = watcher.operation is NULL
        was_watched = has_left or hw_count_add(&watcher.references, 0) > 1        # others than the caller's
    if has_left:
        purgatory_leave_lists(self, watcher)
    elif hw_peek(&operation.completed) and not was_watched:
        purgatory_count(self, &self.completed, 1)
    return True


cdef bint purgatory_add_watcher(PurgatoryCore self, OperationCore operation, Watcher* watcher, tuple keys,
                                bint delayed, bint again) except -1:
    """purgatory_add, once the arguments are looked at. The watcher has not been entered yet. False, too, if a call has forked
    and this is the child, whatever has become of the watcher there."""
    cdef uintptr_t process = forks
    try:
        if operation_check_or_else(operation, None, self, watcher, keys):
            purgatory_end_looks(self, operation, watcher)
            return True
    except BaseException:
        purgatory_end_looks(self, operation, watcher)
        purgatory_withdraw(self, operation, watcher, None)
        raise
    try:
        if process != forks:
            return False
        if delayed:
            with cython.critical_section(self):
                if watcher.operation is not NULL and task_state(&operation.task) != TASK_CANCELLED:
                    watcher.delayed = True
                    hw_bump(&self.delayed, 1)
            if not again or task_state(&operation.task) != TASK_PENDING:       # or is the timer's: its add has forked
                self.timer.add(operation)
        if hw_peek(&self.closed):
            raise TimerClosed("the purgatory is closed")
        if process != forks:
            return False
    except BaseException as error:
        if purgatory_withdraw(self, operation, watcher, None) or not isinstance(error, TimerClosed):
            raise
    if not purgatory_watches(self, watcher):    # completed meanwhile, or among what close() returned
        operation.cancel()
        purgatory_leave_lists(self, watcher)
    return False


cdef bint purgatory_add(PurgatoryCore self, OperationCore operation, object keys, bint delayed) except -1:
    """try_complete_else_watch(), or without a timeout. True if the operation was completed here."""
    cdef tuple watched_keys
    cdef Watcher* watcher
    cdef uintptr_t process
    cdef bint again = False
    if isinstance(keys, (str, bytes)):
        raise TypeError(f"keys must be a list of keys, not one key: {keys!r}")
    watched_keys = tuple(keys)
    for key in watched_keys:
        key_hash(key)                           # a TypeError if one of them cannot be hashed
    if not watched_keys:
        raise ValueError("the list of keys must not be empty")
    if len(watched_keys) > FEW_KEYS:
        watched_keys = tuple(dict.fromkeys(watched_keys))
    if hw_peek(&self.closed):
        raise TimerClosed("the purgatory is closed")
    if hw_peek(&operation.completed):
        return False
    if operation_is_watched(operation) or task_state(&operation.task) == TASK_CANCELLED:
        if hw_peek(&operation.completed):       # by another thread, since it was looked at
            return False
        raise ValueError("this operation is in a purgatory already, or was cancelled; make a new one")
    while True:
        process = forks
        watcher = watcher_new(operation, len(watched_keys))
        try:
            if purgatory_add_watcher(self, operation, watcher, watched_keys, delayed, again):
                return True
            if process == forks or hw_peek(&self.closed) or hw_peek(&operation.completed) or task_state(&operation.task) == TASK_CANCELLED:
                return False
            # One of the calls has forked, and this is the child, whose lists were emptied meanwhile: it is added anew.
            purgatory_unwatch(self, operation, watcher)
            purgatory_leave_lists(self, watcher)
            again = True
        finally:
            watcher_release(watcher)
