# PurgatoryCore: what hwheel.purgatory.DelayedOperationPurgatory does for each operation.
#
# Locks. Watchers, nodes, the lengths of lists and the counters are guarded by the GIL; where there is none, by the
# purgatory's critical section. They are changed by a few lines of C each time, which call nothing and drop no last
# reference, and take no lock.
#
# `mutex` guards the dict of the lists: finding or making a key's list and linking a node to it is one step for who
# wants to drop a list that has become empty. It is held for one operation on the dict, and no other lock is taken under
# it. The comparison of keys does run under it (their hash is asked for before as well, as who is called there may want
# to wait for other threads), and so may a finaliser or a signal handler; because these may come back here, it is
# reentrant.

cdef enum:
    FEW_KEYS = 8            # of which each is compared with all others
    SPARE_ROOM = 64         # keys that may leave the dict before it is made anew, beside twice as many as are there


cdef struct Seen:
    # Of a node that a check has found: references to its watcher and to its operation, NULL if that was completed.
    WatchNode* node
    PyObject* operation
    bint waits              # still, after it was checked


cdef class PurgatoryCore:
    """The compiled part of a DelayedOperationPurgatory, which brings the timer and the rest."""
    cdef public object timer
    cdef public bint _closed
    cdef public int64_t purge_interval
    cdef ReentrantLock mutex
    cdef dict lists                 # key: WatchList; none that is empty, but for a moment
    cdef int64_t forgotten          # keys that have left it since it was made
    cdef int64_t delayed            # operations whose timeout is to come
    cdef int64_t completed
    cdef int64_t expired
    cdef int64_t purged
    cdef Watcher* to_purge          # of operations completed since the last purge: linked by Watcher.next; a reference
    cdef int64_t to_purge_count

    @classmethod
    def __class_getitem__(cls, item):
        """For type checkers; this class itself is not generic."""
        return cls if cls is PurgatoryCore else super(PurgatoryCore, cls).__class_getitem__(item)

    def __dealloc__(self):
        watchers_release(self.to_purge)
        relock_free(&self.mutex)

    def _start_empty(self):
        """At the beginning, and in a forked child: what waits is the parent's, and the lock may have been somebody's
        who is not there."""
        cdef Watcher* to_purge = self.to_purge
        cdef OperationCore operation
        cdef WatchList watch_list
        relock_free(&self.mutex)
        lists, self.lists = self.lists or {}, {}
        for watch_list in lists.values():
            for operation in take_operations(self, watch_list):
                watchers_release(operation_take_watcher(operation))
        self.delayed = self.completed = self.expired = self.purged = self.to_purge_count = 0
        self.to_purge = NULL
        watchers_release(to_purge)

    def try_complete_else_watch(self, operation, keys):
        """Completes the operation if its condition holds; else watches it for the keys and starts its timeout.

        The condition is looked at before and again after the operation is watched: no event in between is missed.

        Arguments:
            operation: not completed, and not in a purgatory before.
            keys: hashable, compared by value; at least one; one given twice counts once.

        Returns True if the operation was completed here.

        Raises:
            TypeError: operation is no DelayedOperation; keys is a str, no iterable, or holds what cannot be hashed.
            ValueError: no keys, or the operation is or was in a purgatory.
            TimerClosed: the purgatory or its timer is closed.
            TimerFull, OverflowError: as the timer's add().
            What the operation's own methods raise. After any of these the operation is not watched.

        Runtime complexity: O(keys).
        Thread-safety: any thread, but an operation is added by one.
        """
        if not isinstance(operation, OperationCore):
            raise TypeError(f"operation must be a DelayedOperation, not {type(operation).__name__}")
        return purgatory_add(self, operation, keys, True)

    def _add(self, OperationCore operation not None, keys, *, bint delayed):
        """try_complete_else_watch, or without a timeout."""
        return purgatory_add(self, operation, keys, delayed)

    @cython.always_allow_keywords(True)
    def check_and_complete(self, key):
        """Looks at every operation that is watched for the key. Returns how many this call completed.

        To be called after every change that may make a condition come true; without holding a lock that an operation
        might want. An operation that another thread is looking at is left to that thread, which looks again.

        Raises:
            TypeError: the key is not hashable.
        Runtime complexity: O(operations watched for the key); O(1) if there is none.
        """
        cdef OperationCore operation
        cdef Py_ssize_t i, count = 0
        cdef int64_t completed = 0
        cdef Seen* seen = watching(self, key, &count)
        if count == 0:
            return 0
        try:
            for i in range(count):
                if seen[i].operation is not NULL:
                    operation = <OperationCore>seen[i].operation
                    if purgatory_check(self, operation):
                        completed += 1
                    else:
                        seen[i].waits = not operation.completed
            unlink_those_gone(self, seen, count)
        finally:
            for i in range(count):
                watcher_release(seen[i].node.watcher)
                Py_XDECREF(seen[i].operation)
            PyMem_Free(seen)
        return completed

    def purge(self):
        """Removes the entries of completed operations from all watch lists. Returns how many there were.

        It comes by itself, see purge_interval.

        Runtime complexity: O(keys of the operations completed since the last purge), whatever is waiting besides.
        """
        cdef Watcher* first
        cdef Watcher* watcher
        cdef int64_t purged = 0
        with cython.critical_section(self):
            first = self.to_purge
            self.to_purge = NULL
            self.to_purge_count = 0
        watcher = first
        try:
            while watcher is not NULL:
                watcher_fetch(watcher.next)
                purged += purgatory_unwatch(self, watcher)
                watcher = watcher.next
        finally:
            watchers_release(first)
            purgatory_count(self, &self.purged, purged)
        return purged

    # --- for the Python half -------------------------------------------------------------------------------------

    def _take(self, key):
        """Removes a key's list and returns the operations that were on it."""
        cdef WatchList watch_list
        relock_acquire(&self.mutex, self)
        try:
            watch_list = self.lists.pop(key, None)
        finally:
            relock_release(&self.mutex)
        return [] if watch_list is None else take_operations(self, watch_list)

    def _take_all(self):
        """Removes all lists and returns the operations that were on them; one may come more than once."""
        cdef dict lists
        relock_acquire(&self.mutex, self)
        try:
            lists, self.lists = self.lists, {}
        finally:
            relock_release(&self.mutex)
        taken = []
        for watch_list in lists.values():
            taken += take_operations(self, watch_list)
        return taken

    def _withdraw(self, OperationCore operation not None):
        """Takes an operation out that is not to be completed: a wait that was given up, a close. False if it was out
        already. One that is in the timer is cancelled there."""
        cdef bint withdrawn = False
        cdef Watcher* watcher = NULL
        with cython.critical_section(self):
            if operation.watcher is not NULL and operation.purgatory is self:
                watcher = operation.watcher
                hw_count_add(&watcher.references, 1)
        if watcher is not NULL:
            try:
                withdrawn = purgatory_withdraw(self, operation, watcher)
            finally:
                watcher_release(watcher)
        return withdrawn

    def _forget_completed(self):
        """At close(), which has emptied the lists."""
        cdef Watcher* to_purge
        with cython.critical_section(self):
            to_purge = self.to_purge
            self.to_purge = NULL
            self.to_purge_count = 0
        watchers_release(to_purge)

    def _close_once(self):
        """True for who closes it."""
        cdef bint first
        with cython.critical_section(self):
            first = not self._closed
            self._closed = True
        return first

    def _key_count(self):
        """How many keys have a list."""
        return len(self.lists)

    def _counters(self):
        """watched, delayed, completed, expired, purged."""
        cdef int64_t watched = 0
        cdef WatchList watch_list
        relock_acquire(&self.mutex, self)
        try:
            for watch_list in self.lists.values():
                watched += watch_list.length
        finally:
            relock_release(&self.mutex)
        with cython.critical_section(self):
            counters = watched, self.delayed, self.completed, self.expired, self.purged
        return counters

    @property
    def num_delayed(self):
        """How many operations have their timeout before them. O(1)."""
        return self.delayed


