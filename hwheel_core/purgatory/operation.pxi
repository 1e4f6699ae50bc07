# OperationCore: completing and checking an operation under its lock. structs.pxd explains which callers wait for the lock.


cdef bint operation_check(OperationCore self) except -1:
    """Call try_complete() under the lock, without waiting for it. Return True if this call completed the operation."""
    cdef bint done
    while not hw_peek(&self.completed):
        if not relock_try(&self.mutex):
            hw_word_store(&self.missed, True)
            if not relock_try(&self.mutex):
                return False
        try:
            hw_word_store(&self.missed, False)
            done = not hw_peek(&self.completed) and self.try_complete()
        except BaseException:
            operation_unlock_and_check(self)
            raise
        relock_release(&self.mutex)
        if done or not hw_word_load(&self.missed):
            return done
    return False


cdef bint operation_unlock_and_check(OperationCore self) except -1:
    """Release the lock, then repeat a check that found it taken. Return True if that check completed the operation.

    If the operation is watched, its timer reports an exception of that check, which is not raised in this thread.
    """
    cdef PurgatoryCore purgatory
    cdef bint done
    relock_release(&self.mutex)
    if not hw_word_load(&self.missed):
        return False
    if not operation_is_watched(self):
        return operation_check(self)
    purgatory = operation_purgatory(self)
    try:
        done = operation_check(self)
    except Exception as error:
        purgatory.timer._report_error(self, error)
        done = hw_peek(&self.completed)
    return done


cdef bint operation_check_or_else(OperationCore self, object action, PurgatoryCore purgatory, Watcher* watcher,
                                  tuple keys) except -1:
    """Check, then call `action` or (if `watcher` is given) watch the keys, then check again; all under the lock."""
    cdef bint done
    relock_acquire(&self.mutex, self)
    try:
        done = self.try_complete()
        if not done:
            if watcher is NULL:
                action()
            else:
                purgatory_enter_lists(purgatory, self, watcher, keys)
            done = self.try_complete()
    except BaseException:
        operation_unlock_and_check(self)
        raise
    relock_release(&self.mutex)
    return done or (hw_word_load(&self.missed) and operation_check(self))


cdef inline PyObject** operation_purgatory_slot(PyObject* self) noexcept:
    """Return the address of `purgatory`, the field after `watcher`."""
    return <PyObject**>(&(<OperationCore>self).watcher + 1)


cdef PyObject* operation_new(PyObject* cls, PyObject* arguments, PyObject* keywords) noexcept:
    """tp_new. Unlike Cython's, it uses object.__new__(), which stores the attributes of a user's class in the instance.

    On CPython 3.11 each instance would otherwise need a dict.
    """
    cdef PyObject* self = hw_object_new(cls, <PyObject*>())
    if self is not NULL:
        Py_INCREF(None)                 # all three are dropped by task_dealloc and operation_dealloc
        Py_INCREF(None)
        Py_INCREF(None)
        task_slots(self)[0] = task_slots(self)[1] = operation_purgatory_slot(self)[0] = <PyObject*>None
    return self


cdef void operation_dealloc(PyObject* self) noexcept:
    """tp_dealloc: see task/timer_task.pxi. The watcher is in no list, because a list would keep the operation alive."""
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
    """The compiled base class of DelayedOperation, which adds try_complete(), on_complete(), and on_expiration()."""

    def __init__(self, delay_ms):
        cdef int64_t delay = milliseconds_argument(delay_ms, "delay_ms")
        if task_state(&self.task) != TASK_NEW or self.task.owner:
            raise ValueError("this task has been added or cancelled already; create a new one")
        self.task.delay_ms = delay
        self.task.flags = TASK_OWN_RUN

    def __await__(self):
        raise TypeError("an operation cannot be awaited, because it may complete early; await the purgatory's wait() instead")

    @property
    def is_completed(self):
        """True as soon as a thread has started to complete the operation."""
        return bool(hw_peek(&self.completed))

    def force_complete(self):
        """Complete the operation now.

        Returns:
            True if this call completed the operation; ``on_complete()`` has then run. False if it was completed before.

        Raises:
            Exception: An exception of ``on_complete()``. The operation is completed nevertheless.

        O(1), plus a purge every ``purge_interval`` completions. Thread-safe. Waits while another thread holds the
        operation's lock, so ``try_complete()`` must not call it for another operation.

        Example:
            >>> from hwheel.purgatory import DelayedOperation
            >>> class Order(DelayedOperation):
            ...     def on_complete(self):
            ...         print("withdrawn")
            >>> order = Order(60_000)
            >>> order.force_complete(), order.force_complete()
            withdrawn
            (True, False)
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
        """Call ``try_complete()`` under the operation's lock.

        If another thread holds the lock, this method returns False at once, and that thread repeats the check.

        Returns:
            True if this call completed the operation.

        Raises:
            Exception: An exception of ``try_complete()`` or ``on_complete()``.

        Thread-safe.

        Example:
            >>> from hwheel.purgatory import DelayedOperation
            >>> class Order(DelayedOperation):
            ...     def try_complete(self):
            ...         return self.force_complete()
            ...     def on_complete(self):
            ...         print("shipped")
            >>> Order(60_000).safe_try_complete()
            shipped
            True
        """
        return operation_check(self)

    @cython.always_allow_keywords(True)
    def safe_try_complete_or_else(self, action):
        """Call ``try_complete()``; if it returns False, call ``action()`` and ``try_complete()`` again.

        The operation's lock is held during all these calls. ``try_complete_else_watch()`` works like this, with an action
        that starts to watch. The second check sees an event before the action; the watch sees an event after it.

        Args:
            action: A callable without arguments.

        Returns:
            True if this call completed the operation.

        Raises:
            Exception: An exception of ``try_complete()``, ``on_complete()``, or ``action()``.

        Thread-safe.

        Example:
            >>> from hwheel.purgatory import DelayedOperation
            >>> class Order(DelayedOperation):
            ...     def try_complete(self):
            ...         return False
            >>> Order(60_000).safe_try_complete_or_else(lambda: print("not paid yet"))
            not paid yet
            False
        """
        return operation_check_or_else(self, action, None, NULL, None)

    def run(self):
        """Handle the timeout: complete the operation and call ``on_expiration()``, unless it is completed."""
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
        """Cancel only the timeout; the operation stays watched.

        Returns:
            True if the timeout was pending.
        """
        cdef bint cancelled = task_cancel(self)
        cdef PurgatoryCore purgatory = operation_purgatory(self) if cancelled else None
        if purgatory is not None:
            with cython.critical_section(purgatory):
                if self.watcher is not NULL:
                    purgatory_end_delay(purgatory, self.watcher)
        return cancelled

    # --- services for OperationLock ------------------------------------------------------------------------------

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
    raise SystemError("the fields of OperationCore are not in the order that operation.pxi expects")
sample_operation = None

# These two slots depend on CPython's internals. If CPython changes them, tests/purgatory/test_references.py fails:
# - tp_new: If object.__new__() no longer reserves room for attributes, test_attributes_do_not_create_a_dict fails.
# - tp_dealloc: If the operation leaks its watcher, test_unwatched_operation_is_freed_with_its_last_reference fails (debug build).
hw_set_new(<PyObject*>OperationCore, operation_new)
hw_set_dealloc(<PyObject*>OperationCore, operation_dealloc)
