# The operations of a cache, TTLCache or TLRUCache, on its entries.
#
# Deadlines. All entries of a TTLCache have the same lifetime, so they expire in the order in which they were set. The list `due`
# holds them in this order, and no bucket is needed. The entries of a TLRUCache are on the container's wheel. In both caches,
# DictTable.order is the order of use, and one alarm in the timer removes entries at their deadline.
#
# User-defined timers. Such a function may return anything that can be added and compared. No alarm can wait for these times, so
# expired entries leave at the next operation. Each comparison may run foreign code. It is repeated if the table has changed.
#
# Garbage collection. Unlike in an ExpiringDict, the entries are visible to the collector. The reason: programs that come from
# cachetools keep a cache in an object to which the values refer.

cdef enum:
    CACHE_GETITEM = 1       # bits of CacheCore.overrides, in the order of CACHE_METHODS
    CACHE_SETITEM = 2
    CACHE_DELITEM = 4
    CACHE_CONTAINS = 8
    CACHE_MISSING = 16
    CACHE_POPITEM = 32
    CACHE_EXPIRE = 64
    TIDY_MOVES = 16         # number of deadlines that each call of heaps_tidy moves

cdef tuple CACHE_METHODS = ("__getitem__", "__setitem__", "__delitem__", "__contains__", "__missing__", "popitem", "expire")

cdef struct CachePut:
    # A change that is being prepared.
    uint64_t hash
    double now_s
    double expires_s
    double size
    bint keeps              # change nothing if the key is present
    bint evicts             # make room
    DictEntry* entry        # NULL: the key is missing
    Bucket* bucket          # NULL: in no bucket

cdef object take_least, put_ordered
from heapq import heappop as take_least, heappush as put_ordered


cdef inline bint cache_has_objects(CacheCore self) noexcept:
    """Return True if the entries are CacheEntries."""
    return self.sized or not self.known


cdef inline int64_t last_ms(double now_s) noexcept:
    """Return the last millisecond that is not after `now_s` when both are compared as floats. The opposite of first_ms."""
    cdef int64_t ms
    if not -1e12 < now_s < 1e12:
        return 0
    ms = <int64_t>floor(now_s * 1000) + 1
    while seconds_of(ms, 0) > now_s:
        ms -= 1
    return ms


# --- time ------------------------------------------------------------------------------------------------------------


cdef object cache_now(CacheCore self, double* now_s_out):
    """Read the time. With a known timer, set `now_s_out` and return None. Otherwise return the result of the user's timer."""
    cdef Instant now
    cdef object frozen = None
    container_enter(self)
    if self.clock.frozen:
        frozen = self.clock.frozen.get(PyThread_get_thread_ident())
    if not self.known:
        return self.clock.clock() if frozen is None else frozen[0]
    if frozen is not None:
        now_s_out[0] = frozen[0]
    else:
        timer_read_clock(self.timer.timer, &now)
        now_s_out[0] = seconds_of(now.ms, now.ns)
    return None


cdef object cache_deadline(CacheCore self, const DictEntry* entry):
    """Return the deadline of an entry, as an object."""
    if self.known:
        return entry.expires_s
    deadline = <object>(<const CacheEntry*>entry).deadline
    return (<CacheDeadline>deadline).expires if self.of_ttu else deadline


cdef int cache_check_alive(CacheCore self, const DictEntry* entry, double now_s, object now) except -1:
    """Return True if the deadline of an entry has not passed, or -2 if foreign code has changed the table."""
    cdef uint64_t version = self.table.version
    cdef bint alive
    if self.known:
        return now_s < entry.expires_s
    alive = now < cache_deadline(self, entry)
    return alive if version == self.table.version else -2


cdef DictEntry* cache_find(CacheCore self, object key, uint64_t hash, double now_s, object now) except? NULL:
    """Return the entry of a key that has not expired, or NULL. The result is valid until foreign code runs."""
    cdef DictEntry* entry = NULL
    cdef int alive
    while table_find(&self.table, key, hash, &entry):
        alive = cache_check_alive(self, entry, now_s, now)
        if alive >= 0:
            return entry if alive else NULL
    return NULL


