# Work for the threads that main.c starts. There is no Python here, so ThreadSanitizer sees every access and every lock.
#
# A Scene is a timer with its tasks and batches. Any thread uses any task and any batch, as threads of Python can. Python's
# reference counts are replaced: tasks live as long as the scene, and a batch counts its references, one of them the
# timer's, like a TimerBatch.

cdef extern from "native.h" nogil:
    int64_t hw_atomic_add(int64_t*, int64_t)

cdef enum:
    SCENE_TASKS = 192
    SCENE_SLOTS = 6
    SCENE_LONGEST = 400     # timers of a batch
    MOST_OF_A_BATCH = 5000  # a longer batch is not extended
    COLUMNS = 8
    CALLS = 64              # recent calls of all threads, which any thread cancels
    CALLS_AT_ONCE = 4096    # calls of one block of memory
    MOST_CALLS = 200        # blocks of a scene

cdef struct Shared:
    int64_t references      # of the slot, the timer, and the threads that use it
    Batch* batch

cdef struct Scene:
    Timer* timer
    uintptr_t hand_ms       # the time of a clock that is set by hand
    uintptr_t over          # the threads shall end
    hw_mutex slots_lock
    Shared* slots[6]        # SCENE_SLOTS
    Task tasks[192]         # SCENE_TASKS
    uintptr_t calls[64]     # CALLS
    hw_mutex blocks_lock
    void* blocks[200]       # MOST_CALLS: freed with the scene
    int block_count


cdef public void scenes_begin() noexcept nogil:
    """Initialize the core like an import of it."""
    hw_mutex_init(&orphans)
    hw_mutex_init(&registry)
    hw_at_fork(before_fork, after_fork_in_parent, after_fork_in_child)


cdef public uint64_t draw(uint64_t* chance, uint64_t below) noexcept nogil:
    chance[0] ^= chance[0] << 13
    chance[0] ^= chance[0] >> 7
    chance[0] ^= chance[0] << 17
    return chance[0] % below


cdef int64_t draw_delay(uint64_t* chance) noexcept nogil:
    """Draw a delay: mostly some ms, sometimes beyond several levels, rarely 0."""
    cdef uint64_t kind = draw(chance, 16)
    if kind == 0:
        return 0
    return <int64_t>draw(chance, 1 << (4 if kind < 10 else 10 if kind < 15 else 30))


cdef public Scene* scene_new(int by_hand) noexcept nogil:
    cdef Scene* self = <Scene*>PyMem_RawCalloc(1, sizeof(Scene))
    cdef Instant now
    cdef int i
    self.timer = timer_new(1, 4, 0, CLOCK_KIND_CALLABLE if by_hand else CLOCK_KIND_MONOTONIC, True)
    self.timer.max_pending = 1000 if by_hand else INT64_MAX     # with a limit, adds do not use inboxes
    self.timer.has_worker = not by_hand
    self.hand_ms = 1000
    scene_now(self, &now)
    wheel_advance_clock(&self.timer.wheel, now.ms)
    self.timer.wheel.taken_ms = now.ms
    hw_mutex_init(&self.slots_lock)
    hw_mutex_init(&self.blocks_lock)
    timer_open_waker(self.timer)
    for i in range(SCENE_TASKS):
        self.tasks[i].owner = <uintptr_t>self.timer
        self.tasks[i].entry.place = ENTRY_OF_TASK
        self.tasks[i].flags = TASK_OWN_RUN | (TASK_REPEATS if i % 4 == 0 else 0)
    return self


cdef void scene_now(Scene* self, Instant* now) noexcept nogil:
    if self.timer.clock == CLOCK_KIND_CALLABLE:
        now[0] = Instant(<int64_t>hw_load(&self.hand_ms), 0)
    else:
        clock_read(self.timer.clock, now)


cdef bint scene_resolve(Scene* self, Status status) noexcept nogil:
    """Do what timer_resolve does, without Python."""
    return status == NEEDS_LEVEL and timer_grow(self.timer)


