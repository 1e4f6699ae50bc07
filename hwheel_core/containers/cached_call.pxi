# CachedCall: calls of functions whose results are cached.


cdef object cached_look(object cache, object key):
    """Return the value of a key, or NOT_THERE."""
    if isinstance(cache, CacheCore) and not (<CacheCore>cache).overrides & (CACHE_GETITEM | CACHE_MISSING):
        with cython.critical_section(cache):
            return cache_get(<CacheCore>cache, key)
    try:
        return cache[key]
    except KeyError:
        return NOT_THERE


cdef bint cached_store(object cache, object key, object value) except False:
    try:
        cache[key] = value
    except ValueError:
        pass                                # too large for the cache
    return True


cdef class CachedCall:
    """The compiled base class of what ``cached()`` and ``cachedmethod()`` return."""

    def _set_up(self, function, owner, tuple settings, bint plain_key, flights):
        """Set up. settings: cache, key, lock, and condition; of a method (owner is not None), functions of the owner."""
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
        value = cached_look_locked(self, cache, key)
        if value is not NOT_THERE:
            hw_count_add(&self.hits, 1)
            return value
        if self.flights is not None:
            return self.flights(self, key, args, kwargs)
        hw_count_add(&self.misses, 1)
        value = self.function(*args, **kwargs)
        if self.lock is None:
            cached_store(cache, key, value)
            return value
        with cached_lock(self):
            try:
                return cache.setdefault(key, value)     # another thread may have been faster
            except ValueError:
                return value

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
        """The condition that calls for one key wait for, or None."""
        return self.condition(self.owner) if self.bound and self.condition is not None else self.condition

    def cache_clear(self):
        """Remove all entries of the cache, and set the counts of hits and misses to zero."""
        if self.lock is None:
            cached_cache(self).clear()
            self.hits = self.misses = 0
        else:
            with cached_lock(self):
                cached_cache(self).clear()
                self.hits = self.misses = 0

    # --- for calls that are not made by __call__ -----------------------------------------------------------------

    def _function(self, *args, **kwargs):
        hw_count_add(&self.misses, 1)
        return self.function(*args, **kwargs)

    def _key(self, tuple args, dict kwargs):
        return args if self.plain_key and not kwargs else self.key(*args, **kwargs)

    def _look(self, key, missing):
        """Return the value of a key, or `missing`."""
        value = cached_look_locked(self, cached_cache(self), key)
        if value is NOT_THERE:
            return missing
        hw_count_add(&self.hits, 1)
        return value

    def _store(self, key, value):
        if self.lock is None:
            cached_store(cached_cache(self), key, value)
        else:
            with cached_lock(self):
                cached_store(cached_cache(self), key, value)

    def _count_hit(self):
        hw_count_add(&self.hits, 1)

    def _counts(self):
        return self.hits, self.misses


cdef inline object cached_cache(CachedCall self):
    return self.cache_(self.owner) if self.bound else self.cache_


cdef inline object cached_lock(CachedCall self):
    return self.lock(self.owner) if self.bound and self.lock is not None else self.lock


cdef object cached_look_locked(CachedCall self, object cache, object key):
    if self.lock is None:
        return cached_look(cache, key)
    with cached_lock(self):
        return cached_look(cache, key)


cdef object cached_wait(CachedCall self, object cache, object key, tuple args, dict kwargs):
    """Call with a condition: calls for one key run one after the other."""
    cdef object lock = cached_lock(self)
    cdef object condition = self.cache_condition
    with lock:
        while key in self.running:
            condition.wait()
        value = cached_look(cache, key)
        if value is not NOT_THERE:
            hw_count_add(&self.hits, 1)
            return value
        self.running.add(key)
        hw_count_add(&self.misses, 1)
    try:
        value = self.function(*args, **kwargs)
        with lock:
            cached_store(cache, key, value)
        return value
    finally:
        with lock:
            self.running.remove(key)
            condition.notify_all()
