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
    """Whether an entry waits in `due`. Then its expiration_ms, which stands there too, says where."""
    cdef int64_t at = entry.expiration_ms
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
            batch_entry(self, due.index).expiration_ms = end
            target[end] = due
            end += 1
    self.due = target
    self.due_begin = self.returning
    self.due_end = end
    self.due_cancelled = 0
