# The operations of a cache, TTLCache or TLRUCache, on its entries.
#
# Deadlines. All entries of a TTLCache live equally long, so the order of their setting is the order of their deadlines: the list
# `due` holds them, and an entry costs no bucket. Those of a TLRUCache are on the container's wheel. In both, DictTable.order
# is the order of use, and one alarm in the timer removes entries at their deadline.
#
# Timers of the user's. A function may return anything that can be added and compared. No alarm can wait for it, so expired
# entries leave at the next operation. Each comparison may run foreign code, so it is repeated if the table has changed.
#
# Garbage collection. Unlike those of an ExpiringDict, the entries are visible to the collector: programs that come from
# cachetools keep a cache in the object that its values refer to.

cdef enum:
    CACHE_GETITEM = 1       # bits of CacheCore.overrides, in the order of CACHE_METHODS
    CACHE_SETITEM = 2
    CACHE_DELITEM = 4
    CACHE_CONTAINS = 8
    CACHE_MISSING = 16
    CACHE_POPITEM = 32
    CACHE_EXPIRE = 64

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

cdef object take_least, put_ordered, make_heap, first_of
first_of = operator.itemgetter(0)
from heapq import heapify as make_heap, heappop as take_least, heappush as put_ordered


cdef inline bint cache_has_objects(CacheCore self) noexcept:
    """Return True if the entries are CacheEntries."""
    return self.sized or not self.known


cdef inline double seconds_of(int64_t ms, int32_t ns) noexcept:
    return <double>(ms * NS_PER_MS + ns) / 1e9 if -9e12 < ms < 9e12 else <double>ms / 1e3


cdef inline int64_t first_ms(double deadline_s) noexcept:
    """Return the first millisecond at which a deadline has passed, also after rounding; INT64_MAX: never."""
    cdef int64_t ms
    if not -1e12 < deadline_s < 1e12:
        return INT64_MAX
    ms = <int64_t>floor(deadline_s * 1000)
    while seconds_of(ms, 0) < deadline_s:
        ms += 1
    return ms


cdef inline int64_t last_ms(double now_s) noexcept:
    """Return the last millisecond that has begun, also after rounding: the opposite of first_ms."""
    cdef int64_t ms
    if not -1e12 < now_s < 1e12:
        return 0
    ms = <int64_t>floor(now_s * 1000) + 1
    while seconds_of(ms, 0) > now_s:
        ms -= 1
    return ms


# --- time ------------------------------------------------------------------------------------------------------------


cdef object cache_now(CacheCore self, double* now_s_out):
    """Read the time. A known timer gives seconds and None; another one the object that it returns."""
    cdef Instant now
    cdef object frozen = None
    container_ready(self)
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


cdef int cache_alive(CacheCore self, const DictEntry* entry, double now_s, object now) except -1:
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
        alive = cache_alive(self, entry, now_s, now)
        if alive >= 0:
            return entry if alive else NULL
    return NULL


cdef inline void cache_use(CacheCore self, DictEntry* entry) noexcept:
    """Make an entry the most recently used one."""
    if entry.newer is not &self.table.order:
        order_unlink(entry)
        order_append(&self.table, entry)


# The core calls these in try and finally, because a `with` statement needs memory to call __exit__().

cdef list clock_freeze(CacheTimer self):
    """Let time stand still for this thread. Return what clock_thaw needs; the first item is the time."""
    cdef object thread = PyThread_get_thread_ident()
    cdef list frozen = self.frozen.get(thread)
    if frozen is None:
        frozen = self.frozen[thread] = [self.clock(), 0, thread]
    frozen[1] += 1
    return frozen


cdef bint clock_thaw(CacheTimer self, list frozen) except False:
    """Let time go on, and run an alarm that was missed. This needs no memory."""
    cdef object cache = None
    with cython.critical_section(self):
        frozen[1] -= 1
        if frozen[1] == 0:
            del self.frozen[frozen[2]]
            if self.missed and not self.frozen:
                cache = self.cache()
    if cache is not None:
        cache._on_alarm()
    return True


# --- links -----------------------------------------------------------------------------------------------------------


cdef void cache_link(CacheCore self, DictEntry* entry, Bucket* bucket) noexcept:
    """Enter an entry into the order of deadlines."""
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
    """Remove an entry. The caller drops it."""
    cache_unlink(self, entry)
    table_remove(&self.table, entry)
    if self.sized:
        self.total = self.total - (<CacheEntry*>entry).size if self.table.count else 0