# --- tasks -------------------------------------------------------------------------------------------------------


cdef void scene_change_task(Scene* self, uint64_t* chance) noexcept nogil:
    cdef Timer* timer = self.timer
    cdef Task* task = &self.tasks[draw(chance, SCENE_TASKS)]
    cdef uint64_t what = draw(chance, 8)
    cdef Instant now, delay = Instant(draw_delay(chance), 0)
    cdef Deadline deadline
    cdef int64_t deadline_ms, expiration_ms
    cdef Status status = TRY_AGAIN
    scene_now(self, &now)
    deadline.now, deadline.delay = now, delay
    deadline_set(&deadline, timer)
    deadline_ms, expiration_ms = deadline.deadline_ms, deadline.expiration_ms
    while status == TRY_AGAIN or scene_resolve(self, status):
        if not lock_try(timer):
            lock_wait(timer)
        if what < 4:
            if task.state == TASK_CANCELLED:
                task.state = TASK_NEW               # reuse the memory for a new task
            if task.state != TASK_PENDING:
                task.deadline_ms = deadline_ms
            status = task_add_locked(timer, task, expiration_ms, TAKE_DUE)
        elif what < 6:
            status = task_cancel_locked(timer, task)
        else:
            status = task_reschedule_locked(timer, task, expiration_ms, delay.ms, deadline_ms)
        lock_release(timer)


cdef public void scene_change_tasks(Scene* self, uint64_t chance) noexcept nogil:
    while not hw_load(&self.over):
        scene_change_task(self, &chance)


# --- calls, as of call_later: added once by the thread that creates them, cancelled by any thread -------------------


cdef Task* scene_more_calls(Scene* self) noexcept nogil:
    """Return memory for CALLS_AT_ONCE calls; NULL if the scene has enough."""
    cdef Task* block = NULL
    hw_mutex_lock(&self.blocks_lock)
    if self.block_count < MOST_CALLS:
        block = <Task*>PyMem_RawCalloc(CALLS_AT_ONCE, sizeof(Task))
        self.blocks[self.block_count] = block
        self.block_count += 1
    hw_mutex_unlock(&self.blocks_lock)
    return block


cdef void scene_call(Scene* self, Task* task, uint64_t* chance) noexcept nogil:
    """Add a call through an inbox, or through the lock."""
    cdef Timer* timer = self.timer
    cdef Instant now, delay = Instant(draw_delay(chance), 0)
    cdef Deadline deadline
    cdef int64_t expiration_ms
    cdef Status status = TRY_AGAIN
    scene_now(self, &now)
    task.owner = <uintptr_t>timer
    task.entry.place = ENTRY_OF_TASK
    deadline.now, deadline.delay = now, delay
    deadline_set(&deadline, timer)
    task.deadline_ms, expiration_ms = deadline.deadline_ms, deadline.expiration_ms
    if inbox_add(timer, task, expiration_ms, now.ms * NS_PER_MS + now.ns):
        return
    while status == TRY_AGAIN or scene_resolve(self, status):
        lock_wait(timer)
        status = task_add_locked(timer, task, expiration_ms, TAKE_DUE)
        lock_release(timer)


cdef void scene_cancel(Scene* self, Task* task) noexcept nogil:
    if inbox_cancel(self.timer, task):
        return
    lock_wait(self.timer)
    task_cancel_locked(self.timer, task)
    lock_release(self.timer)


cdef public void scene_make_calls(Scene* self, uint64_t chance) noexcept nogil:
    cdef Task* block = NULL
    cdef Task* task
    cdef int64_t used = CALLS_AT_ONCE
    while not hw_load(&self.over):
        if used == CALLS_AT_ONCE:
            block = scene_more_calls(self)
            used = 0
        if block is not NULL:
            scene_call(self, &block[used], &chance)
            hw_store(&self.calls[draw(&chance, CALLS)], <uintptr_t>&block[used])
            used += 1
        task = <Task*>hw_load(&self.calls[draw(&chance, CALLS)])
        if task is not NULL and draw(&chance, 4):
            scene_cancel(self, task)


