# The operations of a DelayQueue on its items and waiters. Functions are called items_..., because queue_... belongs to the
# wheel's delay queue. The alarm is set only while a getter waits; every other call reads the clock itself.

cdef Py_ssize_t key_entry_offset = 0        # of DelayKey.entry; set in delay_queue.pxi


cdef inline DelayKey entry_key(const Entry* entry):
    return <DelayKey><PyObject*>(<const char*>entry - key_entry_offset)


cdef inline object key_item(DelayKey self, bint take_out):
    """Return the item, and with take_out remove it from the key.

    Without a GIL, the mutex `orphans` guards the item, as it guards other short reads. The key's critical section cannot: if a
    thread entered it, CPython could suspend the critical section of the queue.
    """
    cdef object item
    orphans_lock_without_gil()
    item = self.item_
    if take_out:
        self.item_ = None
    orphans_unlock_without_gil()
    return item


# --- waiters ---------------------------------------------------------------------------------------------------------
#
# A waiter has a release(): a threading.Lock, or an object that wakes a coroutine.
#
# Waiters are served in order of arrival. All threads form one line. The coroutines of each event loop form a line of their own,
# so a blocked loop delays no other line. "Called" means released: release() has ended the waiter's sleep. A line calls its
# waiters in waves: each wave releases as many of its first waiters as there are items or free places. A new waiter joins the end
# of its line if another waiter of the line waits or is called. All lines share the items: if another line takes the item of a
# called waiter, the waiter goes back to the front of its line.
#
# A waiter joins its line before it checks the queue again, and a thread that adds an item or frees room then calls a waiter.
# So no wake-up is lost. The next wave begins when the last called waiter has returned: with an item, or because of its timeout
# or an exception.

cdef enum:
    WAKE_TRIES = 3
    FOR_ITEMS = 0               # purposes of waiters
    FOR_ROOM = 1
    FOR_THE_END = 2             # join()
    QUEUE_EMPTY = 0             # indices in DelayQueueCore.errors
    QUEUE_FULL = 1
    QUEUE_SHUT_DOWN = 2


@cython.final
@cython.no_gc_clear         # the queue needs its lines until it is freed
cdef class Line:
    def __cinit__(self):
        self.waiting = []


cdef inline bint line_is_idle(Line self) noexcept:
    return self.called == 0 and not self.waiting


cdef bint lines_wait(Line self) noexcept:
    """Return True if a waiter waits in one of the lines."""
    while self is not None:
        if self.waiting:
            return True
        self = self.next
    return False


cdef Line line_of(Line first, object waiter):
    """Return the line of a waiter. Drop lines of other loops that are idle."""
    cdef object loop = getattr(waiter, "loop", None)
    cdef Line before = first
    cdef Line line
    if loop is None:
        return first
    while before.next is not None:
        line = before.next
        if line.loop is loop:
            return line
        if line_is_idle(line):
            before.next = line.next
        else:
            before = line
    line = Line.__new__(Line)           # may run the garbage collector, and with it foreign code: `before` may be unlinked
    line.loop = loop
    line.next = first.next
    first.next = line
    return line


cdef inline bint line_is_first(Line self, object waiter) noexcept:
    return self.called == 0 and len(self.waiting) > 0 and self.waiting[0] is waiter


cdef bint line_leave(Line self, object waiter) noexcept:
    """Record that a waiter has returned or stops waiting. Return True if it was called."""
    cdef Py_ssize_t i
    for i in range(len(self.waiting)):
        if self.waiting[i] is waiter:
            del self.waiting[i]
            return False
    if self.called > 0:                 # 0 in the child of a fork
        self.called -= 1
    return True


cdef bint waiter_release(ContainerCore queue, object waiter) except -1:
    """Release a waiter. Return False if its event loop is closed.

    No exception of release() leaves this function, because the caller must not lose its item. A signal handler may raise inside
    release() before the waiter is woken, so the call is repeated. It is safe to release a coroutine's waiter twice, and the
    release() of a Lock cannot be interrupted.
    """
    cdef object interruption = None
    cdef bint released = True
    for _ in range(WAKE_TRIES):
        try:
            released = waiter.release() is not False
            break
        except BaseException as error:
            interruption = error
    if interruption is not None:
        if isinstance(interruption, KeyboardInterrupt):
            _thread.interrupt_main()                # raise it again once the caller has stored its item
        else:
            queue.timer._report_error(queue.alarm, interruption)
    return released


cdef bint line_release_waiters(DelayQueueCore queue, Line self, Py_ssize_t count) except False:
    """Call the first `count` waiters."""
    while count > 0 and self.waiting:
        waiter = self.waiting.pop(0)
        self.called += 1
        if waiter_release(queue, waiter):
            count -= 1
        else:
            self.called -= 1
    return True


