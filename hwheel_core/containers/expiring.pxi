# What an ExpiringDict does: entries in and out.

cdef object NOT_THERE = object()


cdef inline int64_t entry_deadline_ms(ExpiringDictCore self, const DictEntry* entry) noexcept:
    """From when on it is not there any more."""
    return entry.entry.expiration_ms - self.timer.timer.round_up_ms


cdef int64_t ttl_argument(object ttl) except -1:
    cdef int64_t ttl_ms = whole_milliseconds(ttl, "ttl")
    if ttl_ms == 0:
        raise ValueError(f"ttl must be positive, but is {ttl!r}")
    return ttl_ms


cdef inline void entry_drop(DictEntry* entry) noexcept:
    """Frees an entry that is nowhere any more. Key and value may die of it, which may be somebody's code."""
    cdef PyObject* key = entry.key
    cdef PyObject* value = entry.value
    PyMem_Free(entry)
    Py_XDECREF(key)
    Py_XDECREF(value)


cdef inline void dict_take_out(ExpiringDictCore self, DictEntry* entry) noexcept:
    """It is in the dict no more, nor in the wheel. The caller drops it."""
    container_unlink(self, &entry.entry)
    table_remove(&self.table, entry)


cdef inline DictEntry* dict_lapse(ExpiringDictCore self, DictEntry* entry) noexcept:
    """An entry is found expired before the alarm has rung for it. Out of the dict with it; but who waits to hear of it will.
    Returns what the caller has to drop, if anything."""
    if self.on_expire_ is None:
        dict_take_out(self, entry)
        return entry
    wheel_remove(self.wheel, &entry.entry)
    table_remove(&self.table, entry)
    list_append(&self.lapsed, &entry.entry)
    return NULL


cdef inline bint dict_find(ExpiringDictCore self, object key, const Instant* now, DictEntry** found_out) except -1:
    """Whether there is an entry of the key that has not expired. Until somebody's code runs."""
    return (table_find(&self.table, key, mixed_hash(key), found_out)
            and entry_deadline_ms(self, found_out[0]) > now.ms)


cdef DictEntry* dict_make_room(ExpiringDictCore self, const Instant* now) noexcept:
    """For one entry more: what has expired goes, if any is at hand, else the oldest. Returns what is to be dropped."""
    cdef int budget = SLICE
    cdef DictEntry* oldest = self.table.order.newer
    if entry_deadline_ms(self, oldest) <= now.ms:
        return dict_lapse(self, oldest)
    if now.ms >= self.wheel.levels[0].current_time_ms:      # else memory might be wanted, to set the clock back
        if container_step_here(self, now.ms, &budget):
            return dict_lapse(self, <DictEntry*>self.due.next)
    dict_take_out(self, oldest)
    return oldest


cdef enum PutKind:
    PUT_SET                 # whatever is there
    PUT_DEFAULT             # only if nothing is there
    PUT_TOUCH               # only if something is there, and the value stays


