"""DelayQueue for coroutines."""

import asyncio
import sys
from typing import Any, Self, TypeVar

from hwheel.containers.delay_queue import delay_queue_timer
from hwheel.timers.base import BaseTimer
from hwheel_core import DelayKey, DelayQueueCore, HwheelError

_T = TypeVar("_T")
FOR_ITEMS, FOR_ROOM, FOR_THE_END = range(3)  # purposes of waiters in the core

if sys.version_info >= (3, 13):
    from asyncio import QueueShutDown as QueueShutDown
else:

    class QueueShutDown(HwheelError):
        """Raised by a queue that is shut down. From Python 3.13 on, this is asyncio.QueueShutDown."""

        __module__ = "hwheel.asyncio"


class DelayQueue(DelayQueueCore[_T]):
    """A queue for coroutines whose items become available at a deadline.

    Use ``await queue.get()`` or ``async for item in queue``, which ends once the queue is shut down
    and empty. Items are ordered as in hwheel.DelayQueue; the exceptions are asyncio's QueueFull,
    QueueEmpty, and QueueShutDown. By default the queue uses the clock of a shared timer,
    ``time.monotonic()``, not the loop's.

    Args:
        maxsize: The maximum number of items, due or not; ``put()`` waits for room. Zero or less:
            unlimited.
        timer: As in hwheel.DelayQueue.

    The queue is not bound to a loop: coroutines of several loops may wait in it. The methods that do
    not wait are thread-safe. A task that is cancelled while it waits loses no item.

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

    async def put(self, item: _T, delay: float = 0) -> "DelayKey[_T]":
        """Wait for room if the queue is full, then add an item.

        Args:
            item: Any object.
            delay: Seconds until the item becomes available. Default: at once.

        Returns:
            The item's key, for ``reset()`` and ``remove()``.

        Raises:
            Exception: As in ``put_nowait()``, except QueueFull.

        Example:
            >>> import asyncio
            >>> from hwheel import ManualTimer
            >>> from hwheel.asyncio import DelayQueue
            >>> queue = DelayQueue(timer=ManualTimer())
            >>> key = asyncio.run(queue.put("send", 5))
            >>> key.remaining()
            5.0
        """
        waiter, is_back = _Waiter(), False
        while True:
            key = self._put_or_wait(item, delay, waiter, is_back)
            if key is not None:
                return key
            await self._wait_for(waiter, FOR_ROOM)
            is_back = True

    async def get(self) -> _T:
        """Wait until an item is due, then remove and return it.

        Raises:
            QueueShutDown: The queue is shut down and empty.
            TimerClosed: The timer is closed, so it could not wake a waiting task.

        Example:
            >>> import asyncio
            >>> from hwheel import ManualTimer
            >>> from hwheel.asyncio import DelayQueue
            >>> timer = ManualTimer()
            >>> queue = DelayQueue(timer=timer)
            >>> key = queue.put_nowait("send", 5)
            >>> timer.advance(5)
            >>> asyncio.run(queue.get())
            'send'
        """
        waiter, is_back = _Waiter(), False
        while True:
            item = self._get_or_wait(waiter, is_back)
            if item is not waiter:
                return item  # type: ignore[return-value]
            await self._wait_for(waiter, FOR_ITEMS)
            is_back = True

    async def join(self) -> None:
        """Wait until the queue is empty and ``task_done()`` was called for each item that ``get()`` has returned.

        Items that ``remove()``, ``drain()``, or ``shutdown(True)`` has removed are done.

        Example:
            >>> import asyncio
            >>> from hwheel import ManualTimer
            >>> from hwheel.asyncio import DelayQueue
            >>> queue = DelayQueue(timer=ManualTimer())
            >>> key = queue.put_nowait("send")
            >>> queue.get_nowait()
            'send'
            >>> queue.task_done()
            >>> asyncio.run(queue.join())
        """
        waiter = _Waiter()
        if not self._join_or_wait(waiter):
            await self._wait_for(waiter, FOR_THE_END)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _T:
        try:
            return await self.get()
        except QueueShutDown:
            raise StopAsyncIteration from None

    async def _wait_for(self, waiter: "_Waiter", purpose: int) -> None:
        try:
            await waiter.future
        except BaseException:
            self._give_up(waiter, purpose)
            raise
        waiter.future = waiter.loop.create_future()


class _Waiter:
    """A waiter of the queue: ``release()`` wakes its coroutine, from any thread."""

    __slots__ = ("future", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()

    def release(self) -> bool:
        """Wake the coroutine. Return False if its loop is closed."""
        try:
            self.loop.call_soon_threadsafe(self._wake)
            return True
        except RuntimeError:
            return False

    def _wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)
