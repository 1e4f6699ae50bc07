# A batch: how to find its entries, the array of expired timers, and its memory. The caller checks indices and sizes.


cdef enum:
    DUE_SPARE = 16              # minimum of spare room in `due`
    PART_SPARE_MOST = 65536     # maximum of spare entries in a new part


# --- entries -----------------------------------------------------------------------------------------------------


cdef inline Part* entry_part(const Entry* entry) noexcept nogil:
    """Return the part of a batch's entry."""
    return <Part*>(<char*>(entry - entry.place) - PART_HEAD)


cdef inline Batch* entry_batch(const Entry* entry) noexcept nogil:
    return entry_part(entry).batch


cdef inline int64_t entry_index(const Entry* entry) noexcept nogil:
    return entry_part(entry).first + entry.place


cdef inline Part* batch_part(const Batch* self, int64_t index) noexcept nogil:
    """Return the part of an index from `origin` up to `length`; NULL if it was freed."""
    return self.parts if self.table is NULL else self.table[(index - self.origin) >> SLOT_BITS]


cdef inline Entry* part_entry(const Part* self, int64_t index) noexcept nogil:
    return <Entry*>(<char*>self + PART_HEAD) + (index - self.first)


cdef inline Entry* batch_entry(const Batch* self, int64_t index) noexcept nogil:
    """Return the entry of any index; NULL if the batch has none or its part was freed."""
    cdef const Part* part
    if <uint64_t>(index - self.origin) >= <uint64_t>(self.length - self.origin) or index < 0:
        return NULL
    part = batch_part(self, index)
    return NULL if part is NULL else part_entry(part, index)


cdef inline bint batch_is_due(const Batch* self, const Entry* entry) noexcept nogil:
    """Return True if an entry is in `due`."""
    # due_index is valid only for such an entry. For any other, due[due_index] is another timer's.
    cdef int64_t at = entry.due_index
    return self.due_begin <= at < self.due_end and self.due[at].index == entry_index(entry)


cdef inline bint batch_is_pending(const Batch* self, const Entry* entry) noexcept nogil:
    return entry_is_linked(entry) or batch_is_due(self, entry)


# --- expired timers ----------------------------------------------------------------------------------------------


cdef inline int64_t batch_waiting(const Batch* self) noexcept nogil:
    """Return the number of expired timers that the executor has not taken."""
    return self.due_end - self.due_begin - self.due_cancelled


cdef inline bint batch_due_is_full(const Batch* self, int64_t more) noexcept nogil:
    """Return True if `due` has no room for all timers in the wheel and `more` new ones."""
    return self.due_end + self.pending - batch_waiting(self) + more > self.due_capacity


cdef inline void batch_skip_gaps(Batch* self) noexcept nogil:
    """Advance due_begin to a timer that was not cancelled."""
    while self.due_begin < self.due_end and self.due[self.due_begin].index == DUE_CANCELLED:
        self.due_begin += 1
        self.due_cancelled -= 1


cdef void batch_close_gaps(Batch* self, Due* target) noexcept nogil:
    """Move the waiting timers to the front of `target`, which is `due` or replaces it.

    This holds the lock for the whole array, since no state in between has room. It is rare: an eighth of the batch must have
    been moved or added while the executor was busy.
    """
    cdef int64_t end = self.returning, at       # a fork puts that many back in front
    cdef Due due
    for at in range(self.due_begin, self.due_end):
        due = self.due[at]
        if due.index != DUE_CANCELLED:
            batch_entry(self, due.index).due_index = end
            target[end] = due
            end += 1
    self.due = target
    self.due_begin = self.returning
    self.due_end = end
    self.due_cancelled = 0


# --- memory of a new batch ---------------------------------------------------------------------------------------


cdef Batch* batch_new() noexcept nogil:
    """Return an empty batch without memory for entries, or NULL if there is no memory."""
    return <Batch*>PyMem_RawCalloc(1, sizeof(Batch))


cdef Part* part_new(int64_t capacity, int64_t due_capacity) noexcept nogil:
    """Return a part followed by `due_capacity` Dues, or NULL if there is no memory.

    `capacity` is at most MAX_BATCH_LENGTH + SLOT.
    """
    cdef size_t size = PART_HEAD + capacity * sizeof(Entry) + due_capacity * sizeof(Due)
    cdef Part* self = <Part*>block_new(1, size, False)
    if self is NULL:
        return NULL
    memset(self, 0, sizeof(Part))
    self.capacity = capacity
    hw_advise_huge(self, size)
    return self


cdef void batch_append_part(Batch* self, Part* part) noexcept nogil:
    """Append a part, for the indices from `end` on."""
    part.batch = self
    part.prev = self.last_part
    part.first = self.end
    if part.prev is NULL:
        self.parts = part
    else:
        part.prev.next = part
    self.last_part = part
    self.end += part.capacity


