# DelayQueueCore: what the DelayQueues of hwheel and of hwheel.asyncio have in common; and what threads wait in.


cdef class DelayQueueCore(ContainerCore):
    """The compiled part of a DelayQueue, which brings the timer."""

    @classmethod
    def __class_getitem__(cls, item):
        """For type checkers; this class itself is not generic."""
        return cls if cls is DelayQueueCore or cls is BlockingDelayQueueCore else types.GenericAlias(cls, item)

    def __dealloc__(self):
        container_disarm(self)
        if self.pending:
            wheel_empty(self.wheel, &self.due)
            while not list_is_empty(&self.due):
                line_unlink(self, entry_key(self.due.next))
        container_free(self)

    def _set_up(self, maxsize, timer, tuple errors not None):
        cdef int64_t most = integer_argument(maxsize, "maxsize")
        if len(errors) != 3:
            raise TypeError("errors must be three classes: the queue is empty, full, shut down")
        container_check_new(self)
        self.most = most if most > 0 else INT64_MAX
        self.errors = errors
        self.getters = []
        self.putters = []
        container_set_up(self, timer)

    # --- one item ------------------------------------------------------------------------------------------------

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def put_nowait(self, item, delay):
        """Puts an item in, to come out in `delay` seconds; zero or less: at once, behind what is due. Returns its key.

        Raises:
            The error of a full queue: there is no room for it now.
            The error of a queue that is shut down.
            TypeError, ValueError, OverflowError: delay is no number of seconds, not finite, or too large.
            TimerClosed: the timer is closed.

        Runtime complexity: O(1).
        """
        key = line_put(self, item, delay, None)
        if key is None:
            raise self.errors[1]()
        return key

    @cython.critical_section
    def get_nowait(self):
        """Takes out the first item that is due.

        Raises:
            The error of an empty queue: none is due now.
            The error of a queue that is shut down: and there is nothing left in it.

        Runtime complexity: O(1), and O(levels) for each item that fell due or moved down since the last look.
        """
        item = line_take(self, None)
        if item is NOT_THERE:
            raise self.errors[0]()
        return item

    @cython.critical_section
    def reset(self, DelayKey key not None, delay):
        """The item of the key now comes out in `delay` seconds, behind all others of its new time. False, and nothing
        happens, if it has left the queue.

        Raises as put_nowait().

        Runtime complexity: O(1).
        """
        cdef Instant length
        seconds_argument(delay, "delay", &length)
        return line_place(self, key, &length, False)

    @cython.critical_section
    def remove(self, DelayKey key not None):
        """Takes the item of a key out, due or not, and returns it.

        Raises:
            KeyError: it has left the queue, or was never in this one.

        Runtime complexity: O(1).
        """
        container_ready(self)
        if key.queue != <uintptr_t><void*>self:
            raise KeyError(key)
        item = line_unlink(self, key)
        line_tell(self)
        return item

    @cython.critical_section
    def peek(self):
        """The key of what comes out next, due or not; None: the queue is empty.

        Runtime complexity: O(1) if something is due, else O(the items that fall due within the same turn of the wheel).
        """
        cdef Instant now
        container_ready(self)
        timer_read_clock(self.timer.timer, &now)
        line_settle(self, &now)
        if not list_is_empty(&self.due):
            return entry_key(self.due.next)
        return None if self.pending == 0 else line_earliest(self)

    # --- all of them ---------------------------------------------------------------------------------------------

    @cython.critical_section
    def drain(self):
        """Takes everything out, due or not, and returns it as a list, in order. O(n)."""
        items = line_empty(self)
        line_tell(self)
        return items

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def shutdown(self, immediate=False):
        """Refuses items from now on. What is in the queue comes out at its time; then get() raises the error of a queue that
        is shut down, also where it waits. immediate: what is in it is dropped.
        """
        cdef bint at_once = bool(immediate)
        dropped = None
        container_ready(self)
        self.shut = True
        if at_once:
            dropped = line_empty(self)
            container_disarm(self)
        waiters_wake(self, self.putters, len(self.putters))
        waiters_wake(self, self.getters, len(self.getters))

    # --- looking -------------------------------------------------------------------------------------------------

    def __len__(self):
        container_ready(self)
        return hw_peek64(&self.pending)

    def __bool__(self):
        """True, also when it is empty."""
        return True

    def qsize(self):
        """How many items are in it, due or not. O(1)."""
        container_ready(self)
        return hw_peek64(&self.pending)

    def empty(self):
        """Whether nothing is in it. O(1)."""
        container_ready(self)
        return hw_peek64(&self.pending) == 0

    def full(self):
        """Whether there is room for no more. O(1)."""
        container_ready(self)
        return hw_peek64(&self.pending) >= self.most

    @property
    def maxsize(self):
        """How many items there may be; 0: any number."""
        container_ready(self)
        return 0 if self.most == INT64_MAX else self.most

    def __repr__(self):
        container_ready(self)
        return f"<{type(self).__name__}, {hw_peek64(&self.pending)} items>"

    # --- for hwheel.asyncio --------------------------------------------------------------------------------------

    @cython.critical_section
    def _put_or_wait(self, item, delay, waiter):
        """The key; None: there is no room, and waiter.release() will be called when there may be."""
        container_ready(self)
        return line_put(self, item, delay, waiter)

    @cython.critical_section
    def _get_or_wait(self, waiter):
        """The item; the waiter itself: nothing is due, and waiter.release() will be called when something may be."""
        container_ready(self)
        item = line_take(self, waiter)
        return waiter if item is NOT_THERE else item

    @cython.critical_section
    def _give_up(self, waiter):
        """The waiter does not wait any more."""
        container_ready(self)
        if not waiters_leave(self.getters, waiter) and not waiters_leave(self.putters, waiter):
            waiters_wake(self, self.getters, 1)
            waiters_wake(self, self.putters, 1)

    # --- for the alarm -------------------------------------------------------------------------------------------

    @cython.critical_section
    def _ring(self):
        line_ring(self)

    @cython.critical_section
    def _after_fork(self, bint keeps):
        self.getters = waiters_after_fork(self.getters)
        self.putters = waiters_after_fork(self.putters)
        if not keeps:
            line_empty(self)
            line_tell(self)