cdef bint getters_serve(DelayQueueCore self) except False:
    """Begin the next wave of each line for which an item is due. If an empty queue is shut down, call all waiters."""
    cdef Line line = self.getters
    cdef const Entry* entry
    cdef Py_ssize_t count
    while line is not None:
        count = 0
        if self.shut and self.pending == 0:
            count = len(line.waiting)
        elif line.called == 0:
            entry = self.due.next
            while entry is not &self.due and count < len(line.waiting):
                count += 1
                entry = entry.next
        line_release_waiters(self, line, count)
        line = line.next
    return True


cdef bint putters_serve(DelayQueueCore self) except False:
    """Begin the next wave of each line if there is room. After a shutdown, call all waiters."""
    cdef Line line = self.putters
    while line is not None:
        if self.shut or line.called == 0:
            line_release_waiters(self, line, len(line.waiting) if self.shut else max(0, self.max_entries - self.pending))
        line = line.next
    return True


cdef bint waiter_give_up(DelayQueueCore self, object waiter, int purpose) except False:
    """Remove a waiter that stops waiting, and serve the next one."""
    if purpose == FOR_THE_END:
        line_leave(self.joiners, waiter)
        return True
    line_leave(line_of(self.putters if purpose == FOR_ROOM else self.getters, waiter), waiter)
    return putters_serve(self) if purpose == FOR_ROOM else getters_serve(self)


cdef bint lines_serve_after_removal(DelayQueueCore self) except False:
    """Serve the lines after items have left the queue, or after a shutdown."""
    putters_serve(self)
    getters_serve(self)
    if self.pending == 0 and self.taken == 0:
        line_release_waiters(self, self.joiners, len(self.joiners.waiting))
    return True


# --- the wheel -------------------------------------------------------------------------------------------------------


cdef bint items_advance(DelayQueueCore self, const Instant* now) except -1:
    """Move all due items to `due`. Return True if the GIL was released in between: then check the queue again."""
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
    if container_needs_no_alarm(self, next_ms):
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
    """Return False if there is no room for a new key, or if an existing key has left the queue."""
    if not is_new:
        return key.queue == <uintptr_t><void*>self
    if self.shut:
        raise self.errors[QUEUE_SHUT_DOWN]("the queue is shut down")
    return self.pending < self.max_entries


cdef bint items_reserve(DelayQueueCore self, Deadline* deadline, Bucket** bucket_out) except -1:
    """Find the bucket for a deadline, or NULL if it has passed, and set the alarm. Return False if foreign code may have run."""
    cdef int64_t at_ms
    deadline_set_or_raise(deadline, self.timer.timer)
    container_reserve(self, &deadline.now, deadline.expiration_ms, bucket_out, &at_ms)
    if bucket_out[0] is NULL:
        return not items_advance(self, &deadline.now)       # a due item goes behind all items that became due earlier
    if lines_wait(self.getters) and not container_needs_no_alarm(self, at_ms):
        container_arm(self, at_ms)
        return False
    return True


cdef bint items_place(DelayQueueCore self, DelayKey key, const Instant* delay, bint is_new) except -1:
    """Add a new key, or move an existing one. Return False if there is no room, or if the existing key has left the queue."""
    cdef Deadline deadline
    cdef Bucket* bucket = NULL
    deadline.delay = delay[0]
    while True:
        container_enter(self)
        timer_check_open(self.timer.timer)
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
        getters_serve(self)
    return True


cdef DelayKey items_try_put(DelayQueueCore self, DelayKey key, const Instant* delay, object waiter, bint is_back):
    """Add a new key for items_put. Return None if the queue is full or the waiter has joined its line."""
    cdef Line line
    if waiter is None or is_back or line_is_idle(line_of(self.putters, waiter)):
        if items_place(self, key, delay, True):
            return key
    if waiter is None:
        return None
    line = line_of(self.putters, waiter)    # looked up again, because other code may have dropped the line
    line.waiting.insert(0 if is_back else len(line.waiting), waiter)
    try:
        if (self.shut or line_is_first(line, waiter)) and items_place(self, key, delay, True):
            line_leave(line, waiter)
            return key
    except:
        line_leave(line, waiter)
        raise
    return None


cdef DelayKey items_put(DelayQueueCore self, object item, object delay, object waiter, bint is_back):
    """Add an item and return its key. Return None if the queue is full, or if other waiters come first.

    waiter: represents a caller that may wait for room, or None. If the result is None, the waiter has joined its line.
    is_back: the waiter was called. If it has to wait again, it goes to the front of its line.
    """
    cdef Instant length
    cdef DelayKey key = DelayKey.__new__(DelayKey)
    seconds_argument(delay, "delay", &length)
    container_enter(self)
    key.item_ = item
    key.timer = self.timer
    if waiter is None:
        if items_place(self, key, &length, True):
            return key
    else:
        if is_back:
            line_leave(line_of(self.putters, waiter), waiter)
        try:
            if items_try_put(self, key, &length, waiter, is_back) is not None:
                return key
        finally:
            putters_serve(self)
    key.item_ = None
    return None


