"""hwheel with many timers in one call, without a Python object for each."""

from typing import Any

from hwheel import SystemTimer
from hwheel_core import DEFAULT_WHEEL_SIZE
from implementations.base import SINGLE, Implementation

END_MS = 200_000


class WheelBulk(Implementation):
    """call_many on a SystemTimer with a manual clock, where advance_clock replaces the reaper."""

    name = "hwheel bulk"
    most = most_bulk = 10_000_000
    lacks = dict.fromkeys(SINGLE, "see hwheel")

    def __init__(self, pending: int, *, flowing: bool = False, wheel_size: int = DEFAULT_WHEEL_SIZE) -> None:
        self.now_ms = 0
        self.timer = SystemTimer(wheel_size=wheel_size, clock=lambda: self.now_ms, reaper=False, executor="inline")

    def add_many(self, delays_ms: Any, fired: list[Any]) -> Any:
        return self.timer.call_many(delays_ms, fired.append)

    def cancel_many(self, handle: Any, indices: Any) -> object:
        return handle.cancel(indices)

    def before_expiry(self) -> None:
        self.now_ms = END_MS

    def expire(self) -> None:
        self.timer.advance_clock(0)

    def close(self) -> None:
        self.timer.close()
