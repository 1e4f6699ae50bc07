# Structs of a batch: plain C.

cdef enum:
    DUE_CANCELLED = -1      # index of a Due whose timer was cancelled after it had fallen due

cdef extern from *:
    """
    struct Due { int64_t index : 63; uint64_t is_head : 1; int64_t expiration_ms; };
    """
    cdef struct Due:
        # What is kept of a batch's timer that fell due, so that handing it out reads one array from front to end and does
        # not come back to entries scattered over memory.
        int64_t index
        bint is_head            # it stands in Timer.ready, for itself and what follows up to the next head: see ready.pxi
        int64_t expiration_ms

cdef struct Part:
    # The head of a block that holds some of a batch's entries side by side, which begin PART_HEAD bytes behind it. Of an entry
    # `place` is how far it stands from the first; so whoever comes to it in a list finds the part, its index and the batch.
    Batch* batch
    Part* prev              # of those that are there yet, in order of their indices
    Part* next
    int64_t first           # index of the first entry
    int64_t room            # for how many entries; of a part that came by extend a multiple of SLOT
    int64_t pending         # of the batch's `pending`, once it has a `table`

cdef enum:
    PART_HEAD = 64          # a cache line; sizeof(Part) is at most that
    SLOT_BITS = 6
    SLOT = 64               # indices for which `table` has one pointer

cdef struct Batch:
    Part* parts             # the first; each is freed when nothing of it is pending any more
    Part* last_part
    void* over              # parts that are to be freed, once nobody holds the batch (block_leave)
    Part** table            # which part an index is in, from `origin` on: NULL there is none any more. NULL: all are in `parts`
    int64_t table_room      # slots
    int64_t origin          # nothing below this index is pending; of a table, the index of its first slot, which may be negative
    int64_t end             # up to this index there are entries, those from `length` on not in use yet
    Due* due                # which of the entries fell due, in order: never less room than for what is linked yet, too
    void* due_block         # its block; NULL: it is behind the entries of the first part
    int64_t due_room
    int64_t due_begin       # the first that waits; what stands before it has been handed out
    int64_t due_end
    int64_t due_cancelled   # between the two
    const Entry* last_head  # of the newest run, while it has one; for nothing but to see whether it is last in Timer.ready
    Timer* timer            # constant once there is one
    Batch* prev             # in Timer.batches
    Batch* next
    int is_listed           # there
    void* object            # the TimerBatch, one reference, while in Timer.batches
    int64_t length
    int64_t pending
    int64_t adding          # entries, the last ones, that a batch_extend under way has still to link
    const int64_t* returned # indices that close() has taken and not shown yet to whoever calls it: a fork gives them back
    int64_t returning       # how many
    int64_t holders         # threads that need it to stay in Timer.batches, and its memory to stay: who has taken a head and not
                            # taken what is due, who extends it

cdef struct BatchRoom:
    # Memory for a batch_extend: how much of each it wants, and what there is of it.
    int64_t part_room
    Part* part
    int64_t due_room
    Due* due
    int64_t table_room
    Part** table
