"""Event loops by name, with and without the wheel. Those of uvloop and zuvloop skip the test without them."""

import asyncio

import pytest

from hwheel.asyncio import EventLoop, Timeouts, wheel_loop

FACTORIES = {
    "asyncio": asyncio.new_event_loop,
    "hwheel": EventLoop,
    "uvloop": lambda: pytest.importorskip("uvloop").new_event_loop(),
    "hwheel over uvloop": lambda: wheel_loop(pytest.importorskip("uvloop").Loop)(),
    "zuvloop": lambda: pytest.importorskip("zuvloop").new_event_loop(),
    "hwheel over zuvloop": lambda: wheel_loop(pytest.importorskip("zuvloop").EventLoop)(),
}


def loop_and_timers(kind, base=asyncio.SelectorEventLoop):
    """Return a loop of the class `base`, and the object whose call_later() and call_at() are tested.

    This is the loop itself ("asyncio"), the loop with its timers on the wheel ("hwheel"), or a wheel beside the loop
    ("Timeouts").
    """
    loop = (wheel_loop(base) if kind == "hwheel" else base)()
    return loop, Timeouts(loop) if kind == "Timeouts" else loop


class LoopWithoutFiles(asyncio.BaseEventLoop):
    """A loop that is its own selector. Subclasses have time() and select(timeout)."""

    def __init__(self):
        super().__init__()
        self._selector = self

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass


class JumpingLoop(LoopWithoutFiles):
    """A loop whose clock jumps to the next deadline when the loop is idle."""

    now = 1000.0

    def time(self):
        return self.now

    def select(self, timeout):
        assert timeout is not None, "nothing to do, and nothing to wait for"
        self.now += timeout
        return ()
