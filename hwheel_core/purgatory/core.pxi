# PurgatoryCore: what hwheel.purgatory.DelayedOperationPurgatory does for each operation.


cdef class PurgatoryCore:
    """The compiled part of a DelayedOperationPurgatory, which brings the timer and the rest."""

    @classmethod
    def __class_getitem__(cls, item):
        """For type checkers; this class itself is not generic."""
        return cls if cls is PurgatoryCore else super(PurgatoryCore, cls).__class_getitem__(item)

    def __dealloc__(self):
        watchers_release(self.to_purge)
        relock_free(&self.mutex)

    def _start_empty(self):
        """At the beginning, and in a forked child: what waits is the parent's. The lock sees to itself: the thread that
        forked may have it."""
        cdef Watcher* to_purge = self.to_purge
        cdef OperationCore operation
        cdef Watcher* watcher
        cdef WatchList watch_list
        lists, self.lists = self.lists or {}, {}
        self._left = {}
        for watch_list in lists.values():
            for operation in purgatory_empty_list(self, watch_list):
                watcher = operation_take_watcher(operation)
                if watcher is not NULL:
                    watcher_drop_operation(watcher)     # who is just adding it sees that
                    watcher.delayed = False
                    watcher_release(watcher)
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
            KeyboardInterrupt, SystemExit: from an operation; the others have been looked at all the same.
        Runtime complexity: O(operations watched for the key); O(1) if there is none.
        """
        cdef OperationCore operation
        cdef Py_ssize_t i, count = 0
        cdef int64_t completed = 0
        cdef bint done
        cdef object interrupt = None
        cdef Seen* seen = seen_new(self, key, &count)
        if count == 0:
            return 0
        try:
            for i in range(count):
                if seen[i].operation is not NULL:
                    operation = <OperationCore>seen[i].operation
                    try:
                        done = operation_check(operation)
                    except BaseException as error:
                        done = hw_peek(&operation.completed)
                        interrupt = purgatory_report(self, operation, error, interrupt)
                    if done:
                        completed += 1
                    else:
                        seen[i].waits = not hw_peek(&operation.completed)
            try:
                seen_unlink_gone(self, seen, count)
            finally:
                if interrupt is not None:
                    raise interrupt
        finally:
            seen_free(seen, count)
        return completed

    def purge(self):
        """Removes the entries of completed operations from all watch lists. Returns how many there were.

        It comes by itself, see purge_interval.

        Runtime complexity: O(keys of the operations completed since the last purge), whatever is waiting besides.
        """
        cdef Watcher* first
        cdef Watcher* watcher
        cdef int64_t purged = 0
        cdef object trouble = None
        with cython.critical_section(self):
            first = self.to_purge
            self.to_purge = NULL
            self.to_purge_count = 0
        watcher = first
        try:
            while watcher is not NULL:
                watcher_prefetch(watcher.next)
                trouble = purgatory_unlink_watcher(self, watcher, &purged, trouble)
                watcher = watcher.next
        finally:
            watchers_release(first)
            purgatory_count(self, &self.purged, purged)
        if trouble is not None:
            raise trouble
        return purged

    # --- for the Python half -------------------------------------------------------------------------------------

    def _take(self, key):
        """Removes a key's list and returns the operations that were on it, which stand in `_left` until somebody who
        returns them takes them out there."""
        cdef WatchList watch_list
        relock_acquire(&self.mutex, self)
        try:
            watch_list = lists_pop(self, key)
        finally:
            relock_release(&self.mutex)
        if watch_list is None:
            return []
        taken = purgatory_empty_list(self, watch_list)
        for operation in taken:
            self._left[id(operation)] = operation
        return taken

    def _give_all_up(self):
        """Withdraws all operations that are on lists, and notes them in `_left`. It can be called again."""
        cdef WatchList watch_list
        while (waiting := purgatory_operations(self)):
            for operation in waiting:
                self._withdraw(operation, self._left)
        # What the lists hold still are nodes of completed operations.
        relock_acquire(&self.mutex, self)
        try:
            lists, self.lists = self.lists, {}
        finally:
            relock_release(&self.mutex)
        for watch_list in lists.values():           # a list that dies is empty, because purge() comes to it from its nodes
            purgatory_empty_list(self, watch_list)

    def _withdraw(self, OperationCore operation not None, dict left=None):
        """Takes an operation out that is not to be completed: a wait that was given up, a close. False if it was out
        already. One that is in the timer is cancelled there. `left`: where it is to be noted, at the same moment."""
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
        """At close(), which has emptied the lists."""
        cdef Watcher* to_purge
        with cython.critical_section(self):
            to_purge = self.to_purge
            self.to_purge = NULL
            self.to_purge_count = 0
        watchers_release(to_purge)

    def _key_count(self):
        """How many keys have a list."""
        relock_acquire(&self.mutex, self)
        try:
            return len(self.lists)
        finally:
            relock_release(&self.mutex)

    def _counters(self):
        """watched, delayed, completed, expired, purged."""
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
        """Whether it takes no operations any more."""
        return hw_peek(&self.closed) != 0

    @_closed.setter
    def _closed(self, bint closed):
        hw_poke(&self.closed, closed)

    @property
    def num_delayed(self):
        """How many operations have their timeout before them. O(1)."""
        return hw_peek64(&self.delayed)