cdef inline void cache_use(CacheCore self, DictEntry* entry) noexcept:
    """Make an entry the most recently used one."""
    if entry.newer is not &self.table.order:
        order_unlink(entry)
        order_append(&self.table, entry)


# The core calls these two functions in try and finally, because a `with` statement needs memory to call __exit__().

cdef list clock_freeze(CacheTimer self):
    """Freeze the time for this thread. Return the list for clock_thaw, whose first item is the time."""
    cdef object thread = PyThread_get_thread_ident()
    cdef list frozen = self.frozen.get(thread)
    if frozen is None:
        frozen = self.frozen[thread] = [self.clock(), 0, thread]
    frozen[1] += 1
    return frozen


cdef bint clock_thaw(CacheTimer self, list frozen) except False:
    """End a clock_freeze. After the last one, run an alarm that was missed in between. This needs no memory."""
    cdef object cache = None
    with cython.critical_section(self):
        frozen[1] -= 1
        if frozen[1] == 0:
            self.frozen.pop(frozen[2], None)        # a fork may have removed it
            if self.missed and not self.frozen:
                cache = self.cache()
    if cache is not None:
        cache._on_alarm()
    return True


cdef list cache_freeze(CacheCore self):
    container_enter(self)               # forgets the parent's threads that froze the time, in the child of a fork
    return clock_freeze(self.clock)


# --- links -----------------------------------------------------------------------------------------------------------


cdef void cache_link(CacheCore self, DictEntry* entry, Bucket* bucket) noexcept:
    """Add an entry to the order of deadlines."""
    if self.of_ttu and not self.known:
        (<CacheDeadline><object>(<CacheEntry*>entry).deadline).entry = entry
    if bucket is not NULL:
        bucket_append(bucket, &entry.entry)
    elif self.of_ttu and entry.entry.expiration_ms == INT64_MAX:
        list_append(&self.unending, &entry.entry)
    else:
        list_append(&self.due, &entry.entry)
    hw_bump(&self.pending, 1)


cdef void cache_unlink(CacheCore self, DictEntry* entry) noexcept:
    if self.of_ttu and not self.known:
        (<CacheDeadline><object>(<CacheEntry*>entry).deadline).entry = NULL
    if self.wheel is NULL:
        entry_unlink(&entry.entry)
    else:
        wheel_remove(self.wheel, &entry.entry)
    hw_bump(&self.pending, -1)


cdef void cache_take_out(CacheCore self, DictEntry* entry) noexcept:
    """Remove an entry. The caller must free it with cache_drop."""
    cache_unlink(self, entry)
    table_remove(&self.table, entry)
    if self.sized:
        self.total = self.total - (<CacheEntry*>entry).size if self.table.count else 0


cdef void cache_drop(CacheCore self, DictEntry* entry) noexcept:
    """Free a removed entry. Destructors may run foreign code."""
    cdef PyObject* deadline = (<CacheEntry*>entry).deadline if cache_has_objects(self) else NULL
    entry_drop(entry)
    Py_XDECREF(deadline)


cdef list cache_detach(CacheCore self, DictTable* table_out):
    """Remove all entries at once, and return the heaps. The caller must free them with cache_free_detached."""
    cdef DictTable fresh
    cdef list heaps = [[], []]
    if self.heap_lock is not None:
        self.heap_lock.acquire()                # no other thread compares deadlines of the heaps
        self.heap_lock.release()
    fresh.slots = NULL
    if not table_ensure_slots(&fresh):
        raise MemoryError
    table_out[0] = self.table
    table_out.order.newer.older = table_out.order.older.newer = &table_out.order        # entries refer to the head
    if self.table.count == 0:
        table_out.order.newer = table_out.order.older = &table_out.order
    fresh.version = self.table.version + 1
    fresh.numbers = self.table.numbers
    fresh.count = 0
    fresh.walks = self.table.walks
    self.table = fresh
    self.table.order.newer = self.table.order.older = &self.table.order
    container_free(self)
    if self.heap is not None:
        self.heap, heaps[0] = heaps[0], self.heap
        self.old_heap, heaps[1] = heaps[1], self.old_heap
    self.clears += 1
    self.total = 0
    hw_bump(&self.pending, -self.pending)
    list_init(&self.due)
    list_init(&self.unending)
    return heaps


