# DelayKey, DelayQueueCore (the common base of the DelayQueues for threads and for coroutines), and BlockingDelayQueueCore.


@cython.freelist(64)
@cython.no_gc               # the collector does not see pending items: see structs.pxd
cdef class DelayKey:
    """The key of an item in a DelayQueue, as returned by ``put()``; for ``reset()`` and ``remove()``. Compared by identity."""

    @classmethod
    def __class_getitem__(cls, item):
        """Return a generic alias, for type checkers."""
        return types.GenericAlias(cls, item)

    def __init__(self, *args, **kwargs):
        raise TypeError("DelayKey objects are created by put()")

    @property
    def item(self):
        """The item; None once it has left the queue."""
        return key_item(self, False)

    @property
    def deadline(self):
        """The deadline of the item, in seconds on the clock of the queue's timer."""
        return hw_peek64(&self.deadline_ms) / 1000.0

    def remaining(self):
        """Return the seconds until the deadline; 0.0 if it has passed or the item has left the queue.

        Example:
            >>> from hwheel import DelayQueue, ManualTimer
            >>> timer = ManualTimer()
            >>> queue = DelayQueue(timer=timer)
            >>> key = queue.put("send", 5)
            >>> timer.advance(2)
            >>> key.remaining()
            3.0
        """
        cdef Instant now
        if hw_load(&self.queue) == 0:
            return 0.0
        timer_read_clock(self.timer.timer, &now)
        return max(0.0, hw_peek64(&self.deadline_ms) / 1000.0 - (now.ms / 1000.0 + now.ns / 1e9))

    @property
    def pending(self):
        """True while the item is in the queue, due or not."""
        return hw_load(&self.queue) != 0

    def __repr__(self):
        return f"<{type(self).__name__} {'pending' if self.pending else 'out'}, deadline {self.deadline} s>"


cdef DelayKey sample_key = DelayKey.__new__(DelayKey)
key_entry_offset = <char*>&sample_key.entry - <char*><PyObject*>sample_key
sample_key = None

hw_set_name(<PyObject*>DelayKey, "hwheel.types.DelayKey")