# --- batches -----------------------------------------------------------------------------------------------------


cdef void shared_release(Shared* self) noexcept nogil:
    cdef void* blocks = NULL
    if hw_atomic_add(&self.references, -1) == 0:
        batch_leave_parts(self.batch, &blocks)
        blocks_free(blocks)
        PyMem_RawFree(self.batch)
        PyMem_RawFree(self)


cdef void shared_ended(Shared* self, const BatchRelease* release) noexcept nogil:
    blocks_free(release.blocks)
    if release.is_finished:
        shared_release(self)            # the timer's reference


cdef Shared* scene_share(Scene* self, uint64_t slot, Shared* another) noexcept nogil:
    """Return the batch of a slot with a new reference. With `another`, store it, and return the old one with its reference."""
    cdef Shared* found
    hw_mutex_lock(&self.slots_lock)
    found = self.slots[slot]
    if another is not NULL:
        self.slots[slot] = another
    elif found is not NULL:
        hw_atomic_add(&found.references, 1)
    hw_mutex_unlock(&self.slots_lock)
    return found


cdef int64_t shared_length(Shared* self) noexcept nogil:
    cdef int64_t length
    lock_wait(self.batch.timer)
    length = self.batch.length
    lock_release(self.batch.timer)
    return length


cdef Shared* scene_add_batch(Scene* self, uint64_t* chance, const int64_t* delays_ms) noexcept nogil:
    """Add a batch and return it with a reference; NULL if the timer is full or closed."""
    cdef Shared* shared = <Shared*>PyMem_RawCalloc(1, sizeof(Shared))
    cdef Batch* batch = batch_new()
    cdef int64_t count = 1 + <int64_t>draw(chance, SCENE_LONGEST)
    cdef Delays delays = Delays(<const char*>delays_ms, sizeof(int64_t), count)
    cdef Instant now
    cdef Placement at
    cdef Status status
    shared.references = 2               # the caller's and the timer's
    shared.batch = batch
    batch_prepare(batch, count)
    batch.object = <void*>shared
    batch.timer = self.timer
    scene_now(self, &now)
    placement_set(&at, self.timer, &now, delays)
    status = batch_extend(batch, NULL, delays, at, 0)
    if status != OK:
        shared.references = 1
        shared_release(shared)
        return NULL
    return shared


cdef void scene_extend_batch(Scene* self, Shared* shared, uint64_t* chance, const int64_t* delays_ms) noexcept nogil:
    cdef Batch* batch = shared.batch
    cdef BatchMemory memory
    cdef int64_t count = 1 + <int64_t>draw(chance, SCENE_LONGEST), first
    cdef Delays delays = Delays(<const char*>delays_ms, sizeof(int64_t), count)
    cdef BatchRelease release = BatchRelease(NULL, False)
    cdef Instant now
    cdef Placement at
    cdef Status status = TRY_AGAIN
    memset(&memory, 0, sizeof(BatchMemory))
    scene_now(self, &now)
    placement_set(&at, self.timer, &now, delays)
    lock_wait(self.timer)
    if batch_hold_locked(batch):
        hw_atomic_add(&shared.references, 1)        # the timer's
    lock_release(self.timer)
    while True:
        if status == TRY_AGAIN:
            first = shared_length(shared)
            if first > MOST_OF_A_BATCH:
                break
        elif status == NEEDS_MEMORY:
            batch_memory_new(&memory)
        else:
            break
        status = batch_extend(batch, &memory, delays, at, first)
    batch_memory_free(&memory)
    lock_wait(self.timer)
    batch_unhold_locked(batch, &release)
    lock_release(self.timer)
    shared_ended(shared, &release)


