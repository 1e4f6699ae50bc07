# Operations that wait for keys, and what guards them.
#
# Locking
# =======
# The lock of an operation (OperationCore.mutex). `try_complete`, `on_complete` and `on_expiration` run under it, because
# completing must happen once. Who waits for it, and who does not:
#
# - A check (`safe_try_complete`, and so `check_and_complete`) never waits. If the lock is taken it leaves word, in
#   `missed`, and whoever gives the lock up looks for that word and checks again. So two operations whose `on_complete`
#   check each other's keys cannot deadlock. No check is lost, because the word is left before the second look at the
#   lock and looked for after the lock is free: one of the two sees the other.
# - Completing (`force_complete`, the timeout) waits for a check that is under way, because who completes is told that
#   `on_complete` has run. An operation that is completed already is not waited for; so an `on_complete` may complete
#   other operations. A `try_complete` may not: it would wait with a lock in hand that somebody else may wait for.
#
# The lock of a purgatory's lists (PurgatoryCore.mutex) guards the dict of the lists, because finding or making a key's
# list and linking a node to it must be one step for who wants to drop a list that has become empty. It is held for one
# operation on the dict, and no other lock is taken under it. The comparison of keys does run under it (their hash is
# asked for before as well, because who is called there may want to wait for other threads), and so may a finaliser or a
# signal handler; the lock is reentrant, because these may come back here.
#
# Watchers, nodes, the lengths of lists and the counters are guarded by the GIL; where there is none, by the purgatory's
# critical section. They are changed by a few lines of C each time, which call nothing and drop no last reference, and
# take no lock.
#
# Order: an operation's lock, then that of the lists, never the reverse. How the two locks themselves work, also in the
# child of a fork, is told in cpython/reentrant_lock.pxi.

cdef struct WatchNode:
    WatchNode* prev
    WatchNode* next         # NULL: in no list, not yet or no more
    Watcher* watcher        # a reference while in a list
    void* watch_list        # the WatchList; not a reference, its nodes leave it before it dies

cdef struct Watcher:
    int64_t references
    void* operation         # see watcher.pxi; NULL from its completion on, or when it was withdrawn
    Watcher* next           # in PurgatoryCore.to_purge
    WatchNode* nodes        # one for each key, in the same block of memory
    int32_t count
    int32_t linked          # how many of them are in lists
    int delayed             # counted as one whose timeout is to come

cdef struct Seen:
    # Of a node that a check has found: references to its watcher and to its operation, NULL if that was completed.
    WatchNode* node
    PyObject* operation
    bint waits              # still, after it was checked

cdef class PurgatoryCore

cdef class WatchList:
    cdef object key
    cdef WatchNode head
    cdef int64_t length             # looked at without the critical section, too

cdef class OperationCore(TimerTask):
    cdef ReentrantLock mutex
    cdef uintptr_t missed       # somebody wanted to check and found the lock taken
    cdef int completed          # set under the lock
    cdef Watcher* watcher       # while a purgatory watches the operation; a reference
    cdef PurgatoryCore purgatory    # of the watcher; stays

cdef class PurgatoryCore:
    cdef public object timer
    cdef int closed                 # is looked at without the critical section
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
