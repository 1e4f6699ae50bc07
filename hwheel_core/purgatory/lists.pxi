# The dict of a purgatory's watch lists: how an operation enters the lists of its keys, how it leaves them, and the counters.
# structs.pxd names the locks.
#
# `__hash__` and `__eq__` of a key must not use the purgatory and must not fork.

cdef enum:
    FEW_KEYS = 8            # among more keys than this, keys_argument removes duplicates
    SPARE_ROOM = 64         # removed keys that the dict may keep room for, beyond twice its size


cdef inline bint key_hash(object key) except False:
    """Call a key's __hash__. A str caches its hash."""
    if not PyUnicode_CheckExact(key):
        hash(key)
    return True


cdef bint lists_drop_empty(PurgatoryCore self, object key) except False:
    """Remove a key's empty list from the dict."""
    cdef WatchList watch_list = self.lists.pop(key, None)
    # A finalizer or signal handler may have watched the key again inside the key's comparison.
    if watch_list is not None and hw_peek64(&watch_list.length):
        self.lists.setdefault(key, watch_list)
    return True


cdef inline PurgatoryCore operation_purgatory(OperationCore self):
    """Return the purgatory that the operation was last added to. Without a GIL another thread may be adding it now."""
    cdef PurgatoryCore purgatory
    orphans_lock_without_gil()
    purgatory = self.purgatory
    orphans_unlock_without_gil()
    return purgatory


cdef inline void operation_set_purgatory(OperationCore self, PurgatoryCore purgatory) noexcept:
    cdef PurgatoryCore before = operation_purgatory(self)       # released after the mutex
    orphans_lock_without_gil()
    self.purgatory = purgatory
    orphans_unlock_without_gil()


# --- entering --------------------------------------------------------------------------------------------------------


cdef bint purgatory_claim(PurgatoryCore self, OperationCore operation, Watcher* watcher) except False:
    """Give the watcher to the operation."""
    cdef bint claimed = False
    with cython.critical_section(self):
        if operation.watcher is NULL:
            claimed = True
            hw_count_add(&watcher.references, 1)        # held by OperationCore.watcher
            operation.watcher = watcher
            operation_set_purgatory(operation, self)
    if not claimed:
        raise ValueError("the operation is already in a purgatory")
    return True


cdef bint purgatory_watch_key(PurgatoryCore self, Watcher* watcher, Py_ssize_t index, object key,
                              bint check_repeats) except False:
    """Link the watcher's node `index` into the list of a key, unless an earlier node is in the same list."""
    cdef WatchList watch_list
    cdef Py_ssize_t i
    key_hash(key)                               # before the lock is taken, because __hash__ may wait for other threads
    relock_acquire(&self.mutex, self)
    try:
        watch_list = self.lists.get(key)
        if watch_list is None:
            watch_list = self.lists.setdefault(key, watch_list_new(key))
        with cython.critical_section(self):
            for i in range(index if check_repeats else 0):
                if watcher.nodes[i].next is not NULL and watcher.nodes[i].watch_list is <void*>watch_list:
                    break
            else:
                if watcher.operation is not NULL:       # NULL: completed or closed in between
                    node_link(&watcher.nodes[index], watcher, watch_list)
        if hw_peek64(&watch_list.length) == 0:
            lists_drop_empty(self, key)
    finally:
        relock_release(&self.mutex)
    return True


cdef bint purgatory_enter_lists(PurgatoryCore self, OperationCore operation, Watcher* watcher, tuple keys) except False:
    """Start to watch an operation. The caller holds the operation's lock."""
    cdef Py_ssize_t i
    if hw_peek(&operation.completed):           # try_complete completed it, but returned False
        return True
    purgatory_claim(self, operation, watcher)
    for i in range(len(keys)):
        purgatory_watch_key(self, watcher, i, keys[i], len(keys) <= FEW_KEYS)
    return True


# --- leaving ---------------------------------------------------------------------------------------------------------


