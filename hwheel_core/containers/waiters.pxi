# Who waits for a queue. A waiter has a release(): a threading.Lock, or something that wakes a coroutine.
#
# A waiter enters itself before it looks once more, and who has something for it takes it out of the list and releases it. So no
# wake-up is lost. Who was woken has no right to anything, but looks again; who leaves all the same, because its time is over
# or a signal handler raised, passes the wake-up on.

#
# To release one that has been released already does no harm, if it is of the second kind; and nothing interrupts one of the
# first.

cdef enum:
    WAKE_TRIES = 3


cdef bint waiters_enter(list waiters, object waiter) except False:
    waiters.append((PyThread_get_thread_ident(), waiter))
    return True


cdef bint waiters_leave(list waiters, object waiter) noexcept:
    """False: it has been woken, or was never there."""
    cdef Py_ssize_t i
    for i in range(len(waiters)):
        if (<tuple>waiters[i])[1] is waiter:
            del waiters[i]
            return True
    return False


cdef bint waiters_wake(ContainerCore self, list waiters, Py_ssize_t count) except False:
    """Wakes as many. Whatever a release() raises is not the caller's, who has something in hand that must not be lost."""
    cdef object interruption = None
    while count > 0 and waiters:
        waiter = (<tuple>waiters.pop(0))[1]
        for _ in range(WAKE_TRIES):
            try:
                if waiter.release() is not False:   # else it is nobody any more
                    count -= 1
                break
            except BaseException as error:          # a signal handler's, in the middle: it may not have been woken
                interruption = error
    if interruption is not None:
        if isinstance(interruption, KeyboardInterrupt):
            _thread.interrupt_main()                # it comes again, when the caller has put away what it has
        else:
            self.timer._report(self.alarm, interruption)
    return True


cdef list waiters_after_fork(list waiters):
    """Those whose thread came along: the one that has forked, in a signal handler."""
    cdef object forker = threading.main_thread().ident
    cdef list here = []
    for one in waiters:
        if one[0] == forker:
            here.append(one)
    return here
