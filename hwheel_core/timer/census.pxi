# The census: the pending tasks grouped by their callbacks.


cdef class CensusGroup:
    """The pending tasks of one callback, and for bound methods of one type of owner."""

    cdef object target          # a function, another callable, or the class of tasks with their own run()
    cdef object owner           # a type, or None
    cdef int64_t count, added_ms, nearest_ms, farthest_ms


cdef object timer_expiry            # the type of the callback of all hwheel.Timer objects, whose argument is the object


cdef enum:
    MAX_WRAPPERS = 100          # a function may wrap itself


cdef object census_callback(TimerTask task):
    """Return the callable of a task. For hwheel.Timer objects, foreign code may run."""
    cdef object callback = task_callback(task)
    if type(callback) is Awaited:
        callback = (<Awaited>callback).callback
    if type(callback) is timer_expiry:
        try:
            callback = task.args[0].function
        except Exception:
            pass                        # the task has just run, or a subclass has no function
    return type(task) if callback is None else callback


cdef tuple census_unwrap(object callback):
    """Return the function inside of partials, methods, and decorators, and the object of the method, or None."""
    cdef object owner = None
    cdef object inner
    for _ in range(MAX_WRAPPERS):
        if type(callback) is Partial:
            inner = callback.func
        elif type(callback) is MethodType:
            owner = callback.__self__
            inner = callback.__func__
        elif isinstance(callback, type):
            break
        else:
            inner = getattr(callback, "__wrapped__", None)
            if inner is None:
                break
        callback = inner
    return callback, owner


cdef tuple census_target(object callback):
    """Return the function that a callback calls, and the type of the object that a method is bound to, or None.

    If the callback is an object of a foreign class, foreign code may run.
    """
    cdef object target, owner, call
    try:
        target, owner = census_unwrap(callback)
    except Exception:
        target, owner = callback, None
    if type(target) is BuiltinMethodType or type(target) is MethodWrapperType:
        if not isinstance(target.__self__, types.ModuleType):
            owner = target.__self__
    elif type(target) is not FunctionType and not isinstance(target, type) and not has_code(target):
        owner = target
        call = type(target).__call__
        target = call if type(call) is FunctionType else type(target)
    return target, owner if owner is None or isinstance(owner, type) else type(owner)


cdef bint has_code(object callback):
    """Return True for functions that a compiler has created, which have types of their own."""
    try:
        return type(callback.__code__) is types.CodeType
    except Exception:
        return False


cdef tuple census_key(object target, object owner):
    """Return what all calls of one function have in common."""
    if type(target) is BuiltinMethodType or type(target) is MethodWrapperType:      # each access creates an object
        return target.__name__, <uintptr_t><PyObject*>(target if owner is None else owner)
    if not isinstance(target, type):
        target = getattr(target, "__code__", target)        # closures of one function share it
    return <uintptr_t><PyObject*>target, <uintptr_t><PyObject*>owner


cdef class Census:
    """The groups found so far."""

    cdef dict groups
    cdef CensusGroup last


cdef CensusGroup census_group(Census self, object target, object owner):
    """Return the group of a target and an owner."""
    cdef CensusGroup group = self.last
    cdef object found
    cdef tuple key
    if group is not None and group.target is target and group.owner is owner:
        return group
    key = census_key(target, owner)
    found = self.groups.get(key)
    if found is None:
        found = group = CensusGroup.__new__(CensusGroup)
        group.target = target           # keeps both addresses taken
        group.owner = owner
        group.added_ms = group.nearest_ms = INT64_MAX
        group.farthest_ms = INT64_MIN
        self.groups[key] = group
    self.last = found
    return found


cdef void census_count(CensusGroup group, int64_t deadline_ms, int64_t added_ms, int64_t count) noexcept:
    group.count += count
    group.added_ms = min(group.added_ms, added_ms)
    group.nearest_ms = min(group.nearest_ms, deadline_ms)
    group.farthest_ms = max(group.farthest_ms, deadline_ms)


cdef bint census_add(Census self, object callback, int64_t deadline_ms, int64_t added_ms, int64_t count) except False:
    """Count timers in the group of their callback."""
    target, owner = census_target(callback)
    census_count(census_group(self, target, owner), deadline_ms, added_ms, count)
    return True


cdef bint census_add_task(Census self, TimerTask task) except False:
    cdef int64_t deadline_ms = hw_peek64(&task.task.deadline_ms)
    cdef int64_t added_ms = deadline_ms - hw_peek64(&task.task.delay_ms)
    if isinstance(task, TermsTask):
        added_ms -= (<TermsTask>task).terms.put_off_ms
    return task_state(&task.task) != TASK_PENDING or census_add(self, census_callback(task), deadline_ms, added_ms, 1)


cdef bint census_add_batch(Census self, TimerBatch batch, const Sighting* one) except False:
    with cython.critical_section(batch):
        callback = batch.callback_      # None once all have run
    return callback is None or census_add(self, callback, one.expiration_ms, hw_peek64(&batch.batch.added_ms), one.number)


cdef list census_rows(Census self):
    """Return [(target, owner, count, the earliest added_ms, the first and the last deadline_ms)]."""
    cdef CensusGroup group
    cdef list rows = []
    for group in self.groups.values():
        rows.append((group.target, group.owner, group.count, group.added_ms, group.nearest_ms, group.farthest_ms))
    return rows


cdef list core_census(BaseTimer self):
    cdef Census census = Census.__new__(Census)
    cdef Sightings found
    cdef object one
    cdef Turn turn
    cdef int64_t i
    census.groups = {}
    sightings_begin(&found)
    found.has_batches = True
    try:
        sightings_take(&found, self.timer)
        turn_begin(&turn)
        for i in range(found.count):
            one = <object>found.items[i].task
            if isinstance(one, TimerBatch):
                census_add_batch(census, one, &found.items[i])
            else:
                census_add_task(census, one)
            turn_step(&turn)
    finally:
        sightings_free(&found)
    return census_rows(census)
