# The mutexes of a Timer, and the list of all Timers. The rules are in structs.pxd.

cdef hw_mutex orphans
cdef hw_mutex registry
cdef Timer* registry_first = NULL

hw_mutex_init(&orphans)
hw_mutex_init(&registry)


cdef inline bint lock_try(Timer* timer) noexcept nogil:
    if not hw_mutex_trylock(&timer.lock):
        return False
    lock_entered(timer)
    return True


cdef inline void lock_entered(Timer* timer) noexcept nogil:
    """Empty the inboxes. Every thread calls this as soon as it has the lock."""
    if HW_INBOXES and hw_peek(&timer.mail):
        inboxes_drain_locked(timer)


cdef void lock_wait(Timer* timer) noexcept nogil:
    """Take the lock, in a thread that does not hold the GIL. A cascade under way yields after its current slice."""
    if not hw_mutex_trylock(&timer.lock):
        hw_mutex_lock(&timer.turnstile)
        hw_mutex_lock(&timer.lock)
        hw_mutex_unlock(&timer.turnstile)
        if HW_INBOXES and timer.met < HW_MEETINGS:
            hw_poke(&timer.met, timer.met + 1)
    lock_entered(timer)


cdef void lock_yield(Timer* timer) noexcept nogil:
    """Release the lock, and take it again after all threads that wait at the turnstile."""
    hw_mutex_unlock(&timer.lock)
    hw_mutex_lock(&timer.turnstile)
    hw_mutex_lock(&timer.lock)
    hw_mutex_unlock(&timer.turnstile)
    lock_entered(timer)


cdef inline void lock_release(Timer* timer) noexcept nogil:
    hw_mutex_unlock(&timer.lock)


cdef void lock_with_gil(Timer* timer) noexcept:
    """Take the lock in a thread that keeps the GIL. For short sections only: other threads need both."""
    while not lock_try(timer):
        with nogil:
            lock_wait(timer)
            lock_release(timer)


cdef void lock_init(Timer* timer) noexcept nogil:
    hw_mutex_init(&timer.lock)
    hw_mutex_init(&timer.turnstile)
    hw_cond_init(&timer.work)
    hw_cond_init(&timer.all_awake)


cdef void lock_destroy(Timer* timer) noexcept nogil:
    hw_cond_destroy(&timer.all_awake)
    hw_cond_destroy(&timer.work)
    hw_mutex_destroy(&timer.turnstile)
    hw_mutex_destroy(&timer.lock)


cdef void registry_enter(Timer* timer) noexcept nogil:
    global registry_first
    hw_mutex_lock(&registry)
    timer.registry_prev = NULL
    timer.registry_next = registry_first
    if registry_first is not NULL:
        registry_first.registry_prev = timer
    registry_first = timer
    hw_mutex_unlock(&registry)


cdef void registry_leave(Timer* timer) noexcept nogil:
    global registry_first
    hw_mutex_lock(&registry)
    if timer.registry_prev is NULL:
        registry_first = timer.registry_next
    else:
        timer.registry_prev.registry_next = timer.registry_next
    if timer.registry_next is not NULL:
        timer.registry_next.registry_prev = timer.registry_prev
    hw_mutex_unlock(&registry)
