# CacheTimer and CacheCore: the methods of TTLCache and TLRUCache.

cdef object monotonic = time.monotonic


@cython.final
cdef class CacheTimer:
    """The timer of a cache: call it for the time. A ``with`` statement freezes the time for the thread and this cache."""

    def __cinit__(self, clock):
        self.clock = clock
        self.frozen = {}
        if isinstance(getattr(clock, "__self__", None), BaseTimer) and clock.__name__ == "time":
            self.source = clock.__self__

    def __call__(self):
        cdef object frozen = self.frozen.get(PyThread_get_thread_ident())
        return self.clock() if frozen is None else frozen[0]

    def __enter__(self):
        return clock_freeze(self)[0]

    def __exit__(self, *exc_info):
        clock_thaw(self, self.frozen[PyThread_get_thread_ident()])

    def __getattr__(self, name):
        return getattr(self.clock, name)

    def __copy__(self):
        return CacheTimer(self.clock)

    def __reduce__(self):
        return CacheTimer, (self.clock,)


@cython.final
cdef class CacheDeadline:
    """The deadline of an entry of a TLRUCache with a user-defined timer."""

    def __lt__(self, other):
        return self.expires < (<CacheDeadline?>other).expires


cdef class CacheCore(ContainerCore):
    """The compiled base class of TTLCache and TLRUCache, which add the constructors and the rest of a MutableMapping."""

    @classmethod
    def __class_getitem__(cls, item):
        """Return this class unchanged, or for a subclass what its next base class returns."""
        return cls if cls is CacheCore else super(CacheCore, cls).__class_getitem__(item)

    def __dealloc__(self):
        container_disarm(self)
        if self.timer is not None:
            cache_drop_all(self)
        PyMem_RawFree(self.table.slots)
        container_free(self)

    def _set_up(self, base, maxsize, span, CacheTimer clock not None, timer):
        """Set up the cache. base: TTLCache or TLRUCache. timer: for the alarm, unless `clock` is another timer's time()."""
        cdef int bit = 1
        container_check_new(self)
        self.max_total = maxsize
        if maxsize < 0:
            raise ValueError(f"maxsize must be non-negative, got {maxsize!r}")
        self.of_ttu = hasattr(base, "ttu")
        self.known = clock.source is not None or clock.clock is monotonic
        if self.known and not self.of_ttu:
            try:
                self.span_s = span
            except TypeError:
                self.known = False          # for example a timedelta: adding it to the time raises the error
        self.overrides = 0
        for name in CACHE_METHODS:
            if getattr(type(self), name) is not getattr(base, name):
                self.overrides |= bit
            bit <<= 1
        self.sized = self.getsizeof is not base.getsizeof
        self.maxsize_, self.span, self.clock, self.whole = maxsize, span, clock, True
        if self.of_ttu and not self.known:
            self.heap, self.old_heap, self.heap_lock = [], [], threading.RLock()
        clock.cache = weakref.ref(self)
        self.table.order.older = self.table.order.newer = &self.table.order
        list_init(&self.unending)
        container_set_up(self, timer if clock.source is None else clock.source)

    # --- single entries ------------------------------------------------------------------------------------------

    @cython.critical_section
    def __getitem__(self, key):
        value = cache_get(self, key)
        if value is not NOT_THERE:
            return value
        if self.overrides & CACHE_MISSING:
            return (<object>self).__missing__(key)
        raise KeyError(key)

    def __missing__(self, key):
        raise KeyError(key)

    @cython.critical_section
    def __setitem__(self, key, value):
        if self.overrides & (CACHE_EXPIRE | CACHE_POPITEM | CACHE_DELITEM):
            frozen = cache_freeze(self)
            try:
                cache_put(self, key, value, False)
            finally:
                clock_thaw(self.clock, frozen)
        else:
            cache_put(self, key, value, False)

    @cython.critical_section
    def __delitem__(self, key):
        cdef double now_s = 0
        now = cache_now(self, &now_s)
        found = cache_discard(self, key, mixed_hash(key))
        if found is None or cache_deadline_has_passed(self, found[1], now_s, now):
            raise KeyError(key)

    @cython.critical_section
    def __contains__(self, key):
        cdef double now_s = 0
        now = cache_now(self, &now_s)
        return cache_find(self, key, mixed_hash(key), now_s, now) is not NULL

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def get(self, key, default=None):
        """Return the value of a key, or ``default`` if the key is missing. ``__missing__()`` is not called.

        O(1). Thread-safe.

        Example:
            >>> from hwheel.cachetools import TTLCache
            >>> cache = TTLCache(9, 30, timer=lambda: 0)
            >>> cache["ada"] = "tea"
            >>> cache.get("ada"), cache.get("bob", "nothing")
            ('tea', 'nothing')
        """
        if self.overrides & (CACHE_GETITEM | CACHE_CONTAINS):
            frozen = cache_freeze(self)
            try:
                return self[key] if key in self else default
            finally:
                clock_thaw(self.clock, frozen)
        value = cache_get(self, key)
        return default if value is NOT_THERE else value

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def pop(self, key, default=NOT_THERE):
        """Remove a key and return its value, or ``default`` if one is given and the key is missing.

        Raises:
            KeyError: The key is missing, and no default is given.

        O(1). Thread-safe.

        Example:
            >>> from hwheel.cachetools import TTLCache
            >>> cache = TTLCache(9, 30, timer=lambda: 0)
            >>> cache["ada"] = "tea"
            >>> cache.pop("ada"), cache.pop("ada", None)
            ('tea', None)
        """
        cdef double now_s = 0
        if self.overrides & (CACHE_GETITEM | CACHE_CONTAINS | CACHE_DELITEM):
            frozen = cache_freeze(self)
            try:
                if key in self:
                    value = self[key]
                    del self[key]
                    return value
            finally:
                clock_thaw(self.clock, frozen)
        else:
            now = cache_now(self, &now_s)
            if cache_find(self, key, mixed_hash(key), now_s, now) is not NULL:
                found = cache_discard(self, key, mixed_hash(key))
                if found is not None:
                    return found[0]
        if default is NOT_THERE:
            raise KeyError(key)
        return default

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def setdefault(self, key, default=None):
        """Return the value of a key; if the key is missing, set it to ``default`` first.

        Raises:
            ValueError: The key is missing, and the value is larger than the cache.

        O(1). Thread-safe: one atomic step, unless a subclass overrides methods that it uses.

        Example:
            >>> from hwheel.cachetools import TTLCache
            >>> cache = TTLCache(9, 30, timer=lambda: 0)
            >>> cache["ada"] = "tea"
            >>> cache.setdefault("ada", "jam"), cache.setdefault("bob", "jam")
            ('tea', 'jam')
        """
        if not self.overrides:
            return cache_put(self, key, default, True)
        frozen = cache_freeze(self)
        try:
            if not self.overrides & (CACHE_GETITEM | CACHE_SETITEM | CACHE_CONTAINS):
                return cache_put(self, key, default, True)
            if key in self:
                return self[key]
            self[key] = default
            return default
        finally:
            clock_thaw(self.clock, frozen)

    @cython.critical_section
    def popitem(self):
        """Remove the least recently used entry and return ``(key, value)``.

        Raises:
            KeyError: The cache is empty.

        O(1). Thread-safe.

        Example:
            >>> from hwheel.cachetools import TTLCache
            >>> cache = TTLCache(9, 30, timer=lambda: 0)
            >>> cache["ada"] = "tea"
            >>> cache.popitem()
            ('ada', 'tea')
        """
        if self.overrides & (CACHE_DELITEM | CACHE_EXPIRE):
            frozen = cache_freeze(self)
            try:
                pair = cache_popitem(self)
            finally:
                clock_thaw(self.clock, frozen)
        else:
            pair = cache_popitem(self)
        if pair is None:
            raise KeyError(f"{type(self).__name__} is empty") from None
        return pair

    # --- the whole cache -----------------------------------------------------------------------------------------

    @cython.critical_section
    def __len__(self):
        cache_expire_now(self)
        return self.table.count

    def _columns(self):
        """Return the lists (keys, values) of the entries that have not expired."""
        return cache_columns(self)

    @cython.always_allow_keywords(True)
    def expire(self, time=None):
        """Remove expired entries, and return their ``(key, value)`` pairs, earliest deadline first.

        With the default timer, entries leave the cache at their deadline. Only those that have not left yet are returned.

        Args:
            time: Also remove entries that expire by this time. Default: now.

        O(expired entries); for a TLRUCache and a time in the future O(n log n). Thread-safe.

        Example:
            >>> from hwheel.cachetools import TTLCache
            >>> cache = TTLCache(9, 30, timer=lambda: 0)
            >>> cache["ada"] = "tea"
            >>> cache.expire(), cache.expire(30)
            ([], [('ada', 'tea')])
        """
        cdef list pairs = []
        cdef double now_s = 0
        with cython.critical_section(self):
            now = cache_now(self, &now_s)
            if time is not None:
                if not self.known:
                    now = time
                elif self.of_ttu and time > now_s:
                    return cache_expire_at(self, time)
                else:
                    now_s = time
            cache_expire(self, now_s, now, pairs)
        return pairs

    def clear(self):
        """Remove all entries in one atomic step. O(n): they are freed in slices of half a millisecond. Thread-safe.

        Example:
            >>> from hwheel.cachetools import TTLCache
            >>> cache = TTLCache(9, 30, timer=lambda: 0)
            >>> cache["ada"] = "tea"
            >>> cache.clear()
            >>> len(cache)
            0
        """
        cdef DictTable table
        with cython.critical_section(self):
            container_enter(self)
            heaps = cache_detach(self, &table)
            container_disarm(self)
        cache_free_detached(self, &table, heaps)

    # --- settings ------------------------------------------------------------------------------------------------

    @property
    def maxsize(self):
        """The maximum size of the cache."""
        container_enter(self)
        return self.maxsize_

    @property
    def currsize(self):
        """The sum of the sizes of all entries; without a ``getsizeof``, their number."""
        with cython.critical_section(self):
            cache_expire_now(self)
            if not self.sized:
                return self.table.count
            return int(self.total) if self.whole and isfinite(self.total) else self.total

    @property
    def timer(self):
        """The timer function. As a context manager, it freezes the time for the calling thread and this cache."""
        container_enter(self)
        return self.clock

    @property
    def _span(self):
        container_enter(self)
        return self.span

    @staticmethod
    def getsizeof(value):
        """Return the size of a value: 1. Override it, or pass ``getsizeof=``, to give values other sizes.

        Example:
            >>> from hwheel.cachetools import TTLCache
            >>> TTLCache(9, 30).getsizeof("tea"), TTLCache(9, 30, getsizeof=len).getsizeof("tea")
            (1, 3)
        """
        return 1

    # --- copies --------------------------------------------------------------------------------------------------

    def _state(self):
        """Return what a copy needs. The lists are in reverse order, because _restore() pops their last items."""
        flat, keys_by_use = cache_state(self)
        return self.maxsize_, self.span, self.clock.clock, flat, keys_by_use

    @cython.critical_section
    def _restore(self, list flat, list keys_by_use):
        """Add the entries of another cache with the same timer, as _state() returned them. The lists are empty afterwards."""
        cdef CachePut put
        cdef double now_s = 0
        cdef DictEntry* entry = NULL
        cdef int64_t clears
        cdef Turn turn
        container_enter(self)
        if len(flat) % 4:
            raise ValueError(f"flat must have 4 items for each entry, got {len(flat)}")
        now = cache_now(self, &now_s)
        turn_begin(&turn)
        while flat:                             # releases the list in slices, too
            key, value, expires, put.size = flat.pop(), flat.pop(), flat.pop(), flat.pop()
            put.hash = mixed_hash(key)
            put.now_s = now_s
            put.expires_s = expires if self.known else 0
            put.keeps = put.evicts = False
            self.whole = self.whole and put.size == floor(put.size)
            deadline = None if self.known else expires
            if self.heap is not None:
                deadline = CacheDeadline.__new__(CacheDeadline)
                (<CacheDeadline>deadline).expires = expires
            cache_prepare(self, key, &put, now)
            clears = self.clears
            cache_commit(self, key, value, &put, deadline)
            if self.heap is not None:
                cache_put_in_heap(self, deadline, clears)
            turn_step(&turn)
        while keys_by_use:
            key = keys_by_use.pop()
            if table_find(&self.table, key, mixed_hash(key), &entry):
                cache_use(self, entry)
            turn_step(&turn)

    # --- hooks of ContainerCore ----------------------------------------------------------------------------------

    def _on_alarm(self):
        cdef double now_s = 0
        cdef CacheTimer clock = self.clock
        container_enter(self)
        with cython.critical_section(clock):
            clock.missed = bool(clock.frozen)
        if clock.missed:                    # the last thread that has frozen the time calls this again
            return
        try:
            with cython.critical_section(self):
                now = cache_now(self, &now_s)
                cache_expire_or_hook(self, now_s, now)
        finally:
            with cython.critical_section(self):
                cache_expire(self, now_s, now)      # a subclass's method may have left expired entries: the alarm would run again
                cache_arm_again(self)

    @cython.critical_section
    def _after_fork(self, bint keeps):
        cdef object thread = threading.main_thread().ident       # no other thread exists in the child
        cdef dict frozen
        self.table.walks = 0
        if self.clock is not None:              # None: not set up
            frozen = self.clock.frozen
            self.clock.frozen = {thread: frozen[thread]} if thread in frozen else {}
        if self.heap_lock is not None:
            self.heap_lock = threading.RLock()
        cache_arm_again(self)


