# Fork handlers for all Timers.
#
# These are C handlers (pthread_atfork), not Python ones. They run inside fork(), after all Python handlers, so no Python
# handler can need a lock that is held here. The forking thread holds the GIL. It may wait for a lock with it, because no thread
# waits for the GIL while it holds a lock.


cdef void batch_forget_hand_out(Batch* self) noexcept nogil:
    """In the child: undo the work of threads of the parent that were taking expired timers.

    Timers that close() has taken and not returned yet are put back, because no one else has them.
    """
    cdef int64_t i
    cdef Entry* entry
    self.holders = 0
    self.due_begin -= self.returning    # there is room, because these timers were in front before
    for i in range(self.returning):
        entry = batch_entry(self, self.returned[i])
        self.due[self.due_begin + i] = Due(self.returned[i], False, entry.expiration_ms)
        entry.due_index = self.due_begin + i
    self.pending += self.returning
    self.timer.pending += self.returning
    self.timer.returned -= self.returning
    self.returned = NULL
    self.returning = 0
    batch_be_next_locked(self)


cdef void before_fork() noexcept nogil:
    cdef Timer* timer
    hw_mutex_lock(&registry)
    timer = registry_first
    while timer is not NULL:
        lock_wait(timer)
        while timer.adding:             # the child gets no half-added batch
            lock_yield(timer)
        if HW_INBOXES:
            inboxes_before_fork(timer)
        timer = timer.registry_next
    hw_mutex_lock(&orphans)


cdef void after_fork_in_parent() noexcept nogil:
    cdef Timer* timer = registry_first
    hw_mutex_unlock(&orphans)
    while timer is not NULL:
        if HW_INBOXES:
            inboxes_after_fork_in_parent(timer)
        lock_release(timer)
        timer = timer.registry_next
    hw_mutex_unlock(&registry)


cdef void after_fork_in_child() noexcept nogil:
    # The forking thread is the only one in the child, and holds every lock. The locks may still record threads of the parent
    # that waited, so they are initialized again.
    cdef Timer* timer = registry_first
    cdef Batch* batch
    while timer is not NULL:
        lock_init(timer)
        if HW_INBOXES:
            inboxes_after_fork_in_child(timer)
        timer.reaper_until_ms = INT64_MIN
        timer.sleepers = timer.woken = 0
        timer.has_worker = False
        timer.reaping = timer.alarms_running = 0
        timer.roles[ROLE_REAPER] = timer.roles[ROLE_EXECUTOR] = ROLE_FREE
        hw_poke(&timer.started, False)
        timer.wheel.bookmarks = NULL    # of threads of the parent
        hw_poke(&timer.forked, True)             # until core_after_fork (lifecycle.pxi)
        timer.generation += 1
        hw_waker_close(&timer.waker)    # closes only the child's copies
        batch = timer.batches
        while batch is not NULL:
            batch_forget_hand_out(batch)
            batch = batch.next
        timer = timer.registry_next
    hw_mutex_init(&orphans)
    hw_mutex_init(&registry)


if hw_at_fork(before_fork, after_fork_in_parent, after_fork_in_child) != 0:
    raise MemoryError
