# Taking ready entries out of a Timer, in a thread that has the GIL: to run them, to return them from close(), or to cancel
# them.


cdef enum:
    POOL_SIZE = 16384       # of CPython's small objects; free() writes to the head of a pool


cdef inline void entry_prefetch_task(const Entry* entry) noexcept nogil:
    """Prefetch a TimerTask, including the 16 bytes of the garbage collector before it, and the head of its pool."""
    cdef const char* first = <const char*>entry - entry_offset - 16
    hw_prefetch(first)
    hw_prefetch(first + 64)
    hw_prefetch(first + TASK_SIZE - 1)
    hw_prefetch(<const void*>(<uintptr_t>first & ~<uintptr_t>(POOL_SIZE - 1)))


cdef enum:
    CALLBACKS_AHEAD = 4


cdef inline void timer_fetch_ahead_locked(Timer* timer) noexcept nogil:
    """Prefetch the task that the hint names, HINT_DISTANCE ahead, and sometimes the callbacks of nearer tasks.

    The nearer tasks themselves have been prefetched earlier.
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
        now[0] = timer.latest_reading
    return timer_take_locked(timer, now)


cdef Entry* timer_take(Timer* timer, Instant* now) noexcept:
    """Take the next ready entry. The caller owns the wheel's reference to its task."""
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


cdef bint timer_read_if_ready(Timer* timer) except False:
    """Read a callable clock if an entry is ready, for its lateness."""
    cdef Reading reading
    cdef bint is_ready
    lock_with_gil(timer)
    is_ready = not list_is_empty(&timer.ready) and timer.clock_object is not NULL
    lock_release(timer)
    if is_ready and not hw_peek(&timer.hurried):
        timer_read_callable(timer, &reading)
    return True


cdef inline Entry* timer_take_next(Timer* timer, Instant* now_out) except? NULL:
    """Take the next entry to dispatch, and the time. Return NULL if nothing is ready or the timer is stopping."""
    if hw_flag(&timer.stopping):
        return NULL
    if timer.clock <= CLOCK_KIND_BOOTTIME:
        clock_read(timer.clock, now_out)
    elif timer.clock == CLOCK_KIND_CALLABLE:
        timer_read_if_ready(timer)
    return timer_take(timer, now_out)


cdef bint task_put_back(TimerTask self) except False:
    """Put a task that was taken and cannot be dispatched back in front, unless it was cancelled or added since.

    The wheel gets its reference back, or it is dropped.
    """
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


cdef bint timer_return_ready(Timer* timer, list given_back, bint track=True) except False:
    """Cancel everything that is ready, and append it to a list. track: show the tasks to the garbage collector again.

    The GIL is not released between taking a task and appending it. Otherwise another thread could fork in between, and the
    child would lose the task: it has the list, but not this thread.
    """
    cdef Entry* entry
    cdef TimerTask task
    cdef TimerBatch batch
    cdef Turn turn
    turn_begin(&turn)
    while True:
        turn_step(&turn)
        list_reserve(given_back)
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
                if track:
                    task_track(task)
                list_fill(given_back, task)
                Py_DECREF(task)             # the wheel's reference, from task_schedule
                task_notify(task, None, None, True)
        finally:
            list_unreserve(given_back)


cdef bint timer_return_all(Timer* timer, list given_back, bint track=True) except False:
    """Cancel everything that is pending, and append it to a list, in order.

    Tasks keep their callbacks. A batch appears once, with the timers that had not run in its `remaining`.
    """
    with nogil:
        timer_advance(timer, INT64_MAX)
    return timer_return_ready(timer, given_back, track)


cdef bint timer_cancel_rest(Timer* timer) except False:
    """Cancel everything in a timer that dies without close()."""
    cdef Entry* entry
    cdef TimerTask task
    cdef TimerBatch batch
    cdef list not_run = []
    try:
        return timer_return_all(timer, not_run, False)
    except MemoryError:
        pass
    finally:
        tasks_release(not_run)
    # Memory is short: continue without the lists and arrays of timers that had not run.
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
            Py_DECREF(task)             # the wheel's reference, from task_schedule
            try:
                task_notify(task, None, None, True)
            except MemoryError:
                pass


cdef object timer_cancel_all(Timer* timer):
    """Cancel everything that is pending, like cancel() of each one. The timer's clock does not move."""
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
    """In the child of a fork: release the batches that a thread of the parent was finishing, and the locks of all batches."""
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
            lock_release(timer)         # no other thread exists yet that could change the list
            ended = <TimerBatch>batch.object
            timer_batch_release(ended, &release)
            lock_with_gil(timer)
        batch = following
    lock_release(timer)