cdef void cache_free_detached(CacheCore self, DictTable* table, list heaps) noexcept:
    """Free detached entries and heaps. After each turn, other threads run."""
    cdef DictEntry* entry
    cdef Turn turn
    heap_empty(heaps[0])
    heap_empty(heaps[1])
    turn_begin(&turn)
    while table.order.newer is not &table.order:
        entry = table.order.newer
        order_unlink(entry)
        cache_drop(self, entry)
        turn_step(&turn)
    PyMem_RawFree(table.slots)


# --- expiry ----------------------------------------------------------------------------------------------------------


# The heap of deadlines, of a TLRUCache with a user-defined timer. It also holds deadlines that no entry has any more. Once these
# are the majority, the heap becomes `old_heap`, and each new deadline moves some items of it over. Comparisons may run foreign
# code, so a lock guards both lists: heapq fails if another thread changes a list in between.


cdef void heap_empty(list heap) noexcept:
    """Release all items of a heap that no other thread uses. After each turn, other threads run."""
    cdef Turn turn
    turn_begin(&turn)
    while heap:
        heap.pop()
        turn_step(&turn)


cdef CacheDeadline heap_least(CacheCore self, list heap, int* budget):
    """Return the least deadline that an entry still has. None: there is no such deadline, or the budget has reached 0."""
    cdef CacheDeadline least
    while heap and budget[0] > 0:
        least = heap[0]
        if least.entry is not NULL:
            return least
        budget[0] -= 1
        lock = self.heap_lock           # a fork replaces it
        lock.acquire()
        try:
            if (heap is self.heap or heap is self.old_heap) and heap and heap[0] is least:
                take_least(heap)
        finally:
            lock.release()
    return None


cdef DictEntry* cache_least(CacheCore self, object now, int* budget) except? NULL:
    """Return the expired entry with the earliest deadline in the heaps. NULL: none has expired, or the budget has reached 0."""
    cdef CacheDeadline least, other
    cdef int64_t clears
    while True:
        clears = self.clears
        least = heap_least(self, self.heap, budget)
        other = heap_least(self, self.old_heap, budget)
        if least is None or (other is not None and other < least):
            least = other
        if least is None or budget[0] <= 0 or now < least.expires:
            return NULL
        if least.entry is not NULL and clears == self.clears:       # the comparisons may have run foreign code
            return least.entry


cdef bint heaps_tidy(CacheCore self) except False:
    """Move some deadlines from the old heap to the other one, except those that no entry has any more."""
    cdef CacheDeadline last
    cdef int moves = TIDY_MOVES
    lock = self.heap_lock
    lock.acquire()
    try:
        if not self.old_heap and len(self.heap) > 2 * self.table.count + 8:
            self.old_heap, self.heap = self.heap, self.old_heap
        while self.old_heap and moves:
            last = self.old_heap[len(self.old_heap) - 1]        # without it, the rest is still a heap
            if last.entry is not NULL:
                put_ordered(self.heap, last)
            if self.old_heap and self.old_heap[len(self.old_heap) - 1] is last:
                self.old_heap.pop()
            moves -= 1
    finally:
        lock.release()
    return True


