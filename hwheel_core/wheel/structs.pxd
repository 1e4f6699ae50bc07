# What hangs in a wheel, and the wheel. Whoever uses one has a lock around it (timer/structs.pxd).

cdef extern from *:
    """
    struct Entry {
        struct Entry *prev, *next;
        union { int64_t expiration_ms; int64_t due_index; };
        union { int32_t hint; int32_t letter; };
        union { int32_t place; int32_t bucket_index; };
    };
    """
    cdef struct Entry:
        # A node of a circular doubly linked list; a list is an Entry that is its own head. A cascade touches nothing else: the
        # 32 bytes of two entries fill a cache line. The pairs share memory: an entry never needs both at once.
        Entry* prev
        Entry* next             # NULL while the entry is in no list
        int64_t expiration_ms   # decides the bucket: the deadline, rounded up where the timer is never early
        int64_t due_index       # of a batch's entry: its index in Batch.due, from its expiration until it runs
        int32_t hint            # distance, in units of 8 bytes, to the entry HINT_DISTANCE steps ahead of a walk
        int32_t letter          # of a task in an inbox: its index in Inbox.letters
        int32_t place           # of a batch's entry: its offset in its Part; of a task: ENTRY_OF_TASK or ENTRY_OF_INBOX
        int32_t bucket_index    # of the head of a bucket's list: virtual_id % wheel_size

cdef enum:
    ENTRY_OF_TASK = -1
    ENTRY_OF_INBOX = -2     # less the number of the inbox that the task is in
    MAX_BATCH_LENGTH = 0x7FFFFFFF

cdef enum:
    HINT_DISTANCE = 16      # how many nodes ahead of the walk the prefetch hint points
    MAX_LEVELS = 64         # of wheel_size 2 in 64 bits

cdef struct Lead:
    # For hints that have to be written into older nodes of a growing list.
    Entry* entry            # the node whose hint names what comes next to the list: HINT_DISTANCE before it
    int64_t removals        # Wheel.removals when it was set: with a higher count the node may be gone
    int32_t count           # how many nodes there are between

cdef struct Bucket:
    # Two cache lines, the second for hints.
    Entry entries           # the list. Its head's expiration_ms is the bucket's, and means nothing while not queued
    int32_t queue_index     # where in the delay queue, -1 when not in it
    int16_t level           # from 1, as Kafka's texts count
    int16_t recent_index    # where in `recent` the next append goes
    Lead pushed             # for pushes to the front
    uint32_t recent[16]     # the last appends, as numbers for hints (entry_number)

cdef struct Level:
    int64_t current_time_ms
    int64_t tick_ms
    uint64_t interval_ms    # tick_ms * wheel_size, or UINT64_MAX where that does not fit
    hw_divisor by_tick      # division by tick_ms
    Bucket* buckets
    int32_t current_index   # the bucket of current_time_ms

cdef struct Bookmark:
    # How far somebody who counts a bucket has come: see bookmark.pxi.
    Bookmark* next
    const Bucket* bucket    # NULL: it was taken since
    const Entry* entry      # what is to be counted next; the bucket's head at the end

cdef struct Wheel:
    int32_t wheel_size
    int32_t level_count
    int32_t queue_length
    Bucket** queue          # binary heap by (expiration_ms, level); holds every non-empty bucket
    Entry flush             # what a cascade has taken off a bucket and not yet placed again
    Entry due               # what is due at the tick of the level 1 clock, in order
    int64_t taken_ms        # expiration of the bucket taken last
    int64_t removals        # entries taken out by something else than a cascade: remembered nodes may be gone
    Bookmark* bookmarks     # of those who count a bucket and have given the lock up; NULL while nobody looks
    int64_t cascaded
    Level levels[64]        # MAX_LEVELS

cdef enum AddStatus:
    ADD_PENDING             # in a bucket
    ADD_DUE                 # not added: the caller runs it
    ADD_NEEDS_LEVEL         # not added: wheel_grow and try again
