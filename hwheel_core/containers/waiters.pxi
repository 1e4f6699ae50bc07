# Who waits for a queue. A waiter has a release(): a threading.Lock, or something that wakes a coroutine.
#
# A waiter enters itself before it looks once more, and who has something for it takes it out of the list and releases it. So no
# wake-up is lost. Who was woken has no right to anything, but looks again; who leaves all the same, because its time is over
# or a signal handler raised, passes the wake-up on.


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
    while count > 0 and waiters:
        waiter = (<tuple>waiters.pop(0))[1]
        try:
            if waiter.release() is not False:       # else it is nobody any more
                count -= 1
        except KeyboardInterrupt:
            _thread.interrupt_main()        # it comes again, when the caller has put away what it has
        except BaseException as error:
            self.timer._report(self.alarm, error)
    return True


cdef list waiters_after_fork(list waiters):
    """Those whose thread came along: the one that has forked, in a signal handler."""
    cdef object forker = threading.main_thread().ident
    return [one for one in waiters if one[0] == forker]