cdef object dict_put(ExpiringDictCore self, object key, object value, int64_t ttl_ms, PutKind kind):
    """Sets an entry, or sets it back. ttl_ms 0: the dict's own, for what is only touched the entry's own. Returns the value
    that is there in the end; NOT_THERE if that is none."""
    cdef uint64_t hash = mixed_hash(key)
    cdef Timer* timer
    cdef Instant now, length
    cdef int64_t deadline_ms, expiration_ms, at_ms
    cdef DictEntry* entry = NULL
    cdef DictEntry* gone = NULL
    cdef Bucket* bucket = NULL
    cdef object old_value = None
    cdef bint is_there
    length.ns = 0
    while True:
        container_ready(self)
        timer = self.timer.timer
        if hw_peek(&timer.closed):
            raise TimerClosed("the timer is closed")
        timer_read_clock(timer, &now)
        timer_heed_clock(timer, &now)
        is_there = table_find(&self.table, key, hash, &entry)
        if is_there:
            # Who moves it touches its neighbours, too, and need not wait for one after the other.
            hw_prefetch(entry.entry.prev)
            hw_prefetch(entry.entry.next)
            hw_prefetch(entry.older)
            hw_prefetch(entry.newer)
        if is_there and entry_deadline_ms(self, entry) <= now.ms:
            if kind == PUT_TOUCH:
                return NOT_THERE
            gone = dict_lapse(self, entry)
            if gone is not NULL:
                entry_drop(gone)
            gone = NULL
            continue
        if not is_there and kind == PUT_TOUCH:
            return NOT_THERE
        if is_there and kind == PUT_DEFAULT and not self.refreshes:
            return <object>entry.value
        length.ms = ttl_ms
        if ttl_ms == 0 or (is_there and kind == PUT_DEFAULT):
            length.ms = entry.ttl_ms if is_there and kind != PUT_SET else self.default_ttl_ms
        timer_due_or_raise(timer, &now, &length, &deadline_ms, &expiration_ms)
        container_reserve(self, &now, expiration_ms, &bucket, &at_ms)
        if container_is_armed(self, at_ms):
            break
        container_arm(self, at_ms)          # anything may have happened in it
    # From here on nothing is anybody's code until all is done.
    if is_there:
        wheel_remove(self.wheel, &entry.entry)
        hw_bump(&self.pending, -1)
        order_unlink(entry)
        order_append(&self.table, entry)
        if kind == PUT_SET:
            old_value = <object>entry.value
            Py_DECREF(old_value)            # the entry's; old_value dies at the end
            Py_INCREF(value)
            entry.value = <PyObject*>value
            entry.entry.place = <int32_t>self.generation
        else:
            value = <object>entry.value
    else:
        entry = <DictEntry*>PyMem_Malloc(sizeof(DictEntry))
        if entry is NULL or not table_make(&self.table):
            PyMem_Free(entry)
            raise MemoryError
        if self.table.count >= self.most:
            gone = dict_make_room(self, &now)
            # That may have moved the wheel on, which forgets a bucket that holds nothing. The levels are there.
            container_reserve(self, &now, expiration_ms, &bucket, &at_ms)
        Py_INCREF(key)                      # both dropped by entry_drop
        Py_INCREF(value)
        entry.key = <PyObject*>key
        entry.value = <PyObject*>value
        entry.hash = hash
        entry.entry.place = <int32_t>self.generation
        table_add(&self.table, entry)
    entry.entry.expiration_ms = expiration_ms
    entry.ttl_ms = length.ms
    container_link(self, &entry.entry, bucket)
    if gone is not NULL:
        entry_drop(gone)
    return value


cdef object dict_get(ExpiringDictCore self, object key):
    """The value, or NOT_THERE."""
    cdef Instant now
    cdef DictEntry* entry = NULL
    container_ready(self)
    if self.refreshes and not hw_peek(&self.timer.timer.closed):
        return dict_put(self, key, None, 0, PUT_TOUCH)
    if self.table.count == 0:
        mixed_hash(key)                     # a TypeError if it cannot be hashed
        return NOT_THERE
    timer_read_clock(self.timer.timer, &now)
    if not dict_find(self, key, &now, &entry):
        return NOT_THERE
    return <object>entry.value


cdef object dict_pop(ExpiringDictCore self, object key):
    """Takes a key out. The value, or NOT_THERE."""
    cdef Instant now
    cdef DictEntry* entry = NULL
    container_ready(self)
    timer_read_clock(self.timer.timer, &now)
    if not dict_find(self, key, &now, &entry):
        return NOT_THERE
    value = <object>entry.value
    dict_take_out(self, entry)
    entry_drop(entry)
    return value


cdef list dict_flat(ExpiringDictCore self):
    """Keys and values in turn, the oldest first, of one moment."""
    cdef Instant now
    cdef DictEntry* entry
    cdef list flat
    cdef Py_ssize_t room, at = 0
    container_ready(self)
    timer_read_clock(self.timer.timer, &now)
    while True:
        room = 2 * self.table.count
        flat = PyList_New(room)             # the garbage collector may come, and with it somebody's code
        if room == 2 * self.table.count:
            break
    entry = self.table.order.newer
    while at < room:
        if entry_deadline_ms(self, entry) > now.ms:
            Py_INCREF(<object>entry.key)
            PyList_SET_ITEM(flat, at, <object>entry.key)
            Py_INCREF(<object>entry.value)
            PyList_SET_ITEM(flat, at + 1, <object>entry.value)
            at += 2
        else:
            room -= 2
        entry = entry.newer
    if at != len(flat):
        hw_set_size(<PyObject*>flat, at)
    return flat


