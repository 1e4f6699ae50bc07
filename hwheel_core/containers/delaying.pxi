# The operations of a DelayQueue on its items and waiters. Functions are called items_..., because queue_... belongs to the
# wheel's delay queue. The alarm is set only while a getter waits; every other call reads the clock itself.

cdef Py_ssize_t key_entry_offset = 0        # of DelayKey.entry; set in delay_queue.pxi


cdef inline DelayKey entry_key(const Entry* entry):
    return <DelayKey><PyObject*>(<const char*>entry - key_entry_offset)


cdef inline object key_item(DelayKey self, bint take_out):
    """Return the item, and with take_out remove it from the key.

    Without a GIL the mutex `orphans`, which also guards other short reads, guards the item. The key's critical section cannot:
    entering it could suspend the queue's own.
    """
    cdef object item
    if HW_FREE_THREADED:
        hw_mutex_lock(&orphans)
    item = self.item_
    if take_out:
        self.item_ = None
    if HW_FREE_THREADED:
        hw_mutex_unlock(&orphans)
    return item


# --- waiters ---------------------------------------------------------------------------------------------------------
#
# A waiter has a release(): a threading.Lock, or an object that wakes a coroutine.
#
# A waiter enters the list before it checks the queue again. A thread that has something for it removes it from the list and
# releases it. So no wake-up is lost. A released waiter has no claim on an item: it checks again.
# If it leaves instead, because of its timeout or an exception, it releases another waiter.

cdef enum:
    WAKE_TRIES = 3
    QUEUE_EMPTY = 0             # indices in DelayQueueCore.errors
    QUEUE_FULL = 1
    QUEUE_SHUT_DOWN = 2


cdef bint waiters_remove(list waiters, object waiter) noexcept:
    """Remove a waiter. Return False if it is not in the list, because it was released or never entered."""
    cdef Py_ssize_t i
    for i in range(len(waiters)):
        if waiters[i] is waiter:
            del waiters[i]
            return True
    return False


cdef bint waiters_wake(ContainerCore self, list waiters, Py_ssize_t count) except False:
    """Release up to `count` waiters. An exception in release() is not raised here: the caller must not lose its item.

    A signal handler may raise inside release(), and then the waiter may not have been woken, so the call is repeated.
    Releasing a coroutine's waiter twice does no harm, and a Lock's release() cannot be interrupted.
    """
    cdef object interruption = None
    while count > 0 and waiters:
        waiter = waiters.pop(0)
        for _ in range(WAKE_TRIES):
            try:
                if waiter.release() is not False:   # False: its event loop is closed
                    count -= 1
                break
            except BaseException as error:
                interruption = error
    if interruption is not None:
        if isinstance(interruption, KeyboardInterrupt):
            _thread.interrupt_main()                # raise it again once the caller has stored its item
        else:
            self.timer._report_error(self.alarm, interruption)
    return True


cdef bint waiters_remove_or_wake(DelayQueueCore self, list waiters, object waiter) except False:
    """Remove a waiter that stops waiting. If it was released, release another one instead."""
    if not waiters_remove(waiters, waiter):
        waiters_wake(self, waiters, 1)
    return True


cdef bint waiters_notify_taken(DelayQueueCore self) except False:
    """Release waiters after items have left the queue."""
    if self.putters:
        waiters_wake(self, self.putters, 1 if self.max_entries == INT64_MAX else max(0, self.max_entries - self.pending))
    if self.shut and self.pending == 0 and self.getters:
        waiters_wake(self, self.getters, len(self.getters))
    return True


# --- the wheel -------------------------------------------------------------------------------------------------------


cdef bint items_advance(DelayQueueCore self, const Instant* now) except -1:
    """Move all due items to `due`. Return True if the GIL was released in between, so that anything may have changed."""
    cdef int64_t end_ns
    cdef int budget = SLICE
    cdef bint released = False
    cdef StepStatus status
    if self.pending == 0:
        return False
    container_begin(self, now.ms)
    end_ns = monotonic_ns() + TURN_NS
    while True:
        status = wheel_step(self.wheel, now.ms, &budget)
        if status == STEP_TICK:
            list_move_to_end(&self.wheel.due, &self.due)
        elif status == STEP_DONE:
            return released
        if budget <= 0:
            budget = SLICE
            if monotonic_ns() > end_ns:
                yield_gil()
                released = True
                end_ns = monotonic_ns() + TURN_NS


cdef bint items_arm(DelayQueueCore self, const Instant* now) except -1:
    """Set the alarm for the next item. Return False if foreign code ran; then check the queue again."""
    cdef int64_t next_ms = 0
    if not container_next_ms(self, &next_ms):
        return True
    next_ms = max(next_ms, now.ms)
    if container_is_armed(self, next_ms):
        return True
    container_arm(self, next_ms)
    return False


cdef object items_unlink(DelayQueueCore self, DelayKey key):
    """Remove an item and return it."""
    cdef object item
    container_unlink(self, &key.entry)
    hw_store(&key.queue, 0)
    item = key_item(key, True)
    Py_DECREF(key)                      # the queue's reference, from items_place
    return item


# --- put and reset ---------------------------------------------------------------------------------------------------


cdef bint items_admit(DelayQueueCore self, DelayKey key, bint is_new) except -1:
    """Return False if a new key finds no room, or an existing one has left the queue."""
    if not is_new:
        return key.queue == <uintptr_t><void*>self
    if self.shut:
        raise self.errors[QUEUE_SHUT_DOWN]("the queue is shut down")
    return self.pending < self.max_entries


