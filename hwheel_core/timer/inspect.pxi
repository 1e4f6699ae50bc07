# Inspection of a Timer: its pending tasks, a snapshot of its buckets, and their occupancy.
#
# Under the lock only C arrays are filled. Creating a Python object there could start the garbage collector, whose finalizers
# may need the lock.

cdef inline int64_t timer_count(Timer* timer):
    """Return the number of pending timers. This is one read, unless there are inboxes, whose letters must be counted."""
    cdef int64_t count
    if not HW_INBOXES or not hw_load(&timer.inboxes):
        return hw_peek64(&timer.pending)
    lock_with_gil(timer)
    count = timer.pending
    lock_release(timer)
    return count


cdef struct Sighting:
    # A pending task as it was found.
    PyObject* task          # with a reference
    int64_t expiration_ms
    int64_t bucket_ms
    int32_t level           # from 1; 0: in no bucket, because it is due
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


cdef Sighting* sightings_new_locked(Timer* timer) except NULL:
    """Take the lock, and return room for all tasks that are pending then."""
    cdef Sighting* sightings
    cdef int64_t capacity
    while True:
        capacity = hw_peek64(&timer.pending)
        sightings = <Sighting*>PyMem_RawMalloc((capacity + 1) * sizeof(Sighting))
        if sightings is NULL:
            raise MemoryError
        lock_with_gil(timer)
        if timer.pending <= capacity:
            return sightings
        lock_release(timer)
        PyMem_RawFree(sightings)


cdef list timer_inspect(Timer* timer, Level* levels_out, int32_t* level_count_out):
    """Return all pending tasks as (level, index, bucket_ms, expiration_ms, task).

    Due tasks come first, then coarser levels before finer ones, each bucket in order. A stable sort by tick gives the order in
    which the tasks will run.
    """
    cdef list found = []
    cdef Sighting* sightings
    cdef Bucket* bucket
    cdef int64_t count = 0, j
    cdef int32_t i, k
    sightings = sightings_new_locked(timer)
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
    """Return the pending tasks in the order in which they will run."""
    cdef Level levels[MAX_LEVELS]
    cdef int32_t level_count
    cdef list found = timer_inspect(timer, levels, &level_count)
    cdef list numbered = []
    cdef list tasks = []
    tick_ms = levels[0].tick_ms
    # No `*_, task` and no lambda as a key: on a failed allocation, Cython's code for these leaks a reference to a task.
    for j in range(len(found)):
        numbered.append((found[j][0] > 0, found[j][3] // tick_ms, j))
    numbered.sort()
    for place in numbered:
        tasks.append(found[place[2]][4])
    return tasks


cdef list timer_resting(Timer* timer):
    """Return the tasks of call_every whose run is under way."""
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


# --- occupancy ---------------------------------------------------------------------------------------------------


cdef list lateness_steps(const Lateness* self):
    """Return [(upper edge in us, count)] of the non-empty steps."""
    cdef list steps = []
    cdef int i
    for i in range(LATENESS_BUCKETS):
        if self.buckets[i]:
            steps.append((lateness_upper_us(i), self.buckets[i]))
    return steps


cdef list occupancy_levels(const Occupancy* self, int64_t wheel_size):
    """Return [(tick_ms, interval_ms, non-empty buckets, buckets per column, [timers of each column])]."""
    cdef list levels = []
    cdef list counts
    cdef int64_t columns
    cdef int32_t i, k
    for k in range(self.level_count):
        columns = min(self.columns, (wheel_size + self.widths[k] - 1) // self.widths[k])
        counts = []
        for i in range(columns):
            counts.append(self.counts[k * self.columns + i])
        interval_ms = <object>self.levels[k].tick_ms * wheel_size
        levels.append((self.levels[k].tick_ms, interval_ms, self.filled[k], self.widths[k], counts))
    return levels


cdef tuple timer_occupancy(Timer* timer, int32_t level_count, int32_t columns):
    """Return (ready timers, whether there are more, lateness_steps, occupancy_levels). Releases the GIL."""
    cdef Occupancy* occupancy = <Occupancy*>PyMem_RawCalloc(1, sizeof(Occupancy))
    if occupancy is NULL:
        raise MemoryError
    try:
        occupancy.level_count = level_count
        occupancy.columns = columns
        occupancy.counts = <int64_t*>PyMem_RawCalloc(<size_t>level_count * columns, sizeof(int64_t))
        if occupancy.counts is NULL:
            raise MemoryError
        with nogil:
            timer_measure_occupancy(timer, occupancy)
        return (occupancy.ready, occupancy.ready_is_more != 0, lateness_steps(&occupancy.lateness),
                occupancy_levels(occupancy, timer.wheel.wheel_size))
    finally:
        PyMem_RawFree(occupancy.counts)
        PyMem_RawFree(occupancy)
