# How operations come into a PurgatoryCore's watch lists, are looked at there, and leave them. The locks are explained
# in purgatory_core.pxi.

cdef enum:
    FEW_KEYS = 8            # of more it is found out beforehand which are given twice
    SPARE_ROOM = 64         # keys that may leave the dict before it is made anew, beside twice as many as are there


cdef struct Seen:
    # Of a node that a check has found: references to its watcher and to its operation, NULL if that was completed.
    WatchNode* node
    PyObject* operation
    bint waits              # still, after it was checked


# --- adding ------------------------------------------------------------------------------------------------------

cdef bint purgatory_add(PurgatoryCore self, OperationCore operation, object keys, bint delayed) except -1:
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
    if self._closed:
        raise TimerClosed("the purgatory is closed")
    if operation.completed:
        return False
    if operation.watcher is not NULL or operation.task.state == TASK_CANCELLED:
        raise ValueError("this operation is in a purgatory already, or was cancelled; make a new one")
    while True:
        process = forks
        watcher = watcher_new(operation, len(watched_keys))
        try:
            if purgatory_add_watcher(self, operation, watcher, watched_keys, delayed, again):
                return True
            if process == forks or self._closed or operation.completed or operation.task.state == TASK_CANCELLED:
                return False
            # One of the calls has forked, and this is the child, whose lists were emptied meanwhile: it is added anew.
            purgatory_leave(self, operation, watcher)
            again = True
        finally:
            watcher_release(watcher)


cdef bint purgatory_add_watcher(PurgatoryCore self, OperationCore operation, Watcher* watcher, tuple keys,
                                bint delayed, bint again) except -1:
    """False, too, if a call has forked and this is the child, whatever has become of the watcher there."""
    cdef uintptr_t process = forks
    try:
        if operation_check_or_else(operation, None, self, watcher, keys):
            if watcher.operation is not NULL:
                purgatory_count(self, &self.completed, 1)   # at the first look: it was never watched
            else:
                purgatory_leave_lists(self, watcher)        # at the second: it leaves the lists that it was put into
            return True
        if process != forks:
            return False
        if delayed:
            with cython.critical_section(self):
                if watcher.operation is not NULL and operation.task.state != TASK_CANCELLED:
                    watcher.delayed = True
                    self.delayed += 1
            if not again or operation.task.state != TASK_PENDING:       # or is the timer's: its add has forked
                self.timer.add(operation)
        if self._closed:
            raise TimerClosed("the purgatory is closed")
        if process != forks:
            return False
    except BaseException as error:
        if purgatory_withdraw(self, operation, watcher, None) or not isinstance(error, TimerClosed):
            raise
    if watcher.operation is NULL:               # completed meanwhile, or among what close() returned
        operation.cancel()
        purgatory_leave_lists(self, watcher)
    return False


cdef bint purgatory_watch(PurgatoryCore self, OperationCore operation, Watcher* watcher, tuple keys) except False:
    """Begins to watch. Called under the operation's lock."""
    cdef WatchList watch_list
    cdef Py_ssize_t i, j
    cdef bint entered = False
    if operation.completed:                     # by a first look that did not say so
        return True
    with cython.critical_section(self):
        if operation.watcher is NULL:
            entered = True
            hw_count_add(&watcher.references, 1)        # of OperationCore.watcher
            operation.watcher = watcher
            operation.purgatory = self
    if not entered:
        raise ValueError("this operation is in a purgatory already")
    for i in range(len(keys)):
        key = keys[i]
        key_hash(key)
        relock_acquire(&self.mutex, self)
        try:
            watch_list = self.lists.get(key)
            if watch_list is None:
                watch_list = self.lists.setdefault(key, watch_list_new(key))
            with cython.critical_section(self):
                for j in range(i if len(keys) <= FEW_KEYS else 0):
                    if watcher.nodes[j].next is not NULL and watcher.nodes[j].watch_list is <void*>watch_list:
                        break                   # a key that was given twice
                else:
                    if watcher.operation is not NULL:       # completed, or returned by close(), since it began
                        node_link(&watcher.nodes[i], watcher, watch_list)
            if watch_list.length == 0:
                self.lists.pop(key, None)
        finally:
            relock_release(&self.mutex)
    return True


