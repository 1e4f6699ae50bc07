"""Timeouts: asyncio's timeout() and wait_for() compiled, and a wheel for the deadlines of any event loop."""

import asyncio
from asyncio import tasks
from collections.abc import Awaitable
from typing import Self, TypeVar

from hwheel.asyncio.timers import WheelTimers
from hwheel_core import set_loop_tasks, set_loop_timeouts

_T = TypeVar("_T")


async def _wait_for_expired(awaitable: Awaitable[_T]) -> _T:
    """Return the awaitable's result if it is available; otherwise cancel the awaitable, and wait for its end."""
    future = asyncio.ensure_future(awaitable)
    if future.done():
        return future.result()
    future.cancel()
    await asyncio.wait([future])
    try:
        return future.result()
    except asyncio.CancelledError as error:
        raise TimeoutError from error


# Before Python 3.12, current_task() is not compiled, and reading its dict is faster.
_COMPILED = getattr(asyncio.current_task, "__module__", None) == "_asyncio"
set_loop_tasks(
    asyncio._get_running_loop,
    asyncio.current_task if _COMPILED else None,
    None if _COMPILED else tasks._current_tasks,  # type: ignore[attr-defined]
    asyncio.Task,
    asyncio.Future,
)
set_loop_timeouts(asyncio.CancelledError, _wait_for_expired)


class Timeouts(WheelTimers):
    """Timeouts(loop=None)

    Hold the timeouts of an event loop of any class on one wheel. Thousands of connections share it; each has one
    handle and moves it at each read with ``handle.reschedule(seconds)``, which creates no object and calls the loop at
    most once per tick. (The handles of a wheel loop have ``reschedule()``, too.)

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