cdef bint purgatory_drop_list(PurgatoryCore self, WatchList watch_list) except False:
    """Remove a list from the dict if it is empty."""
    key = watch_list.key
    relock_acquire(&self.mutex, self)
    try:
        if hw_peek64(&watch_list.length) == 0 and self.lists.get(key) is watch_list:
            lists_drop_empty(self, key)
            self.forgotten += 1
            # A dict keeps the room of removed keys, so it is copied now and then; amortized O(1). Never inside a key's
            # comparison (depth 2): the outer operation would continue on the old dict.
            if self.forgotten > 2 * len(self.lists) + SPARE_ROOM and self.mutex.depth == 1:
                self.forgotten = 0
                self.lists = self.lists.copy()
    finally:
        relock_release(&self.mutex)
    return True


cdef object purgatory_unlink_watcher(PurgatoryCore self, Watcher* watcher, int64_t* removed, object first_error):
    """Remove all nodes of a watcher from their lists and add their number to `removed`.

    Return `first_error`, or the first exception that a key's comparison raised: an error keeps no other node in a list.
    """
    cdef WatchList watch_list
    cdef Py_ssize_t i
    for i in range(watcher.count):
        watch_list = None
        with cython.critical_section(self):
            if watcher.nodes[i].next is not NULL:
                watch_list = <WatchList>watcher.nodes[i].watch_list
                node_unlink(&watcher.nodes[i])
                removed[0] += 1
        if watch_list is not None and hw_peek64(&watch_list.length) == 0:
            try:
                purgatory_drop_list(self, watch_list)
            except BaseException as error:
                if first_error is None:
                    first_error = error
    return first_error


cdef bint purgatory_leave_lists(PurgatoryCore self, Watcher* watcher) except False:
    """Remove a watcher from all lists, then raise the first error of a key's comparison."""
    cdef int64_t removed = 0
    error = purgatory_unlink_watcher(self, watcher, &removed, None)
    if error is not None:
        raise error
    return True


cdef object purgatory_drain_list(PurgatoryCore self, WatchList watch_list):
    """Empty a list that is no longer in the dict and return its operations."""
    cdef list taken = []
    cdef WatchNode* node
    with cython.critical_section(self):
        while watch_list.head.next is not &watch_list.head:
            node = watch_list.head.next
            if node.watcher.operation is not NULL:
                taken.append(<object>node.watcher.operation)
            node_unlink(node)
    return taken


cdef list purgatory_operations(PurgatoryCore self):
    """Return the operations on all lists. An operation with several keys is listed several times."""
    cdef WatchList watch_list
    cdef WatchNode* node
    cdef list waiting = []
    relock_acquire(&self.mutex, self)
    try:
        for watch_list in [*self.lists.values()]:
            with cython.critical_section(self):
                node = watch_list.head.next
                while node is not &watch_list.head:
                    if node.watcher.operation is not NULL:
                        waiting.append(<object>node.watcher.operation)
                    node = node.next
    finally:
        relock_release(&self.mutex)
    return waiting


# --- the end of a watch ----------------------------------------------------------------------------------------------


cdef inline void purgatory_count(PurgatoryCore self, int64_t* counter, int64_t change) noexcept:
    with cython.critical_section(self):
        counter[0] += change


cdef inline void purgatory_end_delay(PurgatoryCore self, Watcher* watcher) noexcept:
    """Record that an operation's timeout is no longer pending. The caller is in the critical section."""
    if watcher.delayed:
        watcher.delayed = False
        hw_bump(&self.delayed, -1)


cdef inline bint purgatory_watches(PurgatoryCore self, Watcher* watcher) noexcept:
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
    """Detach and return the watcher, or NULL. The caller receives its reference and must end the watch."""
    cdef Watcher* watcher = NULL
    cdef PurgatoryCore purgatory = operation_purgatory(self)
    if purgatory is not None:
        with cython.critical_section(purgatory):
            watcher = self.watcher
            self.watcher = NULL
    return watcher


cdef bint purgatory_end_watch(PurgatoryCore self, OperationCore operation, Watcher* watcher) except False:
    """End the watch of a completed operation. Takes over the caller's reference to the watcher."""
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
        except Exception as error:              # raised by the key of another operation
            self.timer._report_error(operation, error)
    return True


cdef bint purgatory_unwatch(PurgatoryCore self, OperationCore operation, Watcher* watcher) except -1:
    """Separate an operation from its watcher. Return False if they were separated before."""
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
    """Stop watching an operation that is not completed, and cancel its timeout. `left`: a dict that records it, or None.

    The caller holds a reference to the watcher. Return False if the operation was not watched any more.
    """
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