cdef inline bint key_hash(object key) except False:
    """Calls a key's __hash__; a str has its hash with it."""
    if not PyUnicode_CheckExact(key):
        hash(key)
    return True


# --- leaving -----------------------------------------------------------------------------------------------------

cdef bint purgatory_completed_one(PurgatoryCore self, OperationCore operation, Watcher* watcher) except False:
    """The watcher's operation has been completed, by the caller, who gives the reference to the watcher away."""
    cdef bint due
    with cython.critical_section(self):
        watcher_let_go(watcher)
        self.completed += 1
        watcher_delayed_no_more(self, watcher)
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


cdef bint purgatory_withdraw(PurgatoryCore self, OperationCore operation, Watcher* watcher, dict left) except -1:
    """_withdraw, for who has a reference to the watcher; also one that was never entered, by an add that failed."""
    if not purgatory_end_watch(self, operation, watcher):
        return False
    if left is not None:
        left[id(operation)] = operation
    try:
        purgatory_leave_lists(self, watcher)
    finally:
        if operation.task.state == TASK_PENDING:
            operation.cancel()
    return True


cdef bint purgatory_end_watch(PurgatoryCore self, OperationCore operation, Watcher* watcher) except -1:
    """The operation and its watcher let go of each other. False if they had before."""
    cdef Watcher* own = NULL
    with cython.critical_section(self):
        if watcher.operation is NULL:
            return False
        watcher_let_go(watcher)
        watcher_delayed_no_more(self, watcher)
        if operation.watcher is watcher:
            own = watcher
            operation.watcher = NULL
    if own is not NULL:
        watcher_release(own)
    return True


cdef bint purgatory_leave(PurgatoryCore self, OperationCore operation, Watcher* watcher) except False:
    """Undoes an add, but for the timeout, if that runs already."""
    purgatory_end_watch(self, operation, watcher)
    purgatory_leave_lists(self, watcher)
    return True


cdef bint purgatory_leave_lists(PurgatoryCore self, Watcher* watcher) except False:
    """Takes a watcher, which its operation has left, off all lists that it is on."""
    cdef int64_t removed = 0
    trouble = purgatory_unwatch(self, watcher, &removed, None)
    if trouble is not None:
        raise trouble
    return True


cdef object purgatory_unwatch(PurgatoryCore self, Watcher* watcher, int64_t* removed, object trouble):
    """purgatory_leave_lists, and counts the lists. Returns `trouble`, or if that is None what the comparison of a key
    raised: it keeps nobody else on a list."""
    cdef WatchList watch_list
    cdef list emptied = None
    cdef Py_ssize_t i
    with cython.critical_section(self):
        for i in range(watcher.count):
            if watcher.nodes[i].next is not NULL:
                watch_list = <WatchList>watcher.nodes[i].watch_list
                node_unlink(&watcher.nodes[i])
                removed[0] += 1
                if watch_list.length == 0:
                    if emptied is None:
                        emptied = []
                    emptied.append(watch_list)
    if emptied is not None:
        for watch_list in emptied:
            try:
                forget_list(self, watch_list)
            except BaseException as error:
                if trouble is None:
                    trouble = error
    return trouble


cdef bint forget_list(PurgatoryCore self, WatchList watch_list) except False:
    """Drops a list that has become empty, if it is still that."""
    key = watch_list.key
    relock_acquire(&self.mutex, self)
    try:
        if watch_list.length == 0 and self.lists.get(key) is watch_list:
            self.lists.pop(key, None)
            if watch_list.length:           # the comparison of a key has added something
                self.lists[key] = watch_list
            self.forgotten += 1
            if self.forgotten > 2 * len(self.lists) + SPARE_ROOM:
                self.forgotten = 0
                self.lists = self.lists.copy()      # a dict keeps the room of what has left it; amortised O(1)
    finally:
        relock_release(&self.mutex)
    return True


