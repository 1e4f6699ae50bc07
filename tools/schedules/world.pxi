# The world of a schedule: one timer, its tasks and batches, the operations of the scenarios, and a model of their results.
#
# A model entry is settled where nothing else can run: after the last step of an operation, or under the timer's lock. So the
# model and the core see all operations in the same order. An operation on a batch releases the lock in between. During
# this time its entries are `unsettled`, and some rules leave them out.

cdef extern from "scheduler.h" nogil:
    enum:
        START_MS
    int world_inboxes
    int world_meetings
    void fail(const char*, int64_t, int64_t)
    int decide_child()
    int decide_fault()
    void thread_start(void (*)(int64_t, int64_t, int64_t) noexcept nogil)
    void thread_is_server()
    void threads_end_others()
    void wait_until_quiet()
    int64_t step_number()
    int64_t step_at_time(int64_t)
    void clock_advance(int64_t)
    int64_t clock_now_ms()
    int64_t memory_live()
    void ignore_races(void*, size_t)
    void ignore_reads(bint)

cdef enum:
    TASKS = 8               # the second half belongs to a group
    BATCHES = 2
    LONGEST = 8             # timers of a batch
    ITEMS = 24              # TASKS + BATCHES * LONGEST

cdef enum Where:
    ABSENT
    WAITING                 # added, and not ended yet
    ENDED                   # ran, or was cancelled or returned

cdef struct Item:
    Where where
    int unsettled           # number of operations on its batch under way
    int holders             # a bit for each thread that is taking it out of `due`
    int is_seen             # its add has returned, so that other threads can have the task
    int64_t expiration_ms
    int64_t begun_at        # steps at which its add began and ended
    int64_t added_at

cdef struct GroupTask:
    Task task
    Member member

cdef struct World:
    Timer* timer
    Group* group
    GroupTask tasks[8]      # TASKS
    Batch* batches[2]       # BATCHES
    uintptr_t is_published[2]   # the add of a batch has returned, so that other threads can have it
    int references[2]       # to each batch: the scenario's and the timer's
    Item items[24]          # ITEMS
    int64_t added
    int64_t expired
    int64_t cancelled
    int64_t returned
    int reapers
    int executors
    int64_t reaper_ended_at # a step
    int64_t latest_add_at   # the step at which the latest add began that was not refused
    bint has_reaper         # at the beginning
    bint has_worker
    bint closed
    int64_t hurried_at      # the step at which drain() began; 0: it has not
    bint in_child

cdef World world
cdef public int planted_fault = 0       # the fault of planted.py that is active; 0: none


cdef void check(bint is_right, const char* what, int64_t found, int64_t expected) noexcept nogil:
    if not is_right:
        fail(what, found, expected)


cdef public const char* world_name(const void* place) noexcept nogil:
    """Return a name for the object of a step."""
    cdef const void** places = [&world.timer.lock, &world.timer.turnstile, &world.timer.work, &world.timer.waker,
                                &world.timer.mail, &world.timer.pending, &world.timer.stopping, &registry, &orphans]
    cdef const char** names = ["lock", "turnstile", "work", "waker", "mail", "pending", "stopping", "registry", "orphans"]
    cdef const char* boxes = <const char*>world.timer.inboxes
    cdef int i
    for i in range(9):
        if place == places[i]:
            return names[i]
    if boxes is not NULL and boxes <= <const char*>place < boxes + INBOXES * sizeof(Inbox):
        return "a field of an inbox"
    if <const char*>&world.tasks <= <const char*>place < <const char*>&world.tasks + sizeof(world.tasks):
        return "a field of a task"
    return "a word" if place is not NULL else ""


# --- the model ---------------------------------------------------------------------------------------------------


cdef void item_begin(int i, int64_t expiration_ms, int64_t begun_at) noexcept nogil:
    world.items[i].expiration_ms = expiration_ms
    world.items[i].begun_at = begun_at


