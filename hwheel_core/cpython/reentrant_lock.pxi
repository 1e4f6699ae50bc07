# A lock like threading.RLock that is a field of another struct. Without contention it costs three comparisons and creates no
# object. A waiter waits on a threading.Lock of its own, as in threading.Condition: without the GIL, with a timeout, and
# interruptible by signals. Python code uses the class RLock at the end.
#
# Why not threading.RLock: it would cost each operation of a purgatory an object of 64 bytes and about 0.2 us to create, acquire,
# and release it. The child of a fork would also need a list of all locks to repair.
#
# A waiter enters `waiting` before it tries the lock once more, and an owner releases the lock before it checks `waiting`. One
# of them sees the other, so no wake-up is lost. A woken thread does not own the lock: it tries again. If it leaves instead,
# because of its timeout or an exception of a signal handler, it wakes the next waiter.
#
# Fork. Only the thread that forks exists in the child. A lock that another thread held would stay locked, or would belong to
# a new thread with the same number, because the C library reuses these numbers. There is no list of all locks that the child
# could repair. So each lock stores the generation of its process, which is the number of forks since the first process. The
# first function that uses a lock of an earlier generation repairs it. The lock then has no waiters, and is free unless the
# thread that forked holds it.

cdef object make_lock = threading.Lock

cdef uintptr_t forks = 0            # the process generation: forks from the first process to this one
cdef uintptr_t forker = 0           # the thread that forked; only this one may hold locks of an earlier generation
cdef uintptr_t forker_since = 0     # its first generation; locks of earlier ones belonged to another thread


cdef void relocks_after_fork_in_child() noexcept nogil:
    global forks, forker, forker_since
    cdef uintptr_t me = PyThread_get_thread_ident()
    if forker != me:
        forker = me
        forker_since = forks
    forks += 1


cdef bint relock_renew(ReentrantLock* lock) noexcept:
    """Repair a lock of an earlier generation. Return True if this freed the lock of a thread that does not exist here."""
    cdef uintptr_t waiting = 0
    cdef bint was_held = False
    hw_mutex_lock(&orphans)        # without a GIL, two threads may repair a lock at once
    if lock.process != forks:
        if lock.owner != forker or lock.process < forker_since:
            was_held = lock.owner != 0
            lock.owner = 0
            lock.depth = 0
        waiting = lock.waiting
        hw_word_store(&lock.waiting, 0)
        hw_store(&lock.process, forks)
    hw_mutex_unlock(&orphans)
    Py_XDECREF(<PyObject*>waiting)
    return was_held


cdef inline void relock_renew_if_forked(ReentrantLock* lock) noexcept:
    if hw_load(&lock.process) != forks:
        relock_renew(lock)


cdef inline bint relock_try(ReentrantLock* lock) noexcept:
    """Acquire the lock if this needs no wait. Return False otherwise."""
    cdef uintptr_t me = PyThread_get_thread_ident()
    relock_renew_if_forked(lock)
    if hw_word_load(&lock.owner) != me and not hw_take(&lock.owner, me):
        return False
    lock.depth += 1
    return True


cdef inline bint relock_acquire(ReentrantLock* lock, object holder) except False:
    """Acquire the lock, which is a field of `holder`."""
    return relock_try(lock) or relock_wait(lock, -1)


cdef bint relock_acquire_within(ReentrantLock* lock, bint blocking, double timeout) except -1:
    """Implement acquire() with the arguments and errors of threading.RLock."""
    if timeout != -1:
        if not blocking:
            raise ValueError("can't specify a timeout for a non-blocking call")
        if not timeout >= 0:
            raise ValueError("timeout value must be a non-negative number")
        if timeout > threading.TIMEOUT_MAX:
            raise OverflowError("timeout value is too large")
    return relock_try(lock) or (blocking and relock_wait(lock, timeout))


cdef bint relock_wait(ReentrantLock* lock, double timeout) except -1:
    """Wait for the lock. Return False after `timeout` seconds; a negative timeout means no limit."""
    cdef object waiter = make_lock()
    cdef list waiting = relock_waiting(lock, True)
    cdef double end_s = 0
    cdef bint locked = False
    waiter.acquire()
    if timeout >= 0:
        end_s = time.monotonic() + timeout
    try:
        while True:
            waiting.append(waiter)
            locked = relock_try(lock)
            if locked:
                return True
            if timeout < 0:
                waiter.acquire()
            elif not waiter.acquire(True, max(0, end_s - time.monotonic())):
                return False
            # A signal may have arrived after the wake-up. Its handler must run now: if it ran after this function returns
            # and raised an exception, the caller would not know that it holds the lock.
            PyErr_CheckSignals()
    finally:
        try:
            waiting.remove(waiter)
        except ValueError:              # a thread that released the lock has removed the waiter, to wake this thread
            if not locked:
                relock_wake(waiting)


cdef list relock_waiting(ReentrantLock* lock, bint create):
    """Return the list of waiters. If it does not exist, create it if `create` is true, otherwise return None."""
    cdef object fresh = [] if create else None
    cdef object waiting = None
    relock_renew_if_forked(lock)
    hw_mutex_lock(&orphans)
    if lock.waiting == 0 and create:
        Py_INCREF(fresh)                # dropped by relock_renew or relock_free
        hw_word_store(&lock.waiting, <uintptr_t><void*>fresh)
    if lock.waiting != 0:
        waiting = <object><void*>lock.waiting
    hw_mutex_unlock(&orphans)
    return waiting


cdef inline void relock_release(ReentrantLock* lock) noexcept:
    """Release the lock once. The caller owns the lock and keeps its holder alive."""
    lock.depth -= 1
    if lock.depth == 0:
        hw_word_store(&lock.owner, 0)
        if hw_word_load(&lock.waiting) != 0:
            relock_wake(relock_waiting(lock, False))


cdef void relock_wake(list waiting) noexcept:
    if waiting is not None:
        try:
            waiting.pop(0).release()
        except IndexError:
            pass                        # no waiter


cdef inline bint relock_is_mine(ReentrantLock* lock) noexcept:
    relock_renew_if_forked(lock)
    return hw_word_load(&lock.owner) == PyThread_get_thread_ident()


cdef inline void relock_free(ReentrantLock* lock) noexcept:
    """Free the list of waiters, when the holder is deallocated."""
    Py_XDECREF(<PyObject*>lock.waiting)
    memset(lock, 0, sizeof(ReentrantLock))


cdef class RLock:
    """A threading.RLock that stays usable in the child of a fork: free there, unless the thread that forked holds it."""

    def __dealloc__(self):
        relock_free(&self.mutex)

    def acquire(self, bint blocking=True, double timeout=-1):
        """Acquire the lock, as threading.RLock.acquire()."""
        return relock_acquire_within(&self.mutex, blocking, timeout)

    def release(self):
        """Release the lock, as threading.RLock.release()."""
        if not relock_is_mine(&self.mutex):
            raise RuntimeError("cannot release un-acquired lock")
        relock_release(&self.mutex)

    def __enter__(self):
        return relock_acquire(&self.mutex, self)

    def __exit__(self, *error):
        self.release()

    def _is_owned(self):
        return relock_is_mine(&self.mutex)

    def _renew(self):
        """Repair the lock in the child of a fork. Return True if a thread that does not exist here held it.

        The data that it guards may then be half changed. Call this before any other use of the lock in the child.
        """
        return hw_load(&self.mutex.process) != forks and relock_renew(&self.mutex)


if hw_at_fork(NULL, NULL, relocks_after_fork_in_child) != 0:
    raise MemoryError
