"""hwheel with a TimerTask per timer."""

from collections.abc import Callable
from typing import Any

from hwheel import ManualTimer, SystemTimer, TimerTask
from hwheel_core import DEFAULT_WHEEL_SIZE
from implementations.base import Callback, Implementation


class WheelTasks(Implementation):
    """A SystemTimer on the system's clock, which cannot jump by 100 s.

    close(run_pending=True) replaces the reaper. It cascades, takes, and calls in the same compiled code.
    """

    name = "hwheel"
    most = 10_000_000
    most_called = 1_000_000
    lacks = {"bulk add": "see hwheel bulk", "bulk cancel": "see hwheel bulk", "bulk expire": "see hwheel bulk"}

    def __init__(self, pending: int, *, flowing: bool = False, wheel_size: int = DEFAULT_WHEEL_SIZE) -> None:
        self.timer: Any = (
            ManualTimer() if flowing else SystemTimer(wheel_size=wheel_size, reaper=False, executor="inline")
        )
        self.add = self.timer.call_later  # type: ignore[method-assign, assignment]
        self.cancel = TimerTask.cancel  # type: ignore[method-assign, assignment]

    def reschedule(self, handle: Any, delay_s: float, callback: Callback, argument: Any) -> Any:
        handle.reschedule(delay_s)
        return handle

    def expire(self) -> None:
        self.timer.close(run_pending=True)

    def flow(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            self.timer.advance(1)

    def close(self) -> None:
        self.timer.close()
