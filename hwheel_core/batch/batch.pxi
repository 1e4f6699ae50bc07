# A batch: entries that share one callback. Which timer an entry is, is its index.


cdef enum:
    DUE_SPARE = 16          # how many more fit into `due` than an eighth above the batch's length


cdef inline Part* entry_part(const Entry* entry) noexcept nogil:
    """Of an entry of a batch."""
    return <Part*>(<char*>(entry - entry.place) - PART_HEAD)


cdef inline Batch* entry_batch(const Entry* entry) noexcept nogil:
    """The batch of an entry that is no task's."""
    return entry_part(entry).batch


cdef inline int64_t entry_index(const Entry* entry) noexcept nogil:
    return entry_part(entry).first + entry.place


cdef inline Part* batch_part(const Batch* self, int64_t index) noexcept nogil:
    """The part in which an index from origin up to length is; NULL: there is none any more."""
    return self.parts if self.table is NULL else self.table[(index - self.origin) >> SLOT_BITS]


cdef inline Entry* part_entry(const Part* self, int64_t index) noexcept nogil:
    return <Entry*>(<char*>self + PART_HEAD) + (index - self.first)


cdef inline Entry* batch_entry(const Batch* self, int64_t index) noexcept nogil:
    """The entry of any index; NULL: the batch has none, or it is over and its part has gone."""
    cdef const Part* part
    if <uint64_t>(index - self.origin) >= <uint64_t>(self.length - self.origin) or index < 0:
        return NULL
    part = batch_part(self, index)
    return NULL if part is NULL else part_entry(part, index)


cdef inline bint batch_is_due(const Batch* self, const Entry* entry) noexcept nogil:
    """Return True if an entry is in `due`."""
    cdef int64_t at = entry.due_index
    return self.due_begin <= at < self.due_end and self.due[at].index == entry_index(entry)


cdef inline bint batch_is_pending(const Batch* self, const Entry* entry) noexcept nogil:
    return entry_is_linked(entry) or batch_is_due(self, entry)


cdef inline int64_t batch_waiting(const Batch* self) noexcept nogil:
    """How many wait in `due` to be handed out."""
    return self.due_end - self.due_begin - self.due_cancelled


cdef inline bint batch_wants_room(const Batch* self) noexcept nogil:
    """Whether `due` has too little room for all that is linked yet."""
    return self.due_end + self.pending - batch_waiting(self) > self.due_room


cdef inline void batch_skip_gaps(Batch* self) noexcept nogil:
    """What stands first in `due` waits."""
    while self.due_begin < self.due_end and self.due[self.due_begin].index == DUE_CANCELLED:
        self.due_begin += 1
        self.due_cancelled -= 1


cdef void batch_close_gaps(Batch* self, Due* target) noexcept nogil:
    """Moves what waits in `due` to the front of target, which is `due` or what takes its place. In one go, because half-way there
    would be no room: but it is rare, an eighth of the batch must have been moved or added while its executor did not come to
    it."""
    cdef int64_t end = self.returning, at       # a fork puts these back before it
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


# The memory of a batch. Its entries never move, because lists lead to them: what extend adds lies in parts of their own, made
# before the lock is taken. A part goes when all of it is over, so a batch that is extended for months holds what is pending and
# not what was.


cdef enum:
    PART_SPARE_MOST = 65536     # a part has room for an eighth more than is asked for, but at most for so many more


cdef Batch* batch_new() noexcept nogil:
    """An empty one, without memory for entries; NULL when there is no memory."""
    return <Batch*>PyMem_RawCalloc(1, sizeof(Batch))


cdef Part* part_new(int64_t room, int64_t due_room) noexcept nogil:
    """With so many Due behind the entries. NULL when there is no memory. room: at most MAX_BATCH_LENGTH, or SLOT more."""
    cdef size_t size = PART_HEAD + room * sizeof(Entry) + due_room * sizeof(Due)
    cdef Part* self = <Part*>block_new(1, size, False)
    if self is NULL:
        return NULL
    memset(self, 0, sizeof(Part))
    self.room = room
    hw_advise_huge(self, size)
    return self