cdef void scene_change_batch(Scene* self, uint64_t* chance) noexcept nogil:
    cdef int64_t indices[400]           # SCENE_LONGEST
    cdef int64_t delays_ms[400]
    cdef uint64_t slot = draw(chance, SCENE_SLOTS), what = draw(chance, 10)
    cdef Shared* shared = NULL if what == 0 else scene_share(self, slot, NULL)
    cdef int64_t count, moved = 0, i
    cdef Indices named = Indices(NULL, 0)
    cdef BatchRelease release = BatchRelease(NULL, False)
    cdef Delays delays
    cdef Instant now
    cdef Placement at
    cdef Status status
    for i in range(SCENE_LONGEST):
        delays_ms[i] = draw_delay(chance)
        indices[i] = <int64_t>draw(chance, SCENE_LONGEST)
    if shared is NULL:
        shared = scene_add_batch(self, chance, delays_ms)
        if shared is not NULL:
            shared = scene_share(self, slot, shared)
    elif what < 5:
        count = shared_length(shared) if what == 1 else <int64_t>draw(chance, 40)
        named.count = count
        if what != 1:
            named.data = indices
        batch_cancel(shared.batch, named, &release)
        shared_ended(shared, &release)
    elif what < 7:
        scene_extend_batch(self, shared, chance, delays_ms)
    else:
        count = min(shared_length(shared), SCENE_LONGEST)
        scene_now(self, &now)
        delays = Delays(<const char*>delays_ms, sizeof(int64_t), count)
        placement_set(&at, self.timer, &now, delays)
        named.count = count
        if what != 7:
            named.data = indices
        status = batch_reschedule(shared.batch, named, delays, at, &moved)
    if shared is not NULL:
        shared_release(shared)


cdef public void scene_change_batches(Scene* self, uint64_t chance) noexcept nogil:
    while not hw_load(&self.over):
        scene_change_batch(self, &chance)


# --- the reaper, the executor, and an inspecting thread -------------------------------------------------------------


cdef bint scene_take(Scene* self, uint64_t* chance) noexcept nogil:
    """Take the next expired entry, and run it or put it back. Return False if there is none."""
    cdef Timer* timer = self.timer
    cdef Instant now
    cdef Entry* entry
    cdef Shared* shared
    cdef int64_t indices[400]           # SCENE_LONGEST
    cdef int64_t limit
    cdef BatchRelease release = BatchRelease(NULL, False)
    cdef bint back = draw(chance, 16) == 0
    if hw_flag(&timer.stopping):
        return False
    scene_now(self, &now)
    lock_wait(timer)
    entry = timer_take_locked(timer, &now)
    lock_release(timer)
    if entry is NULL:
        return False
    if entry.place != ENTRY_OF_TASK:
        shared = <Shared*>entry_batch(entry).object
        hw_atomic_add(&shared.references, 1)
        if back:
            lock_wait(timer)
            batch_put_back_locked(shared.batch, &release)
            lock_release(timer)
        else:
            limit = <int64_t>draw(chance, SCENE_LONGEST)
            batch_take(shared.batch, indices, limit, &now, &release)
        shared_ended(shared, &release)
        shared_release(shared)
    elif back:
        lock_wait(timer)
        task_put_back_locked(timer, <Task*>entry)
        lock_release(timer)
    return True


cdef public void scene_reap(Scene* self, uint64_t chance) noexcept nogil:
    """Run the reaper; with a clock set by hand it also dispatches."""
    cdef Instant now
    cdef Reading reading
    cdef ReapStatus status
    cdef int64_t generation = timer_take_role(self.timer, ROLE_REAPER)
    while not hw_flag(&self.timer.stopping):
        if self.timer.clock == CLOCK_KIND_CALLABLE:
            scene_now(self, &now)
            reading = Reading(now, now)
            status = timer_reap(self.timer, &reading, NS_PER_MS, True, NULL)
        else:
            timer_is_ready_at_once(self.timer)
            status = timer_reap(self.timer, NULL, -1, False, NULL)
        if status == REAP_READY:
            while scene_take(self, &chance):
                pass
    if generation >= 0:
        timer_leave_role(self.timer, ROLE_REAPER, generation)


