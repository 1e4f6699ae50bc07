# A batch: an array of entries that share one callback. Which timer an entry is, is its place in the array.

cdef enum:
    DUE_SPARE = 16          # how many more fit into `due` than an eighth above the batch's length


cdef inline Batch* entry_batch(const Entry* entry) noexcept nogil:
    """The batch of an entry that is no task's."""
    return (<Batch**>(entry - entry.place))[-2]


cdef inline bint batch_is_due(const Batch* self, const Entry* entry) noexcept nogil:
    """Whether an entry waits in `due`. Then its expiration_ms, which stands there too, says where."""
    cdef int64_t at = entry.expiration_ms
    return self.due_begin <= at < self.due_end and self.due[at].index == entry.place


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


cdef void batch_close_gaps(Batch* self) noexcept nogil:
    """Moves what waits in `due` to its front. In one go, because half-way there would be no room: but it is rare, an eighth of
    the batch must have been moved while its executor did not come to it."""
    cdef int64_t end = self.returning, at       # a fork puts these back before it
    cdef Due due
    for at in range(self.due_begin, self.due_end):
        due = self.due[at]
        if due.index != DUE_CANCELLED:
            self.entries[due.index].expiration_ms = end
            self.due[end] = due
            end += 1
    self.due_begin = self.returning
    self.due_end = end
    self.due_cancelled = 0


cdef Batch* batch_new(int64_t length) noexcept nogil:
    """NULL when there is no memory. length: at most MAX_BATCH_LENGTH."""
    cdef Batch* self = <Batch*>PyMem_RawCalloc(1, sizeof(Batch))
    cdef size_t size
    if self is NULL:
        return NULL
    # More room than for each once: what is moved after it fell due leaves a gap, and falls due again. See batch_close_gaps.
    self.due_room = length + length // 8 + DUE_SPARE
    size = length * sizeof(Entry) + self.due_room * sizeof(Due)
    self.entries = <Entry*>block_new(1, size, False)
    if self.entries is NULL:
        PyMem_RawFree(self)
        return NULL
    hw_advise_huge(self.entries, size)
    (<Batch**>self.entries)[-2] = self
    self.due = <Due*>(self.entries + length)
    self.length = length
    return self
