# What a DelayQueue, here a line because `queue` is a wheel's, does: items in and out. Its alarm is set only while somebody
# waits: who comes looks at the clock.

cdef Py_ssize_t key_entry_offset = 0        # of DelayKey.entry; filled in by delay_key.pxi


cdef inline DelayKey entry_key(const Entry* entry):
    return <DelayKey><PyObject*>(<const char*>entry - key_entry_offset)


cdef inline object key_item(DelayKey self, bint take_out):
    """The item, which is the key's no more if it is taken out. By a mutex where there is no GIL, and not the key's critical
    section: in that a thread may have to wait, and lose the queue's own meanwhile."""
    cdef object item
    if HW_FREE_THREADED:
        hw_mutex_lock(&orphans)
    item = self.item_
    if take_out:
        self.item_ = None
    if HW_FREE_THREADED:
        hw_mutex_unlock(&orphans)
    return item


cdef bint line_settle(DelayQueueCore self, const Instant* now) except -1:
    """Everything that is due now is in `due`. True: the GIL was given up meanwhile, and anything may have changed."""
    cdef int64_t end_ns
    cdef int budget = SLICE
    cdef bint gave_up = False
    cdef StepStatus status
    if self.pending == 0:
        return False
    container_begin(self, now.ms)
    end_ns = now_ns() + TURN_NS
    while True:
        status = wheel_step(self.wheel, now.ms, &budget)
        if status == STEP_TICK:
            list_move_to_end(&self.wheel.due, &self.due)
        elif status == STEP_DONE:
            return gave_up
        if budget <= 0:
            budget = SLICE
            if now_ns() > end_ns:
                breathe()
                gave_up = True
                end_ns = now_ns() + TURN_NS


cdef bint line_is_armed(DelayQueueCore self, const Instant* now) except -1:
    """Sets the alarm for what is next. False: that took a call that may have changed anything."""
    cdef int64_t next_ms = 0
    if not container_next_ms(self, &next_ms):
        return True
    next_ms = max(next_ms, now.ms)
    if container_is_armed(self, next_ms):
        return True
    container_arm(self, next_ms)
    return False


cdef object line_unlink(DelayQueueCore self, DelayKey key):
    """Takes an item out, and returns it."""
    cdef object item
    container_unlink(self, &key.entry)
    hw_store(&key.queue, 0)
    item = key_item(key, True)
    Py_DECREF(key)                      # the queue's reference, of line_put
    return item


cdef bint line_tell(DelayQueueCore self) except False:
    """After items have left."""
    if self.putters:
        waiters_wake(self, self.putters, 1 if self.most == INT64_MAX else max(0, self.most - self.pending))
    if self.shut and self.pending == 0 and self.getters:
        waiters_wake(self, self.getters, len(self.getters))
    return True


# --- in ----------------------------------------------------------------------------------------------------------


cdef bint line_place(DelayQueueCore self, DelayKey key, const Instant* delay, bint is_new) except -1:
    """Puts a key where it belongs by now. False: it is new and there is no room, or it is not new and has left the queue."""
    cdef Timer* timer
    cdef Instant now
    cdef int64_t deadline_ms, expiration_ms, at_ms
    cdef Bucket* bucket = NULL
    while True:
        container_ready(self)
        timer = self.timer.timer
        if hw_peek(&timer.closed):
            raise TimerClosed("the timer is closed")
        timer_read_clock(timer, &now)
        timer_heed_clock(timer, &now)
        if not is_new:
            if key.queue != <uintptr_t><void*>self:
                return False
        elif self.shut:
            raise self.errors[2]("the queue is shut down")
        elif self.pending >= self.most:
            return False
        timer_due_or_raise(timer, &now, delay, &deadline_ms, &expiration_ms)
        container_reserve(self, &now, expiration_ms, &bucket, &at_ms)
        if bucket is NULL:
            if line_settle(self, &now):    # it goes behind all that is due already
                continue
        elif self.getters and not container_is_armed(self, at_ms):
            container_arm(self, at_ms)
            continue
        break
    # From here on nothing is anybody's code until all is done.
    if is_new:
        Py_INCREF(key)                  # the queue's; dropped by line_unlink
        hw_store(&key.queue, <uintptr_t><void*>self)
    else:
        container_unlink(self, &key.entry)
    key.entry.expiration_ms = expiration_ms
    hw_poke64(&key.deadline_ms, deadline_ms if deadline_ms > now.ms else now.ms)
    container_link(self, &key.entry, bucket)
    if bucket is NULL:
        waiters_wake(self, self.getters, 1)
    return True