# --- take and drain --------------------------------------------------------------------------------------------------


cdef bint may_wait(DelayQueueCore self) except -1:
    """Return True if an alarm can wake a waiter. At the interpreter's exit, also allow daemon threads to wait until they end."""
    cdef Timer* timer = self.timer.timer
    if not hw_peek(&timer.closed):
        return True
    return hw_peek(&timer.exiting) and threading.current_thread() is not threading.main_thread()


cdef object items_take_due(DelayQueueCore self, Line line, object waiter):
    """Remove and return the first due item, or return NOT_THERE.

    line: the waiter's line, or None if the caller does not wait. With a line, return an item only if the waiter is the first
    one there, and set the alarm if no item is due.
    """
    cdef Instant now
    while True:
        container_enter(self)
        timer_read_clock(self.timer.timer, &now)
        if list_is_empty(&self.due):
            items_advance(self, &now)
        if not list_is_empty(&self.due):
            if line is not None and not line_is_first(line, waiter):
                return NOT_THERE
            item = items_unlink(self, entry_key(self.due.next))
            self.taken += 1
            lines_serve_after_removal(self)
            return item
        if self.shut and self.pending == 0:
            raise self.errors[QUEUE_SHUT_DOWN]("the queue is shut down")
        if line is None:
            return NOT_THERE
        if not may_wait(self):
            raise TimerClosed("the timer is closed, so a waiter would never wake up")
        if items_arm(self, &now):
            return NOT_THERE


cdef object items_try_take(DelayQueueCore self, object waiter, bint is_back):
    """Implement items_take for a waiter."""
    cdef Line line
    if is_back or line_is_idle(line_of(self.getters, waiter)):
        item = items_take_due(self, None, None)
        if item is not NOT_THERE:
            return item
    line = line_of(self.getters, waiter)    # looked up again, because other code may have dropped the line
    line.waiting.insert(0 if is_back else len(line.waiting), waiter)
    try:
        item = items_take_due(self, line, waiter)
    except:
        line_leave(line, waiter)
        raise
    if item is not NOT_THERE:
        line_leave(line, waiter)
    return item


cdef object items_take(DelayQueueCore self, object waiter, bint is_back):
    """Remove and return the first due item. Return NOT_THERE if no item is due, or if other waiters come first.

    waiter: represents a caller that may wait, or None. If the result is NOT_THERE, the waiter has joined its line.
    is_back: the waiter was called. If it has to wait again, it goes to the front of its line.
    """
    if waiter is None:
        return items_take_due(self, None, None)
    if is_back:
        line_leave(line_of(self.getters, waiter), waiter)
    try:
        return items_try_take(self, waiter, is_back)
    finally:
        getters_serve(self)


cdef struct Earliest:
    # The earliest item that items_earliest has found so far.
    Entry* entry            # holds a reference to its key; NULL: no item was found
    int64_t tick_ms
    int16_t level


cdef void earliest_take(Earliest* self, const Wheel* wheel, Entry* entry, int16_t level) noexcept:
    """Replace the earliest item with this entry if the entry comes before it."""
    cdef int64_t tick_ms = wheel_tick(wheel, entry.expiration_ms)
    # Of the items of one tick, those in a coarser level were added first (wheel/wheel.pxi). Within a bucket, the walk goes from
    # the last item to the first, so a later step finds an earlier item.
    if self.entry is NULL or tick_ms < self.tick_ms or (tick_ms == self.tick_ms and level >= self.level):
        earliest_drop(self)
        Py_INCREF(entry_key(entry))         # dropped by earliest_drop
        self.entry, self.tick_ms, self.level = entry, tick_ms, level


cdef void earliest_drop(Earliest* self) noexcept:
    if self.entry is not NULL:
        Py_DECREF(entry_key(self.entry))
        self.entry = NULL


cdef bint items_search_bucket(DelayQueueCore self, const Bucket* bucket, Earliest* best, Turn* turn) except -1:
    """Search a bucket for the earliest item. Return False if the bucket or the wheel was taken in between."""
    cdef Wheel* wheel = self.wheel
    cdef Bookmark bookmark
    cdef const Entry* entry
    bookmark_put(&bookmark, wheel, &bucket.entries)
    while True:
        entry = bookmark_step(&bookmark)
        if entry is NULL:
            break
        earliest_take(best, wheel, <Entry*>entry, bucket.level)
        if turn_step(turn) and self.wheel is not wheel:
            return False                # drain() has taken the wheel, and forgotten its bookmarks
    bookmark_remove(&bookmark, wheel)
    return bookmark.head is not NULL