# --- adding ------------------------------------------------------------------------------------------------------

cdef bint purgatory_add(PurgatoryCore self, OperationCore operation, object keys, bint delayed) except -1:
    cdef tuple watched_keys
    cdef Watcher* watcher
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
    watcher = watcher_new(operation, len(watched_keys))
    try:
        return purgatory_add_watcher(self, operation, watcher, watched_keys, delayed)
    finally:
        watcher_release(watcher)


cdef bint purgatory_add_watcher(PurgatoryCore self, OperationCore operation, Watcher* watcher, tuple keys,
                                bint delayed) except -1:
    try:
        if operation_check_or_else(operation, None, self, watcher, keys):
            if watcher.operation is not NULL:
                purgatory_count(self, &self.completed, 1)   # at the first look: it was never watched
            else:
                purgatory_unwatch(self, watcher)            # at the second: it leaves the lists that it was put into
            return True
        if delayed:
            with cython.critical_section(self):
                if watcher.operation is not NULL and operation.task.state != TASK_CANCELLED:
                    watcher.delayed = True
                    self.delayed += 1
            self.timer.add(operation)
        if self._closed:
            raise TimerClosed("the purgatory is closed")
    except BaseException as error:
        if purgatory_withdraw(self, operation, watcher) or not isinstance(error, TimerClosed):
            raise
    if watcher.operation is NULL:               # completed meanwhile, or among what close() returned
        operation.cancel()
        purgatory_unwatch(self, watcher)
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
                for j in range(i):
                    if watcher.nodes[j].next is not NULL and watcher.nodes[j].watch_list is <void*>watch_list:
                        break                   # a key that was given twice
                else:
                    # Closed, or completed by the condition of another key's list: it is on its way out.
                    if watcher.operation is not NULL:
                        node_link(&watcher.nodes[i], watcher, watch_list)
            if watch_list.length == 0:
                del self.lists[key]
        finally:
            relock_release(&self.mutex)
    return True


