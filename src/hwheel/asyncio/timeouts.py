"""Timeouts: a wheel for the deadlines of any event loop, for deadlines that move often."""

import asyncio
from typing import Self

from hwheel.asyncio.timers import WheelTimers


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
