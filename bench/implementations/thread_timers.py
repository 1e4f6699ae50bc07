"""threading.Timer: a thread for each timer."""

import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

from implementations.base import NO_BULK, NO_RESCHEDULE, Callback, Implementation, TooSlow


class Threads(Implementation):
    """Real time, which cannot jump: delays begin after the last add; expiry is the processor time of all threads."""

    name = "threading.Timer"
    make: ClassVar[Callable[..., Any]] = threading.Timer
    most = 1_000
    most_called = 1_000
    most_connections = 20
    is_quick = False
    lacks = NO_BULK
    remarks = NO_RESCHEDULE | {"expire": "processor time", "expire, Python callback": "processor time"}
    expiry_clock = time.process_time
    flow_clock = time.process_time
    add_s: ClassVar[float] = 2.5e-3  # longer than a start

    def __init__(self, pending: int, *, flowing: bool = False) -> None:
        self.timers: list[Any] = []
        if not flowing:
            self.delay_offset_s = 0.1 + pending * self.add_s
            self.delay_scale = 0.001
            self.first_due_s = time.monotonic() + self.delay_offset_s

    def add(self, delay_s: float, callback: Callback, argument: Any) -> Any:
        timer = self.make(delay_s, callback, (argument,))
        timer.daemon = True
        timer.start()
        self.timers.append(timer)
        return timer

    def cancel(self, handle: Any) -> None:
        handle.cancel()

    def before_expiry(self) -> None:
        if time.monotonic() > self.first_due_s:
            Threads.add_s *= 2
            raise TooSlow(f"threads took longer to start than {self.delay_offset_s} s")

    def expire(self) -> None:
        for timer in self.timers:
            timer.join()

    def flow(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            time.sleep(0.02)

    def close(self) -> None:
        for timer in self.timers:
            timer.cancel()
        for timer in self.timers:
            timer.join()
