# Containers whose entries expire: ExpiringDict, DelayQueue, and the caches of hwheel.cachetools.
#
# A container owns a wheel that holds its entries. It also has one task in its timer: the alarm, which is set for the first bucket
# of that wheel. So an entry costs no task, the container rarely takes the timer's lock, and closing the timer returns one task
# instead of a million.
#
# Locking. There is no lock. The GIL guards all fields; without a GIL, the container's critical section does. That section
# is suspended wherever the GIL could be released. Methods and the alarm enter it; `on_expire` runs outside. Each change is a
# short C section that calls no foreign code. Foreign code (the hash and comparison of keys, a callable clock, starting a
# timer's threads, destructors) runs either before that section, which then checks the state again, or after it. A fork
# therefore always finds the containers in a consistent state.
#
# Garbage collection. The collector does not see the entries of a wheel. A reference cycle through an entry is broken only when
# the entry expires or is removed. Caches are an exception: see cache.pxi.

cdef extern from *:
    """
    struct DictEntry {
        struct Entry entry;
        uint64_t hash;
        struct DictEntry *chain;
        PyObject *key, *value;
        struct DictEntry *older, *newer;
        union { int64_t ttl_ms; double expires_s; };
        uint64_t number;
    };
    """
    cdef struct DictEntry:
        # An entry of an ExpiringDict or of a cache: 96 bytes.
        Entry entry             # its `generation` is the process generation that has set the value
        uint64_t hash           # mixed: see table.pxi
        DictEntry* chain        # the next entry in its slot of the table
        PyObject* key           # both are references
        PyObject* value
        DictEntry* older        # in order of set and touch, for a cache also of lookups: a ring through DictTable.order
        DictEntry* newer
        int64_t ttl_ms          # of an ExpiringDict: the ttl of the last set or touch
        double expires_s        # of a cache whose timer is known to the core: the deadline
        uint64_t number         # grows along that order

cdef struct CacheEntry:
    # An entry of a cache with a getsizeof or a user-defined timer.
    DictEntry entry
    PyObject* deadline          # a reference to the deadline as a value of the user's timer; of a TLRUCache: to its CacheDeadline
    double size

cdef struct DictTable:
    # A hash table with chains that grows and shrinks by one slot at a time: see table.pxi.
    DictEntry** slots
    uint64_t mask           # there are mask + 1 + split slots
    uint64_t split
    uint64_t capacity       # allocated slots
    uint64_t version        # changes with every chain; in a cache also if a value is replaced
    uint64_t numbers        # the last DictEntry.number or Entry.set_number
    int64_t count
    int64_t walks           # number of running walks over all slots: while it is not 0, the table keeps its size
    DictEntry order         # head of the ring: its `newer` is the oldest entry, its `older` the newest one

cdef struct DictCopy:
    # An entry as a walk over the slots has found it.
    PyObject* key           # both are references
    PyObject* value
    int64_t expiration_ms
    int64_t ttl_ms
    uint64_t number

cdef struct CacheCopy:
    # An entry of a cache as a walk over the slots has found it.
    PyObject* key           # the first three are references
    PyObject* value
    PyObject* deadline      # NULL if the timer is known to the core
    double expires_s
    double size
    int64_t set_number      # of a TTLCache
    uint64_t number

cdef class ContainerAlarm(TimerTask):
    cdef object container       # a weakref.ref, so that the alarm does not keep an unused container alive

cdef class ContainerCore:
    cdef BaseTimer timer        # None: not set up
    cdef ContainerAlarm alarm
    cdef Wheel* wheel           # NULL until the first entry is added
    cdef Entry due              # expired entries that were not taken yet, in order; of a TTLCache: all entries
    cdef int64_t pending        # number of entries in `wheel`, `due`, `unreported`, and `unending`
    cdef int64_t generation     # the process generation (Timer.generation) at the last access
    cdef int64_t expiring       # 1 + the process generation in which a thread takes expired entries; 0: no thread does
    # No __weakref__: the Python subclasses have it as a slot. CPython clears such a slot before it calls __dealloc__, but
    # Cython clears its own afterwards, and the alarm could then reach a dying container.

