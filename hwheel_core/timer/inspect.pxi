# Inspection of a Timer: its pending tasks, a snapshot of its buckets, and their occupancy.
#
# Under the lock only C arrays are filled. Creating a Python object there could start the garbage collector, whose finalizers
# may need the lock. A bookmark of the walk is on the stack, so the walk removes it before it returns.

cdef inline int64_t timer_count(Timer* timer):
    """Return the number of pending timers. This is one read, unless there are inboxes, whose letters must be counted."""
    cdef int64_t count
    if not HW_INBOXES or not hw_load(&timer.inboxes):
        return hw_peek64(&timer.pending)
    lock_with_gil(timer)
    count = timer.pending
    lock_release(timer)
    return count


# A walk over all entries releases the lock and the GIL after each turn, and entries move in between. A bookmark keeps its place
# in a list. The walk first finishes a cascade in progress. Then it goes from coarser levels to finer ones and to `ready`, in the
# direction in which entries move. So it misses no entry that stays pending and is not rescheduled. If an entry moves ahead of
# the walk, the walk finds it twice.


cdef bint sightings_reserve(Sightings* self, int64_t capacity) except False:
    cdef Sighting* items
    if capacity > self.capacity:
        items = <Sighting*>PyMem_RawRealloc(self.items, capacity * sizeof(Sighting))
        if items is NULL:
            raise MemoryError
        self.items = items
        self.capacity = capacity
    return True


cdef void sightings_free(Sightings* self) noexcept:
    """Drop the references that were not passed on."""
    cdef Turn turn
    cdef int64_t i
    turn_begin(&turn)
    for i in range(self.count):
        if self.items[i].task is not NULL:
            Py_DECREF(<object>self.items[i].task)
            turn_step(&turn)
    with nogil:
        PyMem_RawFree(self.items)


cdef void timer_settle(Timer* timer) noexcept nogil:
    """Finish a cascade that is under way."""
    lock_wait(timer)
    while wheel_is_advancing(&timer.wheel) and timer_step_locked(timer, timer.wheel.taken_ms):
        lock_yield(timer)
    lock_release(timer)


cdef void sightings_lock(const Sightings* self, Timer* timer) noexcept:
    """Take the lock while no cascade is under way. The wheel of a loop changes only with the GIL: see loop/structs.pxd."""
    lock_with_gil(timer)
    while wheel_is_advancing(&timer.wheel):
        if self.is_of_loop:
            timer_step_locked(timer, timer.wheel.taken_ms)
        lock_release(timer)
        if self.is_of_loop:
            yield_gil()
        else:
            with nogil:
                timer_settle(timer)
        lock_with_gil(timer)


cdef bint sightings_pause(Sightings* self, Timer* timer, Turn* turn) except False:
    """Release lock and GIL between two turns."""
    lock_release(timer)
    try:
        turn_end(turn)
        sightings_reserve(self, max(hw_peek64(&timer.pending), self.count) + SURVEY_SLICE)
    finally:
        sightings_lock(self, timer)
    return True


cdef inline void sightings_add(Sightings* self, const Entry* entry, const Bucket* bucket) noexcept:
    cdef Sighting* sighting = &self.items[self.count]
    sighting.task = <PyObject*>(<const char*>entry - self.entry_offset)
    Py_INCREF(<object>sighting.task)        # dropped by sightings_free, or passed on
    sighting.expiration_ms = entry.expiration_ms
    sighting.bucket_ms = bucket.entries.expiration_ms if bucket is not NULL else entry.expiration_ms
    sighting.level = bucket.level if bucket is not NULL else 0
    sighting.index = bucket.entries.bucket_index if bucket is not NULL else 0
    sighting.number = self.count
    self.count += 1


cdef inline void sightings_add_of_batch(Sightings* self, const Entry* entry, bint is_ready) noexcept:
    """Add a timer of a batch; for the first ready one, all that are ready."""
    cdef Sighting* sighting = &self.items[self.count]
    cdef Batch* batch = entry_batch(entry)
    if is_ready and batch.due_begin != entry.due_index:
        return
    sighting.task = <PyObject*>batch.object
    Py_INCREF(<object>sighting.task)        # dropped by sightings_free
    sighting.expiration_ms = entry.expiration_ms
    sighting.number = batch_waiting(batch) if is_ready else 1
    self.count += 1


cdef bint sightings_add_list(Sightings* self, Timer* timer, const Entry* head, const Bucket* bucket, Turn* turn) except False:
    """Add the tasks of a list. The lock is held, and released in between."""
    cdef Bookmark bookmark
    cdef const Entry* entry
    bookmark_put(&bookmark, &timer.wheel, head)
    try:
        while True:
            if turn_is_over(turn) or self.count == self.capacity:
                sightings_pause(self, timer, turn)
            entry = bookmark_step(&bookmark)
            if entry is NULL:
                return True
            if entry.place == ENTRY_OF_TASK:
                sightings_add(self, entry, bucket)
            elif self.has_batches:
                sightings_add_of_batch(self, entry, bucket is NULL)
    finally:
        bookmark_remove(&bookmark, &timer.wheel)


