# TimerBatch: a batch as Python sees it, and how its expired timers leave it.


cdef class TimerBatch:
    """Many timers that share one callback, created by `BaseTimer.call_many`.

    Each timer is known by its index in the array of delays and has no Python object. `len(batch)` is the number of timers ever
    added, `batch.pending` the number that are still to run, and `extend()` adds more.

    The callback receives an `array("q")` with the indices of all timers of the batch that have expired, in order. Among
    other timers, this call runs at the position of its first index.

    Thread-safe: any thread may call any method, also inside callbacks.

    Example:
        >>> from array import array
        >>> from hwheel import ManualTimer
        >>> timer = ManualTimer()
        >>> batch = timer.call_many(array("q", [30, 10, 20, 10]), lambda indices: print(list(indices)))
        >>> batch.cancel(array("q", [2]))
        1
        >>> timer.advance(0.03)
        [1, 3]
        [0]
    """

    def __cinit__(self):
        self.batch = batch_new()        # NULL only while an object that failed here is deallocated
        if self.batch is NULL:
            raise MemoryError
        debug_count(LIVE_BATCHES, 1)

    def __init__(self):
        raise TypeError("call_many() creates TimerBatch objects")

    def __dealloc__(self):
        cdef void* blocks = NULL
        if self.batch is not NULL:
            batch_leave_parts(self.batch, &blocks)
            blocks_free(blocks)
            if self.batch.timer is not NULL:
                timer_release(self.batch.timer)
            PyMem_RawFree(self.batch)
            debug_count(LIVE_BATCHES, -1)

    def __len__(self):
        return hw_peek64(&self.batch.length)

    @property
    def pending(self):
        """The number of timers that have neither run nor been cancelled. After close(): the number returned."""
        cdef int64_t pending
        with cython.critical_section(self):
            pending = hw_peek64(&self.batch.pending) if self.remaining is None else len(self.remaining)
        return pending

    @property
    def callback(self):
        """The callback, or None if no timer is pending. A batch that close() returned keeps it."""
        return batch_callback(self)

    def indices(self):
        """Return the indices of the pending timers as an `array("q")`.

        Before close(), the indices are ascending. After close(), they are those of the returned timers, in order of deadline.

        O(n) in the length of the batch, from its first pending timer on. Adds to the timer wait during the call. Thread-safe.

        Example:
            >>> from array import array
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> batch = timer.call_many(array("q", [10, 20, 30]), print)
            >>> batch.cancel([1])
            1
            >>> list(batch.indices())
            [0, 2]
        """
        cdef array.array found
        cdef int64_t capacity, count
        with cython.critical_section(self):
            if self.remaining is not None:
                return array.copy(self.remaining)
        while True:
            capacity = hw_peek64(&self.batch.pending) if self.batch.timer is not NULL else 0
            found = array.clone(INT64_ARRAY, capacity, False)
            if capacity == 0:
                return found
            with nogil:
                count = batch_list(self.batch, <int64_t*>found.data.as_longlongs, capacity)
            if count >= 0:
                array.resize(found, count)
                return found

    def cancel(self, indices=None):
        """Cancel timers by index.

        Args:
            indices: A one-dimensional buffer of int64 (NumPy, Arrow, `array("q")`) or any iterable of int. None: all timers.

        Returns:
            The number of timers that this call kept from running.

        Raises:
            TypeError: `indices` is neither a buffer of int64 nor an iterable of int.
            IndexError: An index is negative or not less than `len(batch)`. No timer was cancelled.

        O(1) per index. Releases the GIL. Thread-safe.

        Example:
            >>> from array import array
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> batch = timer.call_many(array("q", [10, 20, 30]), print)
            >>> batch.cancel([0, 1]), batch.cancel([0]), batch.cancel()
            (2, 0, 1)
        """
        cdef Int64Buffer buffer = None if indices is None else timer_batch_indices(self, indices)
        cdef Indices named = timer_batch_named(self, buffer)
        cdef BatchRelease release = BatchRelease(NULL, False)
        cdef int64_t cancelled = 0
        if self.batch.timer is NULL or named.count == 0:
            return 0
        with nogil:
            cancelled = batch_cancel(self.batch, named, &release)
        timer_batch_release(self, &release)
        return cancelled

    def reschedule(self, indices, delays_ms):
        """Move pending timers, each to its delay from now.

        This includes timers that have expired but have not run yet. In its new tick a moved timer runs after all other timers
        of the batch. If an index appears twice, the last delay counts, and the timer is counted twice.

        Args:
            indices: As for `cancel`.
            delays_ms: Milliseconds: one int for all, or a one-dimensional buffer of int64 with a delay for each index.

        Returns:
            The number of timers moved.

        Raises:
            TypeError: `indices` or `delays_ms` has another type.
            ValueError: `delays_ms` and `indices` differ in length.
            IndexError: An index is negative or not less than `len(batch)`.
            OverflowError: A deadline does not fit into 64 bits.

        After an error no timer was moved. O(1) per index. Releases the GIL. Thread-safe.

        Example:
            >>> from array import array
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> idle = timer.call_many(array("q", [30, 30, 30]), lambda indices: print("idle:", list(indices)))
            >>> timer.advance(0.02)
            >>> idle.reschedule(array("q", [0, 2]), 30)
            2
            >>> timer.advance(0.03)
            idle: [1]
            idle: [0, 2]
        """
        cdef Int64Buffer buffer = None if indices is None else timer_batch_indices(self, indices)
        cdef Indices named = timer_batch_named(self, buffer)
        cdef Int64Buffer delays_buffer
        cdef Delays delays
        cdef int64_t delay_ms
        if is_one_number(delays_ms):
            delay_ms = milliseconds_argument(delays_ms, "delays_ms")
            delays = Delays(<const char*>&delay_ms, 0, 1)
        else:
            delays_buffer = int64_buffer(delays_ms, "delays_ms")
            if delays_buffer.count != named.count:
                raise ValueError(f"delays_ms must have {named.count:,} items, one for each index, got {delays_buffer.count:,}")
            delays = delays_of(delays_buffer)
        if hw_peek64(&self.batch.pending) == 0 or named.count == 0:
            return 0
        return timer_batch_reschedule(self, named, delays)

    def extend(self, delays_ms, callback=None):
        """Add a timer for each delay from now, as `call_many` does.

        In their ticks the new timers run after the timers added before, and one call of the callback still serves the whole
        batch. The memory of a batch depends on its pending timers only.

        A batch releases its callback when its last timer has run or is cancelled, and `extend` then needs it again. If you
        cannot know whether anything is pending, for example inside the batch's own callback, always pass the callback.

        Args:
            delays_ms: Milliseconds, a one-dimensional buffer of int64.
            callback: The batch's callback. May be omitted while a timer is pending.

        Returns:
            The range of the new timers' indices, which begins at `len(batch)`.

        Raises:
            TypeError: `delays_ms` or `callback` has another type.
            ValueError: The callback is needed, or is not the batch's own.
            OverflowError: A deadline does not fit into 64 bits.
            TimerFull: The timer has no room for all of them.
            TimerClosed: The timer is closed or no longer exists.

        After an error no timer was added. O(1) per delay. Releases the GIL. Thread-safe.

        Example:
            >>> from array import array
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> idle = timer.call_many(array("q", [30, 30]), lambda indices: print("idle:", list(indices)))
            >>> timer.advance(0.02)
            >>> idle.extend(array("q", [10, 30]))
            range(2, 4)
            >>> timer.advance(0.03)
            idle: [0, 1, 2]
            idle: [3]
        """
        return timer_batch_extend(self, delays_ms, callback)

    def __repr__(self):
        return f"<TimerBatch of {len(self)}, {self.pending} pending>"


