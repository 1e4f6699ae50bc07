# Containers whose entries fall due: ExpiringDict, DelayQueue.
#
# A container has a wheel of its own, which holds its entries, and one task in the timer that it was given, its alarm: set
# for the first bucket of that wheel. So an entry costs no task, a look at the timer's lock is rare, and close() of the timer
# gives back one task and not a million.
#
# Locking. There is no lock: the GIL guards all that is here; where there is none, the container's critical section, which
# is given up where the GIL might be, whenever a thread has to wait or to stop. Methods enter it, and the alarm (dict_ring,
# line_ring), but not around on_expire. Each change is a few lines of C that call nothing. What may
# run somebody's code (the hash and the comparison of keys, a callable clock, the start of a timer's threads, the end of a
# value) stands before such lines, and then what was found out is looked at anew, or after them, when all is whole again.
# So a fork finds every container whole, too.
#
# Garbage collection. The collector does not see what a wheel holds. A cycle that leads through an entry is broken when the
# entry falls due or is removed, and not before.

cdef struct DictEntry:
    # Of an ExpiringDict. 96 bytes.
    Entry entry             # its `place` is the generation of the process that has set it
    uint64_t hash           # mixed: see table.pxi
    DictEntry* chain        # the next one in its slot of the table
    PyObject* key           # both are references
    PyObject* value
    DictEntry* older        # by the time when they were set or touched; a ring that begins and ends at DictTable.order.
    DictEntry* newer
    int64_t ttl_ms
    uint64_t added          # DictTable.version when it was

cdef struct DictTable:
    # Chains of entries by hash. It grows and shrinks by one slot at a time: see table.pxi
    DictEntry** slots
    uint64_t mask           # there are mask + 1 + split slots
    uint64_t split
    uint64_t room           # for so many
    uint64_t version        # another one after each change of a chain
    int64_t count
    DictEntry order

cdef class ContainerAlarm(TimerTask):
    cdef object container       # a weakref.ref: a container that nobody uses is not kept for its alarm's sake

cdef class ContainerCore:
    cdef BaseTimer timer        # None: never set up
    cdef ContainerAlarm alarm
    cdef Wheel* wheel           # NULL until something is put into it
    cdef Entry due              # what fell due and has not been taken, in order
    cdef int64_t pending        # entries in `wheel` and `due`
    cdef int64_t generation     # of the process: as Timer.generation when it was looked at last
    cdef int64_t ringing        # 1 + the generation of the process in which a thread takes what fell due; 0: none does
    # No __weakref__: the classes on top have it as a slot, because CPython clears that before it calls __dealloc__, and
    # Cython after. The alarm, or the end of an entry, would get at a container that is dying.

cdef class ExpiringDictCore(ContainerCore):
    cdef DictTable table
    cdef Entry lapsed           # what was found expired before the alarm had rung for it, and on_expire has yet to hear of
    cdef int64_t default_ttl_ms
    cdef int64_t most           # maxsize
    cdef int64_t reported_from  # what was set in an earlier generation of the process expires here without a word
    cdef bint refreshes
    cdef object on_expire_

cdef class DelayKey:
    # Of an item in a DelayQueue: the wheel's entry itself. The queue holds a reference to it.
    cdef Entry entry
    cdef int64_t deadline_ms
    cdef object item_           # None once it is out
    cdef uintptr_t queue        # the DelayQueueCore that it is in, not a reference; 0: in none any more

cdef class DelayQueueCore(ContainerCore):
    cdef int64_t most           # maxsize
    cdef bint shut
    cdef list getters           # (thread, waiter) of who waits for an item that is due, the first to come first
    cdef list putters           # the same for who waits for room
    cdef tuple errors           # classes: the queue is empty, full, shut down
