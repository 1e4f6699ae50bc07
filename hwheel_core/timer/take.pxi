# Taking out of a Timer what is ready, for a thread that has the GIL.


cdef enum:
    POOL_SIZE = 16384       # CPython's small objects lie in pools of this size, with a head that free() writes to


cdef inline void entry_prefetch_task(const Entry* entry) noexcept nogil:
    """The whole of a TimerTask: from its head, before which the garbage collector has 16 bytes, to its end; and what is
    touched when it is freed."""
    cdef const char* first = <const char*>entry - entry_offset - 16
    hw_prefetch(first)
    hw_prefetch(first + 64)
    hw_prefetch(first + TASK_SIZE - 1)
    hw_prefetch(<const void*>(<uintptr_t>first & ~<uintptr_t>(POOL_SIZE - 1)))


cdef enum:
    CALLBACKS_AHEAD = 4


cdef inline void timer_fetch_ahead_locked(Timer* timer) noexcept nogil:
    """Prefetches what a hand-out comes to next: the objects lie scattered over memory.

    One task at each call, the one that the hint names, HINT_DISTANCE ahead; of nearer ones, which are here by now, the
    callback.
    """
    cdef Entry* entry = timer.ready.next
    cdef int i
    entry_prefetch_task(entry_hinted(entry))
    timer.fetched_ahead -= 1
    if timer.fetched_ahead > 0:
        return
    timer.fetched_ahead = CALLBACKS_AHEAD
    for i in range(2 * CALLBACKS_AHEAD):
        if entry is &timer.ready:
            return
        if i >= CALLBACKS_AHEAD and entry.place == ENTRY_OF_TASK:
            hw_prefetch(<void*>(<TimerTask><PyObject*>(<const char*>entry - entry_offset)).callback_)
        entry = entry.next


cdef inline Entry* timer_take_ahead_locked(Timer* timer, Instant* now) noexcept nogil:
    timer_fetch_ahead_locked(timer)
    if now is not NULL and (timer.clock == CLOCK_KIND_CALLABLE or timer.clock == CLOCK_KIND_MANUAL):
        now[0] = timer.manual_now
    return timer_take_locked(timer, now)


cdef Entry* timer_take(Timer* timer, Instant* now) noexcept:
    """timer_take_locked for a thread that has the GIL. The wheel's reference is the caller's to drop."""
    cdef Entry* entry
    if lock_try(timer):
        entry = timer_take_ahead_locked(timer, now)
        lock_release(timer)
    else:
        with nogil:
            lock_wait(timer)
            entry = timer_take_ahead_locked(timer, now)
            lock_release(timer)
    return entry


cdef Entry* timer_take_by_callable(Timer* timer, Instant* now_out) except? NULL:
    """timer_take where the clock is a callable, which may have been set back since the last cascade. What is not due by it goes
    back into the wheel. The answer is about what is first after the reading, because in it anything may happen."""
    cdef Instant now
    cdef Entry* entry
    cdef bint is_ready, have_memory
    while not hw_flag(&timer.stopping):
        if hw_peek(&timer.hurried):
            return timer_take(timer, now_out)
        lock_with_gil(timer)
        is_ready = not list_is_empty(&timer.ready)
        lock_release(timer)
        if not is_ready:
            break
        try:
            timer_read_clock(timer, &now)
        except TimerClosed:
            return timer_take(timer, now_out)
        lock_with_gil(timer)
        timer.manual_now = now
        if list_is_empty(&timer.ready) or timer_hand_out_tick_locked(timer) <= now.ms:
            entry = timer_take_ahead_locked(timer, now_out)
            lock_release(timer)
            return entry
        lock_release(timer)
        with nogil:
            have_memory = timer_set_back(timer, now.ms)
        if not have_memory:
            raise MemoryError
    return NULL


cdef inline Entry* timer_take_next(Timer* timer, Instant* now_out) except? NULL:
    """The next entry to hand out, and the time; NULL when nothing is ready, or the timer is to stop."""
    if hw_flag(&timer.stopping):
        return NULL
    if timer.clock == CLOCK_KIND_CALLABLE:
        return timer_take_by_callable(timer, now_out)
    if timer.clock <= CLOCK_KIND_BOOTTIME:
        clock_read(timer.clock, now_out)
    return timer_take(timer, now_out)