cdef void cache_drop(CacheCore self, DictEntry* entry) noexcept:
    """Free an entry that was taken out. Destructors may run foreign code."""
    cdef PyObject* deadline = (<CacheEntry*>entry).deadline if cache_has_objects(self) else NULL
    entry_drop(entry)
    Py_XDECREF(deadline)


cdef bint cache_detach(CacheCore self, DictTable* table_out) except False:
    """Remove all entries at once. The caller frees them: cache_free_detached."""
    cdef DictTable fresh
    heap = [] if self.heap is not None else None
    fresh.slots = NULL
    if not table_make(&fresh):
        raise MemoryError
    table_out[0] = self.table
    table_out.order.newer.older = table_out.order.older.newer = &table_out.order        # entries refer to the head
    if self.table.count == 0:
        table_out.order.newer = table_out.order.older = &table_out.order
    fresh.version = self.table.version + 1
    fresh.numbers = self.table.numbers
    fresh.count = fresh.walks = 0
    self.table = fresh
    self.table.order.newer = self.table.order.older = &self.table.order
    container_free(self)
    self.heap, heap = heap, self.heap
    self.total = 0
    hw_bump(&self.pending, -self.pending)
    list_init(&self.due)
    list_init(&self.unending)
    return True


cdef void cache_free_detached(CacheCore self, DictTable* table) noexcept:
    """Free detached entries. After each turn, other threads run."""
    cdef DictEntry* entry
    cdef Turn turn
    turn_begin(&turn)
    while table.order.newer is not &table.order:
        entry = table.order.newer
        order_unlink(entry)
        cache_drop(self, entry)
        turn_step(&turn)
    PyMem_RawFree(table.slots)


# --- expiry ----------------------------------------------------------------------------------------------------------


cdef DictEntry* cache_least(CacheCore self, double now_s, object now) except? NULL:
    """Return the entry of the heap that has expired first, or NULL."""
    cdef CacheDeadline least
    while self.heap:
        least = self.heap[0]
        if least.entry is not NULL and now < least.expires:
            return NULL
        if self.heap and self.heap[0] is least:     # the comparison may have run foreign code
            if least.entry is not NULL:
                return least.entry
            take_least(self.heap)
    return NULL


cdef DictEntry* cache_expired(CacheCore self, double now_s, object now, int* budget) except? NULL:
    """Return an entry whose deadline has passed, first deadline first. NULL: there is none, or the budget is used up and 0."""
    cdef DictEntry* entry
    cdef int alive = -2
    if self.table.count == 0:
        return NULL
    if self.of_ttu:
        if not self.known:
            return cache_least(self, now_s, now)
        if self.wheel is not NULL and container_step(self, last_ms(now_s), budget):
            return <DictEntry*>self.due.next
        return NULL
    while alive < 0 and not list_is_empty(&self.due):
        entry = <DictEntry*>self.due.next
        alive = cache_alive(self, entry, now_s, now)
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
            pair = dict_new_pair(pairs)         # before the entry is taken, so that out-of-memory loses none
            if pair is None:
                return False                    # the rest follows at the next operation
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
    """Remove all expired entries, with the method of a subclass if it overrides expire()."""
    if self.overrides & CACHE_EXPIRE:
        frozen = clock_freeze(self.clock)
        try:
            self.expire(frozen[0])
        finally:
            clock_thaw(self.clock, frozen)
        return True
    return cache_expire(self, now_s, now)


cdef list cache_flat(CacheCore self, const DictEntry* by_use):
    """Return key, value, deadline, and size of all entries as of one moment, expired or not, in one list.

    by_use: the head of DictTable.order; NULL: in order of setting, for a TTLCache only.
    """
    cdef const DictEntry* entry
    cdef list flat
    cdef object item
    cdef Py_ssize_t room, at = 0
    while True:
        room = 4 * self.table.count
        flat = [None] * room                # may run the garbage collector, and with it foreign code
        if room == 4 * self.table.count:
            break
    entry = by_use.newer if by_use is not NULL else <const DictEntry*>self.due.next
    while at < room:
        flat[at] = <object>entry.key
        flat[at + 1] = <object>entry.value
        flat[at + 2] = cache_deadline(self, entry)
        item = (<const CacheEntry*>entry).size if self.sized else 1.0
        flat[at + 3] = item
        at += 4
        entry = entry.newer if by_use is not NULL else <const DictEntry*>entry.entry.next
    return flat


