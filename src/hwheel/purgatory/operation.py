"""DelayedOperation and its lock.

hwheel_core/purgatory/structs.pxd explains how an operation completes exactly once, and which callers wait for its lock.
"""

from types import TracebackType

from hwheel_core import OperationCore


class OperationLock:
    """The lock of an operation, with the methods of threading.RLock.

    Releasing it repeats a check that found it taken. Each access to ``DelayedOperation.lock`` creates a new object,
    because a stored one would form a reference cycle with the operation.
    """

    __slots__ = ("_operation",)

    def __init__(self, operation: OperationCore) -> None:
        self._operation = operation

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, as threading.RLock.acquire()."""
        return self._operation._acquire(blocking, timeout)

    def release(self) -> None:
        """Release the lock, as threading.RLock.release(); then repeat a check that found it taken."""
        self._operation._release()

    def _is_owned(self) -> bool:
        return self._operation._is_owned()

    def __enter__(self) -> bool:
        return self._operation._acquire(True, -1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._operation._release()


class DelayedOperation(OperationCore):
    """DelayedOperation(delay_ms)

    An operation that completes exactly once: on a condition, which ``try_complete()`` checks, or on its timeout.

    Subclass it and override ``try_complete()``, ``on_complete()``, and, if needed, ``on_expiration()``. The names and
    their meaning are those of Kafka's DelayedOperation.java. An operation can be added to one purgatory, once.

    Args:
        delay_ms: The timeout in milliseconds.

    Raises:
        TypeError: ``delay_ms`` is not a number.
        ValueError: ``delay_ms`` is NaN or infinite.

    Thread-safe.

    >>> from hwheel.purgatory import DelayedOperation
    >>> class Order(DelayedOperation):
    ...     paid = False
    ...     def try_complete(self):
    ...         return self.paid and self.force_complete()
    ...     def on_complete(self):
    ...         print("shipped" if self.paid else "given up")
    >>> order = Order(delay_ms=60_000)
    >>> order.safe_try_complete()
    False
    >>> order.paid = True
    >>> order.safe_try_complete(), order.safe_try_complete()
    shipped
    (True, False)
    """

    __module__ = "hwheel.purgatory"

    __slots__ = ("__weakref__",)

    # --- to override ---------------------------------------------------------------------------------------------

    def try_complete(self) -> bool:
        """Check the condition: ``return self.force_complete()`` if it holds, else False.

        The purgatory calls this under ``lock`` when the operation is added and whenever one of its keys is checked. It
        must not wait for anything.

        Example:
            >>> from hwheel.purgatory import DelayedOperation
            >>> class Order(DelayedOperation):
            ...     paid = False
            ...     def try_complete(self):
            ...         return self.paid and self.force_complete()
            >>> Order(60_000).try_complete()
            False
        """
        raise NotImplementedError(f"{type(self).__name__} must override try_complete()")

    def on_complete(self) -> None:
        """Finish the operation. Called once, under ``lock``, in the thread that completes the operation.

        Example:
            >>> from hwheel.purgatory import DelayedOperation
            >>> class Order(DelayedOperation):
            ...     def on_complete(self):
            ...         print("shipped")
            >>> Order(60_000).force_complete()
            shipped
            True
        """
        raise NotImplementedError(f"{type(self).__name__} must override on_complete()")

    def on_expiration(self) -> None:
        """Handle a timeout. Called under ``lock`` after ``on_complete()``, even if that raised.

        Example:
            >>> from hwheel import ManualTimer
            >>> from hwheel.purgatory import DelayedOperation
            >>> class Order(DelayedOperation):
            ...     def on_complete(self):
            ...         print("completed")
            ...     def on_expiration(self):
            ...         print("no payment within a minute")
            >>> timer = ManualTimer()
            >>> order = timer.add(Order(60_000))
            >>> timer.advance(60)
            completed
            no payment within a minute
        """

    # --- for callers ---------------------------------------------------------------------------------------------

    @property
    def lock(self) -> OperationLock:
        """The operation's reentrant lock, a context manager. Hold it to change what ``try_complete()`` reads."""
        return OperationLock(self)

    def _is_returned_by_close(self) -> bool:
        """Return True if close() returns this operation to its caller after withdrawing it."""
        return True
