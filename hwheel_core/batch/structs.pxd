# Structs of a batch: plain C.
#
# A batch is many timers that share one callback. A timer of a batch is an Entry and has no Python object. It is known by its
# index: the number of timers that were added to the batch before it.
#
# Memory. Lists hold pointers to entries, so an entry never moves. Entries are stored side by side in Parts: the first call adds
# one part, and each extend() may add another. Once there are several parts, `table` maps an index to its part, and a part is
# freed when none of its timers is pending. A batch that is extended for months needs memory for its pending timers only.
#
# Expired timers. An entry that expires is copied to the array `due`, so that the executor reads one array from front to end.
# One call of the callback takes all of them. A run is a sequence of expired entries of one batch with no other timer in
# between. Its first entry, the head, waits in Timer.ready for the whole run (timer/ready.pxi).

cdef enum:
    DUE_CANCELLED = -1      # index of a Due whose timer was cancelled or moved after it had expired

cdef extern from *:
    """
    struct Due { int64_t index : 63; uint64_t is_head : 1; int64_t expiration_ms; };
    """
    cdef struct Due:
        # An expired timer.
        int64_t index
        bint is_head            # its entry is in Timer.ready
        int64_t expiration_ms

cdef struct Part:
    # The head of a block of entries. The entries begin PART_HEAD bytes after it. Entry.place is the distance of an entry
    # from the first one. From an entry in any list, this leads to its part, its index, and its batch.
    Batch* batch
    Part* prev              # in the order of the indices
    Part* next
    int64_t first           # index of the first entry
    int64_t capacity        # number of entries; a multiple of SLOT for every part but the first of a batch
    int64_t pending         # the part's share of Batch.pending; counted while the batch has a table

cdef enum:
    PART_HEAD = 64          # a cache line, at least sizeof(Part)
    SLOT_BITS = 6
    SLOT = 64               # number of indices that share one pointer of `table`

cdef struct Batch:
    Part* parts             # the first of those that have not been freed
    Part* last_part
    void* unused_parts      # parts to be freed once `holders` is 0 (block_leave)
    Part** table            # from an index, counted from `origin`, to its part or to NULL. NULL: `parts` holds all entries
    int64_t table_capacity  # number of slots
    int64_t origin          # no lower index is pending; with a table the index of its first slot, which may be negative
    int64_t end             # first index without an entry; entries from `length` on are not in use yet
    Due* due                # the expired timers, in order; always has room for every timer that is still in the wheel
    void* due_block         # memory of `due`; NULL: it follows the entries of the first part
    int64_t due_capacity
    int64_t due_begin       # position in `due` of the first timer that the executor has not taken
    int64_t due_end
    int64_t due_cancelled   # number of cancelled timers between due_begin and due_end
    const Entry* last_head  # head of the newest run, or NULL; compared with the last entry of Timer.ready
    Timer* timer            # set once
    Batch* prev             # in Timer.batches
    Batch* next
    int is_listed           # it is in Timer.batches
    void* object            # the TimerBatch; the timer has a reference to it while the batch is listed
    int64_t length          # number of timers ever added
    int64_t pending
    int64_t added_ms        # when the batch last changed from no pending timer to some
    int64_t adding          # timers at the end that a batch_extend in progress has not linked yet
    const int64_t* returned # indices that close() has taken and not published yet; a fork puts them back
    int64_t returning       # number of them
    int64_t holders         # threads that need the batch listed and its memory intact: one that has taken a head and not
                            # yet the timers, or one that extends the batch

cdef struct BatchMemory:
    # Memory for a batch_extend, allocated before the lock is taken: the wanted sizes and the blocks.
    int64_t part_capacity
    Part* part
    int64_t due_capacity
    Due* due
    int64_t table_capacity
    Part** table

cdef struct BatchRelease:
    # Memory and references that the caller releases after the lock.
    void* blocks            # memory (blocks_free)
    bint is_finished        # the batch has left Timer.batches, so the timer's reference to `object` must be dropped

cdef struct Delays:
    # A one-dimensional buffer of int64 milliseconds. Another thread may write to it, so every value is checked when it is read.
    const char* data
    Py_ssize_t stride       # in bytes; 0: one delay for all
    int64_t count

cdef struct Indices:
    # The timers that a call names.
    const int64_t* data     # NULL: all indices below `count`
    int64_t count

cdef struct Placement:
    # When timers that are added together expire.
    int64_t now_ms          # expiration of a delay of zero or less
    int64_t base_ms         # what to add to a positive delay
    int64_t last_ms         # latest expiration; the wheel gets a level for it before the first timer is linked