cdef list cache_expire_at(CacheCore self, double at_s):
    """Remove the entries of a TLRUCache with a known timer whose deadlines pass by a time that may be in the future. O(n)."""
    cdef list due = [], pairs = []
    cdef DictEntry* entry = NULL
    cdef list flat = cache_flat(self, &self.table.order)
    for i in range(0, len(flat), 4):
        if not at_s < flat[i + 2]:
            due.append((flat[i + 2], flat[i], flat[i + 1]))
    due.sort(key=first_of)
    for _, key, value in due:
        pairs.append((key, value))
        if table_find(&self.table, key, mixed_hash(key), &entry) and not at_s < entry.expires_s:
            cache_take_out(self, entry)
            cache_drop(self, entry)
        else:
            pairs.pop()
    return pairs


cdef bint cache_arm(CacheCore self, int64_t at_ms) except -1:
    """Set the alarm if needed, and return True if that may have run foreign code.

    A closed timer has no alarm. The entries then leave at the next operation, as with a timer of the user's.
    """
    if not self.known or at_ms == INT64_MAX or hw_peek(&self.timer.timer.closed) or container_is_armed(self, at_ms):
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
    """Compute the deadline of a new value. Return the object for the entry; None: the timer is known."""
    cdef object expires
    if self.of_ttu:
        time = put.now_s if self.known else now
        expires = self.span(key, value, time)
        if not time < expires:
            return NOT_THERE
        if self.known:
            put.expires_s = expires
            return None
        length = len(self.heap)
        if length > 2 * self.table.count + 8:
            kept = []
            for item in self.heap:
                if (<CacheDeadline>item).entry is not NULL:
                    kept.append(item)
            make_heap(kept)
            if length == len(self.heap):        # no other thread has added one
                self.heap = kept
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
    """Remove an expired entry, else the least recently used one."""
    cdef int budget = SLICE
    cdef DictEntry* entry
    if self.overrides & (CACHE_POPITEM | CACHE_DELITEM):
        frozen = clock_freeze(self.clock)
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
    """Find the entry to change, make room, reserve the bucket, and set the alarm. False: `put.keeps`, and the key is present.

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
        timer_read_clock(self.timer.timer, &instant)        # a deadline that has passed needs an alarm for now


cdef bint cache_commit(CacheCore self, object key, object value, CachePut* put, object deadline) except False:
    """Make a prepared change."""
    cdef DictEntry* entry = put.entry
    cdef PyObject* old_value = NULL
    cdef PyObject* old_deadline = NULL
    if entry is NULL:
        entry = <DictEntry*>PyMem_Malloc(sizeof(CacheEntry) if cache_has_objects(self) else sizeof(DictEntry))
        if entry is NULL or not table_make(&self.table):
            PyMem_Free(entry)
            raise MemoryError
        Py_INCREF(key)                  # dropped by entry_drop
        entry.key = <PyObject*>key
        entry.hash = put.hash
        entry.entry.place = 0
        table_add(&self.table, entry)
    else:
        cache_unlink(self, entry)
        cache_use(self, entry)
        self.table.version += 1         # a lookup in progress compares the new deadline
        old_value = entry.value
        if cache_has_objects(self):
            old_deadline = (<CacheEntry*>entry).deadline
        if self.sized:
            self.total -= (<CacheEntry*>entry).size
    Py_INCREF(value)                    # dropped by entry_drop, the deadline by cache_drop
    entry.value = <PyObject*>value
    entry.expires_s = put.expires_s
    entry.entry.expiration_ms = first_ms(put.expires_s) if self.known else INT64_MAX
    if cache_has_objects(self):
        Py_INCREF(deadline)
        (<CacheEntry*>entry).deadline = <PyObject*>deadline
        (<CacheEntry*>entry).size = put.size
        self.total += put.size
    if entry.entry.expiration_ms != INT64_MAX and self.of_ttu:
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


cdef bint cache_put_in_heap(CacheCore self, CacheDeadline deadline) except False:
    """Enter the deadline of a new entry into the heap. If that fails, remove the entry."""
    cdef DictEntry* entry
    try:
        put_ordered(self.heap, deadline)
    except BaseException:
        entry = deadline.entry
        if entry is not NULL:
            cache_take_out(self, entry)
            cache_drop(self, entry)
        raise
    return True


cdef object cache_put(CacheCore self, object key, object value, bint keeps):
    """Set a key's value, or with `keeps` only if the key is missing. Return the value that is present afterwards."""
    cdef CachePut put
    cdef object now, deadline
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
    cache_commit(self, key, value, &put, deadline)
    if self.heap is not None:
        cache_put_in_heap(self, deadline)
    return value


# --- get and remove --------------------------------------------------------------------------------------------------


cdef bint cache_passed(CacheCore self, object deadline, double now_s, object now) except -1:
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