cdef void item_added(int i) noexcept nogil:
    cdef Item* item = &world.items[i]
    check(item.where != WAITING, "added, but pending", i, -1)
    item.where = WAITING
    item.added_at = step_number()
    world.added += 1


cdef void item_moved(int i, int64_t expiration_ms) noexcept nogil:
    world.items[i].expiration_ms = expiration_ms
    world.items[i].added_at = step_number()


cdef void item_ended(int i, int64_t* count) noexcept nogil:
    check(world.items[i].where == WAITING, "ended, but not pending", i, world.items[i].where)
    world.items[i].where = ENDED
    count[0] += 1


cdef void item_check_order(int i) noexcept nogil:
    """Check that no other item should have run before this one."""
    cdef const Item* item = &world.items[i]
    cdef const Item* other
    cdef int64_t due_at = max(step_at_time(item.expiration_ms), item.begun_at)
    cdef int j
    if world.hurried_at:
        due_at = min(due_at, world.hurried_at)
    for j in range(ITEMS):
        other = &world.items[j]
        if j == i or other.where != WAITING or other.unsettled or item.unsettled or other.holders:
            continue
        if other.expiration_ms < item.expiration_ms:
            check(other.added_at >= due_at, "ran before an earlier one", i, j)
        elif other.expiration_ms == item.expiration_ms:
            check(other.added_at >= item.begun_at, "ran before one of its tick that was added first", i, j)


cdef void item_ran(int i, bint is_first) noexcept nogil:
    if not world.hurried_at:
        check(clock_now_ms() >= world.items[i].expiration_ms, "ran early", clock_now_ms(), world.items[i].expiration_ms)
    if is_first:
        item_check_order(i)
    item_ended(i, &world.expired)


cdef int items_waiting() noexcept nogil:
    cdef int i, count = 0
    for i in range(ITEMS):
        count += world.items[i].where == WAITING
    return count


cdef public void world_all_wait(int64_t target_ms) noexcept nogil:
    """No thread can go on. target_ms: the time for which the first sleeper was asked to wake up; INT64_MAX: none sleeps so."""
    cdef int i
    if world.closed or world.timer.stopping or world.reapers == 0 or (world.has_worker and world.executors == 0):
        return
    for i in range(ITEMS):
        if world.items[i].where == WAITING and not world.items[i].unsettled:
            check(world.items[i].expiration_ms >= target_ms, "all threads sleep too long", i, target_ms)


# --- begin and end -----------------------------------------------------------------------------------------------


cdef public void world_begin() noexcept nogil:
    global registry_first, world_inboxes, world_meetings
    cdef int i
    memset(&world, 0, sizeof(World))
    ignore_races(&world.batches, sizeof(World) - (<char*>&world.batches - <char*>&world))
    world_inboxes = world_meetings = 0
    registry_first = NULL
    hw_mutex_init(&orphans)
    hw_mutex_init(&registry)
    world.timer = timer_new(1, 2, START_MS, CLOCK_KIND_MONOTONIC, True)
    timer_open_waker(world.timer)
    hw_poke(&world.timer.started, True)
    world.group = group_new()
    for i in range(TASKS):
        world_task(i).owner = <uintptr_t>world.timer
        world_task(i).entry.place = ENTRY_OF_TASK
        world_task(i).flags = TASK_OWN_RUN
        if i >= TASKS // 2:
            member_init(world_task(i), &world.tasks[i].member, world.group)


cdef inline Task* world_task(int64_t i) noexcept nogil:
    return &world.tasks[i].task


cdef void world_check_counters(Timer* timer) noexcept nogil:
    check(timer.added == world.added, "added", timer.added, world.added)
    check(timer.expired == world.expired, "expired", timer.expired, world.expired)
    check(timer.cancelled == world.cancelled, "cancelled", timer.cancelled, world.cancelled)
    check(timer.returned == world.returned, "returned", timer.returned, world.returned)
    check(timer.pending == items_waiting(), "pending", timer.pending, items_waiting())