cdef DictEntry* cache_expired(CacheCore self, double now_s, object now, int* budget) except? NULL:
    """Return the expired entry with the earliest deadline. NULL: no entry has expired, or the budget has reached 0."""
    cdef DictEntry* entry
    cdef int alive = -2
    if self.table.count == 0:
        return NULL
    if self.of_ttu:
        if not self.known:
            return cache_least(self, now, budget)
        if self.wheel is not NULL and container_step(self, last_ms(now_s), budget):
            return <DictEntry*>self.due.next
        return NULL
    while alive < 0 and not list_is_empty(&self.due):
        entry = <DictEntry*>self.due.next
        alive = cache_check_alive(self, entry, now_s, now)
        if alive == 0:
            return entry
    return NULL


cdef bint cache_expire_turn(CacheCore self, double now_s, object now, list pairs) except -1:
    """Remove expired entries for one turn; append their pairs to `pairs` unless it is None. Return True if more are due."""
    cdef Turn turn
    cdef int64_t taken = 0
    cdef int budget = SLICE
    cdef DictEntry* entry
    cdef PyObject* deadline
    cdef tuple pair = None
    while True:
        if pairs is not None and pair is None:
            pair = dict_new_pair(pairs)         # allocated first, so that a failure loses no entry
            if pair is None:
                return False                    # the next operation removes the rest
        entry = cache_expired(self, now_s, now, &budget)
        if entry is NULL and budget > 0:
            return False
        if entry is NULL:
            return True
        if taken == 0:
            turn_begin(&turn)
        cache_take_out(self, entry)
        if pair is None:
            cache_drop(self, entry)
        else:
            deadline = (<CacheEntry*>entry).deadline if cache_has_objects(self) else NULL
            pair_fill(pairs, pair, entry)
            Py_XDECREF(deadline)
            pair = None
        taken += 1
        if turn_is_over(&turn):
            return True


cdef bint cache_expire(CacheCore self, double now_s, object now, list pairs=None) except False:
    """Remove all expired entries. Other threads run between two turns."""
    while cache_expire_turn(self, now_s, now, pairs):
        if pairs is not None:
            list_unreserve(pairs)
        yield_gil()
    if pairs is not None:
        list_unreserve(pairs)
    return True


cdef bint cache_expire_or_hook(CacheCore self, double now_s, object now) except False:
    """Remove all expired entries. If a subclass overrides expire(), call its method."""
    if self.overrides & CACHE_EXPIRE:
        frozen = cache_freeze(self)
        try:
            self.expire(frozen[0])
        finally:
            clock_thaw(self.clock, frozen)
        return True
    return cache_expire(self, now_s, now)


# A copy of all entries walks over the slots of the table, as that of an ExpiringDict does. After each turn, other threads run.

ctypedef int (*CopiesCompare)(const void*, const void*) noexcept nogil


cdef bint cache_copy_slots(CacheCore self, CacheCopy** copies, int64_t* count_out) except False:
    """Copy all entries, expired or not, with their references."""
    cdef DictTable* table = &self.table
    cdef DictEntry* entry
    cdef CacheCopy* copy
    cdef int64_t capacity = 0
    cdef uint64_t slot = 0
    cdef Turn turn
    turn_begin(&turn)
    while table.slots is not NULL and slot < table_length(table):
        entry = table.slots[slot]
        slot += 1
        while entry is not NULL:
            if count_out[0] == capacity:
                capacity = max(2 * capacity, table.count)
                copy = <CacheCopy*>PyMem_RawRealloc(copies[0], capacity * sizeof(CacheCopy))
                if copy is NULL:
                    raise MemoryError
                copies[0] = copy
            copy = &copies[0][count_out[0]]
            copy[0] = CacheCopy(entry.key, entry.value, NULL, entry.expires_s, 1, entry.entry.set_number, entry.number)
            if cache_has_objects(self):
                copy.size = (<CacheEntry*>entry).size
                if not self.known:
                    copy.deadline = (<CacheEntry*>entry).deadline
            Py_INCREF(<object>copy.key)         # these are dropped by cache_copies_free
            Py_INCREF(<object>copy.value)
            Py_XINCREF(copy.deadline)
            count_out[0] += 1
            entry = entry.chain
        turn_step(&turn)
    return True


