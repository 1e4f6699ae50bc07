# Which thread is the reaper and which the executor.
#
# A thread takes its role when it begins to run, and the first one gets it: then it does no harm if one is started too
# many, because an add was interrupted while it started one, or because two adds were first at once.


cdef int64_t timer_take_role(Timer* self, int role) noexcept nogil:
    """The generation of the process, for the thread that has the role now; -1 if it is another's or the timer stops.

    Without a waker nothing could wake it: a signal handler has forked after that was opened, and before the thread was
    started, in the child. There the add under way begins anew, and starts another.
    """
    cdef int64_t generation = -1
    lock_wait(self)
    if self.roles[role] != ROLE_TAKEN and not self.stopping and hw_waker_is_open(&self.waker):
        self.roles[role] = ROLE_TAKEN
        generation = self.generation
    lock_release(self)
    return generation


cdef void timer_leave_role(Timer* self, int role, int64_t generation) noexcept nogil:
    """A thread ends. If that was an accident, the next add starts another."""
    lock_wait(self)
    if self.generation == generation:
        self.roles[role] = ROLE_FREE
        hw_poke(&self.started, False)
    lock_release(self)


cdef bint timer_start_role(Timer* self, int role, uintptr_t me, bint wait, bint* ask_again_out) noexcept nogil:
    """Whether the caller is to start a thread for the role. wait: not if another thread is just doing that."""
    cdef bint start = False
    lock_wait(self)
    ask_again_out[0] = False
    if self.roles[role] == ROLE_STARTING and self.starters[role] != me and wait and not self.closed:
        ask_again_out[0] = True
    elif self.roles[role] != ROLE_TAKEN and not self.stopping:      # else it would end at once
        self.roles[role] = ROLE_STARTING
        self.starters[role] = me
        start = True
    lock_release(self)
    return start


cdef void timer_not_started(Timer* self, int role, uintptr_t me) noexcept nogil:
    """Starting a thread failed, or was interrupted."""
    lock_wait(self)
    if self.roles[role] == ROLE_STARTING and self.starters[role] == me:
        self.roles[role] = ROLE_FREE
    lock_release(self)