cdef bint batch_prepare(Batch* self, int64_t length) noexcept nogil:
    """Allocate a new batch's entries and its `due` in one block. Return False if there is no memory."""
    # A timer that is moved after it expired leaves a gap in `due` and later needs another place there (batch_close_gaps).
    cdef int64_t due_capacity = length + length // 8 + DUE_SPARE
    cdef Part* part
    if length == 0:
        return True
    part = part_new(length, due_capacity)
    if part is NULL:
        return False
    batch_append_part(self, part)
    self.due = <Due*>part_entry(part, length)
    self.due_capacity = due_capacity
    return True


# --- freeing -----------------------------------------------------------------------------------------------------


cdef void batch_free_parts(Batch* self, void** blocks) noexcept nogil:
    """Pass parts without pending timers on to be freed, unless a holder may still read them without the lock."""
    cdef void* following
    while self.unused_parts is not NULL and self.holders == 0:
        following = (<void**>self.unused_parts)[-2]
        block_leave(self.unused_parts, blocks)
        self.unused_parts = following


cdef void batch_leave_parts(Batch* self, void** blocks) noexcept nogil:
    """Pass all memory of a batch without pending timers on to be freed. Later indices continue from `length`."""
    cdef Part* following
    while self.parts is not NULL:
        following = self.parts.next
        block_leave(self.parts, blocks)
        self.parts = following
    self.last_part = NULL
    batch_free_parts(self, blocks)
    block_leave(self.table, blocks)
    block_leave(self.due_block, blocks)
    self.table = NULL
    self.due = NULL
    self.due_block = NULL
    self.table_capacity = self.due_capacity = self.due_begin = self.due_end = self.due_cancelled = 0
    self.origin = self.end = self.length


cdef void batch_remove_part_locked(Batch* self, Part* part) noexcept nogil:
    cdef int64_t slot = (part.first - self.origin) >> SLOT_BITS
    cdef int64_t end = (part.first + part.capacity - self.origin) >> SLOT_BITS
    memset(self.table + slot, 0, (end - slot) * sizeof(Part*))
    if part.prev is NULL:
        self.parts = part.next
    else:
        part.prev.next = part.next
    if part.next is NULL:
        self.last_part = part.prev
    else:
        part.next.prev = part.prev
    block_leave(part, &self.unused_parts)


cdef inline void batch_part_release_locked(Batch* self, int64_t index) noexcept nogil:
    """Count out a timer of a batch with a table. Remove its part if none of the part's entries is pending or still unused."""
    cdef Part* part = batch_part(self, index)
    part.pending -= 1
    if part.pending == 0 and part.first + part.capacity <= self.length:
        batch_remove_part_locked(self, part)


# --- the timer's list --------------------------------------------------------------------------------------------


cdef void batch_enter_locked(Batch* self) noexcept nogil:
    """Put a batch into Timer.batches."""
    self.prev = NULL
    self.next = self.timer.batches
    if self.next is not NULL:
        self.next.prev = self
    self.timer.batches = self
    hw_poke(&self.is_listed, True)


cdef void batch_finish_locked(Batch* self, BatchRelease* release) noexcept nogil:
    """Take a batch out of Timer.batches if no timer is pending and no thread holds it."""
    if self.pending or self.holders or not self.is_listed:
        return
    if self.prev is NULL:
        self.timer.batches = self.next
    else:
        self.prev.next = self.next
    if self.next is not NULL:
        self.next.prev = self.prev
    hw_poke(&self.is_listed, False)
    batch_leave_parts(self, &release.blocks)
    release.is_finished = True


cdef bint batch_hold_locked(Batch* self) noexcept nogil:
    """Keep a batch in Timer.batches until batch_unhold_locked.

    Return True if it was not there: then the caller's reference to the object becomes the timer's.
    """
    self.holders += 1
    if self.is_listed:
        return False
    batch_enter_locked(self)
    return True


cdef void batch_unhold_locked(Batch* self, BatchRelease* release) noexcept nogil:
    """Undo batch_hold_locked."""
    if self.holders > 0:                # 0 in the child of a fork
        self.holders -= 1
    batch_free_parts(self, &release.blocks)
    batch_finish_locked(self, release)


# --- memory for more timers --------------------------------------------------------------------------------------
#
# batch_has_memory_locked computes the sizes under the lock, batch_memory_new allocates without it, and the caller tries again.


cdef inline int64_t slots_up(int64_t count) noexcept nogil:
    return (count + SLOT - 1) & ~<int64_t>(SLOT - 1)


cdef int64_t batch_table_origin(const Batch* self) noexcept nogil:
    """Return the index at which a new table begins: the slot of the first part.

    The first part of a batch may end anywhere, and the next slot begins there. All other parts fill their slots.
    """
    if self.table is NULL:
        return self.parts.first + self.parts.capacity - slots_up(self.parts.capacity)
    return self.origin + (((self.end if self.parts is NULL else self.parts.first) - self.origin) >> SLOT_BITS << SLOT_BITS)


