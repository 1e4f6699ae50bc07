# `await task`: a coroutine waits for a task of any timer, run by any thread, and gets the callback's result or exception.
#
# A task that is never awaited must not pay for this. So the task does not know its waiters: an Awaited replaces its callback,
# runs it, and notifies the waiters. A cancel releases the callback, which deallocates the Awaited, and its __del__ notifies
# them. So nothing else may refer to an Awaited: a waiter has only the list of waiters.


cdef class Awaited:
    """The callback of a task that is awaited. It calls the task's own callback."""

    def __call__(self, *args, **kwargs):
        try:
            result = None if self.callback is None else self.callback(*args, **kwargs)
        except Exception as error:
            if not awaited_notify(self, None, error):
                raise
        else:
            awaited_notify(self, result, None)

    def __del__(self):
        awaited_notify(self, None, None, True)


def future_settle(future, result, error, cancelled):
    """Set the result of a waiter's future, in the thread of its loop."""
    if future.done():
        # The waiter has been cancelled, so the loop's exception handler gets the error.
        if error is not None:
            context = {"message": "Exception in the callback of an awaited timer", "exception": error}
            future.get_loop().call_exception_handler(context)
    elif cancelled:
        future.cancel()
    elif error is None:
        future.set_result(result)
    else:
        try:
            future.set_exception(error)
        except TypeError:       # StopIteration, which no coroutine may raise
            wrapped = RuntimeError(f"the callback raised {type(error).__name__}")
            wrapped.__cause__ = error
            future.set_exception(wrapped)


cdef bint waiter_leave(list waiters, object waiter) except False:
    """Remove a waiter. Its own thread and the thread that notifies it may both do so."""
    try:
        waiters.remove(waiter)
    except ValueError:
        pass
    return True


cdef bint awaited_notify(Awaited self, object result, object error, bint cancelled=False) except -1:
    """Notify each waiter once. Return False if there was no waiter to notify."""
    cdef bint notified = False
    if not self.waiters:
        return False
    # A copy, because a coroutine that starts to wait now waits for the next run of a call_every. Each waiter leaves the list at
    # once, so that __del__ notifies the others if an interruption ends this loop.
    for waiter in self.waiters[:]:
        loop, future = waiter
        if not future.done():
            try:
                loop.call_soon_threadsafe(future_settle, future, result, error, cancelled)
                notified = True
            except RuntimeError:
                pass            # the loop is closed
        waiter_leave(self.waiters, waiter)
    return notified


cdef object task_unwrapped(object callback):
    """Return the task's own callback."""
    return (<Awaited>callback).callback if type(callback) is Awaited else callback


cdef bint task_notify(TimerTask self, object result, object error, bint cancelled=False) except -1:
    """Notify the waiters of a task whose Awaited was not called, and restore the task's own callback.

    Return False if there was no waiter to notify.
    """
    cdef object awaited
    with cython.critical_section(self):
        awaited = self.callback_
        if type(awaited) is Awaited:
            self.callback_ = (<Awaited>awaited).callback
    return type(awaited) is Awaited and awaited_notify(awaited, result, error, cancelled)


cdef list task_waiters(TimerTask self, object waiter):
    """Add a waiter to a task that has not begun to run. Return the list of its waiters."""
    cdef Awaited awaited = Awaited.__new__(Awaited)
    cdef list waiters = []
    cdef bint is_to_come
    awaited.waiters = waiters
    hw_share_reference_count(<PyObject*>awaited)    # a cancel in another thread frees it at once
    # No allocation inside the section: it could start the garbage collector, and a finalizer could change the task.
    with cython.critical_section(self):
        is_to_come = self.callback_ is not None or (
            not self.task.flags & TASK_HAD_CALLBACK and task_state(&self.task) in (TASK_NEW, TASK_PENDING))
        if type(self.callback_) is Awaited:
            waiters = (<Awaited>self.callback_).waiters
        elif is_to_come:
            awaited.callback = self.callback_
            callback_track(awaited.callback)
            self.callback_ = awaited
        if is_to_come:
            waiters.append(waiter)
    if not is_to_come:
        raise RuntimeError("the task has already begun to run and its result was not kept: await it before its deadline")
    return waiters


def task_wait(TimerTask task):
    """Implement `await task`."""
    import asyncio
    loop = asyncio.get_running_loop()
    if task_state(&task.task) == TASK_CANCELLED:
        raise asyncio.CancelledError
    future = loop.create_future()
    waiter = loop, future
    waiters = task_waiters(task, waiter)
    try:
        return (yield from future.__await__())
    finally:
        waiter_leave(waiters, waiter)
