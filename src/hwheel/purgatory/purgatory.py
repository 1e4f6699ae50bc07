"""DelayedOperationPurgatory: waiting operations, by key and by deadline."""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, Self, TypeVar

from hwheel.purgatory.operation import DelayedOperation
from hwheel.timers.base import BaseTimer, check_runs_here, whole_number
from hwheel.timers.lifecycle import follow_process
from hwheel.timers.system import SystemTimer
from hwheel_core import PurgatoryCore

Operation = TypeVar("Operation", bound=DelayedOperation)
_T = TypeVar("_T")


class PurgatoryStats(NamedTuple):
    """The counters of a purgatory at one moment.

    Attributes:
        watched: Entries in all watch lists, including those of completed operations that are not purged yet.
        delayed: Operations whose timeout is pending.
        completed: Operations completed since the purgatory was created.
        expired: Those of the completed operations that completed on their timeout.
        purged: Entries of completed operations that a purge has removed.
    """

    watched: int
    delayed: int
    completed: int
    expired: int
    purged: int


PurgatoryStats.__module__ = "hwheel.purgatory"


class DelayedOperationPurgatory(PurgatoryCore[Operation], Generic[Operation]):
    """DelayedOperationPurgatory(name, timer=None, *, purge_interval=1000, reaper=True)

    Holds operations until their condition or their timeout completes them. The names and their meaning are those of
    Kafka's DelayedOperationPurgatory.java. As a context manager it closes itself.

    If a check or a timeout completes an operation, an exception in it goes to the timer's
    ``on_error(operation, error)``, or to ``threading.excepthook``. The other operations of the key are still checked.
    A caller of ``force_complete()`` or ``try_complete_else_watch()`` receives the exception itself.

    Args:
        name: The name of the purgatory and of its own timer.
        timer: A SystemTimer or ManualTimer for the timeouts, without a process pool as its executor; ``close()`` leaves
            it open. None: a SystemTimer of its own, which ``close()`` closes.
        purge_interval: The number of completions between two purges. A completed operation is released at once, but its
            empty entries stay in the lists of other keys until a check of those keys or a purge removes them.
        reaper: False: the purgatory's own timer has no threads; call ``advance_clock()`` to run expired timeouts.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: ``purge_interval`` is negative, or the timer's executor is a process pool.

    Thread-safe: any thread, and the methods of an operation, may call every method.

    >>> from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
    >>> stock = {"tea": 0}
    >>> class Order(DelayedOperation):
    ...     def try_complete(self):
    ...         return stock["tea"] > 0 and self.force_complete()
    ...     def on_complete(self):
    ...         print("shipped" if stock["tea"] else "sold out")
    >>> with DelayedOperationPurgatory("orders") as orders:
    ...     waits = not orders.try_complete_else_watch(Order(60_000), ["tea"])
    ...     stock["tea"] = 5
    ...     print(waits, orders.check_and_complete("tea"))
    shipped
    True 1
    """

    __module__ = "hwheel.purgatory"

    def __init__(
        self, name: str, timer: BaseTimer | None = None, *, purge_interval: int = 1000, reaper: bool = True
    ) -> None:
        self.purge_interval = whole_number(purge_interval, "purge_interval")
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, got {type(name).__name__}")
        if timer is not None and not isinstance(timer, BaseTimer):
            raise TypeError(f"timer must be a SystemTimer, a ManualTimer or None, got {type(timer).__name__}")
        check_runs_here(timer, "an operation of a purgatory")
        self.name = name
        self._owns_timer = timer is None
        self.timer = SystemTimer(name, reaper=reaper, executor=None if reaper else "inline") if timer is None else timer
        self._closed = False
        self._start_empty()
        follow_process(self)

    # --- operations: PurgatoryCore has try_complete_else_watch(), check_and_complete(), and purge() ---------------

    def cancel_for_key(self, key: Hashable) -> list[Operation]:
        """Stop watching a key and cancel the timeouts of its operations.

        The operations do not complete. Those that are also watched for other keys stay watched for these.

        Args:
            key: A hashable key.

        Returns:
            The operations that were watched for the key.

        O(operations watched for the key). Thread-safe.

        Example:
            >>> from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
            >>> class Order(DelayedOperation):
            ...     def try_complete(self):
            ...         return False
            >>> with DelayedOperationPurgatory("orders") as orders:
            ...     order = Order(60_000)
            ...     completed = orders.try_complete_else_watch(order, ["tea"])
            ...     orders.cancel_for_key("tea") == [order]
            True
        """
        waiting = self._take(key)
        for operation in waiting:
            operation.cancel()
        return self._claim_returned(waiting)

    # --- asyncio -------------------------------------------------------------------------------------------------

    async def wait(self, keys: Iterable[Hashable], predicate: Callable[[], _T], timeout: float | None = None) -> _T:
        """Wait until ``predicate()`` is true, and return its value. For coroutines.

        The predicate is called here first, and then by each ``check_and_complete()`` of one of the keys, in the thread
        that makes that call. A cancelled task leaves nothing behind.

        Args:
            keys: At least one hashable key, as in ``try_complete_else_watch()``.
            predicate: A callable without arguments, which must not wait for anything.
            timeout: Seconds; None: wait without a limit.

        Returns:
            The value of the predicate.

        Raises:
            TimeoutError: The timeout has passed, and a last call of the predicate was also false.
            TimerClosed: The purgatory is closed, or was closed during the wait.
            Exception: An exception of the predicate, in whichever thread the predicate was called.

        Example:
            >>> import asyncio
            >>> from hwheel.purgatory import DelayedOperationPurgatory
            >>> stock = {"tea": 0}
            >>> async def main():
            ...     with DelayedOperationPurgatory("orders") as orders:
            ...         waiting = asyncio.create_task(orders.wait(["tea"], lambda: stock["tea"], timeout=30))
            ...         await asyncio.sleep(0)
            ...         stock["tea"] = 5
            ...         orders.check_and_complete("tea")
            ...         return await waiting
            >>> asyncio.run(main())
            5
        """
        from hwheel.purgatory.asyncio_wait import wait  # importing asyncio is slow

        return await wait(self, keys, predicate, timeout)

    # --- statistics ----------------------------------------------------------------------------------------------

    @property
    def watched(self) -> int:
        """The number of entries in all watch lists, including completed operations not yet purged. O(keys)."""
        return self._counters()[0]

    def stats(self) -> PurgatoryStats:
        """Return the counters. O(keys).

        Example:
            >>> from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
            >>> class Order(DelayedOperation):
            ...     def try_complete(self):
            ...         return False
            >>> with DelayedOperationPurgatory("orders") as orders:
            ...     completed = orders.try_complete_else_watch(Order(60_000), ["tea"])
            ...     orders.stats()
            PurgatoryStats(watched=1, delayed=1, completed=0, expired=0, purged=0)
        """
        return PurgatoryStats(*self._counters())

    # --- life cycle ----------------------------------------------------------------------------------------------

    def advance_clock(self, timeout_ms: int) -> bool:
        """Wait for the next timeout and run the expired ones; only with ``reaper=False``.

        Args:
            timeout_ms: The longest wait in milliseconds.

        Returns:
            True if a timeout expired.

        Raises:
            RuntimeError: The timer has a reaper, or is a ManualTimer, which has its own ``advance()``.

        Example:
            >>> from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
            >>> class Order(DelayedOperation):
            ...     def try_complete(self):
            ...         return False
            ...     def on_complete(self):
            ...         print("given up")
            >>> with DelayedOperationPurgatory("orders", reaper=False) as orders:
            ...     completed = orders.try_complete_else_watch(Order(10), ["tea"])
            ...     while orders.num_delayed:
            ...         expired = orders.advance_clock(1000)
            given up
        """
        if not isinstance(self.timer, SystemTimer):
            raise RuntimeError("the purgatory's timer is a ManualTimer; call its advance() instead")
        return self.timer.advance_clock(timeout_ms)

    @property
    def closed(self) -> bool:
        """True once ``close()`` has been called."""
        return self._closed

    def close(self) -> list[Operation]:
        """Refuse further operations, cancel all timeouts, and close the purgatory's own timer.

        Coroutines in ``wait()`` receive TimerClosed. ``close()`` may be called again; after an interrupted
        call, the next call returns the remaining operations.

        Returns:
            The operations that were waiting, in order of their deadlines. They are not completed.

        Example:
            >>> from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
            >>> class Order(DelayedOperation):
            ...     def try_complete(self):
            ...         return False
            >>> orders, order = DelayedOperationPurgatory("orders"), Order(60_000)
            >>> completed = orders.try_complete_else_watch(order, ["tea"])
            >>> orders.close() == [order]
            True
        """
        self._closed = True
        self._withdraw_all()
        for operation in [*self._to_return.values()]:
            self._withdraw(operation)  # left behind by an interrupted cancel_for_key()
            if operation.expired or operation.is_completed or not operation._is_returned_by_close():
                self._to_return.pop(id(operation), None)
        self._forget_completed()
        if self._owns_timer:
            self.timer.close()
        return self._claim_returned(sorted(self._to_return.values(), key=lambda operation: operation.deadline_ms or 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.num_delayed} waiting"
        return f"<{type(self).__name__} {self.name!r}, {state}>"

    def _claim_returned(self, waiting: list[Operation]) -> list[Operation]:
        """Return the operations that no concurrent close() or cancel_for_key() returns.

        If interrupted, leave them for the next close().
        """
        mine: list[Operation] = []
        try:
            for operation in waiting:
                mine.append(operation)
                if self._to_return.pop(id(operation), None) is None:
                    mine.pop()
            return mine
        except BaseException:
            self._to_return.update((id(operation), operation) for operation in mine)
            raise

    def _after_fork_in_child(self) -> None:
        """Drop the parent's operations, as the timer drops the parent's tasks."""
        self._start_empty()

    def _at_exit(self) -> None:
        """Do nothing: the timer handles the exit."""