cdef bint cache_expire_now(CacheCore self) except False:
    cdef double now_s = 0
    now = cache_now(self, &now_s)
    return cache_expire_or_hook(self, now_s, now)


cdef void cache_drop_all(CacheCore self) noexcept:
    cdef DictEntry* entry
    cdef Turn turn
    turn_begin(&turn)
    while self.table.count:
        entry = self.table.order.newer
        cache_take_out(self, entry)
        cache_drop(self, entry)
        turn_step(&turn)
    heap_empty(self.heap)
    heap_empty(self.old_heap)


# The collector sees the entries, unless no entry can be part of a cycle. Clearing a cache keeps the fields that its methods need.

cdef traverseproc cache_traverse_fields = (<PyTypeObject*>CacheCore).tp_traverse

cdef int cache_traverse(PyObject* self, visitproc visit, void* arg) noexcept:
    cdef CacheCore cache = <CacheCore>self
    cdef const DictEntry* entry = cache.table.order.newer
    cdef int result = cache_traverse_fields(self, visit, arg)
    if not cache.traversed:
        return result
    while result == 0 and entry is not NULL and entry is not &cache.table.order:
        result = visit(entry.key, arg)
        if result == 0:
            result = visit(entry.value, arg)
        if result == 0 and cache_has_objects(cache) and (<const CacheEntry*>entry).deadline is not NULL:
            result = visit((<const CacheEntry*>entry).deadline, arg)
        entry = entry.newer
    return result


cdef int cache_clear_cycles(PyObject* self) noexcept:
    cdef object span = (<CacheCore>self).span       # released at the end: its destructor may use the cache
    (<CacheCore>self).span = None
    cache_drop_all(<CacheCore>self)
    return 0


hw_set_gc(<PyObject*>CacheCore, cache_traverse, cache_clear_cycles)
