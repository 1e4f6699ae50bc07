# CachedCall: calls of functions whose results are cached.

ctypedef object (*Access)(CachedCall, object, object, object)     # called with the call, the cache, a key, and a value

cdef tuple NO_ERROR = (None, None, None)


cdef object cached_locked(CachedCall self, object lock, Access access, object cache, object key, object value):
    """Return access(self, cache, key, value), called under the lock unless that is None.

    Without a `with` statement: Cython's code for it crashes if there is no memory for the traceback of an exception. Here,
    releasing a lock of the module threading needs no memory.
    """
    if lock is None:
        return access(self, cache, key, value)
    leave = lock.__exit__
    lock.__enter__()
    try:
        return access(self, cache, key, value)
    finally:
        leave(*NO_ERROR)


cdef object cached_look(CachedCall self, object cache, object key, object _):
    """Return the value of a key, or NOT_THERE."""
    if isinstance(cache, CacheCore) and not (<CacheCore>cache).overrides & (CACHE_GETITEM | CACHE_MISSING):
        with cython.critical_section(cache):
            return cache_get(<CacheCore>cache, key)
    try:
        return cache[key]
    except KeyError:
        return NOT_THERE


cdef object cached_store(CachedCall self, object cache, object key, object value):
    try:
        cache[key] = value
    except ValueError:
        pass                                # too large for the cache
    return value


cdef object cached_set_default(CachedCall self, object cache, object key, object value):
    try:
        value = cache.setdefault(key, value)        # another thread may have been faster
    except ValueError:
        pass
    return value


cdef object cached_clear(CachedCall self, object cache, object _, object __):
    cache.clear()
    self.hits = self.misses = 0


cdef class CachedCall:
    """The compiled base class of what ``cached()`` and ``cachedmethod()`` return."""

    def _set_up(self, function, owner, tuple settings, bint plain_key, flights):
        """Set up. settings: cache, key, lock, and condition. If `owner` is not None, all but the key are functions of it."""
        self.cache_, self.key, self.lock, self.condition = settings
        self.function = function
        self.bound = owner is not None
        self.owner = owner
        self.plain_key = plain_key
        self.flights = flights
        self.running = set()

    def __call__(self, /, *args, **kwargs):
        cdef object cache = cached_cache(self)
        cdef object key = args if self.plain_key and not kwargs else self.key(*args, **kwargs)
        if self.condition is not None:
            return cached_wait(self, cache, key, args, kwargs)
        value = cached_locked(self, cached_lock(self), cached_look, cache, key, None)
        if value is not NOT_THERE:
            hw_count_add(&self.hits, 1)
            return value
        if self.flights is not None:
            return self.flights(self, key, args, kwargs)
        hw_count_add(&self.misses, 1)
        value = self.function(*args, **kwargs)
        if self.lock is None:
            return cached_store(self, cache, key, value)
        return cached_locked(self, cached_lock(self), cached_set_default, cache, key, value)

    @property
    def cache(self):
        """The cache."""
        return cached_cache(self)

    @property
    def cache_lock(self):
        """The lock that guards the cache, or None."""
        return cached_lock(self)

    @property
    def cache_condition(self):
        """The condition on which calls for one key wait, or None."""
        return self.condition(self.owner) if self.bound and self.condition is not None else self.condition

    def cache_clear(self):
        """Remove all entries of the cache, and set the counts of hits and misses to zero."""
        cached_locked(self, cached_lock(self), cached_clear, cached_cache(self), None, None)

    # --- services for single flight and for coroutines -----------------------------------------------------------

    def _function(self, *args, **kwargs):
        hw_count_add(&self.misses, 1)
        return self.function(*args, **kwargs)

    def _key(self, tuple args, dict kwargs):
        return args if self.plain_key and not kwargs else self.key(*args, **kwargs)

    def _look(self, key, missing):
        """Return the value of a key, or `missing`."""
        value = cached_locked(self, cached_lock(self), cached_look, cached_cache(self), key, None)
        if value is NOT_THERE:
            return missing
        hw_count_add(&self.hits, 1)
        return value

    def _store(self, key, value):
        cached_locked(self, cached_lock(self), cached_store, cached_cache(self), key, value)

    def _count_hit(self):
        hw_count_add(&self.hits, 1)

    def _counts(self):
        return self.hits, self.misses


cdef inline object cached_cache(CachedCall self):
    return self.cache_(self.owner) if self.bound else self.cache_


cdef inline object cached_lock(CachedCall self):
    return self.lock(self.owner) if self.bound and self.lock is not None else self.lock


cdef object cached_wait(CachedCall self, object cache, object key, tuple args, dict kwargs):
    """Call the function with a condition: calls for one key run one after the other."""
    cdef object lock = cached_lock(self)
    cdef object condition = self.cache_condition
    cdef object value = cached_locked(self, lock, cached_begin, cache, key, condition)
    if value is not NOT_THERE:
        hw_count_add(&self.hits, 1)
        return value
    hw_count_add(&self.misses, 1)
    try:
        value = self.function(*args, **kwargs)
        cached_locked(self, lock, cached_store, cache, key, value)
        return value
    finally:
        cached_locked(self, lock, cached_end, cache, key, condition)


cdef object cached_begin(CachedCall self, object cache, object key, object condition):
    """Wait for the running call of a key, and return the value. NOT_THERE: the caller must run the function."""
    while key in self.running:
        condition.wait()
    value = cached_look(self, cache, key, None)
    if value is NOT_THERE:
        self.running.add(key)
    return value


cdef object cached_end(CachedCall self, object cache, object key, object condition):
    self.running.remove(key)
    condition.notify_all()
