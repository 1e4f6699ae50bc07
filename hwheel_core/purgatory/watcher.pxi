# A Watcher for each operation that is watched, with a node for each of its keys. A linked node stands in the WatchList of
# its key.
#
# References. A linked node holds one reference to its Watcher and, until the operation is completed, one to that. So a
# completed operation is kept alive by no list, however long its nodes have to wait there for the next check or purge;
# and an operation that is on no list any more is its user's. The Watcher belongs besides to its operation, later to the
# purgatory's list of what is to be purged, and to whoever is looking at it.
#
# All of this is done by a few lines of C, under the GIL or the purgatory's critical section (see structs.pxd).


cdef Watcher* watcher_new(OperationCore operation, Py_ssize_t count) except NULL:
    """One reference, for the caller."""
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
    """Drops the references of a list that is linked by Watcher.next."""
    cdef Watcher* following
    while first is not NULL:
        following = first.next
        watcher_release(first)
        first = following


cdef inline void watcher_drop_operation(Watcher* self) noexcept:
    """The operation leaves its Watcher for good; the caller has a reference to it."""
    cdef PyObject* operation = <PyObject*>self.operation
    cdef Py_ssize_t i
    self.operation = NULL
    if operation is not NULL:
        for i in range(self.linked):
            Py_DECREF(<object>operation)


cdef inline void watcher_prefetch(Watcher* watcher) noexcept:
    """Prefetches what purgatory_unlink_watcher will touch, which lies scattered over memory; and the next one itself. Links
    that others may be changing: nothing comes of a wrong one."""
    cdef Py_ssize_t i
    if watcher is not NULL:
        hw_prefetch(watcher.next)
        for i in range(watcher.count):
            hw_prefetch_link(&watcher.nodes[i].prev)
            hw_prefetch_link(&watcher.nodes[i].next)


cdef inline void node_link(WatchNode* node, Watcher* watcher, WatchList watch_list) noexcept:
    """Puts a node at the end of a list; not one of a watcher that its operation has left."""
    hw_count_add(&watcher.references, 1)
    Py_INCREF(<object>watcher.operation)        # dropped by node_unlink, or this one by watcher_drop_operation
    watcher.linked += 1
    node.watcher = watcher
    node.watch_list = <void*>watch_list
    node.next = &watch_list.head
    node.prev = watch_list.head.prev
    node.prev.next = node
    watch_list.head.prev = node
    hw_bump(&watch_list.length, 1)


cdef inline void node_unlink(WatchNode* node) noexcept:
    """Takes a linked node off its list. Its operation may die of it, unless the caller or its completion holds it."""
    cdef Watcher* watcher = node.watcher
    cdef PyObject* operation = <PyObject*>watcher.operation
    node.prev.next = node.next
    node.next.prev = node.prev
    hw_bump(&(<WatchList>node.watch_list).length, -1)
    node.next = NULL
    watcher.linked -= 1
    watcher_release(watcher)
    Py_XDECREF(operation)