cdef void world_check() noexcept nogil:
    cdef const char* fault
    lock_wait(world.timer)
    fault = timer_check_locked(world.timer)
    if fault is NULL:
        fault = group_check_locked(world.group, world.timer)
    lock_release(world.timer)
    if fault is not NULL:
        fail(fault, 1, 0)


cdef public void world_end() noexcept nogil:
    """Wait until all threads wait, end them, take out the pending timers, and free everything."""
    cdef Timer* timer = world.timer
    wait_until_quiet()
    world_check()
    if world.reapers and (world.executors or not world.has_worker) and not world.closed:
        check(items_waiting() == 0, "pending after the last deadline", items_waiting(), 0)
    elif world.has_reaper and world.reapers == 0 and not world.closed:
        check(world.latest_add_at <= world.reaper_ended_at, "added, but no reaper was started", 1, 0)
    timer_stop(timer, False)
    wait_until_quiet()
    check(world.reapers == 0 and world.executors == 0, "threads after a stop", world.reapers, world.executors)
    timer_close(timer, False)
    timer_make_all_ready(timer)
    while world_take(True):
        pass
    world_check()
    world_check_counters(timer)
    check(timer.pending == 0, "pending at the end", timer.pending, 0)
    check(timer.batches is NULL, "batches at the end", 1, 0)
    world_free(timer)


