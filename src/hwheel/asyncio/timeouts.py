"""Timeouts: asyncio's timeout() and wait_for() compiled, and a wheel for the deadlines of any event loop."""

import asyncio
from asyncio import tasks
from collections.abc import Awaitable
from typing import Self, TypeVar

from hwheel.asyncio.timers import WheelTimers
from hwheel_core import set_loop_tasks
from hwheel_core import timeout as limited

_T = TypeVar("_T")


async def wait_for(fut: Awaitable[_T], timeout: float | None) -> _T:
    """Wait for an awaitable, and cancel it after ``timeout`` seconds, as ``asyncio.wait_for()`` from Python 3.12 on.

    A coroutine runs in the current task. Before Python 3.12, ``asyncio.wait_for()`` creates a task for it.

    Args:
        fut: An awaitable: a coroutine, a future, a task.
        timeout: Seconds from now. Zero or less: return the result if it is available, otherwise cancel the awaitable.
            None: wait without a limit.

    Returns:
        The awaitable's result, also if it returns one although it is cancelled.

    Raises:
        TimeoutError: The time is up.
        RuntimeError: No task is running.

    >>> import asyncio
    >>> import hwheel.asyncio
    >>> hwheel.asyncio.run(hwheel.asyncio.wait_for(asyncio.sleep(0.01, "done"), 10))
    'done'
    """
    if timeout is not None and timeout <= 0:
        future = asyncio.ensure_future(fut)
        if future.done():
            return future.result()
        future.cancel()
        await asyncio.wait([future])
        try:
            return future.result()
        except asyncio.CancelledError as error:
            raise TimeoutError from error
    async with limited(timeout):
        return await fut


wait_for.__module__ = "hwheel.asyncio"

_is_compiled = getattr(asyncio.current_task, "__module__", None) == "_asyncio"  # from Python 3.12 on
set_loop_tasks(
    asyncio._get_running_loop,
    asyncio.current_task if _is_compiled else tasks._current_tasks.get,  # type: ignore[attr-defined]
    asyncio.Task,
    asyncio.CancelledError,
)


class Timeouts(WheelTimers):
    """Timeouts(loop=None)

    Hold the timeouts of an event loop of any class on one wheel. Thousands of connections share it. Each has one
    handle, and moves it at each read with ``handle.reschedule(seconds)``. This creates no object and calls the loop at
    most once per tick. (The handles of a wheel loop also have ``reschedule()``.)

    ``call_later()`` and ``call_at()`` work as the loop's. ``len()`` returns the number of pending handles. ``close()``
    or leaving the ``with`` block drops them; close it before the loop.

    Args:
        loop: An event loop. None: the running one.

    Raises:
        RuntimeError: No loop is given, and none is running.

    O(1) for each call, cancel, and reschedule. Not thread-safe, as in asyncio: use it in the loop's thread.

    >>> import asyncio
    >>> from hwheel.asyncio import Timeouts
    >>> async def main():
    ...     with Timeouts() as timeouts:
    ...         idle = timeouts.call_later(0.01, print, "nobody spoke")
    ...         idle.reschedule(0.02)
    ...         await asyncio.sleep(0.05)
    >>> asyncio.run(main())
    nobody spoke
    """

    __module__ = "hwheel.asyncio"

    def __new__(cls, loop: asyncio.AbstractEventLoop | None = None) -> Self:
        if loop is None:
            loop = asyncio.get_running_loop()
        return super().__new__(cls, loop, loop)

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.debug = self.loop.get_debug()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
