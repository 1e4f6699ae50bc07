# Looking into a Timer: what is pending, and where. Under the lock only a C array is filled; making Python objects there
# could start the garbage collector, whose finalizers may want the lock.

cdef inline int64_t timer_count(Timer* timer):
    """How many are pending. One look, unless there are inboxes, which have to be counted in."""
    cdef int64_t count
    if not HW_INBOXES or not hw_load(&timer.inboxes):
        return hw_peek64(&timer.pending)
    lock_with_gil(timer)
    count = timer.pending
    lock_release(timer)
    return count


cdef struct Sighting:
    PyObject* task          # with a reference
    int64_t expiration_ms
    int64_t bucket_ms
    int32_t level           # from 1; 0: in no bucket, but due already
    int32_t index


cdef void list_inspect_locked(const Entry* head, const Bucket* bucket, Sighting* sightings,
                              int64_t* count) noexcept:
    cdef const Entry* entry = head.next
    cdef Sighting* sighting
    while entry is not head:
        if entry.place == ENTRY_OF_TASK:
            sighting = &sightings[count[0]]
            sighting.task = <PyObject*>(<const char*>entry - entry_offset)
            Py_INCREF(<object>sighting.task)        # dropped in timer_inspect
            sighting.expiration_ms = entry.expiration_ms
            sighting.bucket_ms = bucket.entries.expiration_ms if bucket is not NULL else entry.expiration_ms
            sighting.level = bucket.level if bucket is not NULL else 0
            sighting.index = bucket.entries.bucket_index if bucket is not NULL else 0
            count[0] += 1
        entry = entry.next


cdef list timer_inspect(Timer* timer, Level* levels_out, int32_t* level_count_out):
    """All pending tasks as (level, index, bucket_ms, expiration_ms, task): what is due first, then coarsest level first,
    each bucket in order. A stable sort by tick gives the order in which they will run."""
    cdef Sighting* sightings = NULL
    cdef Bucket* bucket
    cdef int64_t room, count = 0, j
    cdef int32_t i, k
    cdef list found = []
    while True:
        room = hw_peek64(&timer.pending)
        sightings = <Sighting*>PyMem_RawMalloc((room + 1) * sizeof(Sighting))
        if sightings is NULL:
            raise MemoryError
        lock_with_gil(timer)
        if timer.pending <= room:
            break
        lock_release(timer)
        PyMem_RawFree(sightings)
    level_count_out[0] = timer.wheel.level_count
    memcpy(levels_out, timer.wheel.levels, timer.wheel.level_count * sizeof(Level))
    list_inspect_locked(&timer.ready, NULL, sightings, &count)
    list_inspect_locked(&timer.wheel.due, NULL, sightings, &count)
    list_inspect_locked(&timer.wheel.flush, NULL, sightings, &count)
    for k in reversed(range(timer.wheel.level_count)):
        for i in range(timer.wheel.wheel_size):
            bucket = &timer.wheel.levels[k].buckets[i]
            list_inspect_locked(&bucket.entries, bucket, sightings, &count)
    lock_release(timer)
    try:
        for j in range(count):
            found.append((sightings[j].level, sightings[j].index, sightings[j].bucket_ms,
                          sightings[j].expiration_ms, <object>sightings[j].task))
    finally:
        for j in range(count):
            Py_DECREF(<object>sightings[j].task)
        PyMem_RawFree(sightings)
    return found


cdef object timer_snapshot(Timer* timer, int32_t first_level):
    cdef Level levels[MAX_LEVELS]
    cdef int32_t level_count, k
    cdef dict buckets = {}
    cdef list pictures = []
    cdef list queue = []
    cdef list of_level
    cdef list due = []
    for level, index, bucket_ms, _, task in timer_inspect(timer, levels, &level_count):
        if level == 0:
            due.append(task)
        elif level > first_level:
            buckets.setdefault((bucket_ms, level, index), []).append(task)
    for (bucket_ms, level, index), tasks in sorted(buckets.items(), key=first_item):
        queue.append(Bucket_(level, index, bucket_ms, tuple(tasks)))
    for k in range(first_level, level_count):
        of_level = []
        for bucket in queue:
            if bucket.level == k + 1:
                of_level.append(bucket)
        pictures.append(Level_(levels[k].tick_ms, <object>levels[k].tick_ms * timer.wheel.wheel_size,
                               levels[k].current_time_ms, tuple(of_level)))
    return WheelSnapshot(tuple(pictures), tuple(queue), tuple(due) if first_level == 0 else ())


def first_item(pair):
    return pair[0]


cdef list timer_pending(Timer* timer):
    """The pending tasks in the order in which they will run."""
    cdef Level levels[MAX_LEVELS]
    cdef int32_t level_count
    cdef list found = timer_inspect(timer, levels, &level_count)
    cdef list numbered = []
    cdef list tasks = []
    tick_ms = levels[0].tick_ms
    # Neither `*_, task` nor a lambda for a key: where there is no memory, Cython's code for them keeps a task for ever.
    for j in range(len(found)):
        numbered.append((found[j][0] > 0, found[j][3] // tick_ms, j))
    numbered.sort()
    for place in numbered:
        tasks.append(found[place[2]][4])
    return tasks


cdef list timer_resting(Timer* timer):
    """The tasks of call_every that were handed out and have not come back."""
    cdef list found
    cdef Entry* entry
    cdef Py_ssize_t i, count
    lock_with_gil(timer)
    count = timer.resting_count
    lock_release(timer)
    found = [None] * count
    lock_with_gil(timer)
    entry = timer.resting.next
    for i in range(min(len(found), timer.resting_count)):
        found[i] = entry_task(entry)
        entry = entry.next
    lock_release(timer)
    while found and found[len(found) - 1] is None:
        found.pop()
    return found
