# Watch lists: a Watcher for each watched operation, with one node for each key. A node is linked into its key's WatchList.
#
# References. A linked node holds one reference to its Watcher and, until the operation completes, one to the operation.
# So no list keeps a completed operation alive, however long its nodes wait for the next check or purge. The Watcher is
# also referenced by its operation, then by the purgatory's `to_purge`, and by any thread that uses it.


cdef Watcher* watcher_new(OperationCore operation, Py_ssize_t count) except NULL:
    """Create a watcher with one reference, the caller's."""
    cdef Watcher* self = <Watcher*>PyMem_Malloc(sizeof(Watcher) + count * sizeof(WatchNode))
    if self is NULL:
        raise MemoryError
    memset(self, 0, sizeof(Watcher) + count * sizeof(WatchNode))
    self.references = 1
    self.operation = <void*>operation
    self.count = count
    self.nodes = <WatchNode*>(self + 1)
    debug_count(LIVE_WATCHERS, 1)
    return self


cdef inline void watcher_release(Watcher* self) noexcept:
    if hw_count_add(&self.references, -1) == 0:
        PyMem_Free(self)
        debug_count(LIVE_WATCHERS, -1)


cdef void watchers_release(Watcher* first) noexcept:
    """Drop the references of a chain linked by Watcher.next."""
    cdef Watcher* following
    while first is not NULL:
        following = first.next
        watcher_release(first)
        first = following


cdef inline void watcher_drop_operation(Watcher* self) noexcept:
    """Detach the operation from its watcher for good. The caller holds a reference to the operation."""
    cdef PyObject* operation = <PyObject*>self.operation
    cdef Py_ssize_t i
    self.operation = NULL
    if operation is not NULL:
        for i in range(self.linked):
            Py_DECREF(<object>operation)


cdef inline void watcher_prefetch(Watcher* watcher) noexcept:
    """Prefetch the memory that purgatory_unlink_watcher will touch.

    Other threads may change these links; a stale address only wastes the prefetch.
    """
    cdef Py_ssize_t i
    if watcher is not NULL:
        hw_prefetch(watcher.next)
        for i in range(watcher.count):
            hw_prefetch_link(&watcher.nodes[i].prev)
            hw_prefetch_link(&watcher.nodes[i].next)


cdef inline void node_link(WatchNode* node, Watcher* watcher, WatchList watch_list) noexcept:
    """Append a node to a list. The watcher still has its operation."""
    hw_count_add(&watcher.references, 1)
    Py_INCREF(<object>watcher.operation)        # dropped by node_unlink or watcher_drop_operation
    watcher.linked += 1
    node.watcher = watcher
    node.watch_list = <void*>watch_list
    node.next = &watch_list.head
    node.prev = watch_list.head.prev
    node.prev.next = node
    watch_list.head.prev = node
    hw_bump(&watch_list.length, 1)


cdef inline void node_unlink(WatchNode* node) noexcept:
    """Remove a linked node from its list. This may drop the last reference to the operation."""
    cdef Watcher* watcher = node.watcher
    cdef PyObject* operation = <PyObject*>watcher.operation
    node.prev.next = node.next
    node.next.prev = node.prev
    hw_bump(&(<WatchList>node.watch_list).length, -1)
    node.next = NULL
    watcher.linked -= 1
    watcher_release(watcher)
    Py_XDECREF(operation)


cdef WatchList watch_list_new(object key):
    cdef WatchList self = WatchList.__new__(WatchList)
    self.key = key
    self.head.prev = self.head.next = &self.head
    return self


cdef void watch_list_clear(WatchList self) noexcept:
    if self.head.next is not NULL:
        while self.head.next is not &self.head:
            node_unlink(self.head.next)


# Cython's own tp_traverse and tp_clear know only the key, but a list also refers to operations, through its nodes.
# Without these functions the collector could never free a purgatory that was not closed:
# tests/purgatory/test_references.py::test_the_collector_frees_an_unclosed_purgatory fails without them.

cdef int watch_list_traverse(PyObject* self, visitproc visit, void* argument) noexcept:
    cdef WatchNode* head = &(<WatchList>self).head
    cdef WatchNode* node = head.next
    cdef PyObject* key = <PyObject*>(<WatchList>self).key
    cdef int result = visit(key, argument)
    while result == 0 and node is not NULL and node is not head:
        if node.watcher.operation is not NULL:
            result = visit(<PyObject*>node.watcher.operation, argument)
        node = node.next
    return result


cdef int watch_list_break_cycles(PyObject* self) noexcept:
    watch_list_clear(<WatchList>self)
    return 0


@cython.final
cdef class WatchList:
    """The operations that wait for one key, in the order in which they were added."""

    def __dealloc__(self):
        watch_list_clear(self)


hw_set_gc(<PyObject*>WatchList, watch_list_traverse, watch_list_break_cycles)
