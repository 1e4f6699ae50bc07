# Handles in order of their deadlines. A wheel knows ticks only, and so what fell due in one pass is put into the exact
# order here. All these lists and chains are of entries that lie in LoopHandles, because a deadline is found nowhere else.


cdef Entry* chain_cut(Entry* chain, Py_ssize_t length) noexcept:
    """Ends the chain after `length` entries; returns what came after them."""
    cdef Entry* rest
    if chain is NULL:
        return NULL
    while length > 1 and chain.next is not NULL:
        chain = chain.next
        length -= 1
    rest = chain.next
    chain.next = NULL
    return rest


cdef Entry* chain_merge(Entry* left, Entry* right, Entry* last) noexcept:
    """Appends two sorted chains behind `last` as one; returns the new last entry. Equal deadlines: left first."""
    while left is not NULL or right is not NULL:
        if right is NULL or (left is not NULL and entry_deadline(left) <= entry_deadline(right)):
            last.next = left
            left = left.next
        else:
            last.next = right
            right = right.next
        last = last.next
    last.next = NULL
    return last


cdef Entry* chain_sort(Entry* chain, Entry* head) noexcept:
    """Sorts entries that hang together by `next`, the last one's being NULL: runs of twice the length each round."""
    cdef Entry* left
    cdef Entry* right
    cdef Entry* last
    cdef Py_ssize_t width = 1, merges = 2
    while merges > 1:
        merges = 0
        left = chain
        last = head                     # only its `next` is used, for what comes first
        while left is not NULL:
            merges += 1
            right = chain_cut(left, width)
            chain = chain_cut(right, width)         # what is left after these two runs
            last = chain_merge(left, right, last)
            left = chain
        chain = head.next
        width *= 2
    return chain


cdef bint handles_are_sorted(const Entry* head) noexcept:
    cdef const Entry* entry = head.next
    while entry is not head and entry.next is not head:
        if entry_deadline(entry.next) < entry_deadline(entry):
            return False
        entry = entry.next
    return True


cdef void handles_merge_sort(Entry* head) noexcept:
    """A merge sort of the list itself, with nothing to allocate."""
    cdef Entry* first
    cdef Entry* entry
    if handles_are_sorted(head):
        return
    first = head.next
    head.prev.next = NULL
    first = chain_sort(first, head)
    list_init(head)
    while first is not NULL:
        entry = first
        first = first.next
        list_append(head, entry)


cdef void handles_cut_tick(Entry* head, Entry* tick_out) noexcept:
    """Cuts the first entries, all those of one tick, off a list."""
    cdef Entry* first = head.next
    cdef Entry* last = first
    while last.next is not head and last.next.expiration_ms == first.expiration_ms:
        last = last.next
    head.next = last.next
    last.next.prev = head
    tick_out.next = first
    first.prev = tick_out
    tick_out.prev = last
    last.next = tick_out


cdef void handles_sort(Entry* head) noexcept:
    """Sorts a list of handles by deadline; equal deadlines keep their order.

    Ticks are in order already, so each is sorted by itself: a few handles, in the cache. Only if a loop's clock goes
    back are they not.
    """
    cdef Entry done, tick
    if handles_are_sorted(head):
        return
    list_init(&done)
    while not list_is_empty(head):
        handles_cut_tick(head, &tick)
        handles_merge_sort(&tick)
        list_move_to_end(&tick, &done)
    list_move_to_end(&done, head)
    handles_merge_sort(head)


cdef inline void timers_sort_ready_locked(LoopTimers self) noexcept:
    """Puts Timer.ready in order, if it may not be."""
    if self.unsorted:
        self.unsorted = False
        handles_sort(&self.timer.ready)
        self.timer.wheel.removals += 1      # what is remembered of the list's order (Timer.ready_lead) is not true now