cdef class ExpiringDictCore(ContainerCore):
    cdef DictTable table
    cdef Entry unreported       # entries found expired before the alarm; on_expire has not received them yet
    cdef int64_t default_ttl_ms
    cdef int64_t max_entries    # maxsize
    cdef int64_t reported_from  # entries set in an earlier process generation expire without a report
    cdef bint refreshes
    cdef object on_expire_

cdef class CacheTimer:
    cdef object clock           # the user's function
    cdef BaseTimer source       # whose time() it is, or None
    cdef object cache           # a weakref.ref
    cdef dict frozen            # thread -> [time, depth of nested `with` statements, thread]
    cdef bint missed            # the alarm of the cache has run while time stood still for a thread

cdef class CacheDeadline:
    cdef object expires
    cdef DictEntry* entry       # NULL: the entry was removed or has another deadline now

cdef class CacheCore(ContainerCore):
    cdef DictTable table
    cdef CacheTimer clock
    cdef object span            # the ttl, or the function `ttu`
    cdef double span_s          # the ttl of a TTLCache whose timer is known
    cdef object maxsize_
    cdef double max_total       # maxsize
    cdef double total           # the sum of the sizes, of a cache with a getsizeof
    cdef bint whole             # all sizes so far are ints, so currsize is one
    cdef bint traversed         # the collector must see the entries: a key, value, or deadline may be part of a cycle
    cdef bint of_ttu            # a TLRUCache
    cdef bint known             # the timer is known to the core, which reads the clock itself and sets an alarm
    cdef bint sized             # there is a getsizeof
    cdef int overrides          # the methods that a subclass overrides: CACHE_GETITEM and so on
    cdef Entry unending         # entries of a TLRUCache that are in no bucket
    cdef list heap              # of CacheDeadlines, for a TLRUCache with a user-defined timer; else None
    cdef list old_heap          # deadlines that move to `heap` gradually
    cdef object heap_lock
    cdef int64_t clears         # number of calls that removed all entries at once

cdef class CachedCall:
    cdef object function        # the function that is called on a miss
    cdef object owner           # of a method: the instance
    cdef bint bound             # there is an owner; then `cache_`, `lock`, and `condition` are functions of it
    cdef object cache_
    cdef object key
    cdef object lock            # or None
    cdef object condition       # or None
    cdef object flights         # a ThreadFlights, or None
    cdef bint plain_key         # the key of positional arguments is their tuple
    cdef set running            # keys whose calls run, with a condition
    cdef int64_t hits
    cdef int64_t misses

cdef class DelayKey:
    # The key of an item in a DelayQueue is the wheel's entry itself. The queue holds a reference to it.
    cdef Entry entry
    cdef int64_t deadline_ms
    cdef object item_           # None once the item has left the queue
    cdef BaseTimer timer        # of the queue
    cdef uintptr_t queue        # the DelayQueueCore that holds it, not a reference; 0: none

cdef class Line:
    # Consumers or producers that wait: all threads, or the coroutines of one event loop. See delaying.pxi.
    cdef object loop            # None: threads
    cdef list waiting           # those not called yet, first come first served
    cdef Py_ssize_t called      # number of those that were called and have not come back
    cdef Line next              # also valid in a line that has left the chain

cdef class DelayQueueCore(ContainerCore):
    cdef int64_t max_entries    # maxsize
    cdef bint shut
    cdef Line getters           # lines that wait for a due item: first that of threads, then those of event loops
    cdef Line putters           # the same for room
    cdef Line joiners           # all callers of join()
    cdef int64_t taken          # items that get() has returned and task_done() has not confirmed
    cdef tuple errors           # the exception classes for an empty queue, a full one, one that is shut down
