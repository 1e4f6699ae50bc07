# The functions of hwheel.h, which documents them, and the capsule that exports them.

cdef enum:
    OPEN_WHEEL_SIZE = 512       # DEFAULT_WHEEL_SIZE


cdef hwheel_wheel* open_wheel_create(int64_t tick, int32_t wheel_size, int64_t now) noexcept nogil:
    cdef OpenWheel* self
    if wheel_size == 0:
        wheel_size = OPEN_WHEEL_SIZE
    if tick < 1 or wheel_size < 2 or wheel_size > MAX_WHEEL_SIZE or now < 0:
        return NULL
    self = <OpenWheel*>PyMem_RawCalloc(1, sizeof(OpenWheel))
    if self is NULL or not wheel_create(&self.wheel, tick, wheel_size, now):
        PyMem_RawFree(self)
        return NULL
    list_init(&self.late)
    list_init(&self.running)
    self.now = now
    self.round_up = tick - 1
    return <hwheel_wheel*>self


cdef int open_wheel_destroy(hwheel_wheel* wheel) noexcept nogil:
    cdef OpenWheel* self = <OpenWheel*>wheel
    if self.busy:
        return HWHEEL_BUSY
    wheel_destroy(&self.wheel)
    PyMem_RawFree(self)
    return HWHEEL_OK


cdef int open_wheel_reserve(hwheel_wheel* wheel, int64_t delay) noexcept nogil:
    cdef OpenWheel* self = <OpenWheel*>wheel
    cdef Level* top
    cdef int64_t last
    if delay < 0 or hw_add_overflows(self.now, delay, &last) or hw_add_overflows(delay, self.round_up, &last):
        return HWHEEL_BAD_TIME
    while True:
        top = &self.wheel.levels[self.wheel.level_count - 1]
        # The clock of a level may be up to one of its ticks behind.
        if top.interval_ms - <uint64_t>top.tick_ms > <uint64_t>last:
            return HWHEEL_OK
        if not wheel_make_level(&self.wheel):
            return HWHEEL_NO_MEMORY


# --- add, move, cancel -----------------------------------------------------------------------------------------------


cdef inline int open_wheel_place(OpenWheel* self, int64_t deadline, int64_t* expiration_out,
                                 Bucket** bucket_out) noexcept nogil:
    """Find the bucket for a deadline, or NULL if that has passed. Add a level if needed; change nothing else."""
    cdef AddStatus status
    if deadline < 0 or hw_add_overflows(deadline, self.round_up, expiration_out):
        return HWHEEL_BAD_TIME
    while True:
        status = wheel_reserve_bucket(&self.wheel, expiration_out[0], bucket_out)
        if status == ADD_PENDING:
            return HWHEEL_OK
        if status == ADD_DUE:
            bucket_out[0] = NULL
            return HWHEEL_OK
        if not wheel_make_level(&self.wheel):
            return HWHEEL_NO_MEMORY


cdef inline void open_wheel_link(OpenWheel* self, Entry* entry, int64_t expiration, Bucket* bucket) noexcept nogil:
    entry.expiration_ms = expiration
    if bucket is NULL:
        list_append(&self.late, entry)
    else:
        bucket_append(bucket, entry)


cdef int open_wheel_add(hwheel_wheel* wheel, hwheel_entry* added, int64_t deadline) noexcept nogil:
    cdef OpenWheel* self = <OpenWheel*>wheel
    cdef Entry* entry = <Entry*>added
    cdef Bucket* bucket = NULL
    cdef int64_t expiration = 0
    cdef int status
    if entry_is_linked(entry):
        return HWHEEL_PENDING
    status = open_wheel_place(self, deadline, &expiration, &bucket)
    if status == HWHEEL_OK:
        open_wheel_link(self, entry, expiration, bucket)
        self.pending += 1
    return status


cdef int open_wheel_move(hwheel_wheel* wheel, hwheel_entry* moved, int64_t deadline) noexcept nogil:
    cdef OpenWheel* self = <OpenWheel*>wheel
    cdef Entry* entry = <Entry*>moved
    cdef Bucket* bucket = NULL
    cdef int64_t expiration = 0
    cdef int status
    if not entry_is_linked(entry):
        return HWHEEL_NOT_PENDING
    status = open_wheel_place(self, deadline, &expiration, &bucket)
    if status == HWHEEL_OK:
        wheel_remove(&self.wheel, entry)
        open_wheel_link(self, entry, expiration, bucket)
    return status


cdef int open_wheel_cancel(hwheel_wheel* wheel, hwheel_entry* entry) noexcept nogil:
    cdef OpenWheel* self = <OpenWheel*>wheel
    if not entry_is_linked(<Entry*>entry):
        return 0
    wheel_remove(&self.wheel, <Entry*>entry)
    self.pending -= 1
    return 1


# --- the clock ---------------------------------------------------------------------------------------------------


cdef inline void open_wheel_call_first(OpenWheel* self, Entry* head, hwheel_callback each) noexcept nogil:
    """Remove the first entry of a list and call its callback, or `each`. The callback may free the entry."""
    cdef Entry* entry = head.next
    cdef hwheel_callback callback = (<hwheel_entry*>entry).callback if each is NULL else each
    hw_prefetch(entry.next.next)
    wheel_remove(&self.wheel, entry)
    self.pending -= 1
    if callback is not NULL:
        callback(<hwheel_wheel*>self, <hwheel_entry*>entry)


cdef int64_t open_wheel_advance(hwheel_wheel* wheel, int64_t now, int32_t limit) noexcept nogil:
    """Advance the clock and call due entries.

    Late entries come first, because their deadlines are before those in buckets, but behind the rest of a tick that a
    limit has interrupted. They are set aside before the first call: a callback that adds itself for a past time would
    otherwise be called forever.
    """
    cdef OpenWheel* self = <OpenWheel*>wheel
    cdef int64_t called = 0
    cdef int budget = limit if limit > 0 else SLICE
    cdef StepStatus status = STEP_MORE
    if now < 0:
        return HWHEEL_BAD_TIME
    if self.busy:
        return HWHEEL_BUSY
    if now < self.now:
        return 0
    self.now = now
    self.busy = True
    list_move_to_end(&self.late, &self.wheel.due if wheel_is_advancing(&self.wheel) else &self.running)
    while budget > 0 and not list_is_empty(&self.running):
        open_wheel_call_first(self, &self.running, NULL)
        called += 1
        budget -= limit > 0
    while budget > 0 and status != STEP_DONE:
        status = wheel_step(&self.wheel, now, &budget)
        while status == STEP_TICK and budget > 0 and not list_is_empty(&self.wheel.due):
            open_wheel_call_first(self, &self.wheel.due, NULL)
            called += 1
            budget -= limit > 0
        if limit <= 0:
            budget = SLICE
    if status == STEP_DONE:
        # Later entries then go into the finest possible bucket.
        wheel_advance_clock(&self.wheel, now)
    self.busy = False
    return called


cdef int64_t open_wheel_next(hwheel_wheel* wheel) noexcept nogil:
    cdef OpenWheel* self = <OpenWheel*>wheel
    cdef int64_t next_ms
    if not list_is_empty(&self.late) or not list_is_empty(&self.running):
        return self.now
    if not wheel_next(&self.wheel, &next_ms):
        return HWHEEL_NEVER
    return max(next_ms, self.now)


cdef int64_t open_wheel_count(const hwheel_wheel* wheel) noexcept nogil:
    return (<const OpenWheel*>wheel).pending


cdef int64_t open_wheel_now(const hwheel_wheel* wheel) noexcept nogil:
    return (<const OpenWheel*>wheel).now


cdef void open_wheel_call_nothing(hwheel_wheel* wheel, hwheel_entry* entry) noexcept nogil:
    pass