cdef int copies_by_use(const void* one, const void* other) noexcept nogil:
    cdef uint64_t a = (<const CacheCopy*>one).number, b = (<const CacheCopy*>other).number
    return (a > b) - (a < b)


cdef int copies_by_setting(const void* one, const void* other) noexcept nogil:
    cdef int64_t a = (<const CacheCopy*>one).set_number, b = (<const CacheCopy*>other).set_number
    return (a > b) - (a < b)


cdef int copies_by_deadline(const void* one, const void* other) noexcept nogil:
    cdef double a = (<const CacheCopy*>one).expires_s, b = (<const CacheCopy*>other).expires_s
    return (a > b) - (a < b) if a != b else copies_by_use(one, other)


cdef bint cache_copy(CacheCore self, CopiesCompare compare, CacheCopy** copies, int64_t* count_out) except False:
    """Copy all entries in an order, expired or not.

    The copy contains each entry that is present during the whole call. An entry that is set or ends during the call may be
    missing.
    """
    cdef int64_t generation
    with cython.critical_section(self):
        container_enter(self)
        generation = self.generation
        self.table.walks += 1
        try:
            cache_copy_slots(self, copies, count_out)
        finally:
            if self.generation == generation:       # otherwise a fork has reset `walks`
                self.table.walks -= 1
    if count_out[0]:                    # C forbids NULL even for no elements
        with nogil:
            qsort(copies[0], count_out[0], sizeof(CacheCopy), compare)
    return True


cdef void cache_copies_free(CacheCopy* copies, int64_t count) noexcept:
    cdef Turn turn
    cdef int64_t i
    turn_begin(&turn)
    for i in range(count):
        Py_DECREF(<object>copies[i].key)
        Py_DECREF(<object>copies[i].value)
        Py_XDECREF(copies[i].deadline)
        turn_step(&turn)
    with nogil:
        PyMem_RawFree(copies)


cdef object copy_deadline(CacheCore self, const CacheCopy* copy):
    if copy.deadline is NULL:
        return copy.expires_s
    return (<CacheDeadline><object>copy.deadline).expires if self.of_ttu else <object>copy.deadline


cdef tuple cache_columns(CacheCore self):
    """Return the keys and the values that have not expired: of a TTLCache in order of setting, of a TLRUCache in order of use."""
    cdef CacheCopy* copies = NULL
    cdef int64_t count = 0, i
    cdef double now_s = 0
    cdef list keys = [], values = []
    cdef Turn turn
    cdef bint alive
    now = cache_now(self, &now_s)
    try:
        cache_copy(self, copies_by_use if self.of_ttu else copies_by_setting, &copies, &count)
        turn_begin(&turn)
        for i in range(count):
            if self.known:
                alive = now_s < copies[i].expires_s
            else:
                alive = now < copy_deadline(self, &copies[i])
            if alive:
                keys.append(<object>copies[i].key)
                values.append(<object>copies[i].value)
            turn_step(&turn)
    finally:
        cache_copies_free(copies, count)
    return keys, values


cdef tuple cache_state(CacheCore self):
    """Return what _restore() pops: size, deadline, value, and key of all entries, and the keys by use, both in reverse order."""
    cdef CacheCopy* copies = NULL
    cdef int64_t count = 0, i
    cdef list flat = [], keys_by_use = []
    cdef Turn turn
    PyObject_GC_UnTrack(<PyObject*>flat)            # the collector would traverse four million items in one go
    PyObject_GC_UnTrack(<PyObject*>keys_by_use)
    try:
        cache_copy(self, copies_by_use, &copies, &count)
        turn_begin(&turn)
        for i in reversed(range(count)):
            keys_by_use.append(<object>copies[i].key)
            turn_step(&turn)
        if count and not self.of_ttu:
            with nogil:
                qsort(copies, count, sizeof(CacheCopy), copies_by_setting)
        for i in reversed(range(count)):
            flat.append(copies[i].size)
            flat.append(copy_deadline(self, &copies[i]))
            flat.append(<object>copies[i].value)
            flat.append(<object>copies[i].key)
            turn_step(&turn)
    finally:
        cache_copies_free(copies, count)
    return flat, keys_by_use


