"""Timeouts: a wheel beside any event loop, for deadlines that are pushed back all the time."""

import asyncio
from typing import Self

from hwheel.asyncio.timers import WheelTimers


class Timeouts(WheelTimers):
    """Timeouts(loop=None)

    A wheel of its own above a loop of any kind, for a hot path: thousands of connections share one, each holds one
    handle, and pushes it back at each read with `handle.reschedule(seconds)`: nothing is made or released, and the loop
    hears of it once a tick at most. No other class of loop is needed for that. (The handles of a loop on the wheel have
    `reschedule` too.)

    Arguments:
        loop: None: the loop that runs.

    `call_later(delay, callback, *args)` and `call_at(when, callback, *args)` are as the loop's; `len()` says how many
    are pending; `close()`, or leaving its `with` block, drops them. Close it before the loop.

    Runtime complexity: O(1) for each call, cancel and reschedule.
    Thread-safety: none, as asyncio's: use it in the thread of the loop.

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