cdef class DelayQueueCore(ContainerCore):
    """The compiled base class of the DelayQueues, which add the default timer."""

    @classmethod
    def __class_getitem__(cls, item):
        """Return a generic alias for subclasses; this class itself is not generic."""
        return cls if cls is DelayQueueCore or cls is BlockingDelayQueueCore else types.GenericAlias(cls, item)

    def __dealloc__(self):
        cdef Turn turn
        container_disarm(self)
        if self.pending:
            with nogil:
                wheel_drain(self.wheel, &self.due)
            turn_begin(&turn)
            while not list_is_empty(&self.due):
                items_unlink(self, entry_key(self.due.next))
                turn_step(&turn)
        container_free(self)

    def _set_up(self, maxsize, timer, tuple errors not None):
        cdef int64_t max_entries = integer_argument(maxsize, "maxsize")
        if len(errors) != 3:
            raise TypeError("errors must be three exception classes: for an empty queue, a full one, and one that is shut down")
        container_check_new(self)
        self.max_entries = max_entries if max_entries > 0 else INT64_MAX
        self.errors = errors
        self.getters = Line.__new__(Line)
        self.putters = Line.__new__(Line)
        self.joiners = Line.__new__(Line)
        container_set_up(self, timer)

    # --- one item ------------------------------------------------------------------------------------------------

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def put_nowait(self, item, delay=0):
        """Add an item that becomes available after ``delay`` seconds.

        Args:
            item: Any object.
            delay: Seconds from now. Zero, the default, or less: at once, behind the items that are due already.

        Returns:
            The item's key, for ``reset()`` and ``remove()``.

        Raises:
            queue.Full: The queue has no room. In hwheel.asyncio: asyncio.QueueFull.
            hwheel.types.ShutDown: The queue is shut down. In hwheel.asyncio: QueueShutDown.
            TypeError: ``delay`` is not a number.
            ValueError: ``delay`` is not finite.
            OverflowError: ``delay`` is too large.
            TimerClosed: The timer is closed.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import DelayQueue, ManualTimer
            >>> timer = ManualTimer()
            >>> queue = DelayQueue(timer=timer)
            >>> key = queue.put_nowait("send", 5)
            >>> key.item, key.deadline
            ('send', 5.0)
        """
        key = items_put(self, item, delay, None, False)
        if key is None:
            raise self.errors[QUEUE_FULL]()
        return key

    @cython.critical_section
    def get_nowait(self):
        """Remove and return the first due item.

        Raises:
            queue.Empty: No item is due. In hwheel.asyncio: asyncio.QueueEmpty.
            hwheel.types.ShutDown: The queue is shut down and empty. In hwheel.asyncio: QueueShutDown.

        O(1), plus O(levels) for each item that moved since the last call. Thread-safe.

        Example:
            >>> from hwheel import DelayQueue, ManualTimer
            >>> timer = ManualTimer()
            >>> queue = DelayQueue(timer=timer)
            >>> key = queue.put("send", 5)
            >>> timer.advance(5)
            >>> queue.get_nowait()
            'send'
        """
        item = items_take(self, None, False)
        if item is NOT_THERE:
            raise self.errors[QUEUE_EMPTY]()
        return item

    @cython.critical_section
    def reset(self, DelayKey key not None, delay):
        """Give an item a new deadline, behind all other items of that deadline.

        Args:
            key: The key that ``put()`` returned.
            delay: Seconds from now.

        Returns:
            False if the item has left the queue; then nothing changes.

        Raises:
            TypeError, ValueError, OverflowError, TimerClosed: As in ``put_nowait()``.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import DelayQueue, ManualTimer
            >>> timer = ManualTimer()
            >>> queue = DelayQueue(timer=timer)
            >>> key = queue.put("send", 5)
            >>> queue.reset(key, 60), key.deadline
            (True, 60.0)
        """
        cdef Instant length
        seconds_argument(delay, "delay", &length)
        return items_place(self, key, &length, False)

    @cython.critical_section
    def remove(self, DelayKey key not None):
        """Remove the item of a key, due or not, and return it.

        Raises:
            KeyError: The item has left the queue, or was never in this one.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import DelayQueue, ManualTimer
            >>> timer = ManualTimer()
            >>> queue = DelayQueue(timer=timer)
            >>> key = queue.put("send", 5)
            >>> queue.remove(key), len(queue)
            ('send', 0)
        """
        container_enter(self)
        if key.queue != <uintptr_t><void*>self:
            raise KeyError(key)
        item = items_unlink(self, key)
        lines_serve_after_removal(self)
        return item

    @cython.critical_section
    def peek(self):
        """Return the key of the next item, due or not; None if the queue is empty.

        The result may miss an item that another thread puts or moves during the call. O(1) if an item is due; otherwise
        O(items of the earliest bucket). Thread-safe.

        Example:
            >>> from hwheel import DelayQueue, ManualTimer
            >>> timer = ManualTimer()
            >>> queue = DelayQueue(timer=timer)
            >>> key = queue.put("send", 5)
            >>> queue.peek() is key
            True
        """
        return items_peek(self)

    @cython.critical_section
    def task_done(self):
        """Confirm that an item which ``get()`` has returned is done, for ``join()``.

        Raises:
            ValueError: All items that ``get()`` has returned are confirmed already.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import DelayQueue, ManualTimer
            >>> queue = DelayQueue(timer=ManualTimer())
            >>> key = queue.put("send")
            >>> queue.get()
            'send'
            >>> queue.task_done()
            >>> queue.join()
        """
        container_enter(self)
        if self.taken == 0:
            raise ValueError("task_done() was called more often than get() has returned an item")
        self.taken -= 1
        lines_serve_after_removal(self)

    # --- all items -----------------------------------------------------------------------------------------------

    @cython.critical_section
    def drain(self):
        """Remove all items, due or not, and return them as a list in order.

        Other threads run in between. Items that they put during the call stay in the queue. O(n). Thread-safe.

        Example:
            >>> from hwheel import DelayQueue, ManualTimer
            >>> timer = ManualTimer()
            >>> queue = DelayQueue(timer=timer)
            >>> for delay in 5, 2:
            ...     key = queue.put(f"{delay} s", delay)
            >>> queue.drain()
            ['2 s', '5 s']
        """
        items = items_drain(self)
        lines_serve_after_removal(self)
        return items

    @cython.always_allow_keywords(True)
    @cython.critical_section
    def shutdown(self, immediate=False):
        """Refuse further items.

        The remaining items are still delivered at their deadlines. Then ``get()`` raises the error of a queue that is
        shut down, also in callers that are waiting.

        Args:
            immediate: Drop the remaining items.

        Thread-safe.

        Example:
            >>> from hwheel import DelayQueue, ManualTimer
            >>> timer = ManualTimer()
            >>> queue = DelayQueue(timer=timer)
            >>> key = queue.put("send", 5)
            >>> queue.shutdown()
            >>> timer.advance(5)
            >>> queue.get()
            'send'
        """
        cdef bint at_once = bool(immediate)
        container_enter(self)
        self.shut = True
        if at_once:
            items_drop(self)
            container_disarm(self)
        lines_serve_after_removal(self)

    def __enter__(self):
        container_enter(self)
        return self

    def __exit__(self, *exc_info):
        self.shutdown()

    # --- size ----------------------------------------------------------------------------------------------------

    def __len__(self):
        container_enter(self)
        return hw_peek64(&self.pending)

    def __bool__(self):
        """Return True, even for an empty queue."""
        return True

    def qsize(self):
        """Return the number of items, due or not. O(1).

        Example:
            >>> from hwheel import DelayQueue, ManualTimer
            >>> timer = ManualTimer()
            >>> queue = DelayQueue(timer=timer)
            >>> key = queue.put("send", 5)
            >>> queue.qsize()
            1
        """
        container_enter(self)
        return hw_peek64(&self.pending)

    def empty(self):
        """Return True if the queue holds no items. O(1).

        Example:
            >>> from hwheel import DelayQueue, ManualTimer
            >>> timer = ManualTimer()
            >>> queue = DelayQueue(timer=timer)
            >>> queue.empty()
            True
        """
        container_enter(self)
        return hw_peek64(&self.pending) == 0

    def full(self):
        """Return True if the queue has no room. O(1).

        Example:
            >>> from hwheel import DelayQueue, ManualTimer
            >>> timer = ManualTimer()
            >>> queue = DelayQueue(timer=timer)
            >>> queue.full()
            False
        """
        container_enter(self)
        return hw_peek64(&self.pending) >= self.max_entries

    @property
    def maxsize(self):
        """The maximum number of items; 0: unlimited."""
        container_enter(self)
        return 0 if self.max_entries == INT64_MAX else self.max_entries

    def __repr__(self):
        container_enter(self)
        count = hw_peek64(&self.pending)
        return f"<{type(self).__name__}, {count} item{'' if count == 1 else 's'}>"

    # --- for hwheel.asyncio --------------------------------------------------------------------------------------

    @cython.critical_section
    def _put_or_wait(self, item, delay, waiter, bint is_back=False):
        """Add an item and return its key, or return None. Then wait for waiter.release(), and call this again with is_back."""
        container_enter(self)
        return items_put(self, item, delay, waiter, is_back)

    @cython.critical_section
    def _get_or_wait(self, waiter, bint is_back=False):
        """Return the first due item, or the waiter. Then wait for waiter.release(), and call this again with is_back."""
        container_enter(self)
        item = items_take(self, waiter, is_back)
        return waiter if item is NOT_THERE else item

    @cython.critical_section
    def _join_or_wait(self, waiter):
        """Return True if all items are done. Otherwise return False, and call waiter.release() once they are."""
        container_enter(self)
        if self.pending == 0 and self.taken == 0:
            return True
        self.joiners.waiting.append(waiter)
        return False

    @cython.critical_section
    def _give_up(self, waiter, int purpose):
        """Remove a waiter that stops waiting, and serve the next one. purpose: 0 for items, 1 for room, 2 for the end."""
        container_enter(self)
        waiter_give_up(self, waiter, purpose)

    # --- hooks of ContainerCore ----------------------------------------------------------------------------------

    @cython.critical_section
    def _on_alarm(self):
        items_on_alarm(self)

    @cython.critical_section
    def _after_fork(self, bint keeps):
        self.getters = Line.__new__(Line)       # the threads that waited in the old lines do not exist in the child
        self.putters = Line.__new__(Line)
        self.joiners = Line.__new__(Line)
        self.taken = 0
        if not keeps:
            items_drop(self)
        container_check_wheel(self, &self.pending)      # counts again: a thread of the parent may have been draining items


