# The hash table of the containers: linear hashing (Litwin, "Linear Hashing: A New Tool for File and Table Addressing", 1980).
#
# Each slot has a chain of entries. For each added entry the table gets a new last slot. The entries of the slot at `split`
# are divided between that slot and the new one. So, unlike a Python dict, the table never moves all entries at once, and it
# returns memory as it empties. Only the array of slots is reallocated as a whole, when it doubles or halves; the C library
# remaps large blocks cheaply.
#
# Why not a Python dict: an expired entry must leave the table without hashing or comparing its key, which may run foreign code.

cdef enum:
    MIN_TABLE_SLOTS = 8
    SPARSE = 4              # slots per entry above which slots are merged


cdef inline uint64_t mixed_hash(object key) except? 0:
    """Return the key's hash with all bits mixed into the low ones. Equal hashes stay equal."""
    cdef uint64_t mixed = <uint64_t>PyObject_Hash(key)
    mixed = (mixed ^ (mixed >> 32)) * <uint64_t>0x9E3779B97F4A7C15
    return mixed ^ (mixed >> 29)


cdef inline DictEntry** table_slot(const DictTable* self, uint64_t hash) noexcept nogil:
    cdef uint64_t at = hash & self.mask
    if at < self.split:
        at = hash & (2 * self.mask + 1)
    return &self.slots[at]


cdef inline uint64_t table_length(const DictTable* self) noexcept nogil:
    return self.mask + 1 + self.split


cdef bint table_ensure_slots(DictTable* self) noexcept nogil:
    """Allocate the slots if needed. Return False if there is no memory."""
    if self.slots is NULL:
        self.slots = <DictEntry**>PyMem_RawCalloc(MIN_TABLE_SLOTS, sizeof(DictEntry*))
        self.mask = MIN_TABLE_SLOTS - 1
        self.split = 0
        self.capacity = MIN_TABLE_SLOTS
    return self.slots is not NULL


cdef bint table_resize(DictTable* self, uint64_t capacity) noexcept nogil:
    cdef DictEntry** slots = <DictEntry**>PyMem_RawRealloc(self.slots, capacity * sizeof(DictEntry*))
    if slots is NULL:
        return False
    self.slots = slots
    self.capacity = capacity
    return True


cdef void table_grow(DictTable* self) noexcept nogil:
    """Add a slot. If there is no memory for it, the chains become longer."""
    cdef uint64_t last = table_length(self)
    cdef DictEntry** low
    cdef DictEntry** high_end
    cdef DictEntry* entry
    if last == self.capacity and not table_resize(self, 2 * self.capacity):
        return
    low = &self.slots[self.split]
    high_end = &self.slots[last]
    entry = low[0]
    while entry is not NULL:
        if entry.hash & (self.mask + 1):
            low[0] = entry.chain
            high_end[0] = entry
            high_end = &entry.chain
        else:
            low = &entry.chain
        entry = low[0]
    high_end[0] = NULL
    self.split += 1
    if self.split > self.mask:
        self.mask = 2 * self.mask + 1
        self.split = 0


cdef void table_shrink(DictTable* self) noexcept nogil:
    """Remove the last slot."""
    cdef DictEntry** end
    if self.split == 0:
        self.mask >>= 1
        self.split = self.mask + 1
    self.split -= 1
    end = &self.slots[self.split]
    while end[0] is not NULL:
        end = &end[0].chain
    end[0] = self.slots[self.split + self.mask + 1]
    if 4 * table_length(self) <= self.capacity:
        table_resize(self, self.capacity >> 1)


cdef inline void table_add(DictTable* self, DictEntry* entry) noexcept nogil:
    """Append a new entry to its chain and to the order. The slots exist (table_ensure_slots)."""
    cdef DictEntry** slot
    cdef int grows = 2                      # after a walk, the table catches up
    hw_bump(&self.count, 1)
    self.version += 1
    while grows and self.walks == 0 and <uint64_t>self.count > table_length(self):
        table_grow(self)
        grows -= 1
    slot = table_slot(self, entry.hash)
    while slot[0] is not NULL:              # cheap: the search for the key has just touched this chain
        slot = &slot[0].chain
    slot[0] = entry
    entry.chain = NULL
    order_append(self, entry)


cdef inline void order_append(DictTable* self, DictEntry* entry) noexcept nogil:
    cdef DictEntry* newest = self.order.older
    entry.older = newest
    entry.newer = &self.order
    newest.newer = entry
    self.order.older = entry
    self.numbers += 1
    entry.number = self.numbers


cdef inline void order_unlink(DictEntry* entry) noexcept nogil:
    entry.older.newer = entry.newer
    entry.newer.older = entry.older
    entry.older = entry.newer = NULL


cdef inline void table_remove(DictTable* self, DictEntry* entry) noexcept nogil:
    cdef DictEntry** slot = table_slot(self, entry.hash)
    cdef int merges = SPARSE
    while slot[0] is not entry:
        slot = &slot[0].chain
    slot[0] = entry.chain
    order_unlink(entry)
    self.version += 1
    hw_bump(&self.count, -1)
    while (merges and self.walks == 0 and table_length(self) > MIN_TABLE_SLOTS
           and table_length(self) > SPARSE * <uint64_t>self.count):
        table_shrink(self)
        merges -= 1


cdef inline DictEntry* table_chain(const DictTable* self, uint64_t hash) noexcept nogil:
    """Return the first entry of the chain for a hash, or NULL."""
    return NULL if self.slots is NULL else table_slot(self, hash)[0]


cdef int table_find(DictTable* self, object key, uint64_t hash, DictEntry** found_out) except -1:
    """Search for a key; return True and its entry if it is present.

    Comparing keys may run foreign code that changes the table. The result is valid until foreign code runs again. Entries
    with equal hashes stay in one chain, in the order in which they were added. So if the compared entry is still present
    after a change, the search continues behind it, and also finds entries that were added since.
    """
    cdef DictEntry* entry
    cdef object other
    cdef uint64_t version, number
    cdef bint equal
    entry = table_chain(self, hash)
    while entry is not NULL:
        if entry.hash == hash:
            found_out[0] = entry
            if entry.key is <PyObject*>key:
                return True
            other = <object>entry.key
            version = self.version
            number = entry.number
            equal = PyObject_RichCompareBool(other, key, Py_EQ)
            if version != self.version:
                # As in a Python dict: continue if the entry is still present, else start again.
                entry = table_chain(self, hash)
                while entry is not NULL and (entry.key is not <PyObject*>other or entry.number != number):
                    entry = entry.chain
                if entry is NULL:
                    other = None        # its destructor may run foreign code
                    entry = table_chain(self, hash)
                    continue
                found_out[0] = entry
            if equal:
                return True
        entry = entry.chain
    return False
