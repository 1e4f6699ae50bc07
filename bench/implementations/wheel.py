"""hwheel, with a TimerTask for each timer, and with many timers in one call."""

from typing import Any

from hwheel import SystemTimer, TimerTask
from hwheel_core import DEFAULT_WHEEL_SIZE
from implementations.base import NO_BULK, SINGLE, Callback, Implementation

END_MS = 200_000


class WheelTasks(Implementation):
    """A SystemTimer on the system's clock, which cannot jump by 100 s.

    close(run_pending=True) replaces the reaper: it cascades, takes, and calls timers in the same compiled code.
    """

    name = "hwheel"
    most = 10_000_000
    lacks = dict.fromkeys(NO_BULK, "see hwheel bulk")

    def __init__(self, pending: int, *, wheel_size: int = DEFAULT_WHEEL_SIZE) -> None:
        self.timer = SystemTimer(wheel_size=wheel_size, reaper=False, executor="inline")
        self.add = self.timer.call_later  # type: ignore[method-assign, assignment]
        self.cancel = TimerTask.cancel  # type: ignore[method-assign, assignment]

    def reschedule(self, handle: Any, delay_s: float, callback: Callback, argument: Any) -> Any:
        handle.reschedule(delay_s)
        return handle

    def expire(self) -> None:
        self.timer.close(run_pending=True)

    def close(self) -> None:
        self.timer.close()


class WheelBulk(Implementation):
    """call_many on a SystemTimer with a manual clock, where advance_clock replaces the reaper."""

    name = "hwheel bulk"
    most = most_bulk = 10_000_000
    lacks = dict.fromkeys(SINGLE, "see hwheel")

    def __init__(self, pending: int, *, wheel_size: int = DEFAULT_WHEEL_SIZE) -> None:
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