cdef DelayKey line_put(DelayQueueCore self, object item, object delay, object waiter):
    """The key of an item that is in the queue now; None: it is full, and the waiter, if it is one, waits for room."""
    cdef Instant length
    cdef DelayKey key = DelayKey.__new__(DelayKey)
    seconds_argument(delay, "delay", &length)
    container_ready(self)
    key.item_ = item
    if line_place(self, key, &length, True):
        return key
    if waiter is not None:
        waiters_enter(self.putters, waiter)
        try:
            if line_place(self, key, &length, True):
                waiters_leave(self.putters, waiter)
                return key
        except:
            line_give_up(self, self.putters, waiter)
            raise
    key.item_ = None
    return None


# --- out ---------------------------------------------------------------------------------------------------------


cdef object line_take_due(DelayQueueCore self, bint waits):
    """The first item that is due; NOT_THERE if none is. waits: somebody is going to wait for it, who is entered already."""
    cdef Instant now
    cdef int budget
    while True:
        container_ready(self)
        timer_read_clock(self.timer.timer, &now)
        if list_is_empty(&self.due) or self.timer.timer.clock == CLOCK_KIND_CALLABLE:
            line_settle(self, &now)
        if not list_is_empty(&self.due):
            item = line_unlink(self, entry_key(self.due.next))
            line_tell(self)
            return item
        if self.shut and self.pending == 0:
            raise self.errors[2]("the queue is shut down")
        if not waits:
            return NOT_THERE
        if hw_peek(&self.timer.timer.closed):
            raise TimerClosed("the timer is closed: nothing wakes who waits")
        if line_is_armed(self, &now):
            return NOT_THERE


cdef object line_take(DelayQueueCore self, object waiter):
    """The first item that is due; NOT_THERE: none is, and the waiter, if it is one, waits for it."""
    item = line_take_due(self, False)
    if item is NOT_THERE and waiter is not None:
        waiters_enter(self.getters, waiter)
        try:
            item = line_take_due(self, True)
        except:
            line_give_up(self, self.getters, waiter)
            raise
        if item is not NOT_THERE:
            waiters_leave(self.getters, waiter)
    return item


cdef bint line_give_up(DelayQueueCore self, list waiters, object waiter) except False:
    """Who waited does not any more. A wake-up that it was given is another's."""
    if not waiters_leave(waiters, waiter):
        waiters_wake(self, waiters, 1)
    return True


cdef DelayKey line_earliest(DelayQueueCore self):
    """The key of what comes next, of what is not due yet. Nothing is on its way between two levels."""
    cdef Bucket* bucket
    cdef const Entry* entry
    cdef const Entry* best = NULL
    cdef int64_t best_ms = INT64_MAX, tick_ms
    cdef int16_t best_level = 0
    cdef int32_t i
    for i in range(self.wheel.queue_length):
        bucket = self.wheel.queue[i]
        if best is not NULL and bucket.entries.expiration_ms > best_ms:
            continue
        entry = bucket.entries.next
        while entry is not &bucket.entries:
            tick_ms = wheel_tick(self.wheel, entry.expiration_ms)
            # Of one tick, what is in a coarser level was put in first: see wheel/wheel.pxi
            if best is NULL or tick_ms < best_ms or (tick_ms == best_ms and bucket.level > best_level):
                best, best_ms, best_level = entry, tick_ms, bucket.level
            entry = entry.next
    return None if best is NULL else entry_key(best)


cdef list line_empty(DelayQueueCore self):
    """Takes everything out, in order."""
    cdef list items
    cdef Py_ssize_t count, at
    cdef Instant now
    container_ready(self)
    timer_read_clock(self.timer.timer, &now)
    while True:
        count = self.pending
        items = PyList_New(count)       # the garbage collector may come, and with it somebody's code
        if count == self.pending:
            break
    if count == 0:
        return items
    wheel_empty(self.wheel, &self.due)
    wheel_set_clocks(self.wheel, now.ms)
    for at in range(count):
        item = line_unlink(self, entry_key(self.due.next))
        Py_INCREF(item)                 # the list's
        PyList_SET_ITEM(items, at, item)
    return items


cdef bint line_ring(DelayQueueCore self) except False:
    """The alarm: wakes as many as there are items for."""
    cdef Instant now
    cdef Py_ssize_t count = 0
    cdef int64_t next_ms = 0
    cdef const Entry* entry
    container_ready(self)
    if self.ringing == self.generation + 1:
        return True
    self.ringing = self.generation + 1
    try:
        timer_read_clock(self.timer.timer, &now)
        line_settle(self, &now)
        entry = self.due.next
        while entry is not &self.due and count < len(self.getters):
            count += 1
            entry = entry.next
        waiters_wake(self, self.getters, count)
    finally:
        self.ringing = 0
        if self.getters and container_next_ms(self, &next_ms):
            container_arm_again(self, next_ms)
    return True
