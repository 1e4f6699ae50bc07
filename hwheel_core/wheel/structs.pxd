# Structs of a wheel. A wheel has no lock of its own: its owner guards it (see "Locking" in timer/structs.pxd).

cdef extern from *:
    """
    struct Entry {
        struct Entry *prev, *next;
        union { int64_t expiration_ms; int64_t due_index; int64_t set_number; };
        union { int32_t hint; int32_t letter; };
        union { int32_t place; int32_t bucket_index; int32_t generation; int32_t row; };
    };
    """
    cdef struct Entry:
        # A node of a circular doubly linked list; a list is an Entry that is its own head. A cascade touches nothing else.
        # An entry has 32 bytes, so two entries fill a cache line. The pairs share memory: an entry never needs both at once.
        Entry* prev
        Entry* next             # NULL while the entry is in no list
        int64_t expiration_ms   # decides the bucket: the deadline, rounded up where the timer is never early
        int64_t due_index       # of a batch's entry: its index in Batch.due, from its expiration until it runs
        int64_t set_number      # of an entry of a TTLCache, which is in no bucket: later sets have higher numbers
        int32_t hint            # distance, in units of 8 bytes, to the entry HINT_DISTANCE steps ahead of a walk
        int32_t letter          # of a task in an inbox: its index in Inbox.letters
        int32_t place           # of a batch's entry: its offset in its Part; of a task: see ENTRY_OF_TASK
        int32_t bucket_index    # of the head of a bucket's list: virtual_id % wheel_size
        int32_t generation      # of an ExpiringDict's entry: the process generation that has set the value
        int32_t row             # of a replayed timer: its row in the log

cdef enum:
    ENTRY_OF_TASK = -1      # `place` of a task that is in no inbox
    ENTRY_OF_INBOX = -2     # `place` of a task in the inbox of number i: ENTRY_OF_INBOX - i
    MAX_BATCH_LENGTH = 0x7FFFFFFF

cdef enum:
    HINT_DISTANCE = 16      # number of nodes between a node and the node that its hint names
    MAX_LEVELS = 64         # enough for wheel_size 2 and times of 64 bits

cdef struct Lead:
    # The node, HINT_DISTANCE before the end of a growing list, whose hint must name the next node that enters.
    Entry* entry
    int64_t removals        # Wheel.removals when the lead began; after another removal `entry` may be freed memory
    int32_t count           # number of nodes that entered after `entry`, up to HINT_DISTANCE - 1

cdef struct Bucket:
    # Two cache lines; the second one is for hints.
    Entry entries           # the list; its head's expiration_ms is the bucket's, and valid only while the bucket is queued
    int32_t queue_index     # index in the delay queue, or -1
    int16_t level           # from 1, as in Kafka's documentation
    int16_t recent_index    # where in `recent` the next append goes
    Lead pushed             # for pushes to the front
    uint32_t recent[16]     # HINT_DISTANCE: entry_number of the last appends

cdef struct Level:
    int64_t current_time_ms
    int64_t tick_ms
    uint64_t interval_ms    # tick_ms * wheel_size, or UINT64_MAX if that overflows
    hw_divisor by_tick      # divides by tick_ms
    Bucket* buckets
    int32_t current_index   # index of the bucket of current_time_ms

cdef struct Bookmark:
    # The position of a thread that walks over a list of entries: see bucket.pxi.
    Bookmark* next
    const Entry* head       # of the list; NULL: the list was a bucket, which has been taken since
    const Entry* entry      # the next entry; at the end, the head of the list

cdef struct Wheel:
    int32_t wheel_size
    int32_t level_count
    int32_t queue_length
    Bucket** queue          # a binary heap by (expiration_ms, level), which holds every non-empty bucket
    Entry flush             # entries that a cascade has taken out of a bucket and not placed again yet
    Entry due               # expired entries of the tick of the level 1 clock, in order
    int64_t taken_ms        # expiration of the bucket that was taken last
    int64_t removals        # number of removals, without those by cascades; a removal invalidates every Lead
    Bookmark* bookmarks     # of threads that walk over a list and release the lock in between; almost always NULL
    int64_t cascaded        # number of entries that cascades have moved to a finer level or to `due`
    Level levels[64]        # MAX_LEVELS

cdef enum AddStatus:
    ADD_PENDING             # in a bucket
    ADD_DUE                 # not added, because it is due: the caller runs it
    ADD_NEEDS_LEVEL         # not added: call wheel_grow, then try again
