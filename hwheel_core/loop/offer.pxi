# Where somebody watches what a loop calls, each callback is a call of the loop itself instead of one of many in a pass:
# in asyncio's debug mode, which measures each call, and where a program has put something else in the place of
# asyncio.Handle._run. What is reported as slow is then the callback, once, under its own name.
#
# The loop may lose such a call, or get it twice, if it is interrupted. So a handle stays the wheel's until it is called
# (in the list `offered`), and it is called once, whoever comes first. A handle that is moved in the meantime is not
# called: what the loop was asked for then comes to nothing. A call that has not come for so long that it must have been
# lost is asked for again.


cdef void handle_move_between(LoopTimers self, LoopHandle handle, Entry* target, bint to_front) noexcept:
    lock_with_gil(self.timer)
    wheel_remove(&self.timer.wheel, &handle.task.entry)
    if to_front:
        list_push(target, &handle.task.entry)
    else:
        list_append(target, &handle.task.entry)
    lock_release(self.timer)


cdef void timers_withdraw(LoopTimers self) noexcept:
    """Takes back what the loop was asked for, to be asked for again, or run."""
    lock_with_gil(self.timer)
    list_move_to_end(&self.running, &self.offered)      # what was offered stands first
    list_move_to_end(&self.offered, &self.running)
    lock_release(self.timer)


cdef class LoopCall:
    """What the loop is given to call. To whoever looks at it, it is the callback."""

    def __call__(self, *args):
        if self.handle.offered:
            handle_run_once(self.handle, False)

    def __getattr__(self, name):
        if name == "__wrapped__":
            return getattr(self.callback, name, self.callback)
        return getattr(self.callback, name)

    def __repr__(self):
        return repr(self.callback)

    @property
    def __class__(self):
        return self.callback.__class__


cdef bint timers_offer(LoopTimers self) except False:
    """As timers_run, through the loop."""
    cdef LoopHandle handle
    cdef LoopCall call
    cdef int left = RUN_LIMIT
    self.offered_s = self.pass_s
    while left and timers_keep_alarm(self):
        left -= 1
        handle = entry_handle(self.running.next)
        call = LoopCall.__new__(LoopCall)
        call.handle = handle
        call.callback = handle.callback_
        handle.offered = True
        handle_move_between(self, handle, &self.offered, False)
        try:
            asked = self.base.call_soon(call, *handle.arguments, context=handle.context)
        except:
            if task_state(&handle.task) == TASK_PENDING:
                handle_move_between(self, handle, &self.running, True)
            raise
        self._name(asked, handle)
    return True
