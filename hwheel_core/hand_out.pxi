# Taking out of a Timer what is ready, for a thread that has the GIL.


cdef Entry* pop(Timer* timer, const Instant* now) noexcept:
    """timer_pop_locked for a thread that has the GIL. The wheel's reference is the caller's to drop."""
    cdef Entry* entry
    if lock_try(timer):
        entry = timer_pop_locked(timer, now)
        lock_release(timer)
    else:
        with nogil:
            lock_wait(timer)
            entry = timer_pop_locked(timer, now)
            lock_release(timer)
    return entry


cdef object drop_all(Timer* timer):
    """Takes everything that is pending out, in order of its time, cancelled, and returns it as a list.

    Tasks keep their callback and are tracked by the garbage collector again; a batch comes once, with what had not run
    as its `remaining`.
    """
    cdef list dropped = []
    cdef Entry* entry
    cdef TimerTask task
    cdef TimerBatch batch
    with nogil:
        timer_advance(timer, INT64_MAX)
    while True:
        entry = pop(timer, NULL)
        if entry is NULL:
            return dropped
        if entry.place == ENTRY_OF_BATCH:
            batch = <TimerBatch>entry_batch(entry).object
            batch.remaining = take_indices(batch, NULL)
            if len(batch.remaining):
                dropped.append(batch)
        else:
            task = entry_task(entry)
            task_track(task)
            dropped.append(task)
            Py_DECREF(task)             # the wheel's reference, of schedule_task


cdef object cancel_all(Timer* timer):
    """Cancels everything that is pending, as if by each one's cancel()."""
    cdef int64_t returned = timer.returned
    cdef list dropped = drop_all(timer)
    lock_with_gil(timer)
    timer.cancelled += timer.returned - returned
    timer.returned = returned
    lock_release(timer)
    for one in dropped:
        if isinstance(one, TimerBatch):
            (<TimerBatch>one).remaining = None
            (<TimerBatch>one).callback_ = None
        else:
            task_let_go(one)


cdef void settle_batches(Timer* timer) noexcept:
    """In the child of a fork: lets go of batches whose last index was being handed out by a thread of the parent."""
    cdef Batch* batch
    cdef Batch* following
    cdef void* block
    cdef bint settled
    lock_with_gil(timer)
    batch = timer.batches
    while batch is not NULL:
        following = batch.next
        block = NULL
        settled = batch_settle_locked(batch, &block)
        if settled:
            lock_release(timer)         # no other thread is there yet that could change the list
            block_free(block)
            (<TimerBatch>batch.object).callback_ = None
            Py_DECREF(<object>batch.object)     # the timer's reference, of add_batch
            lock_with_gil(timer)
        batch = following
    lock_release(timer)