cdef public void scene_execute(Scene* self, uint64_t chance) noexcept nogil:
    cdef int64_t generation = timer_take_role(self.timer, ROLE_EXECUTOR)
    while timer_await_work(self.timer, generation):
        while scene_take(self, &chance):
            pass
    if generation >= 0:
        timer_leave_role(self.timer, ROLE_EXECUTOR, generation)


cdef public void scene_inspect(Scene* self, uint64_t chance) noexcept nogil:
    """Measure the buckets, try to start a reaper, and set the clock by hand forward."""
    cdef Occupancy* occupancy
    cdef int64_t next_ms = 0
    cdef bint ask_again
    while not hw_load(&self.over):
        occupancy = <Occupancy*>PyMem_RawCalloc(1, sizeof(Occupancy))
        occupancy.columns = COLUMNS
        lock_wait(self.timer)
        occupancy.level_count = self.timer.wheel.level_count
        timer_next_locked(self.timer, &next_ms)
        lock_release(self.timer)
        occupancy.counts = <int64_t*>PyMem_RawCalloc(<size_t>occupancy.level_count * COLUMNS, sizeof(int64_t))
        timer_measure_occupancy(self.timer, occupancy)
        PyMem_RawFree(occupancy.counts)
        PyMem_RawFree(occupancy)
        if timer_start_role(self.timer, ROLE_REAPER, 1 + chance % 2, True, &ask_again):
            timer_not_started(self.timer, ROLE_REAPER, 1 + chance % 2)
        hw_store(&self.hand_ms, hw_load(&self.hand_ms) + draw(&chance, 3))


# --- the end -----------------------------------------------------------------------------------------------------


cdef public void scene_close(Scene* self) noexcept nogil:
    timer_close(self.timer, False)


cdef public void scene_stop(Scene* self) noexcept nogil:
    timer_stop(self.timer, False)


cdef public void scene_end_workers(Scene* self) noexcept nogil:
    hw_store(&self.over, True)


cdef public const char* scene_free(Scene* self, int64_t* added_out) noexcept nogil:
    """Return all pending tasks as close() does, and free the scene. Return a fault, or NULL."""
    cdef Timer* timer = self.timer
    cdef Entry* entry
    cdef Shared* shared
    cdef int64_t indices[8192]
    cdef BatchRelease release
    cdef const char* fault
    cdef int i
    timer_advance(timer, INT64_MAX)
    while True:
        lock_wait(timer)
        entry = timer_take_locked(timer, NULL)
        lock_release(timer)
        if entry is NULL:
            break
        if entry.place != ENTRY_OF_TASK:
            shared = <Shared*>entry_batch(entry).object
            release = BatchRelease(NULL, False)
            batch_take(shared.batch, indices, 8192, NULL, NULL)
            lock_wait(timer)
            batch_returned_locked(shared.batch, &release)
            lock_release(timer)
            shared_ended(shared, &release)
    lock_wait(timer)
    fault = timer_check_locked(timer)
    if fault is NULL and (timer.pending or timer.batches is not NULL):
        fault = "a closed timer has pending tasks"
    lock_release(timer)
    added_out[0] += timer.added
    for i in range(SCENE_SLOTS):
        if self.slots[i] is not NULL:
            shared_release(self.slots[i])
    timer_free(timer)
    for i in range(self.block_count):
        PyMem_RawFree(self.blocks[i])
    PyMem_RawFree(self)
    return fault


cdef public void timer_create_use_free(uint64_t chance) noexcept nogil:
    """Create, use, and free a timer in one thread, which changes the registry of timers."""
    cdef Timer* timer = timer_new(1, 2, 0, CLOCK_KIND_MANUAL, False)
    cdef Task task
    memset(&task, 0, sizeof(Task))
    task.owner = <uintptr_t>timer
    task.entry.place = ENTRY_OF_TASK
    lock_wait(timer)
    task_add_locked(timer, &task, 1, TAKE_DUE)
    lock_release(timer)
    timer_advance_manual(timer, <int64_t>draw(&chance, 4))
    lock_wait(timer)
    task_cancel_locked(timer, &task)
    lock_release(timer)
    timer_free(timer)
