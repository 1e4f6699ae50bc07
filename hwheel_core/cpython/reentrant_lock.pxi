# A lock like threading.RLock, for what is compiled inside of what it belongs to: it costs three comparisons and no object,
# until somebody has to wait for it. A waiter waits on a threading.Lock of its own, as in threading.Condition, because then it
# waits without the GIL, with a timeout, and open to signals. For what is Python there is the class RLock at the end.
#
# A waiter enters itself into `waiting` before it tries the lock once more, and a releaser looks there after it has given
# the lock up. So no wake-up is lost. A thread that was woken has no right to the lock, but tries again; if it leaves all
# the same, because its time is over or a signal handler raised, it passes the wake-up on.
#
# Fork. Only the thread that forks comes along. What other threads held would be held for ever, and by whoever is given
# the number of one of them, because the C library uses these again. Nobody can walk over all locks in the child, because
# no list of them is kept. So a lock says of which process it is, by the number of forks that led there, and whoever
# comes to one that is of another process puts it right first: it is free unless the thread that forked has it, and
# nobody waits.

cdef object make_lock = threading.Lock

cdef uintptr_t forks = 0            # that led from the first process to this one
cdef uintptr_t forker = 0           # the thread that forked; the only one here that may have locks of another process
cdef uintptr_t forker_since = 0     # of which process that thread is: what it has of earlier ones was another's

# Where threads wait now: by the thread's number, its waiters, the innermost last. A signal handler may fork while its
# thread waits. Whoever had the lock then is not there to wake it in the child.
cdef dict waiters_of_threads = {}


cdef void relocks_after_fork_in_child() noexcept nogil:
    global forks, forker, forker_since
    cdef uintptr_t me = PyThread_get_thread_ident()
    if forker != me:
        forker = me
        forker_since = forks
    forks += 1


cdef bint relock_renew(ReentrantLock* lock) noexcept:
    """The first look at a lock in this process. True if it frees the lock of a thread that did not come along."""
    cdef uintptr_t waiting = 0
    cdef bint was_held = False
    hw_mutex_lock(&orphans)        # two threads may come to it at once, where there is no GIL
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
    """Takes the lock if that needs no wait."""
    cdef uintptr_t me = PyThread_get_thread_ident()
    relock_renew_if_forked(lock)
    if hw_word_load(&lock.owner) != me and not hw_take(&lock.owner, me):
        return False
    lock.depth += 1
    return True


cdef inline bint relock_acquire(ReentrantLock* lock, object holder) except False:
    """Takes the lock, which is a part of `holder`."""
    return relock_try(lock) or relock_wait(lock, -1)


cdef bint relock_acquire_within(ReentrantLock* lock, bint blocking, double timeout) except -1:
    """As threading.RLock.acquire, with its errors."""
    if timeout != -1:
        if not blocking:
            raise ValueError("can't specify a timeout for a non-blocking call")
        if not timeout >= 0:
            raise ValueError("timeout value must be a non-negative number")
        if timeout > threading.TIMEOUT_MAX:
            raise OverflowError("timeout value is too large")
    return relock_try(lock) or (blocking and relock_wait(lock, timeout))


cdef bint relock_wait(ReentrantLock* lock, double timeout) except -1:
    """False: it took more than timeout seconds; negative: however long it takes."""
    cdef object waiter = make_lock()
    cdef list waiting = []
    cdef list mine = waiters_of_threads.setdefault(PyThread_get_thread_ident(), [])
    cdef double give_up = 0
    cdef bint taken = False
    waiter.acquire()
    if timeout >= 0:
        give_up = time.monotonic() + timeout
    mine.append(waiter)
    try:
        while True:
            waiting = relock_waiting(lock, True)        # another one, if this thread forked in a signal handler
            waiting.append(waiter)
            taken = relock_try(lock)
            if taken:
                return True
            if timeout < 0:
                waiter.acquire()
            elif not waiter.acquire(True, max(0, give_up - time.monotonic())):
                return False
            # Of a signal that came after the wake-up, before this thread had its turn: else its handler would be called when
            # this returns, and what that raises would leave the lock taken, by somebody who does not know.
            PyErr_CheckSignals()
    finally:
        mine.pop()
        if not mine:
            waiters_of_threads.pop(PyThread_get_thread_ident(), None)
        try:
            waiting.remove(waiter)
        except ValueError:              # who gave the lock up has taken it out, to wake this thread
            if not taken:
                relock_wake(waiting)


cdef list relock_waiting(ReentrantLock* lock, bint make):
    """`waiting`, a reference; None: there is no such list yet, and it was not to be made."""
    cdef object fresh = [] if make else None
    cdef object waiting = None
    relock_renew_if_forked(lock)
    hw_mutex_lock(&orphans)
    if lock.waiting == 0 and make:
        Py_INCREF(fresh)                # dropped by relock_renew or relock_free
        hw_word_store(&lock.waiting, <uintptr_t><void*>fresh)
    if lock.waiting != 0:
        waiting = <object><void*>lock.waiting
    hw_mutex_unlock(&orphans)
    return waiting


cdef inline void relock_release(ReentrantLock* lock) noexcept:
    """Gives the lock up once; to be called by its owner, which keeps its holder alive."""
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
            pass                        # nobody waits


cdef inline bint relock_is_mine(ReentrantLock* lock) noexcept:
    relock_renew_if_forked(lock)
    return hw_word_load(&lock.owner) == PyThread_get_thread_ident()


cdef inline void relock_free(ReentrantLock* lock) noexcept:
    """When its holder dies."""
    Py_XDECREF(<PyObject*>lock.waiting)
    memset(lock, 0, sizeof(ReentrantLock))


cdef class RLock:
    """threading.RLock, but right after a fork, whatever thread had it and whoever waited for it, in a signal handler too.

    In the child it is free, unless the thread that forked has it: that one goes on inside, and gives it up.
    """

    def __dealloc__(self):
        relock_free(&self.mutex)

    def acquire(self, bint blocking=True, double timeout=-1):
        """As threading.RLock.acquire."""
        return relock_acquire_within(&self.mutex, blocking, timeout)

    def release(self):
        """As threading.RLock.release."""
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
        """In the child of a fork, before anybody else: True if a thread had it that did not come along. So what it guards may
        be half changed."""
        return hw_load(&self.mutex.process) != forks and relock_renew(&self.mutex)


def wake_those_who_forked():
    """In the child of a fork: a wait of this thread, in whose signal handler it forked, looks at its lock again."""
    mine = waiters_of_threads.get(PyThread_get_thread_ident())
    waiters_of_threads.clear()
    if mine:
        waiters_of_threads[PyThread_get_thread_ident()] = mine
        for waiter in mine:
            if waiter.locked():
                waiter.release()


if hw_at_fork(NULL, NULL, relocks_after_fork_in_child) != 0:
    raise MemoryError
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=wake_those_who_forked)
