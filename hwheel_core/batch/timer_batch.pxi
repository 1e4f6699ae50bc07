# TimerBatch: what `call_many` returns.


cdef class TimerBatch:
    """What `call_many` returns: many timers that share one callback, each known by its index in the array of delays.

    `len(batch)` is how many there have been, `batch.pending` how many are still to come; `extend()` adds more. What is due of a
    batch is one call, which comes where the first of it stands in the order of time and of adding.

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
        self.batch = batch_new()        # never NULL
        if self.batch is NULL:
            raise MemoryError
        debug_count(LIVE_BATCHES, 1)

    def __init__(self):
        raise TypeError("a TimerBatch is made by call_many()")

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

        Runtime complexity: O(n) in the length of the batch, from the first that is pending on; adds wait for it.
        """
        cdef array.array found
        cdef int64_t room, count
        with cython.critical_section(self):
            if self.remaining is not None:
                return array.copy(self.remaining)
        while True:
            room = hw_peek64(&self.batch.pending) if self.batch.timer is not NULL else 0
            found = array.clone(INT64, room, False)
            if room == 0:
                return found
            with nogil:
                count = batch_list(self.batch, <int64_t*>found.data.as_longlongs, room)
            if count >= 0:
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
        cdef int64_t count = hw_peek64(&self.batch.length) if buffer is None else buffer.count
        cdef int64_t cancelled = 0
        cdef void* blocks = NULL
        cdef bint finished = False
        if self.batch.timer is NULL or count == 0:
            return 0
        with nogil:
            cancelled = batch_cancel(self.batch, chosen, count, &blocks, &finished)
            blocks_free(blocks)
        timer_batch_ended(self, finished)
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
        cdef int64_t count = hw_peek64(&self.batch.length) if buffer is None else buffer.count
        cdef Int64Buffer delays
        cdef int64_t delay_ms, moved = 0
        cdef const char* data
        cdef Py_ssize_t stride
        if is_one_number(delays_ms):
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

    def extend(self, delays_ms, callback=None):
        """Adds a timer for each delay from now, as `call_many`. Returns the range of their indices, which go on from len(batch).

        They stand behind what was added for their ticks before, and what falls due comes in one call for all of the batch. Whatever
        has gone before, the memory of a batch is that of what is pending.

        A batch releases its callback with its last timer. Then `extend` wants it again; so who cannot know whether anything is
        pending, a callback, say, that extends its own batch, always gives it.

        Arguments:
            delays_ms: milliseconds, a one-dimensional buffer of int64.
            callback: None, or that of the batch.
        Raises:
            TypeError: delays_ms or callback is neither.
            ValueError: there are delays, nothing is pending and no callback is given; or another one than what is pending has.
            OverflowError: a deadline does not fit into 64 bits.
            TimerFull: the timer has no room for all.
            TimerClosed: the timer is closed, or nobody has it any more. In all these cases nothing is added.

        Runtime complexity: O(1) a delay. The GIL is released.

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


cdef Int64Buffer timer_batch_indices(TimerBatch self, object indices):
    """The argument `indices`, each of which the batch has."""
    cdef Int64Buffer buffer = int64_indices(indices)
    cdef const int64_t* chosen = <const int64_t*>buffer.data
    cdef int64_t index = 0, i
    cdef bint bad = False
    with nogil:
        for i in range(buffer.count):
            index = hw_read(&chosen[i])
            if not 0 <= index < hw_peek64(&self.batch.length):
                bad = True
                break
    if bad:
        raise IndexError(f"index {index} is outside of a batch of {hw_peek64(&self.batch.length)}")
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
    """An array that begins with another one, if there is one, and has room for all that fell due of a batch whose head was
    taken. When there is no memory for it, it goes back."""
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
    cdef void* blocks = NULL
    cdef bint finished
    lock_with_gil(self.batch.timer)
    finished = batch_put_back_locked(self.batch, &blocks)
    lock_release(self.batch.timer)
    blocks_free(blocks)
    return timer_batch_ended(self, finished)


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
    """What fell due of a batch whose head was taken, in order, for which there is room."""
    cdef int64_t taken, limit = len(room)
    cdef void* blocks = NULL
    cdef bint finished = False
    with nogil:
        taken = batch_take(self.batch, limit, <int64_t*>room.data.as_longlongs, now, &blocks, &finished)
        blocks_free(blocks)
    timer_batch_ended(self, finished)
    array_shorten(room, taken)
    return room


cdef bint timer_batch_return(TimerBatch self, list returned) except False:
    """For close(): what had not run of a batch whose head was taken, in order, becomes its `remaining`; and the batch one of
    what is returned, where there is room for it."""
    cdef array.array before = self.remaining
    cdef array.array indices = timer_batch_room(self, before)
    cdef object callback = batch_callback(self)     # which it keeps
    cdef int64_t count = 0 if before is None else len(before)
    cdef int64_t taken, limit = len(indices) - count
    cdef void* blocks = NULL
    cdef bint finished = False
    with nogil:
        taken = batch_take(self.batch, limit, <int64_t*>indices.data.as_longlongs + count, NULL, &blocks, &finished)
    lock_with_gil(self.batch.timer)
    finished = batch_returned_locked(self.batch, &blocks)
    lock_release(self.batch.timer)
    # The GIL is not given up until the indices are where they last, because another thread might fork.
    array_shorten(indices, count + taken)
    if taken:
        with cython.critical_section(self):
            self.remaining = indices
            self.callback_ = callback
        if before is None:
            list_fill_room(returned, self)      # it is returned once
    timer_batch_ended(self, finished)
    with nogil:
        blocks_free(blocks)
    return True


hw_set_name(<PyObject*>TimerBatch, "hwheel.TimerBatch")     # see task.pxi