cdef list cache_expire_at(CacheCore self, double at_s):
    """Remove the entries of a TLRUCache with a known timer whose deadlines pass by a time that may be in the future."""
    cdef CacheCopy* copies = NULL
    cdef int64_t count = 0, i
    cdef list pairs = []
    cdef DictEntry* entry = NULL
    cdef Turn turn
    try:
        cache_copy(self, copies_by_deadline, &copies, &count)
        turn_begin(&turn)
        for i in range(count):
            if at_s < copies[i].expires_s:
                break
            key, value = <object>copies[i].key, <object>copies[i].value
            pairs.append((key, value))
            if table_find(&self.table, key, mixed_hash(key), &entry) and not at_s < entry.expires_s:
                cache_take_out(self, entry)
                cache_drop(self, entry)
            else:
                pairs.pop()
            turn_step(&turn)
    finally:
        cache_copies_free(copies, count)
    return pairs


cdef bint cache_arm(CacheCore self, int64_t at_ms) except -1:
    """Set the alarm if needed, and return True if that may have run foreign code.

    A closed timer has no alarm. The entries then leave at the next operation, as with a user-defined timer.
    """
    if not self.known or at_ms == INT64_MAX or hw_peek(&self.timer.timer.closed) or container_needs_no_alarm(self, at_ms):
        return False
    try:
        container_arm(self, at_ms)
    except TimerClosed:
        pass
    return True


cdef bint cache_arm_again(CacheCore self) except False:
    """Set the alarm for the next entry, after the alarm has run or a fork has dropped it."""
    cdef int64_t at_ms
    if not self.known or self.pending == 0:
        return True
    if self.of_ttu and not list_is_empty(&self.due):
        at_ms = self.wheel.taken_ms
    elif not container_next_ms(self, &at_ms):
        return True
    return container_arm_again(self, at_ms)


# --- set -------------------------------------------------------------------------------------------------------------


cdef bint cache_check_size(CacheCore self, object value, CachePut* put) except False:
    cdef object size
    put.size = 1
    if self.sized:
        size = self.getsizeof(value)
        put.size = size
        if not isinstance(size, int):
            self.whole = False
    if put.size > self.max_total:
        raise ValueError("value too large")
    if put.size < 0:
        raise ValueError(f"value size must be non-negative, got {put.size}")
    return True


cdef object cache_set_deadline(CacheCore self, object key, object value, CachePut* put, object now):
    """Compute the deadline of a new value. Return it as an object, None for a known timer, or NOT_THERE if it has passed."""
    cdef object expires
    if self.of_ttu:
        time = put.now_s if self.known else now
        expires = self.span(key, value, time)
        if not time < expires:
            return NOT_THERE
        if self.known:
            put.expires_s = expires
            return None
        heaps_tidy(self)
        deadline = CacheDeadline.__new__(CacheDeadline)
        (<CacheDeadline>deadline).expires = expires
        return deadline
    if self.known:
        put.expires_s = put.now_s + self.span_s
        return None
    return now + self.span


cdef inline double cache_total(CacheCore self) noexcept:
    return self.total if self.sized else <double>self.table.count


cdef bint cache_has_room(CacheCore self, const CachePut* put) noexcept:
    cdef double more = put.size
    if put.entry is not NULL:
        more -= (<CacheEntry*>put.entry).size if self.sized else 1
    return more <= 0 or not cache_total(self) + more > self.max_total


