"""DelayedOperationPurgatory.wait(): a coroutine waits for a condition."""

import asyncio
import contextlib
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

from hwheel.purgatory.operation import DelayedOperation
from hwheel_core import PurgatoryCore, TimerClosed, check_timeout

_T = TypeVar("_T")


class AwaitedOperation(DelayedOperation, Generic[_T]):
    """Completes when the predicate is true, and wakes the waiting coroutine from any thread."""

    __slots__ = ("error", "future", "loop", "predicate", "value")

    def __init__(self, delay_ms: float, predicate: Callable[[], _T]) -> None:
        super().__init__(delay_ms)
        self.predicate = predicate
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self.loop.create_future()
        self.value: _T | None = None
        self.error: Exception | None = None

    def try_complete(self) -> bool:
        try:
            self.value = self.predicate()
        except Exception as error:
            self.error = error  # raised in the coroutine, not in the checking thread
            return self.force_complete()
        return bool(self.value) and self.force_complete()

    def on_complete(self) -> None:
        if asyncio._get_running_loop() is self.loop:
            self.wake()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so no coroutine waits
                self.loop.call_soon_threadsafe(self.wake)

    def _is_returned_by_close(self) -> bool:
        self.error = TimerClosed("the purgatory was closed")
        self.force_complete()
        return False

    def wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


async def wait(
    purgatory: "PurgatoryCore[Any]",
    keys: Iterable[Hashable],
    predicate: Callable[[], _T],
    timeout: float | None,
) -> _T:
    """Implement DelayedOperationPurgatory.wait()."""
    timeout = check_timeout(timeout)
    if not callable(predicate):
        raise TypeError(f"predicate must be callable, got {type(predicate).__name__}")
    operation = AwaitedOperation(0 if timeout is None else timeout * 1000, predicate)
    try:
        if not purgatory._add(operation, keys, delayed=timeout is not None):
            await operation.future
    finally:
        purgatory._withdraw(operation)
    if operation.error is not None:
        raise operation.error
    # After a timeout: the condition may have become true without a check.
    value = operation.value or predicate()
    if not value:
        raise TimeoutError(f"the condition did not become true within {timeout} s")
    return value
