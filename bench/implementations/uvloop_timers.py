"""uvloop: libuv's timers."""

import time

import uvloop
from uvloop.loop import TimerHandle  # type: ignore[attr-defined]

from implementations.event_loops import Loop

ADD_S = 10e-6  # longer than an add
NEAREST_S = 0.002  # a delay that rounds to zero has another class of handle, without TimerHandle.cancel


class Uvloop(Loop):
    """uvloop.Loop. Its clock cannot be set, so delays are shortened to twice the time of all adds.

    We wait for the last deadline before expiry. No callback runs earlier, because the loop does not run.
    """

    name = "uvloop"
    flow_clock = time.process_time  # the workload runs in real time

    def __init__(self, pending: int, *, flowing: bool = False) -> None:
        self.use(uvloop.new_event_loop(), TimerHandle.cancel)
        if not flowing:
            self.longest_s = max(0.005, pending * ADD_S)
            self.delay_scale = self.longest_s / 100
            self.delay_offset_s = NEAREST_S

    def before_expiry(self) -> None:
        time.sleep(NEAREST_S + self.longest_s + 0.01)

    def expire(self) -> None:
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
