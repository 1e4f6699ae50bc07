"""DelayQueue for coroutines."""

import asyncio
import sys
from typing import Any, Self, TypeVar

from hwheel.containers.delay_queue import delay_queue_timer
from hwheel.timers.base import BaseTimer
from hwheel_core import DelayKey, DelayQueueCore, HwheelError

_T = TypeVar("_T")

if sys.version_info >= (3, 13):
    from asyncio import QueueShutDown as QueueShutDown
else:

    class QueueShutDown(HwheelError):
        """The queue is shut down: it takes nothing more, and nothing is left in it. asyncio.QueueShutDown, where that
        exists."""

        __module__ = "hwheel.asyncio"


class DelayQueue(DelayQueueCore[_T]):
    """A queue whose items come out when they are due, for coroutines: `await queue.get()`, or
    `async for item in queue`, which ends when the queue is shut down and nothing is left in it.

    As hwheel.DelayQueue, with asyncio's QueueFull, QueueEmpty and QueueShutDown. It is not bound to
    one loop: coroutines of several loops may wait in it, and what does not wait (put_nowait(),
    reset(), remove(), drain(), shutdown()) may be called from any thread. A task that is cancelled
    while it waits leaves nothing behind, and loses no item. By itself it goes by the shared timer's
    clock, time.monotonic(), and not by the loop's.

    >>> import asyncio
    >>> from hwheel import SystemTimer
    >>> from hwheel.asyncio import DelayQueue
    >>> async def main():
    ...     with SystemTimer() as timer:
    ...         polls = DelayQueue(timer=timer)
    ...         await polls.put("second", 0.02)
    ...         await polls.put("first", 0.01)
    ...         polls.shutdown()
    ...         return [item async for item in polls]
    >>> asyncio.run(main())
    ['first', 'second']
    """

    __slots__ = ("__weakref__",)
    __module__ = "hwheel.asyncio"

    def __init__(self, maxsize: int = 0, *, timer: BaseTimer | None = None) -> None:
        self._set_up(maxsize, delay_queue_timer(timer), (asyncio.QueueEmpty, asyncio.QueueFull, QueueShutDown))

    async def put(self, item: _T, delay: float) -> "DelayKey[_T]":
        """put_nowait(), but waits for room."""
        while True:
            waiter = _Waiter()
            key = self._put_or_wait(item, delay, waiter)
            if key is not None:
                return key
            await self._wait_for(waiter)

    async def get(self) -> _T:
        """get_nowait(), but waits for an item that is due.

        Raises:
            QueueShutDown: the queue is shut down, and nothing is left in it.
            TimerClosed: there is nothing that could wake who waits.
        """
        while True:
            waiter = _Waiter()
            item = self._get_or_wait(waiter)
            if item is not waiter:
                return item  # type: ignore[return-value]
            await self._wait_for(waiter)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _T:
        try:
            return await self.get()
        except QueueShutDown:
            raise StopAsyncIteration from None

    async def _wait_for(self, waiter: "_Waiter") -> None:
        try:
            await waiter.future
        except BaseException:
            self._give_up(waiter)
            raise


class _Waiter:
    """Wakes a coroutine, from any thread."""

    __slots__ = ("future", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()

    def release(self) -> bool:
        """False: the loop is closed, and with it all that waited there."""
        try:
            self.loop.call_soon_threadsafe(self._wake)
            return True
        except RuntimeError:
            return False

    def _wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)
