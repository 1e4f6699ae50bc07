# TimerBatch: what `call_many` returns, and the way of its buffers in and out.

cdef array.array INT64 = array.array("q")
cdef array.array INT8 = array.array("b")


cdef class TimerBatch:
    """What `call_many` returns: many timers that share one callback, each known by its index in the array of delays.

    `len(batch)` is how many there were at first, `batch.pending` how many are still to come.

    Thread-safety: every method may be called from any thread, also inside callbacks.

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
        self.batch = batch_new(0)       # never NULL; timer_batch_add puts the real one in its place
        if self.batch is NULL:
            raise MemoryError
        debug_count(LIVE_BATCHES, 1)

    def __init__(self):
        raise TypeError("a TimerBatch is made by call_many()")

    def __dealloc__(self):
        if self.batch is not NULL:
            block_free(self.batch.entries)
            if self.batch.timer is not NULL:
                timer_release(self.batch.timer)
            PyMem_RawFree(self.batch)
            debug_count(LIVE_BATCHES, -1)

    def __len__(self):
        return self.batch.length

    @property
    def pending(self):
        """How many have neither run nor been cancelled. After close(): how many it gave back."""
        cdef int64_t pending
        with cython.critical_section(self):
            pending = hw_peek64(&self.batch.pending) if self.remaining is None else len(self.remaining)
        return pending

    @property
    def callback(self):
        """The callback; None once nothing is pending any more. What close() gave back keeps it."""
        return batch_callback(self)

    def indices(self):
        """The indices of what is pending (after close(): of what it gave back), as an `array.array("q")`.

        Ascending while the timer runs; in order of their time after close().

        Runtime complexity: O(n) in the length of the batch; adds wait for it.
        """
        cdef array.array found
        cdef int64_t count = 0, i
        with cython.critical_section(self):
            if self.remaining is not None:
                return array.copy(self.remaining)
        found = array.clone(INT64, self.batch.length, False)
        if self.batch.timer is NULL:
            return found
        with nogil:
            batch_lock(self.batch)
            if self.batch.pending:
                for i in range(self.batch.length):
                    if batch_is_pending(self.batch, &self.batch.entries[i]):
                        found.data.as_longlongs[count] = i
                        count += 1
            lock_release(self.batch.timer)
        array.resize(found, count)
        return found

    def cancel(self, indices=None):
        """Cancels the timers with these indices; None: all. Returns how many it kept from running.

        Arguments:
            indices: a one-dimensional buffer of int64 (NumPy, Arrow, array.array), or any iterable of int.
        Raises:
            TypeError: it is neither.
            IndexError: an index is negative or not below len(batch); then nothing is cancelled.

        Runtime complexity: O(1) an index. The GIL is released.
        """
        cdef Int64Buffer buffer = None if indices is None else timer_batch_indices(self, indices)
        cdef const int64_t* chosen = NULL if buffer is None else <const int64_t*>buffer.data
        cdef int64_t count = self.batch.length if buffer is None else buffer.count
        cdef int64_t cancelled = 0
        cdef void* block = NULL
        cdef bint finished = False
        if self.batch.timer is NULL or count == 0:
            return 0
        with nogil:
            cancelled = batch_cancel(self.batch, chosen, count, &block, &finished)
            block_free(block)
        if finished:
            batch_set_callback(self, None)
            Py_DECREF(self)             # the timer's reference, of timer_batch_add
        return cancelled

    def reschedule(self, indices, delays_ms):
        """Moves the timers with these indices (None: all), each to its delay from now. Returns how many it moved.

        What is pending is moved, also if it has fallen due and waits for its executor. In its new tick it
        comes behind all others of the batch. Of an index that is named twice the last delay counts, and it is moved twice.

        Arguments:
            indices: as in `cancel`.
            delays_ms: milliseconds: one int for all, or a one-dimensional buffer of int64, one for each index.
        Raises:
            TypeError: indices or delays_ms is neither.
            ValueError: delays_ms is not as long as indices.
            IndexError: an index is negative or not below len(batch).
            OverflowError: a deadline does not fit into 64 bits. In all these cases nothing is moved.

        Runtime complexity: O(1) an index. The GIL is released.

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
        cdef const int64_t* chosen = NULL if buffer is None else <const int64_t*>buffer.data
        cdef int64_t count = self.batch.length if buffer is None else buffer.count
        cdef Int64Buffer delays
        cdef int64_t delay_ms, moved = 0
        cdef const char* data
        cdef Py_ssize_t stride
        if isinstance(delays_ms, int) and not isinstance(delays_ms, bool):
            delay_ms = milliseconds_argument(delays_ms, "delays_ms")
            data, stride = <const char*>&delay_ms, 0
        else:
            delays = int64_buffer(delays_ms, "delays_ms")
            if delays.count != count:
                raise ValueError(f"there must be a delay for each of the {count:,} indices, not {delays.count:,}")
            data, stride = delays.data, delays.stride
        if hw_peek64(&self.batch.pending) and count:
            moved = timer_batch_reschedule(self, chosen, count, data, stride)
        return moved

    def __repr__(self):
        return f"<TimerBatch of {len(self)}, {self.pending} pending>"