cdef int64_t batch_part_wanted(const Batch* self, int64_t count, const BatchMemory* memory) noexcept nogil:
    """Return the size of the part that `count` more timers need, or 0 if they need none."""
    cdef int64_t more = count - (self.end - self.length)
    cdef int64_t wanted = more + min((self.length - self.origin) // 8, PART_SPARE_MOST)
    if more <= 0:
        return 0
    if memory.part is not NULL and memory.part_capacity >= more:
        return memory.part_capacity
    return slots_up(wanted if wanted <= MAX_BATCH_LENGTH else more)


cdef int64_t batch_table_wanted(const Batch* self, int64_t part_capacity) noexcept nogil:
    """Return the size of the table that a batch with another part needs, or 0 if the present one suffices."""
    if part_capacity == 0 or (self.parts is NULL and self.table is NULL):
        return 0
    if self.table is not NULL and (self.end + part_capacity - self.origin) >> SLOT_BITS <= self.table_capacity:
        return 0
    return (self.end + part_capacity - batch_table_origin(self)) >> SLOT_BITS


cdef int64_t batch_due_wanted(const Batch* self, int64_t count, bint gets_table) noexcept nogil:
    """Return the least size of `due` for `count` more timers, or 0 if the present one suffices."""
    cdef int64_t length = self.returning + self.pending + count
    cdef int64_t least = length + length // 8 + DUE_SPARE
    # With a table the first part may be freed on its own, so `due` moves out of its block.
    if not batch_due_is_full(self, count) and not (gets_table and self.due_block is NULL):
        return 0
    return least if least > self.due_capacity or self.due_block is NULL else 0


cdef bint batch_has_memory_locked(const Batch* self, int64_t count, BatchMemory* memory) noexcept nogil:
    """Return True if `count` more timers fit with this memory; otherwise write the wanted sizes there."""
    cdef int64_t part_capacity = batch_part_wanted(self, count, memory)
    cdef int64_t table_capacity = batch_table_wanted(self, part_capacity)
    cdef int64_t due_capacity = batch_due_wanted(self, count, table_capacity != 0)
    if ((part_capacity == 0 or (memory.part is not NULL and memory.part_capacity == part_capacity))
            and (due_capacity == 0 or (memory.due is not NULL and memory.due_capacity >= due_capacity))
            and (table_capacity == 0 or (memory.table is not NULL and memory.table_capacity >= table_capacity))):
        # Another thread may have extended the batch first. Memory that is no longer needed stays unused.
        memory.part_capacity = part_capacity
        memory.due_capacity = memory.due_capacity if due_capacity else 0
        memory.table_capacity = memory.table_capacity if table_capacity else 0
        return True
    memory.part_capacity = part_capacity
    memory.due_capacity = due_capacity + due_capacity // 8
    memory.table_capacity = table_capacity + table_capacity // 2
    return False


cdef void batch_enter_part_locked(Batch* self, Part* part) noexcept nogil:
    """Write a part to the table."""
    cdef int64_t slot
    for slot in range((part.first - self.origin) >> SLOT_BITS, (part.first + part.capacity - self.origin) >> SLOT_BITS):
        self.table[slot] = part


cdef void batch_set_table_locked(Batch* self, Part** table, int64_t capacity) noexcept nogil:
    """Install a zeroed table. From then on each part counts its pending timers."""
    cdef Part* part = self.parts
    cdef int64_t origin = batch_table_origin(self)
    if self.table is NULL:
        part.pending = self.pending + self.returning
    self.origin = origin
    self.table = table
    self.table_capacity = capacity
    while part is not NULL:
        batch_enter_part_locked(self, part)
        part = part.next
    part = self.parts
    if part is not NULL and part.pending == 0 and part.first + part.capacity <= self.length:
        batch_remove_part_locked(self, part)    # all were cancelled while the batch was held


cdef void batch_take_memory_locked(Batch* self, int64_t count, BatchMemory* memory) noexcept nogil:
    """Install the memory after batch_has_memory_locked. The replaced blocks go into `memory`, to be freed."""
    cdef void* due_block = self.due_block
    cdef Part** table = self.table
    if memory.table_capacity:
        batch_set_table_locked(self, memory.table, memory.table_capacity)
        memory.table = table
    if memory.due_capacity:
        batch_close_gaps(self, memory.due)
        self.due_block, self.due_capacity = memory.due, memory.due_capacity
        memory.due = <Due*>due_block
    elif batch_due_is_full(self, count):
        batch_close_gaps(self, self.due)
    if memory.part_capacity:
        batch_append_part(self, memory.part)
        if self.table is not NULL:
            batch_enter_part_locked(self, memory.part)
        memory.part = NULL


cdef void batch_memory_free(BatchMemory* self) noexcept nogil:
    block_free(self.part)
    block_free(self.due)
    block_free(self.table)
    self.part = NULL
    self.due = NULL
    self.table = NULL


cdef bint batch_memory_new(BatchMemory* self) noexcept nogil:
    """Free the old blocks, and allocate blocks of the wanted sizes. Return False if there is no memory."""
    batch_memory_free(self)
    if self.part_capacity:
        self.part = part_new(self.part_capacity, 0)
    if self.due_capacity:
        self.due = <Due*>block_new(self.due_capacity, sizeof(Due), False)
    if self.table_capacity:
        self.table = <Part**>block_new(self.table_capacity, sizeof(Part*), True)
    return ((self.part is not NULL or self.part_capacity == 0) and (self.due is not NULL or self.due_capacity == 0)
            and (self.table is not NULL or self.table_capacity == 0))
