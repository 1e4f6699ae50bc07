"""The standard library's sched."""

import sched
import time
from collections.abc import Callable
from typing import Any

from implementations.base import NO_BULK, NO_RESCHEDULE, Callback, Implementation


class Sched(Implementation):
    """sched.scheduler on time.monotonic, which is set ahead for expiry. Its cancel searches the queue."""

    name = "sched"
    most = 10_000
    most_called = 10_000
    most_connections = 200
    is_quick = False
    lacks = NO_BULK
    remarks = NO_RESCHEDULE

    def __init__(self, pending: int, *, flowing: bool = False) -> None:
        self.now_s = 0.0
        if flowing:
            self.scheduler = sched.scheduler(lambda: self.now_s, self._sleep)
        else:
            self.scheduler = sched.scheduler(time.monotonic, time.sleep)
        self.cancel = self.scheduler.cancel  # type: ignore[method-assign, assignment]

    def add(self, delay_s: float, callback: Callback, argument: Any) -> Any:
        return self.scheduler.enter(delay_s, 0, callback, (argument,))

    def before_expiry(self) -> None:
        end = time.monotonic() + 200
        self.scheduler.timefunc = lambda: end

    def expire(self) -> None:
        self.scheduler.run()

    def flow(self, is_done: Callable[[], bool]) -> None:
        self.scheduler.run()

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds
