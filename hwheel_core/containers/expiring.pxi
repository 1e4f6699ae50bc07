# The operations of an ExpiringDict on its entries.

cdef object NOT_THERE = object()


cdef inline int64_t entry_deadline_ms(ExpiringDictCore self, const DictEntry* entry) noexcept:
    """Return the time from which the entry counts as expired."""
    return entry.entry.expiration_ms - self.timer.timer.round_up_ms


cdef int64_t ttl_argument(object ttl) except -1:
    cdef int64_t ttl_ms = whole_milliseconds(ttl, "ttl")
    if ttl_ms == 0:
        raise ValueError(f"ttl must be positive, got {ttl!r}")
    return ttl_ms


cdef inline void entry_drop(DictEntry* entry) noexcept:
    """Free an unlinked entry. Destructors of its key and value may run foreign code."""
    cdef PyObject* key = entry.key
    cdef PyObject* value = entry.value
    PyMem_Free(entry)
    Py_XDECREF(key)
    Py_XDECREF(value)


cdef inline void dict_take_out(ExpiringDictCore self, DictEntry* entry) noexcept:
    """Unlink an entry from the table and the wheel. The caller drops it."""
    container_unlink(self, &entry.entry)
    table_remove(&self.table, entry)


cdef inline DictEntry* dict_expire_early(ExpiringDictCore self, DictEntry* entry) noexcept:
    """Unlink an entry that is found expired before the alarm has run; queue it for on_expire if there is one.

    Return the entry if the caller has to drop it, else NULL.
    """
    if self.on_expire_ is None:
        dict_take_out(self, entry)
        return entry
    wheel_remove(self.wheel, &entry.entry)
    table_remove(&self.table, entry)
    list_append(&self.unreported, &entry.entry)
    return NULL


cdef inline bint dict_find(ExpiringDictCore self, object key, const Instant* now, DictEntry** found_out) except -1:
    """Find the entry of a key; return False if it is missing or has expired. The result is valid until foreign code runs."""
    return (table_find(&self.table, key, mixed_hash(key), found_out)
            and entry_deadline_ms(self, found_out[0]) > now.ms)


cdef DictEntry* dict_evict(ExpiringDictCore self, const Instant* now) noexcept:
    """Remove an expired entry that is found at once, else the oldest one. Return the entry for the caller to drop, or NULL."""
    cdef int budget = SLICE
    cdef DictEntry* oldest = self.table.order.newer
    if entry_deadline_ms(self, oldest) <= now.ms:
        return dict_expire_early(self, oldest)
    if container_advance(self, now.ms, &budget):
        return dict_expire_early(self, <DictEntry*>self.due.next)
    dict_take_out(self, oldest)
    return oldest


# --- set, setdefault, touch ------------------------------------------------------------------------------------------

cdef enum PutKind:
    PUT_SET                 # set the value
    PUT_DEFAULT             # set the value if the key is missing
    PUT_TOUCH               # renew the deadline if the key is present
    PUT_COPY                # set the value with the given expiration_ms, unless it has passed

cdef struct Put:
    # A change that has been checked and prepared.
    PutKind kind
    uint64_t hash
    int64_t ttl_ms          # 0: the default
    Instant now
    int64_t expiration_ms
    DictEntry* entry        # NULL: the key is missing
    Bucket* bucket


cdef inline void entry_prefetch_neighbors(const DictEntry* entry) noexcept:
    hw_prefetch(entry.entry.prev)
    hw_prefetch(entry.entry.next)
    hw_prefetch(entry.older)
    hw_prefetch(entry.newer)


cdef bint dict_find_for_put(ExpiringDictCore self, object key, Put* put) except False:
    """Find the entry to change. For all kinds but PUT_TOUCH, remove an entry that has expired."""
    cdef DictEntry* dropped
    while True:
        container_enter(self)
        timer_check_open(self.timer.timer)
        timer_read_clock(self.timer.timer, &put.now)
        if not table_find(&self.table, key, put.hash, &put.entry):
            put.entry = NULL
            return True
        entry_prefetch_neighbors(put.entry)
        if entry_deadline_ms(self, put.entry) > put.now.ms:
            return True
        if put.kind == PUT_TOUCH:
            put.entry = NULL
            return True
        dropped = dict_expire_early(self, put.entry)
        if dropped is not NULL:
            entry_drop(dropped)


cdef bint dict_prepare_put(ExpiringDictCore self, object key, int64_t ttl_ms, Put* put) except -1:
    """Find the entry, compute its deadline, reserve its bucket, and set the alarm.

    Return False if nothing is to be changed. After True, no foreign code has run since the entry was found.
    """
    cdef Deadline deadline
    cdef int64_t at_ms
    while True:
        dict_find_for_put(self, key, put)
        if put.entry is NULL and put.kind == PUT_TOUCH:
            return False
        if put.entry is not NULL and put.kind == PUT_DEFAULT and not self.refreshes:
            return False
        put.ttl_ms = ttl_ms
        if put.kind == PUT_COPY:
            if put.expiration_ms - self.timer.timer.round_up_ms <= put.now.ms:
                return False
        else:
            if ttl_ms == 0 or (put.entry is not NULL and put.kind == PUT_DEFAULT):
                put.ttl_ms = put.entry.ttl_ms if put.entry is not NULL and put.kind != PUT_SET else self.default_ttl_ms
            deadline.now = put.now
            deadline.delay = Instant(put.ttl_ms, 0)
            deadline_set_or_raise(&deadline, self.timer.timer)
            put.expiration_ms = deadline.expiration_ms
        container_reserve(self, &put.now, put.expiration_ms, &put.bucket, &at_ms)
        if container_needs_no_alarm(self, at_ms):
            return True
        container_arm(self, at_ms)          # may run foreign code, so check everything again


cdef object dict_renew(ExpiringDictCore self, object value, Put* put):
    """Move an existing entry; for PUT_SET and PUT_COPY, replace its value. Return the value that is present afterwards."""
    cdef DictEntry* entry = put.entry
    cdef object old_value = None
    wheel_remove(self.wheel, &entry.entry)
    hw_bump(&self.pending, -1)
    order_unlink(entry)
    order_append(&self.table, entry)
    entry.entry.expiration_ms = put.expiration_ms
    entry.ttl_ms = put.ttl_ms
    container_link(self, &entry.entry, put.bucket)
    if put.kind != PUT_SET and put.kind != PUT_COPY:
        return <object>entry.value
    old_value = <object>entry.value
    Py_DECREF(old_value)            # the entry's reference; old_value dies at the end, when the dict is consistent
    Py_INCREF(value)
    entry.value = <PyObject*>value
    entry.entry.generation = <int32_t>self.generation
    return value


cdef bint dict_insert(ExpiringDictCore self, object key, object value, Put* put) except False:
    """Add a new entry; if the dict is full, remove another one."""
    cdef DictEntry* entry = <DictEntry*>PyMem_Malloc(sizeof(DictEntry))
    cdef DictEntry* dropped = NULL
    cdef int64_t at_ms
    if entry is NULL or not table_ensure_slots(&self.table):
        PyMem_Free(entry)
        raise MemoryError
    if self.table.count >= self.max_entries:
        dropped = dict_evict(self, &put.now)
        # The wheel may have advanced and dequeued the bucket, which is still empty. Its levels exist, so this cannot fail.
        container_reserve(self, &put.now, put.expiration_ms, &put.bucket, &at_ms)
    Py_INCREF(key)                      # both are dropped by entry_drop
    Py_INCREF(value)
    entry.key = <PyObject*>key
    entry.value = <PyObject*>value
    entry.hash = put.hash
    entry.entry.generation = <int32_t>self.generation
    table_add(&self.table, entry)
    entry.entry.expiration_ms = put.expiration_ms
    entry.ttl_ms = put.ttl_ms
    container_link(self, &entry.entry, put.bucket)
    if dropped is not NULL:
        entry_drop(dropped)
    return True


cdef object dict_put(ExpiringDictCore self, object key, object value, int64_t ttl_ms, PutKind kind,
                     int64_t expiration_ms=0):
    """Set or renew an entry. ttl_ms 0: the dict's default; for PUT_TOUCH the entry's own. expiration_ms: for PUT_COPY.

    Return the value that is present afterwards, or NOT_THERE.
    """
    cdef Put put
    put.kind = kind
    put.expiration_ms = expiration_ms
    put.hash = mixed_hash(key)
    if not dict_prepare_put(self, key, ttl_ms, &put):
        return NOT_THERE if put.entry is NULL else <object>put.entry.value
    if put.entry is not NULL:
        return dict_renew(self, value, &put)
    dict_insert(self, key, value, &put)
    return value


# --- get, pop, and operations over all entries -----------------------------------------------------------------------


cdef object dict_get(ExpiringDictCore self, object key):
    """Return the value, or NOT_THERE."""
    cdef Instant now
    cdef DictEntry* entry = NULL
    container_enter(self)
    if self.refreshes and not hw_peek(&self.timer.timer.closed):
        return dict_put(self, key, None, 0, PUT_TOUCH)
    if self.table.count == 0:
        mixed_hash(key)                     # raises TypeError for an unhashable key
        return NOT_THERE
    timer_read_clock(self.timer.timer, &now)
    if not dict_find(self, key, &now, &entry):
        return NOT_THERE
    return <object>entry.value


cdef object dict_pop(ExpiringDictCore self, object key):
    """Remove a key and return its value, or NOT_THERE."""
    cdef Instant now
    cdef DictEntry* entry = NULL
    container_enter(self)
    timer_read_clock(self.timer.timer, &now)
    if not dict_find(self, key, &now, &entry):
        return NOT_THERE
    value = <object>entry.value
    dict_take_out(self, entry)
    entry_drop(entry)
    return value


# A copy of all entries walks over the slots of the table, because no entry changes its slot while `walks` keeps the table's
# length. After each turn, other threads run.


cdef bint dict_copy_slots(ExpiringDictCore self, DictCopy** copies, int64_t* count_out) except False:
    """Copy the entries that have not expired, with a reference to each key and value."""
    cdef DictTable* table = &self.table
    cdef DictEntry* entry
    cdef DictCopy* moved
    cdef int64_t capacity = 0, count = 0
    cdef uint64_t slot = 0
    cdef Instant now
    cdef Turn turn
    timer_read_clock(self.timer.timer, &now)
    turn_begin(&turn)
    while table.slots is not NULL and slot < table_length(table):
        entry = table.slots[slot]
        slot += 1
        while entry is not NULL:
            if count == capacity:
                capacity = max(2 * capacity, table.count)
                moved = <DictCopy*>PyMem_RawRealloc(copies[0], capacity * sizeof(DictCopy))
                if moved is NULL:
                    raise MemoryError
                copies[0] = moved
            if entry_deadline_ms(self, entry) > now.ms:
                Py_INCREF(<object>entry.key)        # both dropped by dict_copies_free, or passed on
                Py_INCREF(<object>entry.value)
                copies[0][count] = DictCopy(entry.key, entry.value, entry.entry.expiration_ms, entry.ttl_ms, entry.number)
                count += 1
                count_out[0] = count
            entry = entry.chain
        turn_step(&turn)
    return True


cdef int dict_copies_compare(const void* one, const void* other) noexcept nogil:
    cdef uint64_t a = (<const DictCopy*>one).number, b = (<const DictCopy*>other).number
    return (a > b) - (a < b)


cdef void dict_copies_free(DictCopy* copies, int64_t first, int64_t end) noexcept:
    """Drop the references of the copies from `first` to `end`."""
    cdef Turn turn
    cdef int64_t i
    turn_begin(&turn)
    for i in range(first, end):
        Py_DECREF(<object>copies[i].key)
        Py_DECREF(<object>copies[i].value)
        turn_step(&turn)
    with nogil:
        PyMem_RawFree(copies)