cdef bint items_reserve(DelayQueueCore self, Deadline* deadline, Bucket** bucket_out) except -1:
    """Find the bucket for a deadline, NULL if it is due, and set the alarm. Return False if foreign code may have run."""
    cdef int64_t at_ms
    deadline_set_or_raise(deadline, self.timer.timer)
    container_reserve(self, &deadline.now, deadline.expiration_ms, bucket_out, &at_ms)
    if bucket_out[0] is NULL:
        return not items_advance(self, &deadline.now)       # a due item goes behind all items that are due already
    if self.getters and not container_is_armed(self, at_ms):
        container_arm(self, at_ms)
        return False
    return True


cdef bint items_place(DelayQueueCore self, DelayKey key, const Instant* delay, bint is_new) except -1:
    """Add a new key, or move an existing one. Return False if a new one finds no room, or an existing one has left the queue."""
    cdef Deadline deadline
    cdef Bucket* bucket = NULL
    deadline.delay = delay[0]
    while True:
        container_ready(self)
        if hw_peek(&self.timer.timer.closed):
            raise TimerClosed("the timer is closed")
        timer_read_clock(self.timer.timer, &deadline.now)
        if not items_admit(self, key, is_new):
            return False
        if items_reserve(self, &deadline, &bucket):
            break
    # No foreign code runs from here to the end.
    if is_new:
        Py_INCREF(key)                  # the queue's reference; dropped by items_unlink
        hw_store(&key.queue, <uintptr_t><void*>self)
    else:
        container_unlink(self, &key.entry)
    key.entry.expiration_ms = deadline.expiration_ms
    hw_poke64(&key.deadline_ms, max(deadline.deadline_ms, deadline.now.ms))
    container_link(self, &key.entry, bucket)
    if bucket is NULL:
        waiters_wake(self, self.getters, 1)
    return True


cdef DelayKey items_put(DelayQueueCore self, object item, object delay, object waiter):
    """Add an item and return its key; None: the queue is full, and the waiter, if there is one, waits for room."""
    cdef Instant length
    cdef DelayKey key = DelayKey.__new__(DelayKey)
    seconds_argument(delay, "delay", &length)
    container_ready(self)
    key.item_ = item
    key.timer = self.timer
    if items_place(self, key, &length, True):
        return key
    if waiter is not None:
        self.putters.append(waiter)
        try:
            if items_place(self, key, &length, True):
                waiters_remove(self.putters, waiter)
                return key
        except:
            waiters_remove_or_wake(self, self.putters, waiter)
            raise
    key.item_ = None
    return None


# --- take and drain --------------------------------------------------------------------------------------------------


cdef object items_take_due(DelayQueueCore self, bint waits):
    """Remove and return the first due item, or return NOT_THERE. waits: a waiter has entered the list and needs the alarm."""
    cdef Instant now
    cdef int budget
    while True:
        container_ready(self)
        timer_read_clock(self.timer.timer, &now)
        if list_is_empty(&self.due):
            items_advance(self, &now)
        if not list_is_empty(&self.due):
            item = items_unlink(self, entry_key(self.due.next))
            waiters_notify_taken(self)
            return item
        if self.shut and self.pending == 0:
            raise self.errors[QUEUE_SHUT_DOWN]("the queue is shut down")
        if not waits:
            return NOT_THERE
        if hw_peek(&self.timer.timer.closed):
            raise TimerClosed("the timer is closed, so a waiter would never wake up")
        if items_arm(self, &now):
            return NOT_THERE


cdef object items_take(DelayQueueCore self, object waiter):
    """Remove and return the first due item; NOT_THERE: nothing is due, and the waiter, if there is one, waits."""
    item = items_take_due(self, False)
    if item is NOT_THERE and waiter is not None:
        self.getters.append(waiter)
        try:
            item = items_take_due(self, True)
        except:
            waiters_remove_or_wake(self, self.getters, waiter)
            raise
        if item is not NOT_THERE:
            waiters_remove(self.getters, waiter)
    return item


cdef DelayKey items_earliest(DelayQueueCore self):
    """Return the key of the earliest item that is not due. No cascade is in progress."""
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
            # Among items of one tick, those in a coarser level were added first: see wheel/wheel.pxi.
            if best is NULL or tick_ms < best_ms or (tick_ms == best_ms and bucket.level > best_level):
                best, best_ms, best_level = entry, tick_ms, bucket.level
            entry = entry.next
    return None if best is NULL else entry_key(best)


cdef list items_drain(DelayQueueCore self):
    """Remove and return all items in order."""
    cdef list items
    cdef Py_ssize_t count, at
    cdef Instant now
    container_ready(self)
    timer_read_clock(self.timer.timer, &now)
    while True:
        count = self.pending
        items = PyList_New(count)       # may run the garbage collector, and with it foreign code
        if count == self.pending:
            break
    if count == 0:
        return items
    wheel_drain(self.wheel, &self.due)
    wheel_set_clocks(self.wheel, now.ms)
    for at in range(count):
        item = items_unlink(self, entry_key(self.due.next))
        Py_INCREF(item)                 # the list's
        PyList_SET_ITEM(items, at, item)
    return items


# --- alarm -----------------------------------------------------------------------------------------------------------


cdef bint items_on_alarm(DelayQueueCore self) except False:
    """Release as many getters as there are due items."""
    cdef Instant now
    cdef Py_ssize_t count = 0
    cdef int64_t next_ms = 0
    cdef const Entry* entry
    container_ready(self)
    if self.expiring == self.generation + 1:
        return True
    self.expiring = self.generation + 1
    try:
        timer_read_clock(self.timer.timer, &now)
        items_advance(self, &now)
        entry = self.due.next
        while entry is not &self.due and count < len(self.getters):
            count += 1
            entry = entry.next
        waiters_wake(self, self.getters, count)
    finally:
        self.expiring = 0
        if self.getters and container_next_ms(self, &next_ms):
            container_arm_again(self, next_ms)
    return True
