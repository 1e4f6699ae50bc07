"""DelayedOperationPurgatory: the operations that wait, by key and by time."""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from hwheel.purgatory.base_purgatory import BasePurgatory
from hwheel.purgatory.operation import DelayedOperation
from hwheel.purgatory.stats import PurgatoryStats
from hwheel.timers.arguments import whole_number
from hwheel.timers.base import BaseTimer
from hwheel.timers.system import SystemTimer
from hwheel_core import PurgatoryCore

Operation = TypeVar("Operation", bound=DelayedOperation)
_T = TypeVar("_T")


class DelayedOperationPurgatory(PurgatoryCore[Operation], BasePurgatory, Generic[Operation]):
    """DelayedOperationPurgatory(name, timer=None, *, purge_interval=1000, reaper=True)

    Holds operations until their condition or their timeout completes them. A context manager: leaving the block closes
    it. The names and their meaning are Kafka's (DelayedOperationPurgatory.java).

    Arguments:
        name: the timer's, if it makes one.
        timer: a SystemTimer or ManualTimer for the timeouts; close() leaves it open. Its executor cannot be one of
            processes. None: a SystemTimer of its own.
        purge_interval: a completed operation is released at once, but an empty entry stays in the lists of its other
            keys until these are checked, or until more than this many operations have been completed since the last
            purge: then all such entries are removed, by the thread that completed the last one.
        reaper: False: the purgatory's own timer has no threads; `advance_clock()` moves it and runs what falls due.

    Raises:
        TypeError, ValueError: an argument is of the wrong type or negative, or the timer's executor is of processes.

    An exception in an operation that was completed by a check or by its timeout goes to the timer's
    `on_error(operation, error)`, else to threading.excepthook: who changed a key's state is not to blame for it, and
    the other operations of the key are checked as ever. Who completes one operation by itself, with `force_complete()`
    or `try_complete_else_watch()`, gets its exception.

    Thread-safety: every method may be called from any thread, also inside the operations' own methods.

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
        super().__init__(name, timer, reaper)

    # --- operations: try_complete_else_watch(), check_and_complete() and purge() are PurgatoryCore's --------------

    def cancel_for_key(self, key: Hashable) -> list[Operation]:
        """Ends the watch for the key, and the timeouts of the operations that were watched for it; returns these.

        They are not completed: who cancels them decides what becomes of them, with force_complete(), say. Those that
        are watched for other keys as well still are.
        """
        waiting = self._take(key)
        for operation in waiting:
            operation.cancel()
        return self._hand_back(waiting)

    # --- asyncio -------------------------------------------------------------------------------------------------

    async def wait(self, keys: Iterable[Hashable], predicate: Callable[[], _T], timeout: float | None = None) -> _T:
        """Waits until predicate() is true, and returns what it returned; for coroutines.

        The predicate is called here at first, and then by each `check_and_complete()` of one of the keys, in the thread
        that calls it, which may be any.

        Arguments:
            keys: as try_complete_else_watch's.
            predicate: a callable without arguments; it must not wait for anything.
            timeout: in seconds; None: no timeout.

        Raises:
            TimeoutError: the time is over, and the predicate is not true even now.
            TimerClosed: the purgatory is or was closed.
            What the predicate raises, wherever it was called.
            Otherwise as try_complete_else_watch.

        A task that is cancelled while it waits here leaves nothing behind.
        """
        from hwheel.purgatory.asyncio_wait import wait  # asyncio takes its time to be imported

        return await wait(self, keys, predicate, timeout)

    # --- looking -------------------------------------------------------------------------------------------------

    @property
    def watched(self) -> int:
        """The lengths of all watch lists together; completed operations count until a check or a purge finds them.

        Runtime complexity: O(keys).
        """
        return self._counters()[0]

    def stats(self) -> PurgatoryStats:
        """The counters at this moment. O(keys)."""
        return PurgatoryStats(*self._counters())

    # --- life ----------------------------------------------------------------------------------------------------

    def advance_clock(self, timeout_ms: int) -> bool:
        """For reaper=False: waits for the next timeout, at most timeout_ms, and runs what is due. True if any was.

        Raises:
            RuntimeError: the timer has a reaper, or is a ManualTimer, which has its own advance().
        """
        if not isinstance(self.timer, SystemTimer):
            raise RuntimeError("the timer of this purgatory is moved by its own advance()")
        return self.timer.advance_clock(timeout_ms)

    def close(self) -> list[Operation]:
        """Refuses operations from now on, and returns those that are neither completed nor about to be, in order of
        their deadlines. They are not completed, and their timeouts are cancelled. A coroutine that is in wait() gets
        TimerClosed there. Ends the purgatory's own timer.

        Closing again returns an empty list; after a close that was interrupted, what that one did not return.
        """
        self._closed = True
        self._give_all_up()
        for operation in [*self._left.values()]:
            self._withdraw(operation)  # what a cancel_for_key() that was interrupted has left behind
            if operation.expired or operation.is_completed or not operation._outlives_purgatory():
                self._left.pop(id(operation), None)
        self._forget_completed()
        if self._owns_timer:
            self.timer.close()
        return self._hand_back(sorted(self._left.values(), key=lambda operation: operation.deadline_ms or 0))

    def _hand_back(self, waiting: list[Operation]) -> list[Operation]:
        """Those of them that nobody else returns. Where it is interrupted they stay for the next close()."""
        mine: list[Operation] = []
        try:
            for operation in waiting:
                mine.append(operation)
                if self._left.pop(id(operation), None) is None:
                    mine.pop()
            return mine
        except BaseException:
            self._left.update((id(operation), operation) for operation in mine)
            raise

    def _waiting_count(self) -> int:
        return self.num_delayed