cdef tuple dict_columns(ExpiringDictCore self, bint with_times):
    """Return the lists (keys, values), oldest entry first; with_times: (keys, values, expirations_ms, ttls_ms).

    The lists contain each entry that is present during the whole call. An entry that is set or ends during the call may be
    missing. No key appears twice.
    """
    cdef DictCopy* copies = NULL
    cdef int64_t count = 0, i = 0, generation
    cdef list keys = [], values = [], expirations = [], ttls = []
    cdef Turn turn
    try:
        with cython.critical_section(self):
            container_enter(self)
            generation = self.generation
            self.table.walks += 1
            try:
                dict_copy_slots(self, &copies, &count)
            finally:
                if self.generation == generation:       # otherwise a fork has reset `walks`
                    self.table.walks -= 1
        if count:                       # C forbids NULL even for no elements
            with nogil:
                qsort(copies, count, sizeof(DictCopy), dict_copies_compare)
        turn_begin(&turn)
        while i < count:
            keys.append(<object>copies[i].key)
            values.append(<object>copies[i].value)
            if with_times:
                expirations.append(copies[i].expiration_ms)
                ttls.append(copies[i].ttl_ms)
            Py_DECREF(<object>copies[i].key)        # the lists have references of their own
            Py_DECREF(<object>copies[i].value)
            i += 1
            turn_step(&turn)
    finally:
        dict_copies_free(copies, i, count)
    return (keys, values, expirations, ttls) if with_times else (keys, values)


cdef struct DictRemains:
    # All entries that clear() has taken out of a dict. They are linked as before, but with the list heads in this struct.
    Wheel* wheel
    Entry due
    DictTable table


cdef bint dict_detach(ExpiringDictCore self, DictRemains* remains, const Instant* now) except False:
    """Move all entries out of a dict, which is empty afterwards."""
    cdef Wheel* wheel = container_wheel_new(self, now.ms)
    list_init(&remains.due)
    list_move_to_end(&self.due, &remains.due)
    remains.wheel = self.wheel
    remains.table = self.table
    remains.table.order.older = remains.table.order.newer = &remains.table.order
    if self.table.count:
        remains.table.order.newer = self.table.order.newer
        remains.table.order.older = self.table.order.older
        remains.table.order.newer.older = &remains.table.order
        remains.table.order.older.newer = &remains.table.order
    self.wheel = wheel
    self.table.slots = NULL
    self.table.mask = self.table.split = self.table.capacity = 0
    self.table.order.older = self.table.order.newer = &self.table.order
    hw_bump(&self.pending, -self.table.count)
    hw_bump(&self.table.count, -self.table.count)
    self.table.version += 1
    if self.pending == 0:
        container_disarm(self)
    return True


cdef bint dict_drop_detached(ExpiringDictCore self, DictEntry* entry, const Instant* now) except False:
    """Free an entry that was taken out, or pass it to on_expire if it had expired."""
    entry_unlink(&entry.entry)
    order_unlink(entry)
    if self.on_expire_ is None or entry_deadline_ms(self, entry) > now.ms:
        entry_drop(entry)
        return True
    with cython.critical_section(self):
        list_append(&self.unreported, &entry.entry)
        hw_bump(&self.pending, 1)
    return True


cdef bint dict_clear(ExpiringDictCore self) except False:
    """Remove all entries at one moment, and free them in turns. Those that had expired go to on_expire."""
    cdef DictRemains remains
    cdef Instant now
    cdef Turn turn
    with cython.critical_section(self):
        container_enter(self)
        timer_read_clock(self.timer.timer, &now)
        dict_detach(self, &remains, &now)
    turn_begin(&turn)
    while remains.table.order.newer is not &remains.table.order:
        dict_drop_detached(self, remains.table.order.newer, &now)
        turn_step(&turn)
    with nogil:
        if remains.wheel is not NULL:
            wheel_destroy(remains.wheel)
            PyMem_RawFree(remains.wheel)
        PyMem_RawFree(remains.table.slots)
    with cython.critical_section(self):
        dict_arm_again(self)
    return True


# --- expiry ----------------------------------------------------------------------------------------------------------