cdef void batch_link_part(Batch* self, Part* part) noexcept nogil:
    """Puts a part behind the others, for indices from `end` on."""
    part.batch = self
    part.prev = self.last_part
    part.first = self.end
    if part.prev is NULL:
        self.parts = part
    else:
        part.prev.next = part
    self.last_part = part
    self.end += part.room


cdef bint batch_prepare(Batch* self, int64_t length) noexcept nogil:
    """Room for all of a new batch, whose `due` is in the same block. False when there is no memory."""
    # More room than for each once: what is moved after it fell due leaves a gap, and falls due again. See batch_close_gaps.
    cdef int64_t due_room = length + length // 8 + DUE_SPARE
    cdef Part* part
    if length == 0:
        return True
    part = part_new(length, due_room)
    if part is NULL:
        return False
    batch_link_part(self, part)
    self.due = <Due*>part_entry(part, length)
    self.due_room = due_room
    return True


cdef void batch_leave_parts(Batch* self, void** blocks) noexcept nogil:
    """All its memory goes, because nothing is pending any more. The next index stays the next."""
    cdef Part* following
    while self.parts is not NULL:
        following = self.parts.next
        block_leave(self.parts, blocks)
        self.parts = following
    self.last_part = NULL
    batch_leave_over(self, blocks)
    block_leave(self.table, blocks)
    block_leave(self.due_block, blocks)
    self.table = NULL
    self.due = NULL
    self.due_block = NULL
    self.table_room = self.due_room = self.due_begin = self.due_end = self.due_cancelled = 0
    self.origin = self.end = self.length


cdef void batch_leave_over(Batch* self, void** blocks) noexcept nogil:
    """Parts of which all is over can be freed. Not while somebody holds the batch: who has taken a head looks at it without the
    lock."""
    cdef void* following
    while self.over is not NULL and self.holders == 0:
        following = (<void**>self.over)[-2]
        block_leave(self.over, blocks)
        self.over = following


cdef inline void batch_part_over_locked(Batch* self, int64_t index) noexcept nogil:
    """A timer of a batch that has a table is over. If it was the last one of a part that is full, that goes."""
    cdef Part* part = batch_part(self, index)
    part.pending -= 1
    if part.pending == 0 and part.first + part.room <= self.length:
        batch_leave_part_locked(self, part)


cdef void batch_leave_part_locked(Batch* self, Part* part) noexcept nogil:
    cdef int64_t slot = (part.first - self.origin) >> SLOT_BITS
    cdef int64_t end = (part.first + part.room - self.origin) >> SLOT_BITS
    memset(self.table + slot, 0, (end - slot) * sizeof(Part*))
    if part.prev is NULL:
        self.parts = part.next
    else:
        part.prev.next = part.next
    if part.next is NULL:
        self.last_part = part.prev
    else:
        part.next.prev = part.prev
    block_leave(part, &self.over)


# --- room for more -----------------------------------------------------------------------------------------------


cdef inline int64_t slots_up(int64_t count) noexcept nogil:
    return (count + SLOT - 1) & ~<int64_t>(SLOT - 1)


cdef int64_t batch_table_origin(const Batch* self) noexcept nogil:
    """Where a new table begins: at the slot of the first part that is there. The first part of all may end anywhere, and the next
    slot begins there; all others fill theirs."""
    if self.table is NULL:
        return self.parts.first + self.parts.room - slots_up(self.parts.room)
    return self.origin + (((self.end if self.parts is NULL else self.parts.first) - self.origin) >> SLOT_BITS << SLOT_BITS)


