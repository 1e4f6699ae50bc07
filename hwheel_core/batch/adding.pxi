# Timers of a batch go into a timer: all of call_many, and extend.
#
# References. A batch that is in the timer's list is held by the timer: INCREF in timer_batch_add or timer_batch_hold, DECREF in
# timer_batch_ended. Its callback is released at the same moment, and an extend holds the batch there until it is through: so what
# it adds never finds the callback gone.

cdef array.array INT64 = array.array("q")
cdef array.array INT8 = array.array("b")


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


cdef bint timer_batch_ended(TimerBatch self, bint finished) except False:
    """A batch that has left the timer's list loses the timer's reference. And its callback, if close() does not return it, nor
    somebody holds the batch again by now: who does, has put it into the list before looking for the callback. The caller
    holds another reference."""
    cdef object before              # which dies at the end
    if finished:
        with cython.critical_section(self):
            before = self.callback_
            if self.remaining is None and not hw_peek(&self.batch.is_listed):
                self.callback_ = None
        Py_DECREF(self)
    return True


cdef bint delays_check(Timer* timer, Int64Buffer delays, const Instant* now, int64_t* base_ms_out,
                       int64_t* last_ms_out) except False:
    cdef int64_t bad
    with nogil:
        bad = batch_check(delays.data, delays.stride, delays.count, timer, now, base_ms_out, last_ms_out)
    if bad >= 0:
        raise OverflowError(f"the deadline of delays_ms[{bad}] does not fit into 64 bits of milliseconds")
    return True


cdef Int64Buffer timer_batch_delays(object delays_ms):
    """Of timers that are to be added."""
    cdef Int64Buffer delays = int64_buffer(delays_ms, "delays_ms")
    if delays.count > MAX_BATCH_LENGTH:
        raise OverflowError(f"one call adds at most {MAX_BATCH_LENGTH:,} timers, not {delays.count:,}")
    return delays


cdef TimerBatch timer_batch_add(BaseTimer owner, object delays_ms, object callback):
    """All of call_many: all timers are added, or an exception says why none is."""
    cdef TimerBatch self = TimerBatch.__new__(TimerBatch)
    cdef Int64Buffer delays = timer_batch_delays(delays_ms)
    cdef Timer* timer = owner.timer
    cdef Instant now
    cdef int64_t base_ms = 0, last_ms = 0
    cdef Status status
    cdef WhenDue due = ASK_WHEN_DUE if timer.clock == CLOCK_KIND_CALLABLE else TAKE_DUE
    callback_argument(callback)
    self.owner = PyWeakref_NewRef(owner, None)
    if not batch_prepare(self.batch, delays.count):
        raise MemoryError
    timer_read_clock(timer, &now)
    delays_check(timer, delays, &now, &base_ms, &last_ms)
    self.batch.object = <void*>self
    hw_count_add(&timer.references, 1)  # dropped in __dealloc__
    self.batch.timer = timer
    if delays.count:
        batch_set_callback(self, callback)
        Py_INCREF(self)                 # the timer's
    try:
        while True:
            with nogil:
                status = batch_extend(self.batch, NULL, delays.data, delays.stride, 0, delays.count, now.ms, base_ms, last_ms,
                                      due)
            if status != NOT_YET or not timer_make_room(timer, None, status, &due):
                break
        if status != OK:
            status_raise(timer, status)
    except:
        timer_batch_ended(self, delays.count > 0)
        raise
    timer_heed_clock(timer, &now)
    return self


cdef object timer_batch_hold(TimerBatch self, object callback):
    """Keeps the batch in the timer's list until timer_batch_let_go, with a callback: its own, or else this. Returns it."""
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


cdef bint timer_batch_let_go(TimerBatch self) except False:
    cdef void* blocks = NULL
    cdef bint finished
    lock_with_gil(self.batch.timer)
    finished = batch_let_go_locked(self.batch, &blocks)
    lock_release(self.batch.timer)
    blocks_free(blocks)
    return timer_batch_ended(self, finished)


cdef object timer_batch_extend(TimerBatch self, object delays_ms, object callback):
    """All of extend, as timer_batch_add."""
    cdef Int64Buffer delays = timer_batch_delays(delays_ms)
    cdef Timer* timer = self.batch.timer
    cdef BaseTimer owner
    cdef BatchRoom room
    cdef Instant now
    cdef int64_t base_ms = 0, last_ms = 0
    cdef WhenDue due = TAKE_DUE
    cdef object added = None
    if callback is not None:
        callback_argument(callback)
    if timer is NULL:
        raise TypeError("a TimerBatch is made by call_many()")
    owner = self.owner()
    if owner is None:
        raise TimerClosed("the timer is closed")
    core_ready(owner)
    timer_read_clock(timer, &now)
    delays_check(timer, delays, &now, &base_ms, &last_ms)
    if timer.clock == CLOCK_KIND_CALLABLE:
        due = ASK_WHEN_DUE
    memset(&room, 0, sizeof(BatchRoom))
    try:
        while added is None:
            added = timer_batch_try(self, &room, delays, callback, &now, base_ms, last_ms, &due)
    finally:
        with nogil:
            batch_room_free(&room)
    timer_heed_clock(timer, &now)
    return added


cdef object timer_batch_try(TimerBatch self, BatchRoom* room, Int64Buffer delays, object callback, const Instant* now,
                            int64_t base_ms, int64_t last_ms, WhenDue* due):
    """Adds all and returns the range of their indices. None: somebody has forked in between, and here, in the child, nobody holds
    the batch."""
    cdef Timer* timer = self.batch.timer
    cdef Status status = TRY_AGAIN
    cdef int64_t first = 0
    cdef bint have_memory
    cdef object added = None
    cdef object own = timer_batch_hold(self, callback)
    try:
        if own is None and delays.count and not hw_peek(&timer.closed):
            raise ValueError("nothing of the batch is pending, so it has released its callback: extend(delays_ms, callback)")
        if callback is not None and own is not callback and own != callback:
            raise ValueError("the batch has another callback")
        while True:
            if status == TRY_AGAIN:
                first = hw_peek64(&self.batch.length)
                added = range(first, first + delays.count)      # before anything is added, as there may be no memory for it
            with nogil:
                status = batch_extend(self.batch, room, delays.data, delays.stride, first, delays.count, now.ms, base_ms,
                                      last_ms, due[0])
            if status == OK:
                return added
            if status == NEEDS_ROOM:
                with nogil:
                    have_memory = batch_room_make(room)
                if not have_memory:
                    raise MemoryError
            elif status == TRY_AGAIN:
                if not hw_peek(&self.batch.is_listed):
                    return None
            elif not timer_make_room(timer, None, status, due):
                status_raise(timer, status)
    finally:
        timer_batch_let_go(self)
