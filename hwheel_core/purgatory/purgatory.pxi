# PurgatoryCore: adding operations, checking the operations of a key, purging, and closing.


# --- adding ----------------------------------------------------------------------------------------------------------


cdef bint purgatory_finish_checks(PurgatoryCore self, OperationCore operation, Watcher* watcher) except False:
    """Clean up after the two checks of an add, if they completed the operation or raised.

    An operation that completed before it was watched has not been counted yet. One that completed afterwards is
    removed from the lists that it has entered.
    """
    cdef bint has_left, was_watched
    with cython.critical_section(self):
        has_left = watcher.operation is NULL
        was_watched = has_left or hw_count_add(&watcher.references, 0) > 1      # references other than the caller's
    if has_left:
        purgatory_leave_lists(self, watcher)
    elif hw_peek(&operation.completed) and not was_watched:
        purgatory_count(self, &self.completed, 1)
    return True


cdef bint purgatory_start_delay(PurgatoryCore self, OperationCore operation, Watcher* watcher) except False:
    """Start the timeout of a watched operation."""
    with cython.critical_section(self):
        if watcher.operation is not NULL and task_state(&operation.task) != TASK_CANCELLED:
            watcher.delayed = True
            hw_bump(&self.delayed, 1)
    self.timer.add(operation)
    return True


cdef bint purgatory_add_watcher(PurgatoryCore self, OperationCore operation, Watcher* watcher, tuple keys,
                                bint delayed) except -1:
    """Check the operation and watch it with a new watcher. Return True if it completed here."""
    try:
        if operation_check_or_else(operation, None, self, watcher, keys):
            purgatory_finish_checks(self, operation, watcher)
            return True
    except BaseException:
        purgatory_finish_checks(self, operation, watcher)
        purgatory_withdraw(self, operation, watcher, None)
        raise
    try:
        if delayed:
            purgatory_start_delay(self, operation, watcher)
        if hw_peek(&self.closed):
            raise TimerClosed("the purgatory is closed")
    except BaseException as error:
        if purgatory_withdraw(self, operation, watcher, None) or not isinstance(error, TimerClosed):
            raise
    if not purgatory_watches(self, watcher):    # the operation was completed or returned by close() in between
        operation.cancel()
        purgatory_leave_lists(self, watcher)
    return False


cdef tuple keys_argument(object keys):
    """Return the keys as a tuple; raise TypeError or ValueError for keys that cannot be watched."""
    cdef tuple watched
    if isinstance(keys, (str, bytes)):
        raise TypeError(f"keys must be a list of keys, got one key: {keys!r}")
    watched = tuple(keys)
    for key in watched:
        key_hash(key)
    if not watched:
        raise ValueError("keys must not be empty")
    return watched if len(watched) <= FEW_KEYS else tuple(dict.fromkeys(watched))


cdef bint purgatory_add(PurgatoryCore self, OperationCore operation, object keys, bint delayed) except -1:
    """Implement try_complete_else_watch(). delayed=False: start no timeout."""
    cdef tuple watched_keys = keys_argument(keys)
    cdef Watcher* watcher
    if hw_peek(&self.closed):
        raise TimerClosed("the purgatory is closed")
    if hw_peek(&operation.completed):
        return False
    if operation_is_watched(operation) or task_state(&operation.task) == TASK_CANCELLED:
        if hw_peek(&operation.completed):       # another thread has completed the operation in between
            return False
        raise ValueError("the operation is already in a purgatory, or was cancelled; create a new one")
    watcher = watcher_new(operation, len(watched_keys))
    try:
        return purgatory_add_watcher(self, operation, watcher, watched_keys, delayed)
    finally:
        watcher_release(watcher)


# --- checking the operations of a key --------------------------------------------------------------------------------


cdef CheckedNode* checked_new(PurgatoryCore self, object key, Py_ssize_t* count_out) except? NULL:
    """Return the nodes on a key's list and their number. If the list is empty, return NULL and leave count_out unchanged."""
    cdef WatchList watch_list
    cdef WatchNode* node
    cdef CheckedNode* checked = NULL
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
        checked = <CheckedNode*>PyMem_Malloc((watch_list.length + 1) * sizeof(CheckedNode))
        if checked is not NULL:
            node = watch_list.head.next
            while node is not &watch_list.head:
                hw_count_add(&node.watcher.references, 1)       # both are dropped by checked_free
                Py_XINCREF(<PyObject*>node.watcher.operation)
                checked[count] = CheckedNode(node, <PyObject*>node.watcher.operation, False)
                count += 1
                node = node.next
    if checked is NULL:
        raise MemoryError
    if count == 0:
        PyMem_Free(checked)
        return NULL
    count_out[0] = count
    return checked


cdef bint checked_unlink_completed(PurgatoryCore self, CheckedNode* checked, Py_ssize_t count) except False:
    """Remove the nodes of completed operations from a key's list."""
    cdef WatchList watch_list = None
    cdef Py_ssize_t i
    with cython.critical_section(self):
        for i in range(count):
            if not checked[i].waits and checked[i].node.next is not NULL:
                watch_list = <WatchList>checked[i].node.watch_list
                node_unlink(checked[i].node)
    if watch_list is not None and hw_peek64(&watch_list.length) == 0:
        purgatory_drop_list(self, watch_list)
    return True