cdef int64_t open_wheel_clear(hwheel_wheel* wheel, hwheel_callback each) noexcept nogil:
    cdef OpenWheel* self = <OpenWheel*>wheel
    cdef Entry cleared
    cdef int64_t count = 0
    if self.busy:
        return HWHEEL_BUSY
    self.busy = True
    list_init(&cleared)
    list_move_to_end(&self.running, &cleared)
    # As in open_wheel_advance, late entries go behind the rest of an interrupted tick.
    list_move_to_end(&self.late, &self.wheel.due if wheel_is_advancing(&self.wheel) else &cleared)
    wheel_drain(&self.wheel, &cleared)
    wheel_set_clocks(&self.wheel, self.now)
    while not list_is_empty(&cleared):
        open_wheel_call_first(self, &cleared, open_wheel_call_nothing if each is NULL else each)
        count += 1
    self.busy = False
    return count


# --- check -----------------------------------------------------------------------------------------------------------


cdef const char* open_bucket_check(const Wheel* wheel, const Level* level, const Bucket* bucket,
                                   int64_t* length_out) noexcept nogil:
    cdef const Entry* entry = bucket.entries.next
    cdef const char* fault = list_check(&bucket.entries, length_out)
    if fault is not NULL or bucket.queue_index < 0 and not length_out[0]:
        return fault
    if bucket.queue_index < 0 or wheel.queue[bucket.queue_index] is not bucket:
        return "a bucket with entries is not in the delay queue"
    if bucket.entries.expiration_ms < level.current_time_ms:
        return "the clock has passed a queued bucket"
    while entry is not &bucket.entries:
        if entry.expiration_ms - entry.expiration_ms % level.tick_ms != bucket.entries.expiration_ms:
            return "an entry is in the wrong bucket"
        entry = entry.next
    return NULL


cdef const char* open_wheel_check(const hwheel_wheel* checked) noexcept nogil:
    cdef const OpenWheel* self = <const OpenWheel*>checked
    cdef const Wheel* wheel = &self.wheel
    cdef const Entry* lists[4]
    cdef const char* fault = NULL
    cdef int64_t total = 0, length = 0
    cdef int32_t i, k
    lists[0], lists[1], lists[2], lists[3] = &self.late, &self.running, &wheel.flush, &wheel.due
    for i in range(4):
        fault = list_check(lists[i], &length)
        if fault is not NULL:
            return fault
        total += length
    for k in range(wheel.level_count):
        for i in range(wheel.wheel_size):
            fault = open_bucket_check(wheel, &wheel.levels[k], &wheel.levels[k].buckets[i], &length)
            if fault is not NULL:
                return fault
            total += length
    if total != self.pending:
        return "the number of pending entries is wrong"
    return NULL


# --- the capsule: hwheel_import() finds it by the name of this module and of the variable C_API --------------------------


cdef hwheel_api c_api


cdef object c_api_capsule():
    cdef hwheel_entry sample
    # The layouts of hwheel_entry and Entry must agree.
    if <char*>&sample.callback - <char*>&sample != sizeof(Entry):
        raise SystemError("hwheel.h and the core disagree about the layout of an entry")
    c_api.version = HWHEEL_API_VERSION
    c_api.size = sizeof(hwheel_api)
    c_api.create = open_wheel_create
    c_api.destroy = open_wheel_destroy
    c_api.reserve = open_wheel_reserve
    c_api.add = open_wheel_add
    c_api.move = open_wheel_move
    c_api.cancel = open_wheel_cancel
    c_api.advance = open_wheel_advance
    c_api.next = open_wheel_next
    c_api.count = open_wheel_count
    c_api.now = open_wheel_now
    c_api.clear = open_wheel_clear
    c_api.check = open_wheel_check
    return PyCapsule_New(&c_api, HWHEEL_CAPSULE, NULL)


C_API = c_api_capsule()
