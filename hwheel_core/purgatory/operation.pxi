# OperationCore: what hwheel.purgatory.DelayedOperation does with its lock and its timeout.
#
# The lock of an operation. `try_complete`, `on_complete` and `on_expiration` run under it, and it is what makes
# completing happen once. Who waits for it, and who does not:
#
# - A check (`safe_try_complete`, and so `check_and_complete`) never waits. If the lock is taken it leaves word, in
#   `missed`, and whoever gives the lock up looks for that word and checks again. So two operations whose `on_complete`
#   check each other's keys cannot deadlock, and no check is lost: the word is left before the second look at the lock,
#   and looked for after the lock is free, so one of the two sees the other.
# - Completing (`force_complete`, the timeout) waits for a check that is under way, because who completes is told that
#   `on_complete` has run. An operation that is completed already is not waited for; so an `on_complete` may complete
#   other operations. A `try_complete` may not: it would wait with a lock in hand that somebody else may wait for.
#
# Under an operation's lock that of the purgatory's lists may be taken (see purgatory_core.pxi), never the reverse.

cdef class PurgatoryCore


cdef class OperationCore(TimerTask):
    """The compiled part of a DelayedOperation, which brings `try_complete()`, `on_complete()`, `on_expiration()`."""

    def __init__(self, delay_ms):
        cdef int64_t delay = milliseconds_argument(delay_ms, "delay_ms")
        if self.task.state != TASK_NEW or self.task.owner:
            raise ValueError("this task has been added or cancelled already; make a new one")
        self.task.delay_ms = delay
        self.task.flags = TASK_OWN_RUN

    @property
    def is_completed(self):
        """True from the moment that somebody has begun to complete the operation."""
        return self.completed

    def force_complete(self):
        """Completes the operation now. True if this call did it; then on_complete() has run. False if it was completed.

        Raises:
            What on_complete() raises; the operation is completed nevertheless.
        Runtime complexity: O(1), but see `purge_interval` of the purgatory.
        Thread-safety: waits while another thread holds `lock`: not to be called for another operation in
        try_complete().
        """
        cdef Watcher* watcher
        if self.completed:
            return False
        relock_acquire(&self.mutex, self)
        try:
            if self.completed:
                return False
            self.completed = True
            task_cancel(self)
            try:
                watcher = operation_take_watcher(self)
                if watcher is not NULL:
                    purgatory_completed_one(self.purgatory, self, watcher)
            finally:
                self.on_complete()
        finally:
            relock_release(&self.mutex)
        return True

    def safe_try_complete(self):
        """try_complete() under the lock. True if this call completed the operation.

        If another thread holds the lock this does not wait: that thread will check again, and the answer is False.

        Raises:
            What try_complete() and on_complete() raise.
        """
        return operation_check(self)

    @cython.always_allow_keywords(True)
    def safe_try_complete_or_else(self, action):
        """try_complete(); if it is False, action() and try_complete() once more, all under one hold of the lock.

        `try_complete_else_watch` does the same, with an action that begins to watch: an event before it is seen by the
        second look, and one after it finds the operation watched.

        Raises:
            What try_complete(), on_complete() and action() raise.
        """
        return operation_check_or_else(self, action, None, NULL, None)

    def run(self):
        """The timeout: completes the operation, and then calls on_expiration(), unless it is completed."""
        relock_acquire(&self.mutex, self)
        try:
            if self.completed:
                return
            if self.watcher is not NULL:
                purgatory_count(self.purgatory, &self.purgatory.expired, 1)
            try:
                self.force_complete()
            finally:
                self.on_expiration()
        finally:
            relock_release(&self.mutex)

    def cancel(self):
        """Takes the timeout away, and that alone: TimerTask's cancel(). True if it was still to come."""
        cdef bint cancelled = task_cancel(self)
        if cancelled and self.purgatory is not None:
            with cython.critical_section(self.purgatory):
                if self.watcher is not NULL:
                    watcher_delayed_no_more(self.purgatory, self.watcher)
        return cancelled

    # --- for OperationLock ---------------------------------------------------------------------------------------

    def _acquire(self, bint blocking, double timeout):
        return relock_try(&self.mutex) or (blocking and relock_wait(&self.mutex, timeout))

    def _is_owned(self):
        return relock_is_mine(&self.mutex)

    def _release(self):
        if not relock_is_mine(&self.mutex):
            raise RuntimeError("cannot release un-acquired lock")
        operation_let_go(self)