cdef DelayKey items_earliest(DelayQueueCore self):
    """Return the key of the earliest item that is not due, or None if items moved during the search: then search again."""
    cdef Earliest best
    cdef Bucket* bucket
    cdef Turn turn
    cdef int32_t i = 0
    cdef DelayKey key = None
    cdef bint same = True
    memset(&best, 0, sizeof(Earliest))
    turn_begin(&turn)
    while same and i < self.wheel.queue_length:
        bucket = self.wheel.queue[i]
        i += 1
        if best.entry is NULL or bucket.entries.expiration_ms <= best.tick_ms:
            same = items_search_bucket(self, bucket, &best, &turn)
    if same and best.entry is not NULL:
        key = entry_key(best.entry)
        if key.queue != <uintptr_t><void*>self or wheel_tick(self.wheel, key.entry.expiration_ms) != best.tick_ms:
            key = None
    earliest_drop(&best)
    return key


cdef DelayKey items_peek(DelayQueueCore self):
    """Return the key of the next item, or None."""
    cdef Instant now
    cdef DelayKey key
    cdef int64_t next_ms = 0
    while True:
        container_enter(self)
        timer_read_clock(self.timer.timer, &now)
        items_advance(self, &now)
        if not list_is_empty(&self.due):
            return entry_key(self.due.next)
        if not container_next_ms(self, &next_ms):
            return None
        key = items_earliest(self)
        if key is not None:
            return key


cdef bint items_detach(DelayQueueCore self, Entry* items_out) except False:
    """Move all items to a list, in order, in turns. They still belong to the queue, but no other thread can take them."""
    cdef Instant now
    cdef Wheel* empty
    cdef Wheel* wheel = self.wheel
    cdef StepStatus status = STEP_MORE
    cdef Turn turn
    cdef int budget
    list_init(items_out)
    if wheel is NULL:
        return True
    timer_read_clock(self.timer.timer, &now)
    empty = container_wheel_new(self, now.ms)
    list_move_to_end(&self.due, items_out)
    wheel = self.wheel                  # the clock may have run foreign code
    self.wheel = empty
    wheel.bookmarks = NULL              # they belong to threads in peek(), which detect the new wheel
    turn_begin(&turn)
    while status != STEP_DONE:
        budget = STEPS_PER_CLOCK_CHECK
        status = wheel_step(wheel, INT64_MAX, &budget)
        if status == STEP_TICK:
            list_move_to_end(&wheel.due, items_out)
        if monotonic_ns() > turn.end_ns:
            turn_end(&turn)
            wheel.removals += 1         # other threads may have removed items: write no hints into older ones
    wheel_destroy(wheel)
    PyMem_RawFree(wheel)
    return True


cdef bint items_drop(DelayQueueCore self) except False:
    """Remove all items, and release them one by one."""
    cdef Entry items
    cdef Turn turn
    container_enter(self)
    items_detach(self, &items)
    turn_begin(&turn)
    while not list_is_empty(&items):
        items_unlink(self, entry_key(items.next))
        turn_step(&turn)
    return True


cdef list items_drain(DelayQueueCore self):
    """Remove and return all items in order."""
    cdef Entry waiting
    cdef list items
    cdef Py_ssize_t count, at = 0
    cdef Turn turn
    container_enter(self)
    while True:
        count = self.pending
        items = PyList_New(count)       # may run the garbage collector, and with it foreign code
        if count == self.pending:
            break
    hw_set_size(<PyObject*>items, 0)    # the list has room for all items, so nothing can fail
    items_detach(self, &waiting)
    turn_begin(&turn)
    while not list_is_empty(&waiting):
        item = items_unlink(self, entry_key(waiting.next))
        Py_INCREF(item)                 # the list's
        PyList_SET_ITEM(items, at, item)
        at += 1
        hw_set_size(<PyObject*>items, at)
        turn_step(&turn)
    return items


# --- the alarm -------------------------------------------------------------------------------------------------------


cdef bint items_on_alarm(DelayQueueCore self) except False:
    """Call as many getters as there are due items."""
    cdef Instant now
    cdef int64_t next_ms = 0
    container_enter(self)
    if self.expiring == self.generation + 1:
        return True
    self.expiring = self.generation + 1
    try:
        timer_read_clock(self.timer.timer, &now)
        items_advance(self, &now)
        getters_serve(self)
    finally:
        self.expiring = 0
        if lines_wait(self.getters) and container_next_ms(self, &next_ms):
            container_arm_again(self, next_ms)
    return True
