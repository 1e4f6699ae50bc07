# Lists of entries, and prefetch hints.
#
# A list is circular and doubly linked, with an Entry as its head. Unlinking an entry needs no knowledge of its list, so a
# cancel takes O(1) wherever the entry is.
#
# Hints. The entries of a list are scattered over memory, so each step of a walk would wait for a cache miss. An entry's `hint`
# names the entry that the walk reaches HINT_DISTANCE steps later, so that it can be prefetched. A hint is never dereferenced:
# its target may have been freed, and then the prefetch is useless but harmless. To keep an entry small, a hint is a 32-bit
# difference and not a pointer; it cannot name an entry more than 16 GiB away.


cdef inline uint32_t entry_number(const Entry* self) noexcept nogil:
    return <uint32_t>(<uintptr_t>self >> 3)


cdef inline void entry_set_hint(Entry* self, uint32_t target_number) noexcept nogil:
    self.hint = <int32_t>(target_number - entry_number(self))


cdef inline const Entry* entry_hinted(const Entry* self) noexcept nogil:
    """Return the address that the hint names, for hw_prefetch only."""
    return <const Entry*>(<const char*>self + <int64_t>self.hint * 8)


cdef inline Entry* lead_take(Lead* self, Entry* added, int64_t removals) noexcept nogil:
    """Return the node whose hint must name `added`, which is about to enter the list; NULL if the list is still too short.

    The caller then moves self.entry one step in the direction in which the list grows.
    """
    if self.entry is NULL or self.removals != removals:
        self.removals = removals
        self.entry = added
        self.count = 0
    elif self.count < HINT_DISTANCE - 1:
        self.count += 1
    else:
        return self.entry
    return NULL


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
    """Move all entries of `source` to the end of `target`."""
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
