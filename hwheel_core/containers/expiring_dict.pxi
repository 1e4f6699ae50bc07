# ExpiringDictCore: what hwheel.ExpiringDict does for each entry.


cdef class ExpiringDictCore(ContainerCore):
    """The compiled part of an ExpiringDict, which brings the timer and the rest of a MutableMapping."""

    @classmethod
    def __class_getitem__(cls, item):
        """For type checkers; this class itself is not generic."""
        return cls if cls is ExpiringDictCore else super(ExpiringDictCore, cls).__class_getitem__(item)

    def __dealloc__(self):
        cdef DictEntry* entry
        container_disarm(self)
        if self.timer is not None:
            while self.table.count:
                entry = self.table.order.newer
                dict_take_out(self, entry)
                entry_drop(entry)
            while not list_is_empty(&self.lapsed):
                entry = <DictEntry*>self.lapsed.next
                container_unlink(self, &entry.entry)
                entry_drop(entry)
        PyMem_RawFree(self.table.slots)
        container_free(self)

    def _set_up(self, ttl, maxsize, refresh, on_expire, timer):
        cdef int64_t ttl_ms = ttl_argument(ttl)
        cdef int64_t most = INT64_MAX
        if maxsize is not None:
            most = integer_argument(maxsize, "maxsize")
            if most < 1:
                raise ValueError(f"maxsize must be at least 1, not {most}")
        if on_expire is not None and not PyCallable_Check(on_expire):
            raise TypeError(f"on_expire must be callable, not {type(on_expire).__name__}")
        refreshes = bool(refresh)
        container_check_new(self)
        self.default_ttl_ms = ttl_ms
        self.most = most
        self.refreshes = refreshes
        self.on_expire_ = on_expire
        self.table.order.older = self.table.order.newer = &self.table.order
        list_init(&self.lapsed)
        container_set_up(self, timer)

    # --- one entry -----------------------------------------------------------------------------------------------

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
        container_ready(self)
        timer_read_clock(self.timer.timer, &now)
        return dict_find(self, key, &now, &entry)

    @cython.critical_section
    def __len__(self):
        container_ready(self)
        return hw_peek64(&self.table.count)

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def set(self, key, value, *, ttl=None):
        """Sets a key's value, to expire in `ttl` seconds, by itself the dict's ttl.

        Raises:
            TypeError, ValueError, OverflowError: ttl is no number of seconds, not positive, not finite, or too large; or
            the key cannot be hashed. Nothing was changed.
            TimerClosed: the timer is closed.

        Runtime complexity: O(1).
        """
        dict_put(self, key, value, 0 if ttl is None else ttl_argument(ttl), PUT_SET)

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def touch(self, key, ttl=None):
        """Sets a key back: it expires in `ttl` seconds from now, by itself those that it was set with. True if it was there.

        It becomes the newest. Raises as set().

        Runtime complexity: O(1).
        """
        return dict_put(self, key, None, 0 if ttl is None else ttl_argument(ttl), PUT_TOUCH) is not NOT_THERE

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def expires_in(self, key):
        """The seconds until a key expires; None if it is not there.

        Runtime complexity: O(1).
        """
        cdef Instant now
        cdef DictEntry* entry = NULL
        container_ready(self)
        timer_read_clock(self.timer.timer, &now)
        if not dict_find(self, key, &now, &entry):
            return None
        return (<object>(entry_deadline_ms(self, entry) - now.ms) * NS_PER_MS - now.ns) / 1e9

    @cython.critical_section
    def get(self, key, default=None, /):
        """The key's value; `default` if it is not there. O(1)."""
        value = dict_get(self, key)
        return default if value is NOT_THERE else value

    @cython.critical_section
    def pop(self, key, /, *default):
        """Takes a key out and returns its value; else the default, if one is given. O(1).

        Raises:
            KeyError: the key is not there, and there is no default.
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
        """Takes the newest entry out, and returns (key, value). O(1).

        Raises:
            KeyError: the dict is empty.
        """
        cdef Instant now
        cdef DictEntry* entry
        container_ready(self)
        timer_read_clock(self.timer.timer, &now)
        entry = self.table.order.older
        while entry is not &self.table.order and entry_deadline_ms(self, entry) <= now.ms:
            entry = entry.older             # its alarm is about to ring
        if entry is &self.table.order:
            raise KeyError("the dict is empty")
        key, value = <object>entry.key, <object>entry.value
        dict_take_out(self, entry)
        entry_drop(entry)
        return key, value

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def setdefault(self, key, default=None, *, ttl=None):
        """The key's value; where it is not there, it is set to `default` first, as by set(). One step, for all threads.

        Runtime complexity: O(1).
        """
        return dict_put(self, key, default, 0 if ttl is None else ttl_argument(ttl), PUT_DEFAULT)

    # --- all of them ---------------------------------------------------------------------------------------------

    def __iter__(self):
        cdef list flat
        with cython.critical_section(self):
            flat = dict_flat(self)
        return iter(flat[::2])

    @cython.critical_section
    def clear(self):
        """Takes all entries out. on_expire hears of none. O(n)."""
        dict_clear(self)

    def _pairs(self):
        """(key, value) of all entries at one moment, the oldest first."""
        cdef list flat
        with cython.critical_section(self):
            flat = dict_flat(self)
        return [*zip(flat[::2], flat[1::2])]

    def _values(self):
        cdef list flat
        with cython.critical_section(self):
            flat = dict_flat(self)
        return flat[1::2]

    # --- looking -------------------------------------------------------------------------------------------------

    @property
    def ttl(self):
        """How long an entry lives that is not given a time of its own, in seconds."""
        container_ready(self)
        return self.default_ttl_ms / 1000.0

    @property
    def maxsize(self):
        """How many entries there may be; None: any number."""
        container_ready(self)
        return None if self.most == INT64_MAX else self.most

    @property
    def refresh(self):
        """Whether each look-up sets its key back."""
        container_ready(self)
        return bool(self.refreshes)

    @property
    def on_expire(self):
        """What is called with the entries that have expired; None: nothing is."""
        container_ready(self)
        return self.on_expire_

    # --- for the alarm -------------------------------------------------------------------------------------------

    def _ring(self):
        dict_ring(self)

    @cython.critical_section
    def _after_fork(self, bint keeps):
        if not keeps:
            self.reported_from = self.generation
        dict_arm_again(self)


# Cython's tp_clear would take away the timer as well, and all methods rely on it. What can lead back to the dict is what is
# cleared here; a timer that does is broken up by itself. If CPython found the function elsewhere than in the type,
# test_a_dict_that_its_own_on_expire_holds_is_collected in tests/containers/test_expiring_dict_memory.py would fail.

cdef int dict_break_cycles(PyObject* self) noexcept:
    cdef object callback = (<ExpiringDictCore>self).on_expire_
    (<ExpiringDictCore>self).on_expire_ = None
    return 0


hw_set_gc(<PyObject*>ExpiringDictCore, (<PyTypeObject*>ExpiringDictCore).tp_traverse, dict_break_cycles)
