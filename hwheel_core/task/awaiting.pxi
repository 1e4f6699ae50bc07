# `await task`: a coroutine waits for a task of any timer, on any thread, and gets what its callback returns or raises.
#
# What nobody awaits should cost nothing for it. So it is not the task that knows who awaits it: an Awaited takes the place of
# its callback, calls that, and tells. A cancel releases the callback, whatever it is, and so the Awaited, which tells of that in
# its end. For that nothing else may hold on to it: who waits has the list of those who wait, and no more.


cdef class Awaited:
    """In the place of a callback."""

    def __call__(self, *args, **kwargs):
        try:
            result = None if self.callback is None else self.callback(*args, **kwargs)
        except Exception as error:
            if not awaited_tell(self, None, error):
                raise
            return None
        awaited_tell(self, result, None)

    def __del__(self):
        try:
            awaited_tell(self, None, None, True)
        except Exception:
            pass        # there is no memory to tell with


def future_settle(loop, future, result, error, cancelled):
    """In the loop's thread."""
    if future.done():
        # Whoever waited has been cancelled meanwhile: nobody else hears of it.
        if error is not None:
            loop.call_exception_handler({"message": "Exception in a timer's callback that was awaited", "exception": error})
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
    """In one step, because who tells and who waits may both be about to do it, in two threads."""
    try:
        waiters.remove(waiter)
    except ValueError:
        pass                    # the other one was faster
    return True


cdef bint awaited_tell(Awaited self, object result, object error, bint cancelled=False) except -1:
    """Tells all who wait, once. False: there is nobody who would hear it. In the child of a fork the loop is the parent's."""
    cdef bint told = False
    if not self.waiters:
        return False
    process = os.getpid()
    # Whoever comes while this tells the others waits for the next run of a call_every. Each leaves the list when he has been
    # told, so that after an interruption the end of this tells the rest.
    for waiter in self.waiters[:]:
        loop, future, waits_in = waiter
        if waits_in == process and not future.done():
            try:
                loop.call_soon_threadsafe(future_settle, loop, future, result, error, cancelled)
                told = True
            except RuntimeError:
                pass            # the loop is closed
        waiter_leave(self.waiters, waiter)
    return told


cdef object task_unwrapped(object callback):
    """The callback itself, where an Awaited may stand in its place."""
    return (<Awaited>callback).callback if type(callback) is Awaited else callback


cdef bint task_tell(TimerTask self, object result, object error, bint cancelled=False) except -1:
    """Of a task whose callback was not called: tells who awaits it, and puts the callback back in its place."""
    cdef object awaited
    with cython.critical_section(self):
        awaited = self.callback_
        if type(awaited) is Awaited:
            self.callback_ = (<Awaited>awaited).callback
    return type(awaited) is Awaited and awaited_tell(awaited, result, error, cancelled)


cdef list task_waiters(TimerTask self, object waiter):
    """The list of those who await the task, with one more, who is in it before a run can begin that would not find it there."""
    cdef Awaited awaited = Awaited.__new__(Awaited)
    cdef list waiters = []
    cdef bint is_to_come
    awaited.waiters = waiters
    with cython.critical_section(self):
        # Nothing is made here, because that may start the garbage collector, and with it anything.
        is_to_come = self.callback_ is not None or (
            not self.task.flags & TASK_HAD_CALLBACK and task_state(&self.task) in (TASK_NEW, TASK_PENDING))
        if type(self.callback_) is Awaited:
            waiters = (<Awaited>self.callback_).waiters
        elif is_to_come:
            awaited.callback = self.callback_
            self.callback_ = awaited
        if is_to_come:
            waiters.append(waiter)
    if not is_to_come:
        raise RuntimeError("the task has begun already, and what it returns is not kept: await it before it is due")
    return waiters


def task_wait(TimerTask task):
    """What `await task` goes through."""
    import asyncio
    loop = asyncio.get_running_loop()
    if task_state(&task.task) == TASK_CANCELLED:
        raise asyncio.CancelledError
    future = loop.create_future()
    waiter = loop, future, os.getpid()
    waiters = task_waiters(task, waiter)
    try:
        return (yield from future.__await__())
    finally:
        waiter_leave(waiters, waiter)
