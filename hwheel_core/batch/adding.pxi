# Timers enter a batch or move in it: call_many, extend(), reschedule().
#
# References. The timer holds a reference to each listed batch: INCREF in timer_batch_add or timer_batch_hold, DECREF in
# timer_batch_release, which also drops the callback. From the lookup of the callback until its end, extend() keeps the batch
# listed. So the timers that it adds always find the callback.


cdef inline object batch_callback(TimerBatch self):
    cdef object callback
    with cython.critical_section(self):
        callback = self.callback_
    return callback


cdef inline void batch_set_callback(TimerBatch self, object callback) noexcept:
    cdef object before              # released after the critical section: its finalizer may run any code
    with cython.critical_section(self):
        before = self.callback_
        self.callback_ = callback


cdef bint timer_batch_release(TimerBatch self, const BatchRelease* release) except False:
    """Release the memory and references that a batch gave up under the lock. The caller has a reference of its own."""
    cdef object before              # released after the critical section
    if release.blocks is not NULL:
        with nogil:
            blocks_free(release.blocks)
    if release.is_finished:
        with cython.critical_section(self):
            before = self.callback_
            # The callback stays if close() returns the batch, or if another thread is extending it again. Such a thread lists
            # the batch before it looks up the callback.
            if self.remaining is None and not hw_peek(&self.batch.is_listed):
                self.callback_ = None
        Py_DECREF(self)
    return True


cdef Int64Buffer timer_batch_delays(object delays_ms):
    """Convert the delays of timers that are to be added."""
    cdef Int64Buffer delays = int64_buffer(delays_ms, "delays_ms")
    if delays.count > MAX_BATCH_LENGTH:
        raise OverflowError(f"one call adds at most {MAX_BATCH_LENGTH:,} timers, got {delays.count:,}")
    return delays


cdef inline Delays delays_of(Int64Buffer buffer):
    return Delays(buffer.data, buffer.stride, buffer.count)


cdef bint placement_set_or_raise(Placement* self, Timer* timer, const Instant* now, Delays delays) except False:
    cdef int64_t bad
    with nogil:
        bad = placement_set(self, timer, now, delays)
    if bad >= 0:
        raise OverflowError(f"the deadline of delays_ms[{bad}] does not fit into 64 bits of milliseconds")
    return True


# --- call_many ---------------------------------------------------------------------------------------------------


cdef TimerBatch timer_batch_new(BaseTimer owner, int64_t length):
    """Return an empty batch of a timer, with memory for `length` timers."""
    cdef TimerBatch self = TimerBatch.__new__(TimerBatch)
    self.owner = PyWeakref_NewRef(owner, None)
    if not batch_prepare(self.batch, length):
        raise MemoryError
    self.batch.object = <void*>self
    hw_count_add(&owner.timer.references, 1)    # dropped in __dealloc__
    self.batch.timer = owner.timer
    return self


cdef TimerBatch timer_batch_add(BaseTimer owner, object delays_ms, object callback):
    """Add a new batch for call_many(): all of its timers, or none and an exception."""
    cdef Int64Buffer buffer = timer_batch_delays(delays_ms)
    cdef Delays delays = delays_of(buffer)
    cdef Timer* timer = owner.timer
    cdef TimerBatch self
    cdef Instant now
    cdef Placement at
    cdef Status status
    cdef BatchRelease release = BatchRelease(NULL, delays.count > 0)
    callback_argument(callback)
    self = timer_batch_new(owner, delays.count)
    timer_read_clock(timer, &now)
    placement_set_or_raise(&at, timer, &now, delays)
    if delays.count:
        batch_set_callback(self, callback)
        Py_INCREF(self)                 # the timer's
    try:
        with nogil:
            status = batch_extend(self.batch, NULL, delays, at, 0)
        if status != OK:
            status_raise(timer, status)
    except:
        timer_batch_release(self, &release)
        raise
    return self


# --- extend ------------------------------------------------------------------------------------------------------


cdef object timer_batch_hold(TimerBatch self, object callback):
    """Keep a batch listed until timer_batch_unhold. Return its callback; a batch without a callback gets this one."""
    cdef bint entered
    Py_INCREF(self)                     # the timer's, if it has none yet
    lock_with_gil(self.batch.timer)
    entered = batch_hold_locked(self.batch)
    lock_release(self.batch.timer)
    if not entered:
        Py_DECREF(self)
    with cython.critical_section(self):
        if self.callback_ is None:
            self.callback_ = callback
        else:
            callback = self.callback_
    return callback


