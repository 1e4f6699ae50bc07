# The census: the pending tasks grouped by their callbacks.


cdef class CensusGroup:
    """The pending tasks of one callback, and for bound methods of one type of owner."""

    cdef object target          # a function, another callable, or the class of tasks with their own run()
    cdef object owner           # a type, or None
    cdef int64_t count, added_ms, nearest_ms, farthest_ms


cdef object timer_expire = None     # the callback of all hwheel.Timer objects, whose argument is the object


def set_timer_expire(expire):
    """Set the callback of hwheel.Timer objects. The census shows their functions instead."""
    global timer_expire
    timer_expire = expire


cdef object census_callback(TimerTask task):
    """Return what a task calls, without partials. For hwheel.Timer objects only, foreign code may run."""
    cdef object callback = task_callback(task)
    if type(callback) is Awaited:
        callback = (<Awaited>callback).callback
    if callback is timer_expire and callback is not None:
        try:
            callback = task.args[0].function
        except Exception:
            pass                        # the task has just run, or a subclass has no function
    while type(callback) is Partial:
        callback = callback.func
    return callback


cdef object census_target(TimerTask task, PyObject** owner_out):
    """Return the function that a task calls, and the type of the object that a method is bound to, or None."""
    cdef object callback = census_callback(task)
    cdef object owner = None
    if callback is None:
        callback = type(task)
    elif type(callback) is MethodType or type(callback) is BuiltinMethodType:
        owner = callback.__self__
        if type(callback) is MethodType:
            callback = callback.__func__
        if isinstance(owner, types.ModuleType):
            owner = None                # a function of a compiled module
        elif owner is not None and not isinstance(owner, type):
            owner = type(owner)
    elif type(callback) is not FunctionType and not isinstance(callback, type):
        callback = type(callback)
    owner_out[0] = <PyObject*>owner     # borrowed: the callback keeps it alive
    return callback


cdef inline object census_key(object target):
    """Return the part of a target that all calls have in common: closures of one function share its code."""
    return target.__code__ if type(target) is FunctionType else target


cdef inline void census_count(CensusGroup self, TimerTask task) noexcept:
    cdef int64_t deadline_ms = hw_peek64(&task.task.deadline_ms)
    cdef int64_t added_ms = deadline_ms - hw_peek64(&task.task.delay_ms)
    if isinstance(task, TermsTask):
        added_ms -= (<TermsTask>task).terms.put_off_ms
    self.count += 1
    self.added_ms = min(self.added_ms, added_ms)
    self.nearest_ms = min(self.nearest_ms, deadline_ms)
    self.farthest_ms = max(self.farthest_ms, deadline_ms)


cdef CensusGroup census_group(dict groups, object target, object owner):
    """Return the group of a target and an owner."""
    cdef object shared = census_key(target)
    cdef tuple key = (<uintptr_t><PyObject*>shared, <uintptr_t><PyObject*>owner)
    cdef object found = groups.get(key)
    cdef CensusGroup group
    if found is not None:
        return found
    group = CensusGroup.__new__(CensusGroup)
    group.target = target               # keeps both addresses taken
    group.owner = owner
    group.added_ms = group.nearest_ms = INT64_MAX
    group.farthest_ms = INT64_MIN
    groups[key] = group
    return group


cdef list core_census(BaseTimer self):
    """Return [(target, owner, count, the earliest added_ms, the first and the last deadline_ms)]."""
    cdef Sightings found
    cdef dict groups = {}
    cdef CensusGroup group = None
    cdef TimerTask task
    cdef PyObject* owner = NULL
    cdef object target
    cdef Turn turn
    cdef int64_t i
    try:
        sightings_take(&found, self.timer)
        turn_begin(&turn)
        for i in range(found.count):
            task = <TimerTask>found.items[i].task
            if task_state(&task.task) == TASK_PENDING:
                target = census_target(task, &owner)
                if group is None or group.target is not target or <PyObject*>group.owner is not owner:
                    group = census_group(groups, target, <object>owner)
                census_count(group, task)
            turn_step(&turn)
    finally:
        sightings_free(&found)
    rows = []
    for group in groups.values():
        rows.append((group.target, group.owner, group.count, group.added_ms, group.nearest_ms, group.farthest_ms))
    return rows
