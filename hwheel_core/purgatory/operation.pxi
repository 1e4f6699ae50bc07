# OperationCore: what hwheel.purgatory.DelayedOperation does with its lock and its timeout. What its lock is for, and who
# waits for it, is said in structs.pxd.


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


cdef class OperationCore(TimerTask):
    """The compiled part of a DelayedOperation, which brings `try_complete()`, `on_complete()`, `on_expiration()`."""

    def __init__(self, delay_ms):
        cdef int64_t delay = milliseconds_argument(delay_ms, "delay_ms")
        if task_state(&self.task) != TASK_NEW or self.task.owner:
            raise ValueError("this task has been added or cancelled already; make a new one")
        self.task.delay_ms = delay
        self.task.flags = TASK_OWN_RUN

    def __await__(self):
        raise TypeError("an operation is not awaited as a task is, because it may complete before its time: await the purgatory")

    @property
    def is_completed(self):
        """True from the moment that somebody has begun to complete the operation."""
        return bool(hw_peek(&self.completed))

    def force_complete(self):
        """Completes the operation now. True if this call did it; then on_complete() has run. False if it was completed.

        Raises:
            What on_complete() raises; the operation is completed nevertheless.
        Runtime complexity: O(1), but see `purge_interval` of the purgatory.
        Thread-safety: waits while another thread holds `lock`: not to be called for another operation in
        try_complete().
        """
        cdef Watcher* watcher
        if hw_peek(&self.completed):
            return False
        relock_acquire(&self.mutex, self)
        try:
            if hw_peek(&self.completed):
                return False
            hw_poke(&self.completed, True)
            task_cancel(self)
            try:
                watcher = operation_take_watcher(self)
                if watcher is not NULL:
                    purgatory_end_watch(operation_purgatory(self), self, watcher)
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
        cdef PurgatoryCore purgatory
        relock_acquire(&self.mutex, self)
        try:
            if hw_peek(&self.completed):
                return
            if operation_is_watched(self):
                purgatory = operation_purgatory(self)
                purgatory_count(purgatory, &purgatory.expired, 1)
            try:
                self.force_complete()
            finally:
                self.on_expiration()
        finally:
            relock_release(&self.mutex)

    def cancel(self):
        """Takes the timeout away, and that alone: TimerTask's cancel(). True if it was still to come."""
        cdef bint cancelled = task_cancel(self)
        cdef PurgatoryCore purgatory = operation_purgatory(self) if cancelled else None
        if purgatory is not None:
            with cython.critical_section(purgatory):
                if self.watcher is not NULL:
                    purgatory_end_delay(purgatory, self.watcher)
        return cancelled

    # --- for OperationLock ---------------------------------------------------------------------------------------

    def _acquire(self, bint blocking, double timeout):
        return relock_acquire_within(&self.mutex, blocking, timeout)

    def _is_owned(self):
        return relock_is_mine(&self.mutex)

    def _release(self):
        if not relock_is_mine(&self.mutex):
            raise RuntimeError("cannot release un-acquired lock")
        operation_unlock_and_check(self)


cdef OperationCore sample_operation = OperationCore(0)
if operation_purgatory_slot(<PyObject*>sample_operation)[0] != <PyObject*>sample_operation.purgatory:
    raise SystemError("an OperationCore is not laid out as operation.pxi takes for granted")
sample_operation = None

# What would break if CPython changed it, and which test in tests/purgatory/test_operation_lock.py would tell:
# - tp_new, if object.__new__() did not make room for attributes any more, or Cython's own did: nothing but memory;
#   test_the_attributes_of_an_operation_stand_in_it_and_in_no_dict. If it did not zero the fields, all tests.
# - tp_dealloc, if it were found elsewhere than in the type: an operation would not release its watcher; in a debug build
#   test_an_operation_that_is_on_no_list_any_more_is_released_with_its_user finds one left behind.
hw_set_new(<PyObject*>OperationCore, operation_new)
hw_set_dealloc(<PyObject*>OperationCore, operation_dealloc)