cdef bint timer_batch_unhold(TimerBatch self) except False:
    cdef BatchRelease release = BatchRelease(NULL, False)
    lock_with_gil(self.batch.timer)
    batch_unhold_locked(self.batch, &release)
    lock_release(self.batch.timer)
    return timer_batch_release(self, &release)


cdef object timer_batch_extend(TimerBatch self, object delays_ms, object callback):
    """Add timers for extend(): all of them, or none and an exception. Return the range of their indices."""
    cdef Int64Buffer buffer = timer_batch_delays(delays_ms)
    cdef Delays delays = delays_of(buffer)
    cdef Timer* timer = self.batch.timer
    cdef BaseTimer owner
    cdef BatchMemory memory
    cdef Instant now
    cdef Placement at
    cdef object added = None
    if callback is not None:
        callback_argument(callback)
    if timer is NULL:
        raise TypeError("this TimerBatch was not created by call_many()")
    owner = self.owner()
    if owner is None:
        raise TimerClosed("the timer is closed")
    core_ensure_started(owner)
    timer_read_clock(timer, &now)
    placement_set_or_raise(&at, timer, &now, delays)
    memset(&memory, 0, sizeof(BatchMemory))
    try:
        while added is None:
            added = timer_batch_try(self, &memory, delays, callback, &at)
    finally:
        with nogil:
            batch_memory_free(&memory)
    return added


cdef object timer_batch_try(TimerBatch self, BatchMemory* memory, Delays delays, object callback, Placement* at):
    """Add all timers and return the range of their indices. Return None to try again in the child of a fork.

    There, no thread holds the batch any more.
    """
    cdef Timer* timer = self.batch.timer
    cdef Status status = TRY_AGAIN
    cdef int64_t first = 0
    cdef bint have_memory
    cdef object added = None
    cdef object own = timer_batch_hold(self, callback)
    try:
        if own is None and delays.count and not hw_peek(&timer.closed):
            raise ValueError("an idle batch has released its callback: pass it again, extend(delays_ms, callback)")
        if callback is not None and own is not callback and own != callback:
            raise ValueError(f"callback must be the batch's own callback, {own!r}, got {callback!r}")
        while True:
            if status == TRY_AGAIN:
                first = hw_peek64(&self.batch.length)
                added = range(first, first + delays.count)      # allocated before any timer is added
            with nogil:
                status = batch_extend(self.batch, memory, delays, at[0], first)
            if status == OK:
                return added
            if status == NEEDS_MEMORY:
                with nogil:
                    have_memory = batch_memory_new(memory)
                if not have_memory:
                    raise MemoryError
            elif status == TRY_AGAIN:
                if not hw_peek(&self.batch.is_listed):
                    return None
            else:
                status_raise(timer, status)
    finally:
        timer_batch_unhold(self)


# --- reschedule --------------------------------------------------------------------------------------------------


cdef Int64Buffer timer_batch_indices(TimerBatch self, object indices):
    """Convert the argument `indices`, and check that the batch has them."""
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
        raise IndexError(f"index {index} is out of range for a batch of {hw_peek64(&self.batch.length)} timers")
    return buffer


cdef Indices timer_batch_named(TimerBatch self, Int64Buffer buffer):
    """Return the indices of a checked buffer; None: all."""
    if buffer is None:
        return Indices(NULL, hw_peek64(&self.batch.length))
    return Indices(<const int64_t*>buffer.data, buffer.count)


cdef int64_t timer_batch_reschedule(TimerBatch self, Indices indices, Delays delays) except -1:
    """Move timers for reschedule(). Return the number moved."""
    cdef Timer* timer = self.batch.timer
    cdef Instant now
    cdef Placement at
    cdef int64_t moved = 0
    cdef Status status
    timer_read_clock(timer, &now)
    placement_set_or_raise(&at, timer, &now, delays)
    with nogil:
        status = batch_reschedule(self.batch, indices, delays, at, &moved)
    if status != OK:
        status_raise(timer, status)
    return moved
