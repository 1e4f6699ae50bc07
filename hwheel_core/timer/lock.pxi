# The mutexes of a Timer, and the list of all Timers. The rules are in structs.pxd.

cdef pthread_mutex_t orphans
cdef pthread_mutex_t registry
cdef Timer* registry_first = NULL

pthread_mutex_init(&orphans, NULL)
pthread_mutex_init(&registry, NULL)


cdef inline bint lock_try(Timer* timer) noexcept nogil:
    return pthread_mutex_trylock(&timer.lock) == 0


cdef void lock_wait(Timer* timer) noexcept nogil:
    """Takes the lock; for a thread without the GIL. Whoever meets a cascade gets in after its current slice."""
    if pthread_mutex_trylock(&timer.lock) != 0:
        pthread_mutex_lock(&timer.turnstile)
        pthread_mutex_lock(&timer.lock)
        pthread_mutex_unlock(&timer.turnstile)


cdef void lock_yield(Timer* timer) noexcept nogil:
    """Gives the lock up and takes it again behind everybody who waits at the turnstile now."""
    pthread_mutex_unlock(&timer.lock)
    pthread_mutex_lock(&timer.turnstile)
    pthread_mutex_lock(&timer.lock)
    pthread_mutex_unlock(&timer.turnstile)


cdef inline void lock_release(Timer* timer) noexcept nogil:
    pthread_mutex_unlock(&timer.lock)


cdef void lock_with_gil(Timer* timer) noexcept:
    """Takes the lock for a thread that has the GIL and keeps it: only for inspection and for fork, which need both."""
    while not lock_try(timer):
        with nogil:
            lock_wait(timer)
            lock_release(timer)


cdef void lock_init(Timer* timer) noexcept nogil:
    pthread_mutex_init(&timer.lock, NULL)
    pthread_mutex_init(&timer.turnstile, NULL)
    pthread_cond_init(&timer.work, NULL)


cdef void lock_destroy(Timer* timer) noexcept nogil:
    pthread_cond_destroy(&timer.work)
    pthread_mutex_destroy(&timer.turnstile)
    pthread_mutex_destroy(&timer.lock)


cdef void registry_enter(Timer* timer) noexcept nogil:
    global registry_first
    pthread_mutex_lock(&registry)
    timer.registry_prev = NULL
    timer.registry_next = registry_first
    if registry_first is not NULL:
        registry_first.registry_prev = timer
    registry_first = timer
    pthread_mutex_unlock(&registry)


cdef void registry_leave(Timer* timer) noexcept nogil:
    global registry_first
    pthread_mutex_lock(&registry)
    if timer.registry_prev is NULL:
        registry_first = timer.registry_next
    else:
        timer.registry_prev.registry_next = timer.registry_next
    if timer.registry_next is not NULL:
        timer.registry_next.registry_prev = timer.registry_prev
    pthread_mutex_unlock(&registry)