cdef inline bint key_hash(object key) except False:
    """Calls a key's __hash__; a str has its hash with it."""
    if not PyUnicode_CheckExact(key):
        hash(key)
    return True


# --- leaving -----------------------------------------------------------------------------------------------------

cdef bint purgatory_completed_one(PurgatoryCore self, Watcher* watcher) except False:
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
        self.purge()
    return True


cdef bint purgatory_withdraw(PurgatoryCore self, OperationCore operation, Watcher* watcher) except -1:
    """_withdraw, for who has a reference to the watcher; also one that was never entered, by an add that failed."""
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
    purgatory_unwatch(self, watcher)
    if operation.task.state == TASK_PENDING:
        operation.cancel()
    return True


cdef int64_t purgatory_unwatch(PurgatoryCore self, Watcher* watcher) except -1:
    """Takes a watcher, which its operation has left, off all lists that it is on. Returns how many there were."""
    cdef WatchList watch_list
    cdef list emptied = None
    cdef int64_t removed = 0
    cdef Py_ssize_t i
    with cython.critical_section(self):
        for i in range(watcher.count):
            if watcher.nodes[i].next is not NULL:
                watch_list = <WatchList>watcher.nodes[i].watch_list
                node_unlink(&watcher.nodes[i])
                removed += 1
                if watch_list.length == 0:
                    if emptied is None:
                        emptied = []
                    emptied.append(watch_list)
    if emptied is not None:
        for watch_list in emptied:
            forget_list(self, watch_list)
    return removed


cdef bint forget_list(PurgatoryCore self, WatchList watch_list) except False:
    """Drops a list that has become empty, if it is still that."""
    key = watch_list.key
    relock_acquire(&self.mutex, self)
    try:
        if watch_list.length == 0 and self.lists.get(key) is watch_list:
            del self.lists[key]
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
