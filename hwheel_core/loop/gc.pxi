# What the garbage collector sees of a loop's timers. The wheel owns a reference to each pending handle, and the collector
# is led through it, because an event loop that nobody closed must be collectable with its timers. (A TimerTask that is
# pending is out of its sight instead.) While a loop runs nothing of it can be garbage, and so what is added meanwhile is
# hidden, because many pending handles would only slow the collector down; when it is shown again, at_rest.pxi says.
#
# The collector runs with the GIL held, or with all threads stopped at a point where they are attached to the
# interpreter: a LoopTimers' lists are whole then (see structs.pxd).

cdef traverseproc visit_fields = NULL   # LoopTimers' tp_traverse as Cython made it; filled in by timers.pxi


cdef inline void handle_hide(LoopHandle self, bint own_context) noexcept:
    if HW_FREE_THREADED:                # at_rest.pxi says why
        return
    PyObject_GC_UnTrack(<PyObject*>self)
    PyObject_GC_UnTrack(<PyObject*>self.arguments)      # nobody else has it yet
    if own_context:
        PyObject_GC_UnTrack(<PyObject*>self.context)


cdef inline void handle_show(LoopHandle self) noexcept:
    if not PyObject_GC_IsTracked(<PyObject*>self):
        PyObject_GC_Track(<PyObject*>self)
        if self.arguments:
            gc_track(self.arguments)
        if PyContext_CheckExact(self.context):
            gc_track(self.context)


cdef int handles_visit(const Entry* head, visitproc visit, void* arg) noexcept:
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
        result = handles_visit(&timer.wheel.queue[i].entries, visit, arg)
        if result:
            return result
    lists = [&timer.wheel.flush, &timer.wheel.due, &timer.ready, &(<LoopTimers>self).running,
             &(<LoopTimers>self).offered]
    for i in range(5):
        result = handles_visit(lists[i], visit, arg)
        if result:
            return result
    return 0


cdef int visited_show(PyObject* visited, void* arg) noexcept:
    if type(<object>visited) is LoopHandle:
        handle_show(<LoopHandle>visited)
    return 0


cdef void timers_show_all(LoopTimers self) noexcept:
    """Puts what is pending in front of the garbage collector again."""
    timers_traverse(<PyObject*>self, visited_show, NULL)