cdef bint dict_arm_again(ExpiringDictCore self) except False:
    """Set the alarm for the next entry, after the alarm has run or a fork has dropped it."""
    cdef int64_t at_ms = 0
    if self.wheel is NULL or self.pending == 0:
        return True
    if not list_is_empty(&self.unreported) or not list_is_empty(&self.due):
        at_ms = self.wheel.taken_ms
    elif not container_next_ms(self, &at_ms):
        return True
    return container_arm_again(self, at_ms)


cdef tuple dict_new_pair(list pairs):
    """Create the pair for the next report, untracked until it is filled, and reserve room for it in the list.

    Return None if memory is short and the list has pairs already: the caller reports these first.
    """
    cdef tuple pair
    try:
        pair = PyTuple_New(2)
        PyObject_GC_UnTrack(<PyObject*>pair)
        list_reserve(pairs)
    except MemoryError:
        if not pairs:
            raise
        pair = None
    return pair


cdef DictEntry* dict_take_expired(ExpiringDictCore self, int64_t now_ms, int* budget) except? NULL:
    """Unlink and return the next expired entry. NULL: no entry has expired, or the budget has reached 0."""
    cdef DictEntry* entry = NULL
    if not list_is_empty(&self.unreported):
        entry = <DictEntry*>self.unreported.next
        container_unlink(self, &entry.entry)
    elif container_step(self, now_ms, budget):
        entry = <DictEntry*>self.due.next
        dict_take_out(self, entry)
    return entry


cdef void pair_fill(list pairs, tuple pair, DictEntry* entry) noexcept:
    """Fill a pair of dict_new_pair with an entry's key and value, put the pair into the list, and drop the entry."""
    key = <object>entry.key
    value = <object>entry.value
    entry_drop(entry)
    Py_INCREF(key)
    PyTuple_SET_ITEM(pair, 0, key)
    Py_INCREF(value)
    PyTuple_SET_ITEM(pair, 1, value)
    PyObject_GC_Track(<PyObject*>pair)
    list_fill(pairs, pair)


cdef bint dict_take_turn(ExpiringDictCore self, const Instant* now, list pairs) except -1:
    """Take expired entries for one turn; append the pairs for on_expire to `pairs`. Return True if more are due."""
    cdef Turn turn
    cdef int budget = SLICE
    cdef int64_t taken = 0
    cdef DictEntry* entry
    cdef tuple pair = None              # created before an entry is taken, so that out-of-memory loses no report
    turn_begin(&turn)
    while True:
        if self.on_expire_ is not None and pair is None:
            pair = dict_new_pair(pairs)
            if pair is None:
                return True
        entry = dict_take_expired(self, now.ms, &budget)
        if entry is NULL:
            if budget > 0:
                return False
            if monotonic_ns() > turn.end_ns or taken:
                return True
            budget = SLICE
            continue
        taken += 1
        if self.on_expire_ is not None and entry.entry.generation >= self.reported_from:
            pair_fill(pairs, pair, entry)
            pair = None
            if taken >= SLICE:
                return True
        else:
            entry_drop(entry)
            if turn_is_over(&turn):
                return True


cdef bint dict_expire(ExpiringDictCore self) except False:
    """Take all expired entries, one turn at a time, and report them to on_expire."""
    cdef Instant now
    cdef list pairs
    cdef bint more = True
    with cython.critical_section(self):
        container_enter(self)
        if self.expiring == self.generation + 1:
            return True                     # another thread is expiring entries, and will take these as well
        self.expiring = self.generation + 1
    try:
        while more:
            pairs = []
            with cython.critical_section(self):
                container_enter(self)       # on_expire may have forked
                self.expiring = self.generation + 1
                timer_read_clock(self.timer.timer, &now)
                more = dict_take_turn(self, &now, pairs)
            list_unreserve(pairs)
            callback = self.on_expire_
            if pairs and callback is not None:
                callback(pairs)
            pairs = None
            if more:
                yield_gil()
    finally:
        with cython.critical_section(self):
            self.expiring = 0
            dict_arm_again(self)
    return True
