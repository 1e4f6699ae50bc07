# The census of a loop's timers.


cdef object coroutine_of(object task):
    """Return what census_target needs to group by the coroutine function of an asyncio task."""
    coroutine = task.get_coro()
    frame = coroutine.cr_frame
    module = "" if frame is None else frame.f_globals.get("__name__", "")
    return types.SimpleNamespace(__module__=module, __qualname__=coroutine.__qualname__, __code__=coroutine.cr_code)


cdef object handle_limited_task(object callback):
    """Return the task that a Timeout, or asyncio's, will cancel; None if the callback is no timeout."""
    if isinstance(callback, Timeout):
        return (<Timeout>callback).task
    if type(callback) is MethodType and type(callback.__self__).__module__ == "asyncio.timeouts":
        return getattr(callback.__self__, "_task", None)
    return None


cdef bint census_add_handle(Census self, LoopHandle handle) except False:
    cdef int64_t deadline_ms, added_ms
    cdef object callback
    with cython.critical_section(handle.timers):
        callback = handle.callback_
        deadline_ms = <int64_t>(min(handle.deadline, 1e15) * 1e3)
        added_ms = <int64_t>(handle.added * 1e3)
    if callback is None:
        return True                     # it has just run, or was cancelled
    owner = type(callback.__self__) if type(callback) is MethodType else type(callback)
    try:
        task = handle_limited_task(callback)
        if task is not None:
            census_count(census_group(self, coroutine_of(task), owner), deadline_ms, added_ms, 1)
            return True
    except Exception:
        pass                            # another kind of coroutine
    return census_add(self, callback, deadline_ms, added_ms, 1)


cdef list timers_census(LoopTimers self):
    cdef Census census = Census.__new__(Census)
    cdef Sightings found
    cdef Turn turn
    cdef int64_t i
    census.groups = {}
    sightings_begin(&found)
    found.entry_offset = loop_entry_offset
    found.is_of_loop = True
    try:
        sightings_take(&found, self.timer)
        turn_begin(&turn)
        for i in range(found.count):
            census_add_handle(census, <LoopHandle>found.items[i].task)
            turn_step(&turn)
    finally:
        sightings_free(&found)
    return census_rows(census)
