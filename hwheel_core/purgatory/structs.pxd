# Operations that wait for keys, and the locks that guard them.
#
# Locking
# =======
# The lock of an operation (OperationCore.mutex) makes sure that the operation completes once: `try_complete`,
# `on_complete` and `on_expiration` run under it.
#
# - A check (`safe_try_complete`, and so `check_and_complete`) never waits for this lock. If the lock is taken, the check
#   sets `missed`, and the thread that releases the lock checks again. Therefore two operations whose `on_complete` check
#   each other's keys cannot deadlock. No check is lost: the checker sets `missed` before it tries the lock a second time,
#   and the owner reads `missed` after it has released the lock. One of the two sees the other.
# - Completing (`force_complete`, the timeout) waits for a check in progress, because the caller may rely on `on_complete`
#   having run. No thread waits for a completed operation, so `on_complete` may complete other operations.
#   `try_complete` must not: it would wait while it holds a lock that another thread may wait for.
#
# The lock of a purgatory's lists (PurgatoryCore.mutex) guards the dict of watch lists. A thread finds or creates
# a key's list, and then links a node to it. In between, no other thread may drop the list because it is empty. The lock is
# held for one dict operation; no other lock is taken under it. Keys are compared under it. It is reentrant, because a
# finalizer or a signal handler may run inside a comparison and use the purgatory.
#
# Watchers, nodes, list lengths, and counters are guarded by the GIL; without a GIL, by the purgatory's critical section.
# They change in short C sections that call no Python code, drop no last reference, and take no lock.
#
# Order: first an operation's lock, then the lock of the lists, never the reverse. cpython/reentrant_lock.pxi explains how
# both locks work, also after a fork.

cdef struct WatchNode:
    WatchNode* prev
    WatchNode* next         # NULL: in no list
    Watcher* watcher        # holds a reference while in a list
    void* watch_list        # the WatchList; no reference, because nodes leave the list before it dies

cdef struct Watcher:
    int64_t references
    void* operation         # see watch_list.pxi; NULL once the operation is completed or withdrawn
    Watcher* next           # in PurgatoryCore.to_purge
    WatchNode* nodes        # one for each key, in the same memory block
    int32_t count           # number of nodes
    int32_t linked          # number of nodes that are in lists
    int delayed             # the operation is counted in PurgatoryCore.delayed

cdef struct CheckedNode:
    # A node that a check has found.
    WatchNode* node         # holds a reference to its watcher
    PyObject* operation     # holds a reference; NULL: completed before the check
    bint waits              # still incomplete after the check

cdef class PurgatoryCore

cdef class WatchList:
    cdef object key
    cdef WatchNode head
    cdef int64_t length             # also read without the critical section

cdef class OperationCore(TimerTask):
    cdef ReentrantLock mutex
    cdef uintptr_t missed           # a check found the lock taken
    cdef int completed              # set under the lock
    cdef Watcher* watcher           # a reference, while a purgatory watches the operation
    cdef PurgatoryCore purgatory    # of the watcher; never reset

cdef class PurgatoryCore:
    cdef public object timer
    cdef int closed                 # also read without the critical section
    cdef public int64_t purge_interval
    cdef ReentrantLock mutex
    cdef dict lists                 # {key: WatchList}, without empty lists
    cdef public dict _to_return     # {id: operation} that the next close() or cancel_for_key() returns
    cdef int64_t forgotten          # keys removed from the dict since the dict was created
    cdef int64_t delayed            # operations whose timeout is pending
    cdef int64_t completed
    cdef int64_t expired
    cdef int64_t purged
    cdef Watcher* to_purge          # watchers of operations completed since the last purge; references
    cdef int64_t to_purge_count