cdef bint waiter_wait(object waiter, object timeout, double end_s) except -1:
    """Wait for a waiter's release. Return False on a timeout."""
    if timeout is None:
        return waiter.acquire()
    return waiter.acquire(True, min(max(0.0, end_s - time.monotonic()), threading.TIMEOUT_MAX))


cdef class BlockingDelayQueueCore(DelayQueueCore):
    """The compiled base class of hwheel.DelayQueue, in which threads wait.

    Compiled, because an interrupt between two lines of Python could lose an item that has been removed.
    """

    @cython.always_allow_keywords(True)
    def put(self, item, delay=0, block=True, timeout=None):
        """Wait for room if the queue is full, then add an item.

        Args:
            item: Any object.
            delay: Seconds until the item becomes available. Default: at once.
            block: Wait for room.
            timeout: The longest wait in seconds; None: no limit.

        Returns:
            The item's key, for ``reset()`` and ``remove()``.

        Raises:
            queue.Full: The queue still has no room.
            Exception: As in ``put_nowait()``.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import DelayQueue, ManualTimer
            >>> timer = ManualTimer()
            >>> queue = DelayQueue(timer=timer)
            >>> key = queue.put("send", 5)
            >>> key.remaining()
            5.0
        """
        return self._wait(bool(block), timeout, True, item, delay)

    @cython.always_allow_keywords(True)
    def get(self, block=True, timeout=None):
        """Wait until an item is due, then remove and return it.

        Args:
            block: Wait for a due item.
            timeout: The longest wait in seconds; None: no limit.

        Raises:
            queue.Empty: No item is due, also after the wait.
            hwheel.types.ShutDown: The queue is shut down and empty.
            TimerClosed: The timer is closed, so it could not wake a waiting thread.

        O(1), plus O(levels) for each item that moved since the last call. Thread-safe.

        Example:
            >>> from hwheel import DelayQueue, ManualTimer
            >>> timer = ManualTimer()
            >>> queue = DelayQueue(timer=timer)
            >>> key = queue.put("send", 5)
            >>> timer.advance(5)
            >>> queue.get()
            'send'
        """
        return self._wait(bool(block), timeout, False, None, None)

    def join(self):
        """Wait until the queue is empty and ``task_done()`` was called for each item that ``get()`` has returned.

        Items that ``remove()``, ``drain()``, or ``shutdown(True)`` has removed are done.

        Example:
            >>> from hwheel import DelayQueue, ManualTimer
            >>> queue = DelayQueue(timer=ManualTimer())
            >>> queue.remove(queue.put("send", 5))
            'send'
            >>> queue.join()
        """
        waiter = make_lock()
        waiter.acquire()
        if not self._join_or_wait(waiter):
            blocking_wait(self, FOR_THE_END, waiter, None, 0)

    def _wait(self, bint block, timeout, bint puts, item, delay):
        cdef double end_s = 0
        cdef bint is_back = False
        timeout = check_timeout(timeout)
        container_enter(self)
        found = NOT_THERE
        if not block or line_is_idle(self.putters if puts else self.getters):
            found = blocking_try(self, puts, item, delay, None, False)
        if found is NOT_THERE and block:
            if timeout is not None:
                end_s = time.monotonic() + timeout
            waiter = make_lock()
            waiter.acquire()
            while True:
                found = blocking_try(self, puts, item, delay, waiter, is_back)
                if found is not NOT_THERE:
                    return found
                if not blocking_wait(self, FOR_ROOM if puts else FOR_ITEMS, waiter, timeout, end_s):
                    found = blocking_try(self, puts, item, delay, None, False)
                    break
                is_back = True
        if found is NOT_THERE:
            raise self.errors[QUEUE_FULL if puts else QUEUE_EMPTY]()
        return found


