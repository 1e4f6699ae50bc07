# A lock like threading.RLock, but inside of what it belongs to: it costs two comparisons and no object, until somebody
# has to wait for it. Who waits does so on a threading.Lock of its own, as in threading.Condition, and so without the
# GIL, with a timeout, and open to signals.
#
# No wake-up is lost: who waits stands in `waiting` before it looks at the lock once more, and who gives the lock up
# looks there after that. Who is woken has no right to the lock, but tries again; who is woken and leaves all the same,
# because its time is over or a signal handler raised, passes the wake-up on.

cdef object make_lock = threading.Lock


cdef inline bint relock_try(ReentrantLock* lock) noexcept:
    """Takes the lock if that needs no wait."""
    cdef uintptr_t me = PyThread_get_thread_ident()
    if lock.owner != me and not hw_take(&lock.owner, me):
        return False
    lock.depth += 1
    return True


cdef inline bint relock_acquire(ReentrantLock* lock, object holder) except False:
    """Takes the lock, which is a part of `holder`."""
    return relock_try(lock) or relock_wait(lock, holder, -1)


cdef bint relock_wait(ReentrantLock* lock, object holder, double timeout) except -1:
    """False: it took more than timeout seconds; negative: however long it takes."""
    cdef object waiter = make_lock()
    cdef list waiting
    cdef double give_up = 0
    cdef bint taken = False
    waiter.acquire()
    with cython.critical_section(holder):
        if lock.waiting is NULL:
            fresh = []
            Py_INCREF(fresh)            # dropped by relock_free
            lock.waiting = <void*>fresh
        waiting = <list>lock.waiting
    if timeout >= 0:
        give_up = time.monotonic() + timeout
    try:
        while True:
            waiting.append(waiter)
            taken = relock_try(lock)
            if taken:
                return True
            if timeout < 0:
                waiter.acquire()
            elif not waiter.acquire(True, max(0, give_up - time.monotonic())):
                return False
    finally:
        try:
            waiting.remove(waiter)
        except ValueError:              # who gave the lock up has taken it out, to wake this thread
            if not taken:
                relock_wake(waiting)


cdef inline void relock_release(ReentrantLock* lock) noexcept:
    """Gives the lock up once; to be called by its owner, which keeps its holder alive."""
    lock.depth -= 1
    if lock.depth == 0:
        hw_word_store(&lock.owner, 0)
        if lock.waiting is not NULL:
            relock_wake(<list>lock.waiting)


cdef void relock_wake(list waiting) noexcept:
    try:
        waiting.pop(0).release()
    except IndexError:
        pass                            # nobody waits


cdef inline bint relock_is_mine(ReentrantLock* lock) noexcept:
    return lock.owner == PyThread_get_thread_ident()


cdef inline void relock_free(ReentrantLock* lock) noexcept:
    """When its holder dies, or is the only one that is left of a forked process's threads."""
    Py_XDECREF(<PyObject*>lock.waiting)
    memset(lock, 0, sizeof(ReentrantLock))
