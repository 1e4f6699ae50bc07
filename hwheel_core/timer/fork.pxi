# What happens to all Timers at a fork. Last of the timer's files, because it reaches into all the others.
#
# These are C's fork handlers and not Python's: they run inside fork() itself, after every Python hook, so that no hook
# can want a lock that is held here, or be waited for by who holds one. The thread that forks has the GIL. It may wait
# for a lock with it, since nobody waits for the GIL with a lock held.


cdef void batch_forget_hand_out(Batch* self) noexcept nogil:
    """In the child of a fork: a thread that was about to take what is due did not come along. What it had taken for close(),
    and not shown to anybody yet, is put back, because nobody else has it."""
    cdef int64_t i
    cdef Entry* entry
    self.holders = 0
    self.due_begin -= self.returning    # there is room: this many stood before it
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
        while timer.adding:             # no half-added batch is copied
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
    # The thread that forked is the only one here. It holds every lock, but who waited at a turnstile or for work is
    # gone and has left traces in them: all are made anew.
    cdef Timer* timer = registry_first
    cdef Batch* batch
    while timer is not NULL:
        lock_init(timer)
        if HW_INBOXES:
            inboxes_after_fork_in_child(timer)
        timer.reaper_until_ms = INT64_MIN
        timer.sleepers = timer.woken = 0
        timer.has_worker = False
        timer.reaping = timer.ringing = 0
        timer.roles[ROLE_REAPER] = timer.roles[ROLE_EXECUTOR] = ROLE_FREE
        hw_poke(&timer.started, False)
        timer.wheel.bookmarks = NULL    # of threads that did not come along
        hw_poke(&timer.forked, True)             # until core_after_fork (timer/after_fork.pxi)
        timer.generation += 1
        hw_waker_close(&timer.waker)    # only this process's copies
        batch = timer.batches
        while batch is not NULL:
            batch_forget_hand_out(batch)
            batch = batch.next
        timer = timer.registry_next
    hw_mutex_init(&orphans)
    hw_mutex_init(&registry)


if hw_at_fork(before_fork, after_fork_in_parent, after_fork_in_child) != 0:
    raise MemoryError