cdef object blocking_try(DelayQueueCore self, bint puts, object item, object delay, object waiter, bint is_back):
    with cython.critical_section(self):
        if not puts:
            return items_take(self, waiter, is_back)
        key = items_put(self, item, delay, waiter, is_back)
    return NOT_THERE if key is None else key


cdef bint blocking_wait(DelayQueueCore self, int purpose, object waiter, object timeout, double end_s) except -1:
    """Wait until the waiter is called. Return False on a timeout; it has then left its line."""
    cdef bint called
    try:
        called = waiter_wait(waiter, timeout, end_s)
        # A signal may have arrived after the wake-up. Its handler must run now: if it ran after get() returns, its exception
        # would lose the item.
        PyErr_CheckSignals()
    except:
        with cython.critical_section(self):
            waiter_give_up(self, waiter, purpose)
        raise
    if not called:
        with cython.critical_section(self):
            waiter_give_up(self, waiter, purpose)
    return called


# Cython's tp_clear would also clear the timer and the lines, which every method needs. Nothing visible to the collector leads
# from a queue back to it, except a timer, which clears itself.

cdef int delay_queue_break_cycles(PyObject* self) noexcept:
    return 0


hw_set_gc(<PyObject*>DelayQueueCore, (<PyTypeObject*>DelayQueueCore).tp_traverse, delay_queue_break_cycles)
hw_set_gc(<PyObject*>BlockingDelayQueueCore, (<PyTypeObject*>BlockingDelayQueueCore).tp_traverse, delay_queue_break_cycles)