cdef bint cache_evict(CacheCore self, double now_s, object now) except False:
    """Remove an expired entry, or if there is no such entry, the least recently used one."""
    cdef int budget = SLICE
    cdef DictEntry* entry
    if self.overrides & (CACHE_POPITEM | CACHE_DELITEM):
        frozen = cache_freeze(self)
        try:
            self.popitem()
        finally:
            clock_thaw(self.clock, frozen)
        return True
    entry = cache_expired(self, now_s, now, &budget)
    if entry is NULL and self.table.count:
        entry = self.table.order.newer
    if entry is not NULL:
        cache_take_out(self, entry)
        cache_drop(self, entry)
    return True


cdef bint cache_prepare(CacheCore self, object key, CachePut* put, object now) except -1:
    """Find the entry to change, make room, reserve the bucket, and set the alarm. Return False if put.keeps finds the key.

    After True, no foreign code has run since the entry was found.
    """
    cdef int64_t at_ms = INT64_MAX
    cdef Instant instant = Instant(last_ms(put.now_s) if self.known else 0, 0)
    while True:
        if self.known:
            at_ms = max(first_ms(put.expires_s), instant.ms)
        put.bucket = NULL
        if put.keeps:
            put.entry = cache_find(self, key, put.hash, put.now_s, now)
            if put.entry is not NULL:
                return False
        if not table_find(&self.table, key, put.hash, &put.entry):
            put.entry = NULL
        if put.evicts and not cache_has_room(self, put):
            cache_evict(self, put.now_s, now)
            continue
        if self.of_ttu and at_ms != INT64_MAX:
            container_reserve(self, &instant, at_ms + self.timer.timer.round_up_ms, &put.bucket, &at_ms)
        if not cache_arm(self, at_ms):
            return True
        timer_read_clock(self.timer.timer, &instant)        # if the deadline has passed, the alarm must be set for now


cdef bint cache_commit(CacheCore self, object key, object value, CachePut* put, object deadline) except False:
    """Apply a prepared change."""
    cdef DictEntry* entry = put.entry
    cdef PyObject* old_value = NULL
    cdef PyObject* old_deadline = NULL
    if PyObject_IS_GC(<PyObject*>value) or PyObject_IS_GC(<PyObject*>key) or PyObject_IS_GC(<PyObject*>deadline):
        self.traversed = True
    if entry is NULL:
        entry = <DictEntry*>PyMem_Malloc(sizeof(CacheEntry) if cache_has_objects(self) else sizeof(DictEntry))
        if entry is NULL or not table_ensure_slots(&self.table):
            PyMem_Free(entry)
            raise MemoryError
        Py_INCREF(key)                  # dropped by entry_drop
        entry.key = <PyObject*>key
        entry.hash = put.hash
        entry.entry.generation = 0
        table_add(&self.table, entry)
    else:
        cache_unlink(self, entry)
        cache_use(self, entry)
        self.table.version += 1         # so a lookup in progress compares the new deadline
        old_value = entry.value
        if cache_has_objects(self):
            old_deadline = (<CacheEntry*>entry).deadline
        if self.sized:
            self.total -= (<CacheEntry*>entry).size
    Py_INCREF(value)                    # entry_drop drops it; cache_drop drops the deadline
    entry.value = <PyObject*>value
    entry.expires_s = put.expires_s
    if self.of_ttu:
        entry.entry.expiration_ms = first_ms(put.expires_s) if self.known else INT64_MAX
    else:
        self.table.numbers += 1
        entry.entry.set_number = <int64_t>self.table.numbers
    if cache_has_objects(self):
        Py_INCREF(deadline)
        (<CacheEntry*>entry).deadline = <PyObject*>deadline
        (<CacheEntry*>entry).size = put.size
        self.total += put.size
    if self.of_ttu and entry.entry.expiration_ms != INT64_MAX:
        entry.entry.expiration_ms += self.timer.timer.round_up_ms
    cache_link(self, entry, put.bucket)
    Py_XDECREF(old_value)
    Py_XDECREF(old_deadline)
    return True