cdef bint task_put_back(TimerTask self) except False:
    """Of a task that was taken out and cannot be handed out: it stays the next, if nobody has cancelled or added it
    meanwhile. The wheel's reference is the wheel's again, or dropped."""
    cdef Timer* timer = <Timer*>self.task.owner
    cdef bint is_back
    task_untrack(self)
    lock_with_gil(timer)
    is_back = task_put_back_locked(timer, &self.task)
    lock_release(timer)
    if not is_back:
        task_track(self)
        Py_DECREF(self)
    return True


cdef bint timer_return_ready(Timer* timer, list given_back) except False:
    """Takes everything that is ready out, cancelled, and appends it to a list.

    The GIL is not given up between the taking of a task and the append, because another thread might fork: the child has
    the list, and not what this thread holds.
    """
    cdef Entry* entry
    cdef TimerTask task
    cdef TimerBatch batch
    while True:
        list_make_room(given_back)
        try:
            lock_with_gil(timer)
            entry = timer_take_ahead_locked(timer, NULL)
            lock_release(timer)
            if entry is NULL:
                return True
            if entry.place != ENTRY_OF_TASK:
                batch = <TimerBatch>entry_batch(entry).object
                timer_batch_return(batch, given_back)
            else:
                task = entry_task(entry)
                task_track(task)
                list_fill_room(given_back, task)
                Py_DECREF(task)             # the wheel's reference, of task_schedule
                task_notify(task, None, None, True)
        finally:
            list_drop_room(given_back)


cdef bint timer_return_all(Timer* timer, list given_back) except False:
    """Takes everything that is pending out, in order of its time, cancelled, and appends it to a list.

    Tasks keep their callback and are tracked by the garbage collector again; a batch comes once, with what had not run
    as its `remaining`.
    """
    with nogil:
        timer_advance(timer, INT64_MAX)
    return timer_return_ready(timer, given_back)


cdef bint timer_let_go(Timer* timer) except False:
    """For the end of a timer that nobody has closed: as timer_return_all, but nobody asks for what comes back."""
    cdef Entry* entry
    cdef TimerTask task
    cdef TimerBatch batch
    try:
        return timer_return_all(timer, [])
    except MemoryError:
        pass
    # Then without the lists and arrays in which a batch would keep what had not run.
    while True:
        entry = timer_take(timer, NULL)
        if entry is NULL:
            return True
        if entry.place != ENTRY_OF_TASK:
            batch = <TimerBatch>entry_batch(entry).object
            timer_batch_put_back(batch)
            batch.cancel()
        else:
            task = entry_task(entry)
            task_track(task)
            Py_DECREF(task)             # the wheel's reference, of task_schedule
            try:
                task_notify(task, None, None, True)
            except MemoryError:
                pass


cdef object timer_cancel_all(Timer* timer):
    """Cancels everything that is pending, as if by each one's cancel(). The timer's clock stays where it is."""
    cdef int64_t returned
    cdef list given_back = []
    with nogil:
        timer_make_all_ready(timer)
    lock_with_gil(timer)
    returned = timer.returned
    lock_release(timer)
    timer_return_ready(timer, given_back)
    lock_with_gil(timer)
    timer.cancelled += timer.returned - returned
    timer.returned = returned
    lock_release(timer)
    for one in given_back:
        if isinstance(one, TimerBatch):
            with cython.critical_section(one):
                (<TimerBatch>one).remaining = None
            batch_set_callback(one, None)
        else:
            task_drop_call(one)


cdef void timer_finish_batches(Timer* timer) noexcept:
    """In the child of a fork: lets go of batches whose last index was being handed out by a thread of the parent, and of the
    lock of each for which such threads waited."""
    cdef Batch* batch
    cdef Batch* following
    cdef TimerBatch ended
    cdef BatchRelease release
    lock_with_gil(timer)
    batch = timer.batches
    while batch is not NULL:
        following = batch.next
        release = BatchRelease(NULL, False)
        hw_free_object_lock(<PyObject*>batch.object)
        batch_finish_locked(batch, &release)
        if release.is_finished:
            lock_release(timer)         # no other thread is there yet that could change the list
            ended = <TimerBatch>batch.object
            timer_batch_release(ended, &release)
            lock_with_gil(timer)
        batch = following
    lock_release(timer)
