# The watch list of a key: the nodes of the operations that wait for it.


cdef WatchList watch_list_new(object key):
    cdef WatchList self = WatchList.__new__(WatchList)
    self.key = key
    self.head.prev = self.head.next = &self.head
    return self


cdef void watch_list_clear(WatchList self) noexcept:
    if self.head.next is not NULL:
        while self.head.next is not &self.head:
            node_unlink(self.head.next)


cdef void watch_list_move(WatchList self, WatchList other) noexcept:
    """Puts all nodes of a list before those of another one of the same key; called in the critical section."""
    cdef WatchNode* node = self.head.prev
    while node is not &self.head:
        node.watch_list = <void*>other
        node = node.prev
    if self.head.next is not &self.head:
        self.head.prev.next = other.head.next
        other.head.next.prev = self.head.prev
        self.head.next.prev = &other.head
        other.head.next = self.head.next
        self.head.prev = self.head.next = &self.head
        hw_bump(&other.length, hw_peek64(&self.length))
        hw_poke64(&self.length, 0)


# --- for the garbage collector, which Cython would tell of the key alone -------------------------------------------

cdef int watch_list_traverse(PyObject* self, visitproc visit, void* argument) noexcept:
    cdef WatchNode* head = &(<WatchList>self).head
    cdef WatchNode* node = head.next
    cdef PyObject* key = <PyObject*>(<WatchList>self).key
    cdef int answer = visit(key, argument)
    while answer == 0 and node is not NULL and node is not head:
        if node.watcher.operation is not NULL:
            answer = visit(<PyObject*>node.watcher.operation, argument)
        node = node.next
    return answer


cdef int watch_list_break_cycles(PyObject* self) noexcept:
    watch_list_clear(<WatchList>self)
    return 0


@cython.final
cdef class WatchList:
    """The operations that wait for one key, in the order in which they came."""

    def __dealloc__(self):
        watch_list_clear(self)


# Cython's tp_traverse and tp_clear know the key alone, but a list holds operations, too, through its nodes. If CPython
# found these functions elsewhere than in the type, a purgatory that nobody closed would never be collected:
# test_the_garbage_collector_sees_through_the_watch_lists in tests/purgatory/test_operation_lock.py would fail.
hw_set_gc(<PyObject*>WatchList, watch_list_traverse, watch_list_break_cycles)