cdef bint batch_has_room_locked(Batch* self, int64_t count, BatchRoom* room) noexcept nogil:
    """Whether there is room for so many more, with what `room` has. What that wants is written there."""
    cdef int64_t more = count - (self.end - self.length), due_room = 0, part_room = 0, table_room = 0
    cdef int64_t in_due = self.returning + self.pending + count
    if more > 0:
        part_room = more + min((self.length - self.origin) // 8, PART_SPARE_MOST)
        part_room = slots_up(part_room if part_room <= MAX_BATCH_LENGTH else more)
        if room.part_room >= more and room.part is not NULL:
            part_room = room.part_room
        if self.parts is not NULL or self.table is not NULL:
            table_room = (self.end + part_room - batch_table_origin(self)) >> SLOT_BITS
            if self.table is not NULL and (self.end + part_room - self.origin) >> SLOT_BITS <= self.table_room:
                table_room = 0
    # A first part goes without what stands behind its entries.
    if self.due_end + self.pending - batch_waiting(self) + count > self.due_room or (table_room and self.due_block is NULL):
        if in_due + in_due // 8 + DUE_SPARE > self.due_room or self.due_block is NULL:
            due_room = in_due + in_due // 4 + DUE_SPARE
    if ((part_room == 0 or (room.part is not NULL and room.part_room == part_room))
            and (due_room == 0 or (room.due is not NULL and room.due_room >= in_due + in_due // 8 + DUE_SPARE))
            and (table_room == 0 or (room.table is not NULL and room.table_room >= table_room))):
        # What is not wanted any more, because another thread was faster, is not made use of.
        room.part_room = part_room
        room.due_room = room.due_room if due_room else 0
        room.table_room = room.table_room if table_room else 0
        return True
    room.part_room, room.due_room, room.table_room = part_room, due_room, table_room + table_room // 2
    return False


cdef void batch_take_room_locked(Batch* self, int64_t count, BatchRoom* room) noexcept nogil:
    """After batch_has_room_locked: makes use of it. What stands in `room` afterwards is of no use any more."""
    cdef void* due_block = self.due_block
    cdef Part** table = self.table
    if room.table_room:
        batch_set_table_locked(self, room.table, room.table_room)
        room.table = table
    if room.due_room:
        batch_close_gaps(self, room.due)
        self.due_block, self.due_room = room.due, room.due_room
        room.due = <Due*>due_block
    elif self.due_end + self.pending - batch_waiting(self) + count > self.due_room:
        batch_close_gaps(self, self.due)
    if room.part_room:
        batch_link_part(self, room.part)
        if self.table is not NULL:
            batch_enter_part_locked(self, room.part)
        room.part = NULL


cdef void batch_enter_part_locked(Batch* self, Part* part) noexcept nogil:
    """Into the table."""
    cdef int64_t slot
    for slot in range((part.first - self.origin) >> SLOT_BITS, (part.first + part.room - self.origin) >> SLOT_BITS):
        self.table[slot] = part


cdef void batch_set_table_locked(Batch* self, Part** table, int64_t room) noexcept nogil:
    """Another table, of zeros; from then on each part counts what is pending of it."""
    cdef Part* part = self.parts
    cdef int64_t origin = batch_table_origin(self)
    if self.table is NULL:
        part.pending = self.pending + self.returning
    self.origin = origin
    self.table = table
    self.table_room = room
    while part is not NULL:
        batch_enter_part_locked(self, part)
        part = part.next
    part = self.parts
    if part is not NULL and part.pending == 0 and part.first + part.room <= self.length:
        batch_leave_part_locked(self, part)     # all was cancelled, while the batch was held


cdef bint batch_room_make(BatchRoom* self) noexcept nogil:
    """Allocates what is wanted, anew. False when there is no memory."""
    batch_room_free(self)
    if self.part_room:
        self.part = part_new(self.part_room, 0)
    if self.due_room:
        self.due = <Due*>block_new(self.due_room, sizeof(Due), False)
    if self.table_room:
        self.table = <Part**>block_new(self.table_room, sizeof(Part*), True)
    return ((self.part is not NULL or self.part_room == 0) and (self.due is not NULL or self.due_room == 0)
            and (self.table is not NULL or self.table_room == 0))


cdef void batch_room_free(BatchRoom* self) noexcept nogil:
    block_free(self.part)
    block_free(self.due)
    block_free(self.table)
    self.part = NULL
    self.due = NULL
    self.table = NULL