cdef bint operation_check(OperationCore self) except -1:
    """safe_try_complete."""
    cdef bint done
    while not self.completed:
        if not relock_try(&self.mutex):
            hw_word_store(&self.missed, True)
            if not relock_try(&self.mutex):
                return False
        try:
            hw_word_store(&self.missed, False)
            done = not self.completed and self.try_complete()
        except BaseException:
            operation_let_go(self)
            raise
        relock_release(&self.mutex)
        if done or not hw_word_load(&self.missed):
            return done
    return False


cdef bint operation_check_or_else(OperationCore self, object action, PurgatoryCore purgatory, Watcher* watcher,
                                  tuple keys) except -1:
    """safe_try_complete_or_else: with an action, or with a watcher that is entered for the keys."""
    cdef bint done
    relock_acquire(&self.mutex, self)
    try:
        done = self.try_complete()
        if not done:
            if watcher is NULL:
                action()
            else:
                purgatory_watch(purgatory, self, watcher, keys)
            done = self.try_complete()
    except BaseException:
        operation_let_go(self)
        raise
    relock_release(&self.mutex)
    return done or (hw_word_load(&self.missed) and operation_check(self))


cdef bint operation_let_go(OperationCore self) except -1:
    """Gives the lock up and makes up for the checks that found it taken; their errors are not this thread's."""
    relock_release(&self.mutex)
    if not hw_word_load(&self.missed):
        return False
    if self.watcher is not NULL:
        return purgatory_check(self.purgatory, self)
    return operation_check(self)


cdef inline Watcher* operation_take_watcher(OperationCore self):
    """Whoever gets the watcher ends the watch; its reference is the caller's."""
    cdef Watcher* watcher = NULL
    if self.purgatory is not None:
        with cython.critical_section(self.purgatory):
            watcher = self.watcher
            self.watcher = NULL
    return watcher


cdef inline PyObject** operation_purgatory_slot(PyObject* self) noexcept:
    """`purgatory`, which comes right after `watcher`."""
    return <PyObject**>(&(<OperationCore>self).watcher + 1)


cdef PyObject* operation_new(PyObject* cls, PyObject* arguments, PyObject* keywords) noexcept:
    """tp_new. Cython's own does not come by object.__new__(), which is what gives an instance of a user's class room
    for its attributes: in CPython 3.11 each would need a dict."""
    cdef PyObject* self = hw_object_new(cls, <PyObject*>())
    if self is not NULL:
        Py_INCREF(None)                 # all three dropped by task_dealloc and operation_dealloc
        Py_INCREF(None)
        Py_INCREF(None)
        task_slots(self)[0] = task_slots(self)[1] = operation_purgatory_slot(self)[0] = <PyObject*>None
    return self


cdef void operation_dealloc(PyObject* self) noexcept:
    """tp_dealloc; TimerTask says why. A watcher that is there now is on no list, or this would be alive."""
    cdef Watcher* watcher = (<OperationCore>self).watcher
    cdef PyObject* purgatory = <PyObject*>(<OperationCore>self).purgatory
    PyObject_GC_UnTrack(self)
    relock_free(&(<OperationCore>self).mutex)
    if watcher is not NULL:
        watcher.operation = NULL
        watcher_release(watcher)
    Py_XDECREF(purgatory)
    task_dealloc(self)