cdef inline object batch_callback(TimerBatch self):
    cdef object callback
    with cython.critical_section(self):
        callback = self.callback_
    return callback


cdef inline void batch_set_callback(TimerBatch self, object callback) noexcept:
    cdef object before              # which dies at the end
    with cython.critical_section(self):
        before = self.callback_
        self.callback_ = callback


cdef TimerBatch timer_batch_add(Timer* timer, object delays_ms, object callback):
    """All of call_many: all timers are added, or an exception says why none is."""
    cdef TimerBatch self = TimerBatch.__new__(TimerBatch)
    cdef Batch* batch
    cdef Int64Buffer delays = int64_buffer(delays_ms, "delays_ms")
    cdef Instant now
    cdef int64_t bad, base_ms = 0, last_ms = 0
    cdef Status status
    cdef WhenDue due
    callback_argument(callback)
    if delays.count > MAX_BATCH_LENGTH:
        raise OverflowError(f"one batch holds at most {MAX_BATCH_LENGTH:,} timers, not {delays.count:,}")
    batch = batch_new(delays.count)
    if batch is NULL:
        raise MemoryError
    block_free(self.batch.entries)
    PyMem_RawFree(self.batch)
    self.batch = batch
    timer_read_clock(timer, &now)
    with nogil:
        bad = batch_check(delays.data, delays.stride, delays.count, timer, &now, &base_ms, &last_ms)
    if bad >= 0:
        raise OverflowError(f"the deadline of delays_ms[{bad}] does not fit into 64 bits of milliseconds")
    batch_set_callback(self, callback)
    self.batch.object = <void*>self
    if self.batch.length:
        hw_count_add(&timer.references, 1)      # dropped in __dealloc__
        self.batch.timer = timer
        Py_INCREF(self)                 # the timer's; dropped by who takes the last entry out, or below
    due = ASK_WHEN_DUE if timer.clock == CLOCK_KIND_CALLABLE else TAKE_DUE
    while True:
        with nogil:
            status = batch_add(self.batch, timer, delays.data, delays.stride, now.ms, base_ms, last_ms, due)
        try:
            if status != NOT_YET or not timer_make_room(timer, None, status, &due):
                break
        except:
            batch_set_callback(self, None)
            Py_DECREF(self)
            raise
    if status != OK or self.batch.length == 0:
        batch_set_callback(self, None)
        if self.batch.length:
            Py_DECREF(self)
        if status != OK:
            status_raise(timer, status)
    timer_heed_clock(timer, &now)
    return self


cdef Int64Buffer timer_batch_indices(TimerBatch self, object indices):
    """The argument `indices`, each of which the batch has."""
    cdef Int64Buffer buffer = int64_indices(indices)
    cdef const int64_t* chosen = <const int64_t*>buffer.data
    cdef int64_t index = 0, i
    cdef bint bad = False
    with nogil:
        for i in range(buffer.count):
            index = hw_read(&chosen[i])
            if not 0 <= index < self.batch.length:
                bad = True
                break
    if bad:
        raise IndexError(f"index {index} is outside of a batch of {self.batch.length}")
    return buffer


