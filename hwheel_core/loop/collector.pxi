# A loop's timers and the garbage collector: which handles the collector sees.
#
# The wheel owns a reference to each pending handle. The collector follows these references, because it must be able to free an
# event loop that was never closed, together with its timers. (A pending TimerTask is untracked instead.) A running loop
# cannot be garbage, and many pending handles would slow the collector down. Therefore handles added by a running loop are
# hidden from it.
#
# When the loop stops, its hidden handles must become visible before the collector could take the loop for garbage. Showing
# them at the end of each run would make run_until_complete() O(pending). Instead a function in gc.callbacks does it when
# a full collection starts, unless the loop runs again before. Younger collections need not see them: they free only young
# objects, and a loop that they miss waits for a full one. The last collection at exit calls no callbacks, so it frees less.
#
# The collector runs with the GIL held, or while all other threads are stopped at a safe point, so a LoopTimers' lists are
# consistent then (see structs.pxd). Without a GIL nothing is hidden, for two reasons. A collection may start in another
# thread, which must not touch the handles of a running loop. And that collector has no generations, so pending handles cause no
# extra collections.

cdef traverseproc visit_fields = NULL   # LoopTimers' tp_traverse as Cython generates it; set in timers.pxi


cdef inline void handle_hide(LoopHandle self) noexcept:
    """Untrack a pending handle and the objects that it keeps alive, until handle_show."""
    if HW_FREE_THREADED:
        return
    PyObject_GC_UnTrack(<PyObject*>self)
    if self.context is None and isinstance(self.callback_, Timeout):
        PyObject_GC_UnTrack(<PyObject*>self.callback_)      # which has no arguments
        return
    PyObject_GC_UnTrack(<PyObject*>self.arguments)
    callback_untrack(self.callback_)
    if PyContext_CheckExact(self.context):
        PyObject_GC_UnTrack(<PyObject*>self.context)


cdef inline void handle_show(LoopHandle self) noexcept:
    if not PyObject_GC_IsTracked(<PyObject*>self):
        PyObject_GC_Track(<PyObject*>self)
        if self.context is None and isinstance(self.callback_, Timeout):
            gc_track(self.callback_)
            return
        if self.arguments:
            gc_track(self.arguments)
        callback_track(self.callback_)
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
    for i in range(timer.wheel.queue_length):       # the queue has every bucket that is not empty
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
    """Show all pending handles to the garbage collector again."""
    timers_traverse(<PyObject*>self, visited_show, NULL)


# --- loops that are not running --------------------------------------------------------------------------------------

cdef list gc_callbacks = __import__("gc").callbacks
cdef object show_before_collection = None
cdef Entry idle_loops                   # LoopTimers.idle, in no order
cdef Py_ssize_t idle_offset = 0         # of LoopTimers.idle
list_init(&idle_loops)


cdef bint collection_is_full(object info) except -1:
    # The incremental collector of CPython 3.14.0 reports generation 1 for collections that reach old objects.
    return info["generation"] >= (1 if PY_VERSION_HEX >= 0x030E0000 else 2)


def _show_idle_loops(str phase, dict info):
    """Show the handles of idle loops before a full collection. A member of gc.callbacks."""
    cdef Entry* entry
    if phase != "start" or list_is_empty(&idle_loops) or not collection_is_full(info):
        return
    while not list_is_empty(&idle_loops):
        entry = idle_loops.next
        entry_unlink(entry)
        timers_show_all(<LoopTimers><PyObject*>(<const char*>entry - idle_offset))


cdef void timers_start_idling(LoopTimers self) noexcept:
    global idle_offset
    if HW_FREE_THREADED:
        return
    idle_offset = <char*>&self.idle - <char*><PyObject*>self
    try:
        if show_before_collection not in gc_callbacks:      # not added yet, or the list was cleared
            gc_callbacks.append(show_before_collection)
    except:     # out of memory. (Without a traceback, Cython's code for a `return` here would crash.)
        timers_show_all(self)
    else:
        if not entry_is_linked(&self.idle):
            list_append(&idle_loops, &self.idle)


cdef inline void timers_stop_idling(LoopTimers self) noexcept:
    if entry_is_linked(&self.idle):
        entry_unlink(&self.idle)


show_before_collection = _show_idle_loops