cdef void checked_free(CheckedNode* checked, Py_ssize_t count) noexcept:
    """Drop the references that checked_new took. This may free operations."""
    cdef Py_ssize_t i
    for i in range(count):
        watcher_release(checked[i].node.watcher)
        Py_XDECREF(checked[i].operation)
    PyMem_Free(checked)


cdef object checked_check(PurgatoryCore self, CheckedNode* checked, int64_t* completed, object interrupt):
    """Check one operation. Report an Exception to the timer.

    Return `interrupt`, or if that is None, an exception of another kind.
    """
    cdef OperationCore operation
    cdef bint done
    if checked.operation is NULL:
        return interrupt
    operation = <OperationCore>checked.operation
    try:
        done = operation_check(operation)
    except BaseException as error:
        done = hw_peek(&operation.completed)
        if isinstance(error, Exception):
            self.timer._report_error(operation, error)
        elif interrupt is None:
            interrupt = error
    if done:
        completed[0] += 1
    else:
        checked.waits = not hw_peek(&operation.completed)
    return interrupt


cdef class PurgatoryCore:
    """The compiled base class of DelayedOperationPurgatory."""

    @classmethod
    def __class_getitem__(cls, item):
        """Return this class unchanged, or for a subclass what its next base class returns."""
        return cls if cls is PurgatoryCore else super(PurgatoryCore, cls).__class_getitem__(item)

    def __dealloc__(self):
        watchers_release(self.to_purge)
        relock_free(&self.mutex)

    def _start_empty(self):
        """Set up the lists; in the child of a fork, drop the parent's operations. The lock repairs itself after a fork."""
        cdef Watcher* to_purge = self.to_purge
        cdef OperationCore operation
        cdef Watcher* watcher
        cdef WatchList watch_list
        lists, self.lists = self.lists or {}, {}
        self._to_return = {}
        for watch_list in lists.values():
            for operation in purgatory_drain_list(self, watch_list):
                watcher = operation_take_watcher(operation)
                if watcher is not NULL:
                    watcher_drop_operation(watcher)
                    watcher.delayed = False
                    watcher_release(watcher)
        self.delayed = self.completed = self.expired = self.purged = self.to_purge_count = 0
        self.to_purge = NULL
        watchers_release(to_purge)

    def try_complete_else_watch(self, operation, keys):
        """Complete the operation if its condition holds; otherwise watch it for the keys and start its timeout.

        The condition is checked before and again after the operation is watched, so no event in between is missed.

        Args:
            operation: A DelayedOperation that is not completed and was never in a purgatory.
            keys: At least one hashable key. Keys are compared by value; a repeated key counts once. Their ``__hash__``
                and ``__eq__`` must not use the purgatory and must not fork.

        Returns:
            True if the operation completed in this call.

        Raises:
            TypeError: ``operation`` is not a DelayedOperation, or ``keys`` is a str, not iterable, or not hashable.
            ValueError: ``keys`` is empty, or the operation is or was in a purgatory.
            TimerClosed: The purgatory or its timer is closed.
            TimerFull: The timer holds ``max_pending`` timers.
            OverflowError: The timeout ends beyond 64 bits of milliseconds.
            Exception: An exception of the operation's methods. After any error the operation is not watched.

        O(keys). Thread-safe, but only one thread may add the same operation.

        Example:
            >>> from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
            >>> class Order(DelayedOperation):
            ...     def try_complete(self):
            ...         return False
            >>> with DelayedOperationPurgatory("orders") as orders:
            ...     orders.try_complete_else_watch(Order(60_000), ["tea", "jam"])
            ...     orders.watched
            False
            2
        """
        if not isinstance(operation, OperationCore):
            raise TypeError(f"operation must be a DelayedOperation, got {type(operation).__name__}")
        return purgatory_add(self, operation, keys, True)

    def _add(self, OperationCore operation not None, keys, *, bint delayed):
        """Add an operation, with or without a timeout."""
        return purgatory_add(self, operation, keys, delayed)

    @cython.always_allow_keywords(True)
    def check_and_complete(self, key):
        """Check every operation that is watched for a key.

        Call it after every change that may make a condition true, without holding a lock that an operation may need. If
        another thread is checking an operation, that thread repeats the check.

        Args:
            key: A hashable key.

        Returns:
            The number of operations that this call completed.

        Raises:
            TypeError: The key is not hashable.
            KeyboardInterrupt, SystemExit: Raised by an operation, after all others have been checked.

        O(operations watched for the key). Thread-safe.

        Example:
            >>> from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
            >>> stock = {"tea": 0}
            >>> class Order(DelayedOperation):
            ...     def try_complete(self):
            ...         return stock["tea"] > 0 and self.force_complete()
            ...     def on_complete(self):
            ...         print("shipped")
            >>> with DelayedOperationPurgatory("orders") as orders:
            ...     completed = orders.try_complete_else_watch(Order(60_000), ["tea"])
            ...     stock["tea"] = 5
            ...     orders.check_and_complete("tea")
            shipped
            1
        """
        cdef Py_ssize_t i, count = 0
        cdef int64_t completed = 0
        cdef object interrupt = None
        cdef CheckedNode* checked = checked_new(self, key, &count)
        if count == 0:
            return 0
        try:
            for i in range(count):
                interrupt = checked_check(self, &checked[i], &completed, interrupt)
            try:
                checked_unlink_completed(self, checked, count)
            finally:
                if interrupt is not None:
                    raise interrupt
        finally:
            checked_free(checked, count)
        return completed

    def purge(self):
        """Remove the entries of completed operations from all watch lists.

        Called automatically; see ``purge_interval``.

        Returns:
            The number of entries removed.

        O(keys of the operations completed since the last purge). Thread-safe.

        Example:
            >>> from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
            >>> class Order(DelayedOperation):
            ...     def try_complete(self):
            ...         return False
            ...     def on_complete(self):
            ...         print("withdrawn")
            >>> with DelayedOperationPurgatory("orders") as orders:
            ...     order = Order(60_000)
            ...     completed = orders.try_complete_else_watch(order, ["tea", "jam"])
            ...     order.force_complete(), orders.purge()
            withdrawn
            (True, 2)
        """
        cdef Watcher* first
        cdef Watcher* watcher
        cdef int64_t purged = 0
        cdef object first_error = None
        with cython.critical_section(self):
            first = self.to_purge
            self.to_purge = NULL
            self.to_purge_count = 0
        watcher = first
        try:
            while watcher is not NULL:
                watcher_prefetch(watcher.next)
                first_error = purgatory_unlink_watcher(self, watcher, &purged, first_error)
                watcher = watcher.next
        finally:
            watchers_release(first)
            purgatory_count(self, &self.purged, purged)
        if first_error is not None:
            raise first_error
        return purged

    # --- services for hwheel.purgatory ---------------------------------------------------------------------------

    def _take(self, key):
        """Remove a key's list and return its operations. `_to_return` keeps each until close() or cancel_for_key() returns it."""
        cdef WatchList watch_list
        relock_acquire(&self.mutex, self)
        try:
            watch_list = self.lists.pop(key, None)
        finally:
            relock_release(&self.mutex)
        if watch_list is None:
            return []
        taken = purgatory_drain_list(self, watch_list)
        for operation in taken:
            self._to_return[id(operation)] = operation
        return taken

    def _withdraw_all(self):
        """Withdraw all operations and record them in `_to_return`. May be called again after an interruption."""
        cdef WatchList watch_list
        while (waiting := purgatory_operations(self)):
            for operation in waiting:
                self._withdraw(operation, self._to_return)
        # The lists now hold only nodes of completed operations.
        relock_acquire(&self.mutex, self)
        try:
            lists, self.lists = self.lists, {}
        finally:
            relock_release(&self.mutex)
        for watch_list in lists.values():           # purge() reaches a list from its nodes, so no node may stay
            purgatory_drain_list(self, watch_list)

    def _withdraw(self, OperationCore operation not None, dict left=None):
        """Stop watching an operation that is not completed, and cancel its timeout.

        `left`: a dict to which the operation is added in the same step. Return False if it is no longer watched.
        """
        cdef bint withdrawn = False
        cdef Watcher* watcher = NULL
        with cython.critical_section(self):
            if operation.watcher is not NULL and operation_purgatory(operation) is self:
                watcher = operation.watcher
                hw_count_add(&watcher.references, 1)
        if watcher is not NULL:
            try:
                withdrawn = purgatory_withdraw(self, operation, watcher, left)
            finally:
                watcher_release(watcher)
        return withdrawn

    def _forget_completed(self):
        """Drop the watchers that wait for a purge. close() has emptied the lists."""
        cdef Watcher* to_purge
        with cython.critical_section(self):
            to_purge = self.to_purge
            self.to_purge = NULL
            self.to_purge_count = 0
        watchers_release(to_purge)

    def _key_count(self):
        """Return the number of keys that have a list."""
        relock_acquire(&self.mutex, self)
        try:
            return len(self.lists)
        finally:
            relock_release(&self.mutex)

    def _counters(self):
        """Return (watched, delayed, completed, expired, purged)."""
        cdef int64_t watched = 0
        cdef WatchList watch_list
        relock_acquire(&self.mutex, self)
        try:
            for watch_list in self.lists.values():
                watched += hw_peek64(&watch_list.length)
        finally:
            relock_release(&self.mutex)
        with cython.critical_section(self):
            counters = watched, self.delayed, self.completed, self.expired, self.purged
        return counters

    @property
    def _closed(self):
        return hw_peek(&self.closed) != 0

    @_closed.setter
    def _closed(self, bint closed):
        hw_poke(&self.closed, closed)

    @property
    def num_delayed(self):
        """The number of operations whose timeout is pending. O(1)."""
        return hw_peek64(&self.delayed)