cdef int64_t timer_batch_reschedule(TimerBatch self, const int64_t* indices, int64_t count, const char* delays_ms,
                                    Py_ssize_t stride) except -1:
    cdef Timer* timer = self.batch.timer
    cdef Instant now
    cdef int64_t bad, base_ms = 0, last_ms = 0, moved = 0
    cdef Status status = NOT_YET
    cdef WhenDue due = ASK_WHEN_DUE if timer.clock == CLOCK_KIND_CALLABLE else TAKE_DUE
    timer_read_clock(timer, &now)
    with nogil:
        bad = batch_check(delays_ms, stride, count if stride else 1, timer, &now, &base_ms, &last_ms)
    if bad >= 0:
        raise OverflowError(f"the deadline of delays_ms[{bad}] does not fit into 64 bits of milliseconds")
    while True:
        with nogil:
            status = batch_reschedule(self.batch, indices, count, delays_ms, stride, now.ms, base_ms, last_ms, due, &moved)
        if status != NOT_YET or not timer_make_room(timer, None, status, &due):
            break
    if status != OK:
        status_raise(timer, status)
    timer_heed_clock(timer, &now)
    return moved


cdef bint timer_batch_keep(TimerBatch self, array.array indices) except -1:
    """What close() gives back of a batch, piece by piece. True for the first piece: the batch is returned once."""
    with cython.critical_section(self):
        if self.remaining is None:
            self.remaining = indices
            return True
        array.extend(self.remaining, indices)
    return False


cdef array.array timer_batch_room(TimerBatch self, array.array before):
    """An array that begins with another one, if there is one, and has room for all that fell due of a batch whose node was
    taken. When there is no memory for it, the node goes back."""
    cdef array.array room
    cdef int64_t limit, count = 0 if before is None else len(before)
    lock_with_gil(self.batch.timer)
    limit = self.batch.due_end - self.batch.due_begin
    lock_release(self.batch.timer)
    try:
        room = array.clone(INT64, count + limit, False)
    except:
        timer_batch_put_back(self)
        raise
    if count:
        memcpy(room.data.as_longlongs, before.data.as_longlongs, count * sizeof(int64_t))
    return room


cdef bint timer_batch_put_back(TimerBatch self) except False:
    """Instead of timer_batch_take or timer_batch_return: what fell due stays the next to be taken."""
    cdef void* block = NULL
    cdef bint finished
    lock_with_gil(self.batch.timer)
    finished = batch_put_back_locked(self.batch, &block)
    lock_release(self.batch.timer)
    block_free(block)
    return timer_batch_ended(self, finished)


cdef bint timer_batch_ended(TimerBatch self, bint finished) except False:
    """A batch at its end loses the timer's reference, of timer_batch_add; the caller holds another."""
    if finished:
        Py_DECREF(self)
    return True


cdef bint array_shorten(array.array numbers, int64_t count) except False:
    """Nothing fails by it: where there is no memory for a smaller one, the room stays."""
    if count == len(numbers):
        return True
    try:
        array.resize(numbers, count)
    except MemoryError:
        hw_set_size(<PyObject*>numbers, count)
    return True


cdef array.array timer_batch_take(TimerBatch self, array.array room, const Instant* now):
    """What fell due of a batch whose node was taken, in order, for which there is room."""
    cdef int64_t taken, limit = len(room)
    cdef void* block = NULL
    cdef bint finished = False
    with nogil:
        taken = batch_take(self.batch, limit, <int64_t*>room.data.as_longlongs, now, &block, &finished)
        block_free(block)
    timer_batch_ended(self, finished)
    array_shorten(room, taken)
    return room


cdef bint timer_batch_return(TimerBatch self, list returned) except False:
    """For close(): what had not run of a batch whose node was taken, in order, becomes its `remaining`; and the batch one of
    what is returned, where there is room for it."""
    cdef array.array before = self.remaining
    cdef array.array indices = timer_batch_room(self, before)
    cdef int64_t count = 0 if before is None else len(before)
    cdef int64_t taken, limit = len(indices) - count
    cdef void* block = NULL
    cdef bint finished = False
    with nogil:
        taken = batch_take(self.batch, limit, <int64_t*>indices.data.as_longlongs + count, NULL, &block, &finished)
    lock_with_gil(self.batch.timer)
    finished = batch_returned_locked(self.batch, &block)
    lock_release(self.batch.timer)
    # The GIL is not given up until the indices are where they last, because another thread might fork.
    timer_batch_ended(self, finished)
    array_shorten(indices, count + taken)
    if taken:
        with cython.critical_section(self):
            self.remaining = indices
        if before is None:
            list_fill_room(returned, self)      # it is returned once
    with nogil:
        block_free(block)
    return True


hw_set_name(<PyObject*>TimerBatch, "hwheel.TimerBatch")     # see task.pxi
