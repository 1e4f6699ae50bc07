# The dict of a purgatory's watch lists: how an operation comes onto the lists of its keys, and off them. What guards the
# lists is said in structs.pxd.

cdef enum:
    FEW_KEYS = 8            # of more it is found out beforehand which are given twice
    SPARE_ROOM = 64         # keys that may leave the dict before it is made anew, beside twice as many as are there
    PUT_BACK_TRIES = 3      # of a list, whose key's comparison a signal handler may have interrupted


cdef inline bint key_hash(object key) except False:
    """Calls a key's __hash__; a str has its hash with it."""
    if not PyUnicode_CheckExact(key):
        hash(key)
    return True


cdef object lists_get(PurgatoryCore self, object key):
    """A key's list, or None. With a reference of its own to the dict: a comparison of keys may fork, and the child drops it."""
    cdef dict lists = self.lists
    return lists.get(key)


cdef object lists_pop(PurgatoryCore self, object key):
    cdef dict lists = self.lists
    return lists.pop(key, None)


cdef bint lists_drop_empty(PurgatoryCore self, object key) except False:
    """Takes a key's list out of the dict, because it was seen to be empty. The comparison of a key may have put something on
    it since, or have made another list for the key: what is not empty goes back."""
    cdef dict lists
    cdef WatchList present
    cdef WatchList watch_list = lists_pop(self, key)
    cdef object trouble = None
    cdef int tries = 0
    while watch_list is not None and hw_peek64(&watch_list.length):
        lists = self.lists                      # as lists_get does
        try:
            present = lists.setdefault(key, watch_list)
        except BaseException as error:
            trouble = error
            tries += 1
            if tries == PUT_BACK_TRIES:
                break
            continue
        if present is not watch_list:
            with cython.critical_section(self):
                watch_list_move(watch_list, present)
        elif hw_peek64(&watch_list.length):
            break
        else:
            watch_list = lists_pop(self, key)   # emptied while it was in no dict, so that nobody has dropped it
    if trouble is not None:
        raise trouble
    return True


cdef inline PurgatoryCore operation_purgatory(OperationCore self):
    """The purgatory that it was added to last. By a mutex where there is no GIL: an add to another one may be under way."""
    cdef PurgatoryCore purgatory
    if HW_FREE_THREADED:
        hw_mutex_lock(&orphans)
    purgatory = self.purgatory
    if HW_FREE_THREADED:
        hw_mutex_unlock(&orphans)
    return purgatory


cdef inline void operation_set_purgatory(OperationCore self, PurgatoryCore purgatory) noexcept:
    cdef PurgatoryCore before = operation_purgatory(self)       # which dies at the end
    if HW_FREE_THREADED:
        hw_mutex_lock(&orphans)
    self.purgatory = purgatory
    if HW_FREE_THREADED:
        hw_mutex_unlock(&orphans)


cdef bint purgatory_enter_lists(PurgatoryCore self, OperationCore operation, Watcher* watcher, tuple keys) except False:
    """Begins to watch: puts the watcher onto the lists of its keys. Called under the operation's lock."""
    cdef WatchList watch_list
    cdef dict lists
    cdef Py_ssize_t i, j
    cdef bint entered = False
    if hw_peek(&operation.completed):                     # by a first look that did not say so
        return True
    with cython.critical_section(self):
        if operation.watcher is NULL:
            entered = True
            hw_count_add(&watcher.references, 1)        # of OperationCore.watcher
            operation.watcher = watcher
            operation_set_purgatory(operation, self)
    if not entered:
        raise ValueError("this operation is in a purgatory already")
    for i in range(len(keys)):
        key = keys[i]
        key_hash(key)
        relock_acquire(&self.mutex, self)
        try:
            watch_list = lists_get(self, key)
            if watch_list is None:
                lists = self.lists              # as lists_get does
                watch_list = lists.setdefault(key, watch_list_new(key))
            with cython.critical_section(self):
                for j in range(i if len(keys) <= FEW_KEYS else 0):
                    if watcher.nodes[j].next is not NULL and watcher.nodes[j].watch_list is <void*>watch_list:
                        break                   # a key that was given twice
                else:
                    if watcher.operation is not NULL:       # completed, or returned by close(), since it began
                        node_link(&watcher.nodes[i], watcher, watch_list)
            if hw_peek64(&watch_list.length) == 0:
                lists_drop_empty(self, key)
        finally:
            relock_release(&self.mutex)
    return True


cdef bint purgatory_drop_list(PurgatoryCore self, WatchList watch_list) except False:
    """Drops a list that has become empty, if it is still that."""
    key = watch_list.key
    relock_acquire(&self.mutex, self)
    try:
        if hw_peek64(&watch_list.length) == 0 and lists_get(self, key) is watch_list:
            lists_drop_empty(self, key)
            self.forgotten += 1
            # Not inside of a comparison: who called that is at work on this dict, and would go on with one that is dropped.
            if self.forgotten > 2 * len(self.lists) + SPARE_ROOM and self.mutex.depth == 1:
                self.forgotten = 0
                self.lists = self.lists.copy()      # a dict keeps the room of what has left it; amortised O(1)
    finally:
        relock_release(&self.mutex)
    return True


cdef object purgatory_unlink_watcher(PurgatoryCore self, Watcher* watcher, int64_t* removed, object trouble):
    """Takes a watcher, which its operation has left, off all lists that it is on, and adds their number to `removed`.
    Returns `trouble`, or if that is None what the comparison of a key raised: it keeps nobody else on a list."""
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
                if trouble is None:
                    trouble = error
    return trouble


cdef bint purgatory_leave_lists(PurgatoryCore self, Watcher* watcher) except False:
    """The same, for one watcher: what the comparison of a key raised is raised in the end."""
    cdef int64_t removed = 0
    trouble = purgatory_unlink_watcher(self, watcher, &removed, None)
    if trouble is not None:
        raise trouble
    return True


cdef object purgatory_empty_list(PurgatoryCore self, WatchList watch_list):
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


cdef list purgatory_operations(PurgatoryCore self):
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
