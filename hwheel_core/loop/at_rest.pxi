# Loops that have run and stand still now. What they hold is still hidden from the garbage collector (gc.pxi), and must
# be in its sight by the time it could take such a loop for garbage. To show all of it whenever a run ends would make
# run_until_complete() cost a look at each pending handle; so it is done when a full collection begins, by a function in
# gc.callbacks, and not at all if the loop runs again before.
#
# A younger collection need not see them: it frees only what is young, and a loop that it misses waits for a full one,
# as older garbage does. CPython calls no callbacks before the very last collection of an interpreter, which frees less.
#
# Without a GIL nothing is hidden, because a collection may begin in another thread while a loop's own thread goes on, and
# what it would have to show is that thread's. Its collector has no generations, which a million young objects could fill.

cdef list gc_callbacks = __import__("gc").callbacks
cdef object show_before_collection = None
cdef Entry loops_at_rest                # in no order
cdef Py_ssize_t at_rest_offset = 0      # of LoopTimers.at_rest
list_init(&loops_at_rest)


cdef bint collection_is_full(object info) except -1:
    # CPython 3.14.0 has an incremental collector, which calls every collection that reaches old objects 1.
    return info["generation"] >= (1 if PY_VERSION_HEX >= 0x030E0000 else 2)


def _show_loops_at_rest(str phase, dict info):
    """For gc.callbacks: puts the timers of all loops that stand still in front of the garbage collector again."""
    cdef Entry* entry
    if phase != "start" or list_is_empty(&loops_at_rest) or not collection_is_full(info):
        return
    while not list_is_empty(&loops_at_rest):
        entry = loops_at_rest.next
        entry_unlink(entry)
        timers_show_all(<LoopTimers><PyObject*>(<const char*>entry - at_rest_offset))


cdef void timers_come_to_rest(LoopTimers self) noexcept:
    global at_rest_offset
    if HW_FREE_THREADED:
        return
    at_rest_offset = <char*>&self.at_rest - <char*><PyObject*>self
    try:
        if show_before_collection not in gc_callbacks:      # not yet, or somebody has emptied the list
            gc_callbacks.append(show_before_collection)
    except:                             # there was no memory for it
        timers_show_all(self)
        return
    if not entry_is_linked(&self.at_rest):
        list_append(&loops_at_rest, &self.at_rest)


cdef inline void timers_leave_rest(LoopTimers self) noexcept:
    if entry_is_linked(&self.at_rest):
        entry_unlink(&self.at_rest)


show_before_collection = _show_loops_at_rest