cdef inline void sightings_begin(Sightings* self) noexcept:
    memset(self, 0, sizeof(Sightings))
    self.entry_offset = entry_offset


cdef bint sightings_take(Sightings* self, Timer* timer) except False:
    """Add all pending tasks. The caller calls sightings_begin first, and sightings_free also after an exception."""
    cdef Bucket* bucket
    cdef Turn turn
    cdef int32_t i, k
    sightings_reserve(self, hw_peek64(&timer.pending) + 1)
    turn_begin(&turn)
    sightings_lock(self, timer)
    try:
        for k in reversed(range(timer.wheel.level_count)):
            for i in range(timer.wheel.wheel_size):
                bucket = &timer.wheel.levels[k].buckets[i]
                if not list_is_empty(&bucket.entries):
                    sightings_add_list(self, timer, &bucket.entries, bucket, &turn)
        if not self.is_of_loop:         # a loop moves no bookmarks in its ready list, which is short
            sightings_add_list(self, timer, &timer.ready, NULL, &turn)
    finally:
        lock_release(timer)
    return True


cdef int sightings_by_task(const void* one, const void* other) noexcept nogil:
    cdef const Sighting* a = <const Sighting*>one
    cdef const Sighting* b = <const Sighting*>other
    if a.task is b.task:
        return (a.number > b.number) - (a.number < b.number)
    return (<uintptr_t>a.task > <uintptr_t>b.task) - (<uintptr_t>a.task < <uintptr_t>b.task)


cdef int sightings_by_time(const void* one, const void* other) noexcept nogil:
    """Compare by the order of the runs. Of one tick, the tasks of a coarser level come first: see wheel/wheel.pxi."""
    cdef const Sighting* a = <const Sighting*>one
    cdef const Sighting* b = <const Sighting*>other
    if (a.level > 0) != (b.level > 0):
        return (a.level > 0) - (b.level > 0)
    if a.level and a.expiration_ms != b.expiration_ms:
        return (a.expiration_ms > b.expiration_ms) - (a.expiration_ms < b.expiration_ms)
    if a.level != b.level:
        return b.level - a.level
    return (a.number < b.number) - (a.number > b.number)


cdef bint sightings_drop_doubles(Sightings* self) noexcept:
    """Keep the last sighting of each task."""
    cdef Turn turn
    cdef int64_t i
    with nogil:
        qsort(self.items, self.count, sizeof(Sighting), sightings_by_task)
    turn_begin(&turn)
    for i in range(1, self.count):
        if self.items[i].task is self.items[i - 1].task:
            Py_DECREF(<object>self.items[i].task)       # of the earlier sighting
            self.items[i - 1].task = NULL
        turn_step(&turn)
    return True


cdef bint sightings_sort(Sightings* self, int64_t tick_ms) noexcept:
    """Sort by the order in which the tasks will run. Each expiration_ms becomes the number of its tick."""
    cdef int64_t i
    sightings_drop_doubles(self)
    with nogil:
        for i in range(self.count):
            self.items[i].expiration_ms //= tick_ms
        qsort(self.items, self.count, sizeof(Sighting), sightings_by_time)
    return True


cdef list timer_pending(Timer* timer):
    """Return the pending tasks in the order in which they will run."""
    cdef Sightings found
    cdef list tasks = []
    cdef Turn turn
    cdef int64_t i
    cdef PyObject* task
    sightings_begin(&found)
    try:
        sightings_take(&found, timer)
        sightings_sort(&found, timer.wheel.levels[0].tick_ms)
        turn_begin(&turn)
        for i in range(found.count):
            task = found.items[i].task
            if task is not NULL and task_state(&(<TimerTask>task).task) == TASK_PENDING:
                tasks.append(<object>task)
            turn_step(&turn)
    finally:
        sightings_free(&found)
    return tasks


cdef object timer_snapshot(Timer* timer, int32_t first_level):
    cdef Level levels[MAX_LEVELS]
    cdef int32_t level_count, k
    cdef int64_t i
    cdef Sightings found
    cdef Sighting* one
    cdef dict buckets = {}
    cdef list pictures = []
    cdef list queue = []
    cdef list of_level
    cdef list due = []
    lock_with_gil(timer)
    level_count = timer.wheel.level_count
    memcpy(levels, timer.wheel.levels, level_count * sizeof(Level))
    lock_release(timer)
    sightings_begin(&found)
    try:
        sightings_take(&found, timer)
        for i in reversed(range(found.count)):
            one = &found.items[i]
            if one.level == 0:
                due.append(<object>one.task)
            elif one.level > first_level:
                buckets.setdefault((one.bucket_ms, one.level, one.index), []).append(<object>one.task)
    finally:
        sightings_free(&found)
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