cdef object cache_discard(CacheCore self, object key, uint64_t hash):
    """Remove a key, expired or not. Return (value, deadline), or None if it is missing."""
    cdef DictEntry* entry = NULL
    cdef tuple found
    while table_find(&self.table, key, hash, &entry):
        version = self.table.version
        found = (<object>entry.value, cache_deadline(self, entry))      # may run the collector, and with it foreign code
        if version == self.table.version:
            cache_take_out(self, entry)
            cache_drop(self, entry)
            return found
    return None


cdef bint cache_put_in_heap(CacheCore self, CacheDeadline deadline, int64_t clears) except False:
    """Push the deadline of a new entry onto the heap. If that fails, remove the entry.

    clears: CacheCore.clears when the entry was added. If it has changed, a destructor or another thread has freed the entry.
    """
    cdef DictEntry* entry
    lock = self.heap_lock
    try:
        lock.acquire()
        try:
            if clears == self.clears:
                put_ordered(self.heap, deadline)
        finally:
            lock.release()
    except BaseException:
        if clears == self.clears and deadline.entry is not NULL:
            entry = deadline.entry
            cache_take_out(self, entry)
            cache_drop(self, entry)
        raise
    return True


cdef object cache_put(CacheCore self, object key, object value, bint keeps):
    """Set a key's value, or with `keeps` only if the key is missing. Return the value that is present afterwards."""
    cdef CachePut put
    cdef object now, deadline
    cdef int64_t clears
    put.hash = mixed_hash(key)
    put.expires_s = 0
    put.keeps = keeps
    put.evicts = True
    now = cache_now(self, &put.now_s)
    if keeps:
        put.entry = cache_find(self, key, put.hash, put.now_s, now)
        if put.entry is not NULL:
            cache_use(self, put.entry)
            return <object>put.entry.value
    cache_expire_or_hook(self, put.now_s, now)
    deadline = cache_set_deadline(self, key, value, &put, now)
    if deadline is NOT_THERE:
        cache_discard(self, key, put.hash)
        return value
    cache_check_size(self, value, &put)
    if not cache_prepare(self, key, &put, now):
        cache_use(self, put.entry)
        return <object>put.entry.value
    clears = self.clears
    cache_commit(self, key, value, &put, deadline)
    if self.heap is not None:
        cache_put_in_heap(self, deadline, clears)
    return value


# --- get and remove --------------------------------------------------------------------------------------------------


cdef bint cache_deadline_has_passed(CacheCore self, object deadline, double now_s, object now) except -1:
    if self.known:
        return not now_s < <double>deadline         # needs no memory
    return not now < deadline


cdef object cache_get(CacheCore self, object key):
    """Return the value of a key and make it the most recently used one; NOT_THERE if it is missing or has expired."""
    cdef uint64_t hash = mixed_hash(key)
    cdef double now_s = 0
    cdef DictEntry* entry
    if self.table.slots is not NULL:
        hw_prefetch(table_slot(&self.table, hash))
    now = cache_now(self, &now_s)
    entry = cache_find(self, key, hash, now_s, now)
    if entry is NULL:
        return NOT_THERE
    cache_use(self, entry)
    return <object>entry.value


cdef tuple cache_popitem(CacheCore self):
    """Remove the least recently used entry and return its pair; None if the cache is empty."""
    cdef DictEntry* entry
    cdef double now_s = 0
    cdef tuple pair
    now = cache_now(self, &now_s)
    cache_expire_or_hook(self, now_s, now)
    while self.table.count:
        entry = self.table.order.newer
        pair = (<object>entry.key, <object>entry.value)     # may run the collector, and with it foreign code
        if entry is not self.table.order.newer or <PyObject*>pair[1] is not entry.value:
            continue
        if self.overrides & CACHE_DELITEM:
            del self[pair[0]]
        else:
            cache_take_out(self, entry)
            cache_drop(self, entry)
        return pair
    return None