# --- handing out -------------------------------------------------------------------------------------------------


cdef array.array timer_batch_array(TimerBatch self, array.array before):
    """Return an array with the items of `before` and room for the expired timers of a batch whose head was taken.

    If there is no memory, the batch is put back.
    """
    cdef array.array target
    cdef int64_t limit, count = 0 if before is None else len(before)
    lock_with_gil(self.batch.timer)
    limit = self.batch.due_end - self.batch.due_begin
    lock_release(self.batch.timer)
    try:
        target = array.clone(INT64_ARRAY, count + limit, False)
    except:
        timer_batch_put_back(self)
        raise
    if count:
        memcpy(target.data.as_longlongs, before.data.as_longlongs, count * sizeof(int64_t))
    return target


cdef bint timer_batch_put_back(TimerBatch self) except False:
    """Undo timer_take_locked: the batch is the next to be taken again."""
    cdef BatchRelease release = BatchRelease(NULL, False)
    lock_with_gil(self.batch.timer)
    batch_put_back_locked(self.batch, &release)
    lock_release(self.batch.timer)
    return timer_batch_release(self, &release)


cdef bint array_shorten(array.array numbers, int64_t count) except False:
    """Shorten an array. This never fails: without memory for a smaller block, the array keeps the large one."""
    if count == len(numbers):
        return True
    try:
        array.resize(numbers, count)
    except MemoryError:
        hw_set_size(<PyObject*>numbers, count)
    return True


cdef array.array timer_batch_take(TimerBatch self, array.array target, const Instant* now):
    """Take the expired timers of a batch whose head was taken, as far as there is room."""
    cdef int64_t taken, limit = len(target)
    cdef BatchRelease release = BatchRelease(NULL, False)
    with nogil:
        taken = batch_take(self.batch, <int64_t*>target.data.as_longlongs, limit, now, &release)
    timer_batch_release(self, &release)
    array_shorten(target, taken)
    return target


# --- close() -----------------------------------------------------------------------------------------------------


cdef bint timer_batch_keep(TimerBatch self, array.array indices) except -1:
    """Add indices to those that close() returns for a batch. Return True for the first ones: close() lists a batch once."""
    with cython.critical_section(self):
        if self.remaining is None:
            self.remaining = indices
            return True
        array.extend(self.remaining, indices)
    return False


cdef bint timer_batch_return(TimerBatch self, list returned) except False:
    """Move the taken timers of a batch to `remaining`. List the batch in `returned` once; the list has room."""
    cdef array.array before = self.remaining
    cdef array.array indices = timer_batch_array(self, before)
    cdef object callback = batch_callback(self)     # a returned batch keeps it
    cdef int64_t count = 0 if before is None else len(before)
    cdef int64_t taken, limit = len(indices) - count
    cdef BatchRelease release = BatchRelease(NULL, False)
    with nogil:
        taken = batch_take(self.batch, <int64_t*>indices.data.as_longlongs + count, limit, NULL, &release)
    lock_with_gil(self.batch.timer)
    batch_returned_locked(self.batch, &release)
    lock_release(self.batch.timer)
    # From here on, only `indices` has the timers. The GIL stays held until `remaining` has them, because another thread
    # might fork.
    array_shorten(indices, count + taken)
    if taken:
        with cython.critical_section(self):
            self.remaining = indices
            self.callback_ = callback
        if before is None:
            list_fill(returned, self)
    timer_batch_release(self, &release)
    return True


hw_set_name(<PyObject*>TimerBatch, "hwheel.TimerBatch")     # see timer_task.pxi
