# Circular doubly linked lists of entries. A list is an Entry that stands for its own head; an entry is in one list or,
# with next == NULL, in none. Unlinking needs no knowledge of the list, so cancel is O(1) wherever an entry may be.


# Hints are numbers of 32 bits and no pointers, to keep an entry small. An entry more than 16 GiB away is not found by
# them; then something else is prefetched, which does no harm.

cdef inline uint32_t entry_number(const Entry* self) noexcept nogil:
    return <uint32_t>(<uintptr_t>self >> 3)


cdef inline void entry_set_hint(Entry* self, uint32_t target_number) noexcept nogil:
    self.hint = <int32_t>(target_number - entry_number(self))


cdef inline const Entry* entry_hinted(const Entry* self) noexcept nogil:
    """For hw_prefetch and nothing else: there may be no such entry any more."""
    return <const Entry*>(<const char*>self + <int64_t>self.hint * 8)


cdef inline void list_init(Entry* head) noexcept nogil:
    head.prev = head
    head.next = head


cdef inline bint list_is_empty(const Entry* head) noexcept nogil:
    return head.next == head


cdef inline void list_append(Entry* head, Entry* entry) noexcept nogil:
    cdef Entry* last = head.prev
    entry.prev = last
    entry.next = head
    last.next = entry
    head.prev = entry


cdef inline void list_push(Entry* head, Entry* entry) noexcept nogil:
    cdef Entry* first = head.next
    entry.prev = head
    entry.next = first
    first.prev = entry
    head.next = entry


cdef inline void list_move_to_end(Entry* source, Entry* target) noexcept nogil:
    """Puts the whole of `source` behind what is in `target`."""
    if list_is_empty(source):
        return
    source.next.prev = target.prev
    target.prev.next = source.next
    source.prev.next = target
    target.prev = source.prev
    list_init(source)


cdef inline bint entry_is_linked(const Entry* entry) noexcept nogil:
    return entry.next is not NULL


cdef inline void entry_unlink(Entry* entry) noexcept nogil:
    entry.prev.next = entry.next
    entry.next.prev = entry.prev
    entry.next = NULL
    entry.prev = NULL
