# Handles as entries of a wheel: their ticks, and their exact order.
#
# The loop's time, a float in seconds, is divided into ticks of 1/4096 s; with a power of two the conversion is exact. A handle
# is in the bucket of its deadline's tick. Fields of the wheel that end in _ms hold ticks here; entry_tick() names them.

cdef enum:
    TICKS_PER_S = 4096

cdef double LAST_LOOP_TICK = 1 << 50         # 8,700 years; also used for math.inf

cdef double MAX_EXACT_INT = 1 << 53     # smaller ints are exact as a double

cdef Py_ssize_t loop_entry_offset = 0   # of LoopHandle.task

cdef LoopHandle sample_handle = LoopHandle.__new__(LoopHandle)
loop_entry_offset = <char*>&sample_handle.task - <char*><PyObject*>sample_handle
sample_handle = None


cdef inline int64_t tick_of(double time_s) noexcept nogil:
    cdef double ticks = floor(time_s * TICKS_PER_S)
    if not ticks < LAST_LOOP_TICK:           # also NaN
        ticks = LAST_LOOP_TICK
    return <int64_t>ticks if ticks > 0 else 0       # a negative time is always due


cdef inline bint tick_is_clamped(int64_t tick) noexcept nogil:
    """Return True if the tick represents all times before or after the range of ticks."""
    return tick <= 0 or tick >= LAST_LOOP_TICK


cdef inline int64_t entry_tick(const Entry* self) noexcept nogil:
    """Return the tick of a handle, or of a bucket's head."""
    return self.expiration_ms


cdef inline LoopHandle entry_handle(const Entry* entry):
    return <LoopHandle><PyObject*>(<const char*>entry - loop_entry_offset)


cdef inline double entry_deadline(const Entry* entry) noexcept:
    return (<LoopHandle><PyObject*>(<const char*>entry - loop_entry_offset)).deadline


cdef inline double entry_added(const Entry* entry) noexcept:
    return (<LoopHandle><PyObject*>(<const char*>entry - loop_entry_offset)).added


# --- the order of deadlines ------------------------------------------------------------------------------------------
#
# A wheel knows only ticks, so the handles that expire in one pass are sorted here. All entries are fields of LoopHandles.


cdef Entry* chain_cut(Entry* chain, Py_ssize_t length) noexcept:
    """Cut a chain after `length` entries and return the rest."""
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
    """Merge two sorted chains behind `last`, left first for equal deadlines, and return the new last entry."""
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
    """Sort a chain of entries linked by `next`: a bottom-up merge sort, with runs of twice the length each round."""
    cdef Entry* left
    cdef Entry* right
    cdef Entry* last
    cdef Py_ssize_t width = 1, merges = 2
    while merges > 1:
        merges = 0
        left = chain
        last = head                     # only its `next` is used
        while left is not NULL:
            merges += 1
            right = chain_cut(left, width)
            chain = chain_cut(right, width)
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
    """Sort a list in place, without allocation."""
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
    """Move the first entries of a list, all of one tick, to tick_out."""
    cdef Entry* first = head.next
    cdef Entry* last = first
    while last.next is not head and entry_tick(last.next) == entry_tick(first):
        last = last.next
    head.next = last.next
    last.next.prev = head
    tick_out.next = first
    first.prev = tick_out
    tick_out.prev = last
    last.next = tick_out


cdef void handles_sort(Entry* head) noexcept:
    """Sort a list of handles by deadline. The sort is stable.

    Ticks are in order already, unless the loop's clock went back, so each tick is sorted alone: a few handles in the cache.
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
    """Sort Timer.ready if it may be out of order."""
    if self.unsorted:
        self.unsorted = False
        handles_sort(&self.timer.ready)
        self.timer.wheel.removals += 1      # invalidates Timer.ready_lead
