# Checks: of one operation, under its lock, and of what is on a key's list. Who waits for whom is said in structs.pxd.


cdef bint operation_check(OperationCore self) except -1:
    """safe_try_complete(): try_complete() under the lock, without a wait for it."""
    cdef bint done
    while not hw_peek(&self.completed):
        if not relock_try(&self.mutex):
            hw_word_store(&self.missed, True)
            if not relock_try(&self.mutex):
                return False
        try:
            hw_word_store(&self.missed, False)
            done = not hw_peek(&self.completed) and self.try_complete()
        except BaseException:
            operation_unlock_and_check(self)
            raise
        relock_release(&self.mutex)
        if done or not hw_word_load(&self.missed):
            return done
    return False


cdef bint operation_check_reported(OperationCore self) except -1:
    """operation_check, of an operation that is watched; its errors are reported."""
    cdef PurgatoryCore purgatory = operation_purgatory(self)
    try:
        return operation_check(self)
    except Exception as error:
        purgatory.timer._report(self, error)
        return hw_peek(&self.completed)


cdef bint operation_unlock_and_check(OperationCore self) except -1:
    """Gives the lock up and makes up for the checks that found it taken; their errors are not this thread's."""
    relock_release(&self.mutex)
    if not hw_word_load(&self.missed):
        return False
    if operation_is_watched(self):
        return operation_check_reported(self)
    return operation_check(self)


cdef bint operation_check_or_else(OperationCore self, object action, PurgatoryCore purgatory, Watcher* watcher,
                                  tuple keys) except -1:
    """safe_try_complete_or_else(): in between is called an action, or a watcher is entered for the keys."""
    cdef bint done
    relock_acquire(&self.mutex, self)
    try:
        done = self.try_complete()
        if not done:
            if watcher is NULL:
                action()
            else:
                purgatory_enter_lists(purgatory, self, watcher, keys)
            done = self.try_complete()
    except BaseException:
        operation_unlock_and_check(self)
        raise
    relock_release(&self.mutex)
    return done or (hw_word_load(&self.missed) and operation_check(self))


# --- of a key ----------------------------------------------------------------------------------------------------

cdef Seen* seen_new(PurgatoryCore self, object key, Py_ssize_t* count_out) except? NULL:
    """What is on a key's list now, and how much that is; NULL, and nothing is counted, if nothing is."""
    cdef WatchList watch_list
    cdef WatchNode* node
    cdef Seen* seen = NULL
    cdef Py_ssize_t count = 0
    key_hash(key)
    relock_acquire(&self.mutex, self)
    try:
        watch_list = lists_get(self, key)
    finally:
        relock_release(&self.mutex)
    if watch_list is None:
        return NULL
    with cython.critical_section(self):
        seen = <Seen*>PyMem_Malloc((watch_list.length + 1) * sizeof(Seen))
        if seen is not NULL:
            node = watch_list.head.next
            while node is not &watch_list.head:
                hw_count_add(&node.watcher.references, 1)       # both dropped by seen_free
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


cdef bint seen_unlink_gone(PurgatoryCore self, Seen* seen, Py_ssize_t count) except False:
    """Takes off a key's list what a check has not found waiting."""
    cdef WatchList watch_list = None
    cdef Py_ssize_t i
    with cython.critical_section(self):
        for i in range(count):
            if not seen[i].waits and seen[i].node.next is not NULL:
                watch_list = <WatchList>seen[i].node.watch_list
                node_unlink(seen[i].node)
    if watch_list is not None and hw_peek64(&watch_list.length) == 0:
        purgatory_drop_list(self, watch_list)
    return True


cdef void seen_free(Seen* seen, Py_ssize_t count) noexcept:
    """Drops the references of seen_new. Operations may die of it."""
    cdef Py_ssize_t i
    for i in range(count):
        watcher_release(seen[i].node.watcher)
        Py_XDECREF(seen[i].operation)
    PyMem_Free(seen)


cdef object purgatory_report(PurgatoryCore self, OperationCore operation, object error, object interrupt):
    """An operation that was checked has raised. Returns what the caller shall raise in the end, if anything."""
    if isinstance(error, Exception):
        self.timer._report(operation, error)
    elif interrupt is None:
        return error
    return interrupt
