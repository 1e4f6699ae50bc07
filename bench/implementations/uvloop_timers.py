"""uvloop: libuv's timers."""

import time

import uvloop
from uvloop.loop import TimerHandle  # type: ignore[attr-defined]

from implementations.base import RealTime
from implementations.standard import Loop


class Uvloop(Loop, RealTime):
    """uvloop.Loop. Its clock cannot be set, so it waits for the last deadline before expiry."""

    name = "uvloop"
    least_s, per_timer_s = 0.02, 10e-6

    def __init__(self, pending: int) -> None:
        super().__init__(pending)
        self.longest_s = max(0.005, pending * 2e-6)
        self.delay_scale = self.longest_s / 100
        self.loop = uvloop.new_event_loop()
        self.add = self.loop.call_later  # type: ignore[method-assign]
        self.cancel = TimerHandle.cancel  # type: ignore[method-assign, assignment]

    def before_expiry(self) -> None:
        super().before_expiry()
        time.sleep(self.delay_offset_s + self.longest_s + 0.01)
