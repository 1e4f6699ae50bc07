# How the watch of an operation ends: because the operation is completed, or because it is withdrawn; and the counters.


cdef inline void purgatory_count(PurgatoryCore self, int64_t* counter, int64_t change) noexcept:
    """Adds to one of the purgatory's counters."""
    with cython.critical_section(self):
        counter[0] += change


cdef inline void purgatory_end_delay(PurgatoryCore self, Watcher* watcher) noexcept:
    """The timeout of a watched operation is not to come any more; called in the critical section."""
    if watcher.delayed:
        watcher.delayed = False
        hw_bump(&self.delayed, -1)


cdef inline bint purgatory_watches(PurgatoryCore self, Watcher* watcher) noexcept:
    """Whether the watcher, of which the caller has a reference, still has its operation."""
    cdef bint watches
    with cython.critical_section(self):
        watches = watcher.operation is not NULL
    return watches


cdef inline bint operation_is_watched(OperationCore self) noexcept:
    cdef bint watched = False
    cdef PurgatoryCore purgatory = operation_purgatory(self)
    if purgatory is not None:
        with cython.critical_section(purgatory):
            watched = self.watcher is not NULL
    return watched


cdef inline Watcher* operation_take_watcher(OperationCore self):
    """Whoever gets the watcher ends the watch; its reference is the caller's."""
    cdef Watcher* watcher = NULL
    cdef PurgatoryCore purgatory = operation_purgatory(self)
    if purgatory is not None:
        with cython.critical_section(purgatory):
            watcher = self.watcher
            self.watcher = NULL
    return watcher


cdef bint purgatory_end_watch(PurgatoryCore self, OperationCore operation, Watcher* watcher) except False:
    """The watcher's operation has been completed, by the caller, who gives the reference to the watcher away."""
    cdef bint due
    with cython.critical_section(self):
        watcher_drop_operation(watcher)
        self.completed += 1
        purgatory_end_delay(self, watcher)
        watcher.next = self.to_purge
        self.to_purge = watcher
        self.to_purge_count += 1
        due = self.to_purge_count > self.purge_interval
    if due:
        try:
            self.purge()
        except Exception as error:              # of another operation's key
            self.timer._report(operation, error)
    return True


cdef bint purgatory_unwatch(PurgatoryCore self, OperationCore operation, Watcher* watcher) except -1:
    """The operation and its watcher let go of each other. False if they had before."""
    cdef Watcher* own = NULL
    with cython.critical_section(self):
        if watcher.operation is NULL:
            return False
        watcher_drop_operation(watcher)
        purgatory_end_delay(self, watcher)
        if operation.watcher is watcher:
            own = watcher
            operation.watcher = NULL
    if own is not NULL:
        watcher_release(own)
    return True


cdef bint purgatory_withdraw(PurgatoryCore self, OperationCore operation, Watcher* watcher, dict left) except -1:
    """_withdraw, for who has a reference to the watcher; also one that was never entered, by an add that failed."""
    if not purgatory_unwatch(self, operation, watcher):
        return False
    if left is not None:
        left[id(operation)] = operation
    try:
        purgatory_leave_lists(self, watcher)
    finally:
        if task_state(&operation.task) == TASK_PENDING:
            operation.cancel()
    return True