cdef bint dict_clear(ExpiringDictCore self) except False:
    """Takes everything out. What has expired and somebody waits to hear of is not the dict's any more."""
    cdef Instant now
    cdef DictEntry* entry
    cdef int64_t count
    container_ready(self)
    timer_read_clock(self.timer.timer, &now)
    count = self.table.count                # and no more, whatever their ends put into it
    while count > 0 and self.table.count > 0:
        count -= 1
        entry = self.table.order.newer
        if entry_deadline_ms(self, entry) <= now.ms:
            entry = dict_lapse(self, entry)
        else:
            dict_take_out(self, entry)
        if entry is not NULL:
            entry_drop(entry)
    if self.pending == 0:
        container_disarm(self)
    return True


# --- what falls due ----------------------------------------------------------------------------------------------


cdef bint dict_arm_again(ExpiringDictCore self) except False:
    """After the alarm has rung, or was lost at a fork: for what comes next."""
    cdef int64_t at_ms = 0
    if self.wheel is NULL or self.pending == 0:
        return True
    if not list_is_empty(&self.lapsed) or not list_is_empty(&self.due):
        at_ms = self.wheel.taken_ms
    elif not container_next_ms(self, &at_ms):
        return True
    return container_arm_again(self, at_ms)


cdef tuple dict_new_pair(list pairs):
    """For what is to be told next: not filled yet, and hidden from the garbage collector until then. The list has room."""
    cdef tuple pair = PyTuple_New(2)
    PyObject_GC_UnTrack(<PyObject*>pair)
    list_make_room(pairs)
    return pair


cdef bint dict_take_turn(ExpiringDictCore self, const Instant* now, list pairs) except -1:
    """Takes what fell due for as long as the GIL may be held at once. True: there is more. pairs: what is to be told."""
    cdef int64_t end_ns = now_ns() + TURN_NS
    cdef int budget = SLICE
    cdef int64_t taken = 0
    cdef DictEntry* entry
    cdef tuple pair = None              # without memory for one, nothing is taken that has to be told
    while True:
        if self.on_expire_ is not None and pair is None:
            try:
                pair = dict_new_pair(pairs)
            except MemoryError:
                if len(pairs):
                    return True
                raise
        if not list_is_empty(&self.lapsed):
            entry = <DictEntry*>self.lapsed.next
            container_unlink(self, &entry.entry)
        elif container_step(self, now.ms, &budget):
            entry = <DictEntry*>self.due.next
            dict_take_out(self, entry)
        elif budget > 0:
            return False
        else:
            if now_ns() > end_ns or taken:
                return True
            budget = SLICE
            continue
        taken += 1
        if self.on_expire_ is not None and entry.entry.place >= self.reported_from:
            key = <object>entry.key
            value = <object>entry.value
            entry_drop(entry)
            Py_INCREF(key)
            PyTuple_SET_ITEM(pair, 0, key)
            Py_INCREF(value)
            PyTuple_SET_ITEM(pair, 1, value)
            PyObject_GC_Track(<PyObject*>pair)
            list_fill_room(pairs, pair)
            pair = key = value = None
            if taken >= SLICE:
                return True
        else:
            entry_drop(entry)
            if taken % LOOK_EVERY == 0 and now_ns() > end_ns:
                return True


cdef bint dict_ring(ExpiringDictCore self) except False:
    """The alarm: expires what is due, a turn at a time, and tells on_expire of it."""
    cdef Instant now
    cdef list pairs
    cdef bint more = True
    with cython.critical_section(self):
        container_ready(self)
        if self.ringing == self.generation + 1:
            return True                     # who is at it sees to this, too
        self.ringing = self.generation + 1
    try:
        while more:
            pairs = []
            with cython.critical_section(self):
                container_ready(self)       # on_expire may have forked
                self.ringing = self.generation + 1
                timer_read_clock(self.timer.timer, &now)
                more = dict_take_turn(self, &now, pairs)
            list_drop_room(pairs)
            callback = self.on_expire_
            if pairs and callback is not None:
                callback(pairs)
            pairs = None
            if more:
                breathe()
    finally:
        with cython.critical_section(self):
            self.ringing = 0
            dict_arm_again(self)
    return True