cdef void world_free(Timer* timer) noexcept nogil:
    cdef int i
    for i in range(BATCHES):
        if world.batches[i] is not NULL:
            batch_release(i)
    for i in range(TASKS // 2):
        group_release(world.group)
    group_release(world.group)
    inboxes_end(timer)
    timer_release(timer)
    if not world.in_child:
        check(memory_live() == 0, "blocks of memory at the end", memory_live(), 0)


# --- settings ----------------------------------------------------------------------------------------------------


cdef public void op_worker(int64_t a, int64_t b, int64_t c) noexcept nogil:
    """The executor has a thread of its own."""
    world.has_worker = world.timer.has_worker = True


cdef public void op_inboxes(int64_t meetings, int64_t b, int64_t c) noexcept nogil:
    """Adds go through inboxes after so many waits for the lock."""
    global world_inboxes, world_meetings
    world_inboxes = 1
    world_meetings = <int>meetings
    if meetings == 0:
        inboxes_ensure(world.timer)


cdef public void op_limit(int64_t limit, int64_t b, int64_t c) noexcept nogil:
    world.timer.max_pending = limit


# --- tasks -------------------------------------------------------------------------------------------------------


cdef void world_start_threads() noexcept nogil:
    """Start the reaper again if it has ended, as an add does."""
    cdef Timer* timer = world.timer
    cdef bint ask_again = True
    cdef int tries = 0
    if not world.has_reaper or hw_peek(&timer.started):
        return
    while ask_again:
        if timer_start_role(timer, ROLE_REAPER, hw_thread_number() + 1, tries < 2, &ask_again):
            thread_start(op_reap)
        tries += 1
    hw_poke(&timer.started, True)


cdef void world_heed_add(Status status, int64_t begun_at, bint began_closed) noexcept nogil:
    check(status == OK or status == CLOSED or status == FULL or status == NEEDS_LEVEL or status == GROUP_CLOSED
          or status == WAS_PENDING or status == WAS_CANCELLED, "status of an add", status, OK)
    check(not (began_closed and status == OK), "added to a closed timer", 1, 0)
    if status == OK:
        world.latest_add_at = max(world.latest_add_at, begun_at)


cdef public void op_add(int64_t i, int64_t delay_ms, int64_t c) noexcept nogil:
    cdef Timer* timer = world.timer
    cdef Task* task = world_task(i)
    cdef Instant now
    cdef Deadline deadline
    cdef Status status = TRY_AGAIN
    cdef bint began_closed = world.closed
    cdef int64_t begun_at = step_number()
    world_start_threads()
    clock_read(timer.clock, &now)
    deadline.now, deadline.delay = now, Instant(delay_ms, 0)
    deadline_set(&deadline, timer)
    if world_inboxes and world.items[i].where == ABSENT and not task_flags(task) & TASK_MEMBER:
        task.deadline_ms = deadline.deadline_ms
        item_begin(<int>i, deadline.expiration_ms, begun_at)
        if inbox_add(timer, task, deadline.expiration_ms, now.ms * NS_PER_MS + now.ns):
            item_added(<int>i)
            hw_poke(&world.items[i].is_seen, True)
            world_heed_add(OK, begun_at, began_closed)
            return
    while status == TRY_AGAIN or (status == NEEDS_LEVEL and timer_grow(timer)):
        if not lock_try(timer):
            lock_wait(timer)
        status = task_enter_locked(timer, task, deadline.expiration_ms, TAKE_DUE)
        if status == OK:
            item_begin(<int>i, deadline.expiration_ms, begun_at)
            item_added(<int>i)
        lock_release(timer)
        if world_inboxes and inboxes_wanted(timer):
            inboxes_ensure(timer)
    world_heed_add(status, begun_at, began_closed)
    hw_poke(&world.items[i].is_seen, True)


cdef inline bint task_is_unseen(int64_t i) noexcept nogil:
    """Return True if another thread is still putting a new task into an inbox."""
    return world_inboxes and not hw_peek(&world.items[i].is_seen)


cdef public void op_cancel(int64_t i, int64_t b, int64_t c) noexcept nogil:
    cdef Status status
    if task_is_unseen(i):
        return
    if world_inboxes and inbox_cancel(world.timer, world_task(i)):
        item_ended(<int>i, &world.cancelled)
        return
    lock_wait(world.timer)
    status = task_cancel_locked(world.timer, world_task(i))
    if status == OK:
        item_ended(<int>i, &world.cancelled)
    else:
        check(world.items[i].where != WAITING, "pending, and not cancelled", i, status)
    lock_release(world.timer)


cdef public void op_move(int64_t i, int64_t delay_ms, int64_t c) noexcept nogil:
    cdef Timer* timer = world.timer
    cdef Deadline deadline
    cdef Status status = TRY_AGAIN
    cdef int64_t begun_at = step_number()
    if task_is_unseen(i):
        return
    clock_read(timer.clock, &deadline.now)
    deadline.delay = Instant(delay_ms, 0)
    deadline_set(&deadline, timer)
    while status == TRY_AGAIN or (status == NEEDS_LEVEL and timer_grow(timer)):
        lock_wait(timer)
        status = task_move_locked(timer, world_task(i), &deadline)
        if status == OK:
            item_begin(<int>i, deadline.expiration_ms, begun_at)
            world.items[i].added_at = step_number()
        elif status == NOT_PENDING:
            check(world.items[i].where != WAITING, "pending, and not moved", i, status)
        lock_release(timer)


cdef public void op_disband(int64_t a, int64_t b, int64_t c) noexcept nogil:
    """Cancel all tasks of the group, two at a time, as TimerGroup.close() does."""
    cdef int64_t last, left
    cdef Task* task
    cdef bint more = True
    lock_wait(world.timer)
    last = world.group.joined
    hw_poke(&world.group.closed, True)
    while more:
        left = 2
        while left and world.group.members.next is not &world.group.members:
            task = member_task(world.group.members.next)
            if task_cancel_locked(world.timer, task) == OK:
                item_ended(<int>(<GroupTask*>task - world.tasks), &world.cancelled)
            left -= 1
        more = world.group.members.next is not &world.group.members
        lock_release(world.timer)
        if more:
            lock_wait(world.timer)


cdef public void op_keep(int64_t a, int64_t b, int64_t c) noexcept nogil:
    """Take and drop a reference to the timer, as a task does that is created and dies."""
    timer_keep(world.timer)
    timer_leave(world.timer)


# --- batches -----------------------------------------------------------------------------------------------------


cdef void batch_release(int b) noexcept nogil:
    cdef void* blocks = NULL
    world.references[b] -= 1
    check(world.references[b] >= 0, "references of a batch", world.references[b], 0)
    if world.references[b] == 0:
        batch_leave_parts(world.batches[b], &blocks)
        blocks_free(blocks)
        PyMem_RawFree(world.batches[b])
        world.batches[b] = NULL


cdef void batch_heed(int b, const BatchRelease* release) noexcept nogil:
    blocks_free(release.blocks)
    if release.is_finished:
        batch_release(b)                # the timer's reference


cdef inline Item* batch_items(int64_t b) noexcept nogil:
    return &world.items[TASKS + b * LONGEST]


cdef int batch_item(const Batch* batch, int64_t index) noexcept nogil:
    return TASKS + <int>(<uintptr_t>batch.object - 1) * LONGEST + <int>index


cdef void batch_settle_added(int64_t b, int64_t first, int64_t count, bint is_added) noexcept nogil:
    cdef Item* item
    cdef int64_t i
    for i in range(first, first + count):
        item = &batch_items(b)[i]
        item.unsettled -= 1
        item.added_at = step_number()
        if not is_added:
            check(item.where == WAITING, "ran, but was refused", i, 0)
            item.where = ABSENT
            world.added -= 1


cdef void batch_expect(int64_t b, int64_t first, int64_t count, const Placement* at, int64_t delay_ms,
                       int64_t begun_at) noexcept nogil:
    """Enter timers that are about to be added, because they may run before the add has returned."""
    cdef int64_t i
    for i in range(first, first + count):
        item_begin(TASKS + <int>(b * LONGEST + i), at.base_ms + delay_ms if delay_ms > 0 else at.now_ms, begun_at)
        item_added(TASKS + <int>(b * LONGEST + i))
        batch_items(b)[i].unsettled += 1


cdef public void op_batch(int64_t b, int64_t count, int64_t delay_ms) noexcept nogil:
    """Add a batch of timers with one delay."""
    cdef Delays delays = Delays(<const char*>&delay_ms, 0, count)
    cdef Batch* batch
    cdef Instant now
    cdef Placement at
    cdef Status status = NEEDS_LEVEL
    cdef bint began_closed = world.closed
    cdef int64_t begun_at = step_number()
    world_start_threads()
    batch = batch_new()
    if batch is NULL or not batch_prepare(batch, count):
        PyMem_RawFree(batch)
        return
    batch.object = <void*>(<uintptr_t>b + 1)
    batch.timer = world.timer
    clock_read(world.timer.clock, &now)
    placement_set(&at, world.timer, &now, delays)
    world.batches[b] = batch
    world.references[b] = 2             # the scenario's and the timer's
    batch_expect(b, 0, count, &at, delay_ms, begun_at)
    status = batch_extend(batch, NULL, delays, at, 0)
    batch_settle_added(b, 0, count, status == OK)
    world_heed_add(status, begun_at, began_closed)
    hw_store(&world.is_published[b], status == OK)
    if status != OK:
        world.references[b] = 1
        batch_release(<int>b)


cdef public void op_extend(int64_t b, int64_t count, int64_t delay_ms) noexcept nogil:
    cdef Batch* batch
    cdef BatchMemory memory
    cdef Delays delays = Delays(<const char*>&delay_ms, 0, count)
    cdef BatchRelease release = BatchRelease(NULL, False)
    cdef Instant now
    cdef Placement at
    cdef int64_t first = 0
    cdef Status status = TRY_AGAIN
    if not hw_load(&world.is_published[b]):
        return
    batch = world.batches[b]
    memset(&memory, 0, sizeof(BatchMemory))
    clock_read(world.timer.clock, &now)
    placement_set(&at, world.timer, &now, delays)
    lock_wait(world.timer)
    if batch_hold_locked(batch):
        world.references[b] += 1
    lock_release(world.timer)
    while status == TRY_AGAIN or (status == NEEDS_MEMORY and batch_memory_new(&memory)):
        if status == TRY_AGAIN:
            lock_wait(world.timer)
            first = batch.length
            lock_release(world.timer)
            if first + count > LONGEST:
                break
        batch_expect(b, first, count, &at, delay_ms, step_number())
        status = batch_extend(batch, &memory, delays, at, first)
        batch_settle_added(b, first, count, status == OK)
    batch_memory_free(&memory)
    lock_wait(world.timer)
    batch_unhold_locked(batch, &release)
    lock_release(world.timer)
    batch_heed(<int>b, &release)


cdef bint item_look_up(int i, int64_t* expiration_ms) noexcept nogil:
    """Look up the time of a timer of a batch in the core, without a lock. Return False if it is not pending there."""
    cdef const Batch* batch = world.batches[(i - TASKS) // LONGEST]
    cdef const Entry* entry
    cdef bint found
    ignore_reads(True)
    entry = NULL if batch is NULL else batch_entry(batch, (i - TASKS) % LONGEST)
    found = entry is not NULL and batch_is_pending(batch, entry)
    if found:
        expiration_ms[0] = batch.due[entry.due_index].expiration_ms if batch_is_due(batch, entry) else entry.expiration_ms
    ignore_reads(False)
    return found


cdef inline bint item_is_in_core(int i) noexcept nogil:
    cdef int64_t expiration_ms
    return item_look_up(i, &expiration_ms)


cdef void item_refresh(int i) noexcept nogil:
    """Take over the time of a timer of a batch, which may have been moved while a thread held it."""
    cdef int64_t expiration_ms
    if item_look_up(i, &expiration_ms):
        item_moved(i, expiration_ms)


cdef bint batch_settle_cancelled(int i) noexcept nogil:
    """Enter a timer as cancelled that is not pending any more and that no thread holds."""
    if world.items[i].where != WAITING or world.items[i].holders or item_is_in_core(i):
        return False
    item_ended(i, &world.cancelled)
    return True


cdef public void op_drop(int64_t b, int64_t b2, int64_t c) noexcept nogil:
    """Cancel all timers of a batch."""
    cdef Batch* batch
    cdef BatchRelease release = BatchRelease(NULL, False)
    cdef Item* items = batch_items(b)
    cdef int64_t i, length, cancelled, left = 0
    if not hw_load(&world.is_published[b]):
        return
    batch = world.batches[b]
    length = hw_peek64(&batch.length)
    for i in range(length):
        items[i].unsettled += 1
    cancelled = batch_cancel(batch, Indices(NULL, length), &release)
    for i in range(length):
        items[i].unsettled -= 1
        left += batch_settle_cancelled(TASKS + <int>(b * LONGEST + i))
    check(cancelled >= left, "cancelled of a batch", cancelled, left)
    batch_heed(<int>b, &release)


cdef public void op_shift(int64_t b, int64_t delay_ms, int64_t c) noexcept nogil:
    """Move all timers of a batch."""
    cdef Batch* batch
    cdef Item* items = batch_items(b)
    cdef int64_t i, length, moved = 0
    cdef int64_t expirations_ms
    cdef Delays delays
    cdef Instant now
    cdef Placement at
    cdef Status status
    if not hw_load(&world.is_published[b]):
        return
    batch = world.batches[b]
    length = hw_peek64(&batch.length)
    delays = Delays(<const char*>&delay_ms, 0, length)
    clock_read(world.timer.clock, &now)
    placement_set(&at, world.timer, &now, delays)
    expirations_ms = at.base_ms + delay_ms if delay_ms > 0 else at.now_ms
    for i in range(length):
        items[i].unsettled += 1
        items[i].begun_at = step_number()
        items[i].expiration_ms = min(items[i].expiration_ms, expirations_ms)
    status = batch_reschedule(batch, Indices(NULL, length), delays, at, &moved)
    for i in range(length):
        items[i].unsettled -= 1
        if not batch_settle_cancelled(TASKS + <int>(b * LONGEST + i)) and status == OK and not items[i].holders:
            item_moved(TASKS + <int>(b * LONGEST + i), expirations_ms)


# --- threads -----------------------------------------------------------------------------------------------------


cdef bint world_take(bint is_close) noexcept nogil:
    """Take the next expired entry: to run it, or for close(). Return False if no entry has expired."""
    cdef Timer* timer = world.timer
    cdef Entry* entry
    cdef Instant now
    cdef int64_t limit = 0
    if not is_close:
        if hw_flag(&timer.stopping):
            return False
        clock_read(timer.clock, &now)
    lock_wait(timer)
    entry = timer_take_locked(timer, NULL if is_close else &now)
    if entry is not NULL:
        if entry.place == ENTRY_OF_TASK:
            world_settle(<int>(<GroupTask*>entry - world.tasks), is_close, True)
        else:
            limit = batch_hold_items_locked(entry_batch(entry))
    lock_release(timer)
    if limit:
        batch_take_all(entry_batch(entry), limit, NULL if is_close else &now)
    return entry is not NULL


cdef int64_t batch_hold_items_locked(const Batch* batch) noexcept nogil:
    """Mark the expired timers of a batch as held by this thread. Return the room that batch_take needs."""
    cdef int64_t at
    for at in range(batch.due_begin, batch.due_end):
        if batch.due[at].index != DUE_CANCELLED:
            world.items[batch_item(batch, batch.due[at].index)].holders |= 1 << hw_thread_number()
    return batch.due_end - batch.due_begin


cdef void batch_take_all(Batch* batch, int64_t limit, const Instant* now) noexcept nogil:
    cdef BatchRelease release = BatchRelease(NULL, False)
    cdef int64_t indices[16]            # 2 * LONGEST: `due` may have gaps
    cdef int b = <int>(<uintptr_t>batch.object - 1), mine = 1 << hw_thread_number(), k
    cdef int64_t i, count = batch_take(batch, indices, limit, now, &release)
    for i in range(LONGEST):
        batch_items(b)[i].holders &= ~mine
    for i in range(count):
        world_settle(batch_item(batch, indices[i]), now is NULL, False)
    for i in range(LONGEST):
        k = TASKS + <int>(b * LONGEST + i)
        if not world.items[k].unsettled and not batch_settle_cancelled(k):
            item_refresh(k)
    if now is NULL:
        lock_wait(world.timer)
        batch_returned_locked(batch, &release)
        lock_release(world.timer)
    batch_heed(b, &release)


cdef void world_settle(int i, bint is_close, bint is_first) noexcept nogil:
    if is_close:
        item_ended(i, &world.returned)
    else:
        item_ran(i, is_first)


cdef public void op_take(int64_t a, int64_t b, int64_t c) noexcept nogil:
    world_take(False)


cdef public void op_reap(int64_t a, int64_t b, int64_t c) noexcept nogil:
    """The reaper's thread. A fault may end it; then the next add starts another one."""
    cdef Timer* timer = world.timer
    cdef ReapStatus status = REAP_READY
    cdef int64_t generation
    thread_is_server()
    world.has_reaper = True
    generation = timer_take_role(timer, ROLE_REAPER)
    if generation < 0:
        return
    world.reapers += 1
    while not hw_flag(&timer.stopping) and status != REAP_STOPPED:
        status = REAP_READY
        if not timer_is_ready_at_once(timer):
            status = timer_reap(timer, NULL, -1, False, NULL)
        if status == REAP_READY:
            while world_take(False):
                pass
            if decide_fault():
                break
    world.reapers -= 1
    timer_leave_role(timer, ROLE_REAPER, generation)
    world.reaper_ended_at = step_number()


cdef public void op_execute(int64_t a, int64_t b, int64_t c) noexcept nogil:
    """The executor's own thread."""
    cdef int64_t generation
    thread_is_server()
    generation = timer_take_role(world.timer, ROLE_EXECUTOR)
    if generation < 0:
        return
    world.executors += 1
    while timer_await_work(world.timer, generation):
        while world_take(False):
            pass
    check(world.timer.stopping or world.timer.draining, "the executor has ended", 1, 0)
    world.executors -= 1
    timer_leave_role(world.timer, ROLE_EXECUTOR, generation)


cdef public void op_sleep(int64_t limit_ms, int64_t b, int64_t c) noexcept nogil:
    """One step of the reaper in another thread, as of advance_clock(timeout)."""
    if timer_reap(world.timer, NULL, limit_ms * NS_PER_MS, True, NULL) == REAP_READY:
        while world_take(False):
            pass


cdef public void op_pass(int64_t ms, int64_t b, int64_t c) noexcept nogil:
    clock_advance(ms)


cdef public void op_look(int64_t a, int64_t b, int64_t c) noexcept nogil:
    """Measure the occupancy, and check the invariants."""
    cdef Occupancy* occupancy
    world_check()
    occupancy = <Occupancy*>PyMem_RawCalloc(1, sizeof(Occupancy))
    if occupancy is NULL:
        return
    occupancy.columns = 2
    lock_wait(world.timer)
    occupancy.level_count = world.timer.wheel.level_count
    lock_release(world.timer)
    occupancy.counts = <int64_t*>PyMem_RawCalloc(<size_t>occupancy.level_count * 2, sizeof(int64_t))
    if occupancy.counts is not NULL:
        timer_measure_occupancy(world.timer, occupancy)
    PyMem_RawFree(occupancy.counts)
    PyMem_RawFree(occupancy)


# --- the end of a timer, and forks --------------------------------------------------------------------------------


cdef void world_close() noexcept nogil:
    timer_close(world.timer, False)
    world.closed = True
    lock_wait(world.timer)
    check(world.timer.adding == 0, "batches are still being added after close()", world.timer.adding, 0)
    lock_release(world.timer)


cdef public void op_close(int64_t a, int64_t b, int64_t c) noexcept nogil:
    world_close()
    timer_stop(world.timer, False)


cdef public void op_drain(int64_t a, int64_t b, int64_t c) noexcept nogil:
    """Close the timer, and run the pending entries before their deadlines."""
    world_close()
    world.hurried_at = step_number()
    hw_poke(&world.timer.hurried, True)
    timer_make_all_ready(world.timer)
    timer_stop(world.timer, True)


cdef public void op_fork(int64_t a, int64_t b, int64_t c) noexcept nogil:
    """Fork, and go on in the parent or in the child, where this thread is the only one."""
    cdef Batch* batch
    cdef Batch* following
    cdef BatchRelease release
    cdef int i
    before_fork()
    if not decide_child():
        after_fork_in_parent()
        return
    threads_end_others()
    after_fork_in_child()
    world.in_child = True
    world.reapers = world.executors = 0
    for i in range(ITEMS):
        world.items[i].unsettled = 0
        world.items[i].holders = 0
        if i >= TASKS:                  # threads of the parent may be in the middle of an operation on it
            world.items[i].where = WAITING if item_is_in_core(i) else ENDED
            item_refresh(i)
    world.added, world.expired = world.timer.added, world.timer.expired
    world.cancelled, world.returned = world.timer.cancelled, world.timer.returned
    batch = world.timer.batches
    while batch is not NULL:            # as timer_finish_batches does
        following = batch.next
        i = <int>(<uintptr_t>batch.object - 1)
        release = BatchRelease(NULL, False)
        batch_finish_locked(batch, &release)
        batch_heed(i, &release)
        batch = following
    hw_poke(&world.timer.forked, False)
    timer_open_waker(world.timer)
    world.timer.has_worker = world.has_worker
    if world.has_worker:
        thread_start(op_execute)
    world_start_threads()


cdef public void op_other(int64_t a, int64_t b, int64_t c) noexcept nogil:
    """Create and free another timer."""
    cdef Timer* timer
    timer = timer_new(1, 2, 0, CLOCK_KIND_MANUAL, False)
    if timer is not NULL:
        timer_free(timer)
