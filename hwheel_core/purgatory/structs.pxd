# Operations that wait for keys. What guards these is said in operation.pxi, core.pxi and reentrant_lock.pxi, because the
# locks are Python's objects.

cdef struct ReentrantLock:
    uintptr_t owner         # the thread that has it; 0: nobody has
    int64_t depth           # how many times; its owner's alone
    void* waiting           # a list of the locks that threads wait on, a reference; NULL: nobody ever waited
    uintptr_t process       # which the rest is said of; see reentrant_lock.pxi

cdef struct WatchNode:
    WatchNode* prev
    WatchNode* next         # NULL: in no list, not yet or no more
    Watcher* watcher        # a reference while in a list
    void* watch_list        # the WatchList; not a reference, its nodes leave it before it dies

cdef struct Watcher:
    int64_t references
    void* operation         # see watch_list.pxi; NULL from its completion on, or when it was withdrawn
    Watcher* next           # in PurgatoryCore.to_purge
    WatchNode* nodes        # one for each key, in the same block of memory
    int32_t count
    int32_t linked          # how many of them are in lists
    int delayed             # counted as one whose timeout is to come

cdef class PurgatoryCore

cdef class WatchList:
    cdef object key
    cdef WatchNode head
    cdef int64_t length

cdef class OperationCore(TimerTask):
    cdef ReentrantLock mutex
    cdef uintptr_t missed       # somebody wanted to check and found the lock taken
    cdef bint completed
    cdef Watcher* watcher       # while a purgatory watches the operation; a reference
    cdef PurgatoryCore purgatory    # of the watcher; stays

cdef class PurgatoryCore:
    cdef public object timer
    cdef public bint _closed
    cdef public int64_t purge_interval
    cdef ReentrantLock mutex
    cdef dict lists                 # key: WatchList; none that is empty, but for a moment, or where its key cannot be
                                    # looked up any more
    cdef public dict _left          # by id(): operations that are to be returned to whoever cancels or closes
    cdef int64_t forgotten          # keys that have left it since it was made
    cdef int64_t delayed            # operations whose timeout is to come
    cdef int64_t completed
    cdef int64_t expired
    cdef int64_t purged
    cdef Watcher* to_purge          # of operations completed since the last purge: linked by Watcher.next; a reference
    cdef int64_t to_purge_count