cdef object take_operations(PurgatoryCore self, WatchList watch_list):
    """Empties a list that is no key's any more, and returns the operations that were on it."""
    cdef list taken = []
    cdef WatchNode* node
    with cython.critical_section(self):
        while watch_list.head.next is not &watch_list.head:
            node = watch_list.head.next
            if node.watcher.operation is not NULL:
                taken.append(<object>node.watcher.operation)
            node_unlink(node)
    return taken


cdef list all_operations(PurgatoryCore self):
    """What is on all lists now; one may come more than once."""
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


cdef inline void watcher_delayed_no_more(PurgatoryCore self, Watcher* watcher) noexcept:
    if watcher.delayed:
        watcher.delayed = False
        self.delayed -= 1


cdef inline void purgatory_count(PurgatoryCore self, int64_t* counter, int64_t change) noexcept:
    with cython.critical_section(self):
        counter[0] += change


cdef inline void watcher_fetch(Watcher* watcher) noexcept:
    """Prefetches what purgatory_unwatch will touch, which lies scattered over memory; and the next one itself."""
    cdef Py_ssize_t i
    if watcher is not NULL:
        hw_prefetch(watcher.next)
        for i in range(watcher.count):
            hw_prefetch(watcher.nodes[i].prev)
            hw_prefetch(watcher.nodes[i].next)


cdef void watchers_release(Watcher* first) noexcept:
    """Drops the references of a list that is linked by Watcher.next."""
    cdef Watcher* following
    while first is not NULL:
        following = first.next
        watcher_release(first)
        first = following


# --- checking ----------------------------------------------------------------------------------------------------

cdef bint purgatory_check(PurgatoryCore self, OperationCore operation) except -1:
    """safe_try_complete(), with errors reported."""
    try:
        return operation_check(operation)
    except Exception as error:
        self.timer._report(operation, error)
        return operation.completed


cdef object purgatory_blame(PurgatoryCore self, OperationCore operation, object error, object interrupt):
    """An operation that was checked has raised. Returns what the caller shall raise in the end, if anything."""
    if isinstance(error, Exception):
        self.timer._report(operation, error)
    elif interrupt is None:
        return error
    return interrupt


cdef Seen* watching(PurgatoryCore self, object key, Py_ssize_t* count_out) except? NULL:
    """What is on a key's list now; NULL if nothing is."""
    cdef WatchList watch_list
    cdef WatchNode* node
    cdef Seen* seen = NULL
    cdef Py_ssize_t count = 0
    key_hash(key)
    relock_acquire(&self.mutex, self)
    try:
        watch_list = self.lists.get(key)
    finally:
        relock_release(&self.mutex)
    if watch_list is None:
        return NULL
    with cython.critical_section(self):
        seen = <Seen*>PyMem_Malloc((watch_list.length + 1) * sizeof(Seen))
        if seen is not NULL:
            node = watch_list.head.next
            while node is not &watch_list.head:
                hw_count_add(&node.watcher.references, 1)       # both dropped by check_and_complete
                Py_XINCREF(<PyObject*>node.watcher.operation)
                seen[count] = Seen(node, <PyObject*>node.watcher.operation, False)
                count += 1
                node = node.next
    if seen is NULL:
        raise MemoryError
    if count == 0:
        PyMem_Free(seen)
        return NULL
    count_out[0] = count
    return seen


cdef bint unlink_those_gone(PurgatoryCore self, Seen* seen, Py_ssize_t count) except False:
    """Takes off a key's list what a check has not found waiting."""
    cdef WatchList watch_list = None
    cdef Py_ssize_t i
    with cython.critical_section(self):
        for i in range(count):
            if not seen[i].waits and seen[i].node.next is not NULL:
                watch_list = <WatchList>seen[i].node.watch_list
                node_unlink(seen[i].node)
    if watch_list is not None and watch_list.length == 0:
        forget_list(self, watch_list)
    return True
