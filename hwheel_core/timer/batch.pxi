# A batch: an array of entries that share one callback. Which timer an entry is, is its place in the array.


cdef inline Batch* entry_batch(const Entry* entry) noexcept nogil:
    """The batch of an entry that is no task's."""
    if entry.place == ENTRY_OF_BATCH:
        return <Batch*>entry
    return (<Batch**>(entry - entry.place))[-2]


cdef inline bint batch_is_due(const Batch* self, const Entry* entry) noexcept nogil:
    """Whether an entry that is in no list waits in `due`. Then its prev, of no other use, says where."""
    cdef int64_t at = <int64_t><uintptr_t>entry.prev
    return self.due_begin <= at < self.due_end and self.due[at].index == entry.place


cdef inline bint batch_is_pending(const Batch* self, const Entry* entry) noexcept nogil:
    return entry_is_linked(entry) or batch_is_due(self, entry)


cdef inline int64_t batch_waiting(const Batch* self) noexcept nogil:
    """How many wait in `due` to be handed out."""
    return self.due_end - self.due_begin - self.due_cancelled


cdef inline void batch_make_ready(Batch* self, Entry* entry) noexcept nogil:
    """For an entry that fell due and has just left its list."""
    entry.next = NULL
    entry.prev = <Entry*><uintptr_t>self.due_end
    self.due[self.due_end] = Due(entry.place, entry.expiration_ms)
    self.due_end += 1


cdef void batch_take_early(Batch* self, int64_t now_ms, Entry* early_out) noexcept nogil:
    """Undoes batch_make_ready for what is not due by this time, which stands at the end of what is."""
    cdef int64_t first = self.due_end, i
    cdef const Due* due
    while first > self.due_begin and wheel_tick(&self.timer.wheel, self.due[first - 1].expiration_ms) > now_ms:
        first -= 1
    for i in range(first, self.due_end):
        due = &self.due[i]
        if due.index == DUE_CANCELLED:
            self.due_cancelled -= 1
        else:
            self.entries[due.index].expiration_ms = due.expiration_ms
            list_append(early_out, &self.entries[due.index])
    self.due_end = first


cdef Batch* batch_new(int64_t length) noexcept nogil:
    """NULL when there is no memory. length: at most MAX_BATCH_LENGTH."""
    cdef Batch* self = <Batch*>PyMem_RawCalloc(1, sizeof(Batch))
    if self is NULL:
        return NULL
    self.entries = <Entry*>block_new(length, sizeof(Entry) + sizeof(Due), False)
    if self.entries is NULL:
        PyMem_RawFree(self)
        return NULL
    hw_advise_huge(self.entries, length * (sizeof(Entry) + sizeof(Due)))
    (<Batch**>self.entries)[-2] = self
    self.due = <Due*>(self.entries + length)
    self.node.place = ENTRY_OF_BATCH
    self.length = length
    return self