cdef bint wait_for(object waiter, object timeout, double give_up) except -1:
    """False: the time is over."""
    if timeout is None:
        return waiter.acquire()
    return waiter.acquire(True, min(max(0.0, give_up - time.monotonic()), threading.TIMEOUT_MAX))


cdef class BlockingDelayQueueCore(DelayQueueCore):
    """The compiled part of hwheel.DelayQueue: threads wait in it. (Compiled, because an interrupt between two lines of Python
    would lose the item that is in hand.)"""

    @cython.always_allow_keywords(True)
    def put(self, item, delay, block=True, timeout=None):
        """put_nowait(), but waits for room: as long as it takes, or `timeout` seconds, or not at all without `block`.

        Raises:
            queue.Full: there is no room for it, after that time.
            The others as put_nowait().
        """
        return self._wait(bool(block), timeout, True, item, delay)

    @cython.always_allow_keywords(True)
    def get(self, block=True, timeout=None):
        """get_nowait(), but waits for an item: as long as it takes, or `timeout` seconds, or not at all without `block`.

        Raises:
            queue.Empty: none is due, after that time.
            hwheel.types.ShutDown: the queue is shut down, and nothing is left in it.
            TimerClosed: there is nothing that could wake who waits.
        """
        return self._wait(bool(block), timeout, False, None, None)

    def _wait(self, bint block, timeout, bint puts, item, delay):
        cdef double give_up = 0
        cdef bint woken
        cdef list waiters
        timeout = check_timeout(timeout)
        container_ready(self)
        found = blocking_try(self, puts, item, delay, None)
        if found is NOT_THERE and block:
            if timeout is not None:
                give_up = time.monotonic() + timeout
            waiter = make_lock()
            waiter.acquire()
            while True:
                found = blocking_try(self, puts, item, delay, waiter)
                if found is not NOT_THERE:
                    return found
                try:
                    woken = wait_for(waiter, timeout, give_up)
                    # Of a signal that came after the wake-up, before this thread had its turn: else its handler would be called
                    # when this returns, and what that raises would take the item with it.
                    PyErr_CheckSignals()
                except:
                    with cython.critical_section(self):
                        line_give_up(self, self.putters if puts else self.getters, waiter)
                    raise
                if not woken:
                    with cython.critical_section(self):
                        waiters_leave(self.putters if puts else self.getters, waiter)
                    found = blocking_try(self, puts, item, delay, None)
                    break
        if found is NOT_THERE:
            raise self.errors[1 if puts else 0]()
        return found


cdef object blocking_try(DelayQueueCore self, bint puts, object item, object delay, object waiter):
    with cython.critical_section(self):
        if not puts:
            return line_take(self, waiter)
        key = line_put(self, item, delay, waiter)
    return NOT_THERE if key is None else key


# Cython's tp_clear would take away the timer and the lists, which all methods rely on. Nothing that a queue holds and the
# collector sees leads back to it, but a timer, which is broken up by itself.

cdef int line_break_cycles(PyObject* self) noexcept:
    return 0


hw_set_gc(<PyObject*>DelayQueueCore, (<PyTypeObject*>DelayQueueCore).tp_traverse, line_break_cycles)
hw_set_gc(<PyObject*>BlockingDelayQueueCore, (<PyTypeObject*>BlockingDelayQueueCore).tp_traverse, line_break_cycles)
