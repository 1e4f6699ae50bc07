# The garbage collector's way through a LoopTimers: its wheel owns a reference to each pending handle. Cython visits
# the fields only, so its function is called from one of our own.
#
# The collector runs with the GIL held, or with all threads stopped at a point where they are attached to the
# interpreter: a LoopTimers' lists are whole then (see loop_timers.pxi).

cdef traverseproc visit_fields = (<PyTypeObject*>LoopTimers).tp_traverse


cdef int list_visit(const Entry* head, visitproc visit, void* arg) noexcept:
    cdef const Entry* entry = head.next
    cdef int result
    while entry is not head:
        result = visit(<PyObject*>(<const char*>entry - loop_entry_offset), arg)
        if result:
            return result
        entry = entry.next
    return 0


cdef int timers_traverse(PyObject* self, visitproc visit, void* arg) noexcept:
    cdef Timer* timer = (<LoopTimers>self).timer
    cdef Entry* lists[5]
    cdef int32_t i
    cdef int result = visit_fields(self, visit, arg)
    if result or timer is NULL or (<LoopTimers>self).hides:
        return result
    for i in range(timer.wheel.queue_length):       # every bucket that holds something is in the queue
        result = list_visit(&timer.wheel.queue[i].entries, visit, arg)
        if result:
            return result
    lists = [&timer.wheel.flush, &timer.wheel.due, &timer.ready, &(<LoopTimers>self).running,
             &(<LoopTimers>self).offered]
    for i in range(5):
        result = list_visit(lists[i], visit, arg)
        if result:
            return result
    return 0


(<PyTypeObject*>LoopTimers).tp_traverse = timers_traverse


cdef void timers_show_all(LoopTimers self) noexcept:
    """Puts what is pending in front of the garbage collector again."""
    timers_traverse(<PyObject*>self, show_one, NULL)


cdef int show_one(PyObject* visited, void* arg) noexcept:
    if type(<object>visited) is LoopHandle:
        handle_show(<LoopHandle>visited)
    return 0
