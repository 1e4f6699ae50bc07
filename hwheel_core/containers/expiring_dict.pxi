# ExpiringDictCore: the methods of ExpiringDict.


cdef class ExpiringDictCore(ContainerCore):
    """The compiled base class of ExpiringDict, which adds the default timer and the rest of a MutableMapping."""

    @classmethod
    def __class_getitem__(cls, item):
        """Return this class unchanged, or for a subclass what its next base class returns."""
        return cls if cls is ExpiringDictCore else super(ExpiringDictCore, cls).__class_getitem__(item)

    def __dealloc__(self):
        cdef DictEntry* entry
        cdef Turn turn
        container_disarm(self)
        if self.timer is not None:
            turn_begin(&turn)
            while self.table.count:
                entry = self.table.order.newer
                dict_take_out(self, entry)
                entry_drop(entry)
                turn_step(&turn)
            while not list_is_empty(&self.unreported):
                entry = <DictEntry*>self.unreported.next
                container_unlink(self, &entry.entry)
                entry_drop(entry)
                turn_step(&turn)
        PyMem_RawFree(self.table.slots)
        container_free(self)

    def _set_up(self, ttl, maxsize, refresh, on_expire, timer):
        cdef int64_t ttl_ms = ttl_argument(ttl)
        cdef int64_t max_entries = limit_argument(maxsize, "maxsize")
        if on_expire is not None and not PyCallable_Check(on_expire):
            raise TypeError(f"on_expire must be callable, got {type(on_expire).__name__}")
        refreshes = bool(refresh)
        container_check_new(self)
        self.default_ttl_ms = ttl_ms
        self.max_entries = max_entries
        self.refreshes = refreshes
        self.on_expire_ = on_expire
        self.table.order.older = self.table.order.newer = &self.table.order
        list_init(&self.unreported)
        container_set_up(self, timer)

    # --- single entries ------------------------------------------------------------------------------------------

    @cython.critical_section
    def __getitem__(self, key):
        value = dict_get(self, key)
        if value is NOT_THERE:
            raise KeyError(key)
        return value

    @cython.critical_section
    def __setitem__(self, key, value):
        dict_put(self, key, value, 0, PUT_SET)

    @cython.critical_section
    def __delitem__(self, key):
        if dict_pop(self, key) is NOT_THERE:
            raise KeyError(key)

    @cython.critical_section
    def __contains__(self, key):
        cdef Instant now
        cdef DictEntry* entry = NULL
        container_enter(self)
        timer_read_clock(self.timer.timer, &now)
        return dict_find(self, key, &now, &entry)

    @cython.critical_section
    def __len__(self):
        container_enter(self)
        return hw_peek64(&self.table.count)

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def set(self, key, value, *, ttl=None):
        """Set a key's value.

        Args:
            key: A hashable key.
            value: Its value.
            ttl: Seconds until the entry expires. Default: the dict's ``ttl``.

        Raises:
            TypeError: ``ttl`` is not a number, or the key is not hashable.
            ValueError: ``ttl`` is not positive or not finite.
            OverflowError: ``ttl`` is too large.
            TimerClosed: The timer is closed.

        After an error the dict is unchanged. O(1). Thread-safe.

        Example:
            >>> from hwheel import ExpiringDict, ManualTimer
            >>> timer = ManualTimer()
            >>> sessions = ExpiringDict(30, timer=timer)
            >>> sessions.set("ada", "tea", ttl=10)
            >>> sessions.expires_in("ada")
            10.0
        """
        dict_put(self, key, value, 0 if ttl is None else ttl_argument(ttl), PUT_SET)

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def touch(self, key, ttl=None):
        """Renew a key's deadline, and make the entry the newest.

        Args:
            key: A hashable key.
            ttl: Seconds from now until the entry expires. Default: as in the last ``set()`` or ``touch()`` of the key.

        Returns:
            True if the key was present.

        Raises:
            TypeError, ValueError, OverflowError, TimerClosed: As in ``set()``.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import ExpiringDict, ManualTimer
            >>> timer = ManualTimer()
            >>> sessions = ExpiringDict(30, timer=timer)
            >>> sessions["ada"] = "tea"
            >>> timer.advance(20)
            >>> sessions.touch("ada"), sessions.expires_in("ada"), sessions.touch("bob")
            (True, 30.0, False)
        """
        return dict_put(self, key, None, 0 if ttl is None else ttl_argument(ttl), PUT_TOUCH) is not NOT_THERE

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def expires_in(self, key):
        """Return the seconds until a key expires, or None if it is missing. O(1). Thread-safe.

        Example:
            >>> from hwheel import ExpiringDict, ManualTimer
            >>> timer = ManualTimer()
            >>> sessions = ExpiringDict(30, timer=timer)
            >>> sessions["ada"] = "tea"
            >>> timer.advance(20)
            >>> sessions.expires_in("ada")
            10.0
        """
        cdef Instant now
        cdef DictEntry* entry = NULL
        container_enter(self)
        timer_read_clock(self.timer.timer, &now)
        if not dict_find(self, key, &now, &entry):
            return None
        return (<object>(entry_deadline_ms(self, entry) - now.ms) * NS_PER_MS - now.ns) / 1e9

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def ttl_of(self, key):
        """Return the time to live of a key in seconds, as last set, or None if the key is missing. O(1). Thread-safe.

        Example:
            >>> from hwheel import ExpiringDict, ManualTimer
            >>> timer = ManualTimer()
            >>> sessions = ExpiringDict(30, timer=timer)
            >>> sessions.set("ada", "tea", ttl=10)
            >>> timer.advance(4)
            >>> sessions.ttl_of("ada"), sessions.expires_in("ada")
            (10.0, 6.0)
        """
        cdef Instant now
        cdef DictEntry* entry = NULL
        container_enter(self)
        timer_read_clock(self.timer.timer, &now)
        return entry.ttl_ms / 1000.0 if dict_find(self, key, &now, &entry) else None

    @cython.critical_section
    def get(self, key, default=None, /):
        """Return the key's value, or ``default`` if the key is missing. O(1). Thread-safe.

        Example:
            >>> from hwheel import ExpiringDict, ManualTimer
            >>> timer = ManualTimer()
            >>> sessions = ExpiringDict(30, timer=timer)
            >>> sessions["ada"] = "tea"
            >>> sessions.get("ada"), sessions.get("bob", "nothing")
            ('tea', 'nothing')
        """
        value = dict_get(self, key)
        return default if value is NOT_THERE else value

    @cython.critical_section
    def pop(self, key, /, *default):
        """Remove a key and return its value, or the default if one is given and the key is missing.

        Raises:
            KeyError: The key is missing, and no default is given.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import ExpiringDict, ManualTimer
            >>> timer = ManualTimer()
            >>> sessions = ExpiringDict(30, timer=timer)
            >>> sessions["ada"] = "tea"
            >>> sessions.pop("ada"), sessions.pop("ada", None)
            ('tea', None)
        """
        if len(default) > 1:
            raise TypeError(f"pop expected at most 2 arguments, got {1 + len(default)}")
        value = dict_pop(self, key)
        if value is not NOT_THERE:
            return value
        if default:
            return default[0]
        raise KeyError(key)

    @cython.critical_section
    def popitem(self):
        """Remove the newest entry and return ``(key, value)``.

        Raises:
            KeyError: The dict is empty.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import ExpiringDict, ManualTimer
            >>> timer = ManualTimer()
            >>> sessions = ExpiringDict(30, timer=timer)
            >>> sessions["ada"] = "tea"
            >>> sessions["bob"] = "jam"
            >>> sessions.popitem()
            ('bob', 'jam')
        """
        cdef Instant now
        cdef DictEntry* entry
        container_enter(self)
        timer_read_clock(self.timer.timer, &now)
        entry = self.table.order.older
        while entry is not &self.table.order and entry_deadline_ms(self, entry) <= now.ms:
            entry = entry.older             # expired; its alarm is about to run
        if entry is &self.table.order:
            raise KeyError("the dict is empty")
        key, value = <object>entry.key, <object>entry.value
        dict_take_out(self, entry)
        entry_drop(entry)
        return key, value

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def setdefault(self, key, default=None, *, ttl=None):
        """Return the key's value; if the key is missing, set it to ``default`` first.

        Args:
            key: A hashable key.
            default: The value for a missing key.
            ttl: As in ``set()``, for a missing key.

        Raises:
            TypeError, ValueError, OverflowError, TimerClosed: As in ``set()``.

        O(1). Thread-safe: one atomic step.

        Example:
            >>> from hwheel import ExpiringDict, ManualTimer
            >>> timer = ManualTimer()
            >>> sessions = ExpiringDict(30, timer=timer)
            >>> sessions.setdefault("ada", "tea", ttl=10), sessions.setdefault("ada", "jam")
            ('tea', 'tea')
        """
        return dict_put(self, key, default, 0 if ttl is None else ttl_argument(ttl), PUT_DEFAULT)

    @cython.critical_section
    def _peek(self, key, default):
        """Return the key's value without a renewal, or the default."""
        cdef Instant now
        cdef DictEntry* entry = NULL
        container_enter(self)
        timer_read_clock(self.timer.timer, &now)
        return <object>entry.value if dict_find(self, key, &now, &entry) else default

    @cython.critical_section
    def _set_entry(self, key, value, int64_t expiration_ms, int64_t ttl_ms):
        """Copy an entry that ``_columns(True)`` of a dict with the same timer has returned. Ignore an entry that has expired."""
        dict_put(self, key, value, ttl_ms, PUT_COPY, expiration_ms)

    # --- the whole dict ------------------------------------------------------------------------------------------

    def __iter__(self):
        return iter(dict_columns(self, False)[0])

    def clear(self):
        """Remove all entries. ``on_expire`` only receives those that had expired already.

        The entries leave at one moment. Then they are freed, while other threads run in between. O(n). Thread-safe.

        Example:
            >>> from hwheel import ExpiringDict, ManualTimer
            >>> timer = ManualTimer()
            >>> sessions = ExpiringDict(30, timer=timer)
            >>> sessions["ada"] = "tea"
            >>> sessions.clear()
            >>> len(sessions)
            0
        """
        dict_clear(self)

    def _columns(self, bint with_times=False):
        """Return the lists (keys, values), oldest entry first; with_times: (keys, values, expirations_ms, ttls_ms)."""
        return dict_columns(self, with_times)

    # --- settings ------------------------------------------------------------------------------------------------

    @property
    def ttl(self):
        """The default time to live of an entry, in seconds."""
        container_enter(self)
        return self.default_ttl_ms / 1000.0

    @property
    def maxsize(self):
        """The maximum number of entries; None: unlimited."""
        container_enter(self)
        return None if self.max_entries == INT64_MAX else self.max_entries

    @property
    def refresh(self):
        """True if each lookup renews its key."""
        container_enter(self)
        return bool(self.refreshes)

    @property
    def on_expire(self):
        """The callback that receives expired entries, or None."""
        container_enter(self)
        return self.on_expire_

    # --- hooks of ContainerCore ----------------------------------------------------------------------------------

    def _on_alarm(self):
        dict_expire(self)

    @cython.critical_section
    def _after_fork(self, bint keeps):
        self.table.walks = 0            # the threads that were walking over the table do not exist in the child
        if not keeps:
            self.reported_from = self.generation
        dict_arm_again(self)


# Cython's tp_clear would also clear the timer, which every method needs. This slot clears only on_expire, which can refer to
# the dict; a timer that refers to the dict clears itself. If CPython ignored this slot,
# tests/containers/test_expiring_dict_memory.py::test_cycle_through_on_expire_is_collected would fail.

cdef int dict_break_cycles(PyObject* self) noexcept:
    cdef object callback = (<ExpiringDictCore>self).on_expire_      # released at the end: its destructor may use the dict
    (<ExpiringDictCore>self).on_expire_ = None
    return 0


hw_set_gc(<PyObject*>ExpiringDictCore, (<PyTypeObject*>ExpiringDictCore).tp_traverse, dict_break_cycles)
