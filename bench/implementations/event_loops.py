"""asyncio's event loop, and the common base of two loops."""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

from implementations.base import NO_BULK, NO_RESCHEDULE, Implementation


class WarpSelector(selectors.DefaultSelector):
    """A selector that advances a virtual clock instead of waiting."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None or timeout > 0:
            self.now_s += 0.001 if timeout is None else timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time."""

    def __init__(self) -> None:
        self.warp = WarpSelector()
        super().__init__(self.warp)

    def time(self) -> float:
        return self.warp.now_s


class Loop(Implementation):
    """The loop's own call_later, and the handle's own cancel."""

    lacks = NO_BULK
    remarks = NO_RESCHEDULE
    loop: Any

    def use(self, loop: Any, cancel: Callable[[Any], object]) -> None:
        """Use the loop's own methods for the interface."""
        self.loop = loop
        self.add = loop.call_later  # type: ignore[method-assign]
        self.cancel = cancel  # type: ignore[method-assign, assignment]

    def flow(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            self.loop.call_later(0.1, self.loop.stop)
            self.loop.run_forever()

    def close(self) -> None:
        self.loop.close()


class Asyncio(Loop):
    """asyncio.SelectorEventLoop on its own clock, which is set ahead for expiry."""

    name = "asyncio"

    def __init__(self, pending: int, *, flowing: bool = False) -> None:
        loop = VirtualLoop() if flowing else asyncio.SelectorEventLoop()
        self.use(loop, asyncio.TimerHandle.cancel)

    def before_expiry(self) -> None:
        end = self.loop.time() + 200
        self.loop.time = lambda: end

    def expire(self) -> None:
        self.loop.call_soon(self.loop.stop)  # one turn runs all due timers
        self.loop.run_forever()
