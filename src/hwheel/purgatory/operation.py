"""DelayedOperation: something that waits for a condition, but at most so long.

How it is completed once, and who waits for its lock, is told in hwheel_core/purgatory/structs.pxd.
"""

from hwheel.purgatory.operation_lock import OperationLock
from hwheel_core import OperationCore


class DelayedOperation(OperationCore):
    """DelayedOperation(delay_ms)

    An operation that is completed by a condition, which `try_complete()` checks, or by its timeout, and exactly once.
    Subclass it. The names and their meaning are Kafka's (DelayedOperation.java).

    Override:
        try_complete(): look at the condition; if it holds `return self.force_complete()`, else return False.
        on_complete(): what completing means.
        on_expiration(): what there is to do besides if it was the timeout that completed it.

    Arguments:
        delay_ms: the timeout in ms, as TimerTask's.

    An operation goes into one purgatory, once.

    Thread-safety: every method may be called from any thread.

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

    # --- what a subclass says ------------------------------------------------------------------------------------

    def try_complete(self) -> bool:
        """Looks at the condition: `return self.force_complete()` if it holds, else False.

        Called under `lock`, whenever a key is checked that the operation is watched for; it must not wait for anything.
        """
        raise NotImplementedError(f"{type(self).__name__} has to override try_complete()")

    def on_complete(self) -> None:
        """What completing means. Called once, under `lock`, whoever completes the operation."""
        raise NotImplementedError(f"{type(self).__name__} has to override on_complete()")

    def on_expiration(self) -> None:
        """Called under `lock`, after on_complete() and even if that raised, if the timeout completed the operation."""

    # --- what everybody calls, with force_complete(), safe_try_complete() and cancel() of the compiled half ------

    @property
    def lock(self) -> OperationLock:
        """The operation's lock: reentrant, a context manager. Hold it to change what `try_complete()` looks at."""
        return OperationLock(self)

    def _outlives_purgatory(self) -> bool:
        """close() has taken the operation out. True: it is returned to whoever closes."""
        return True
