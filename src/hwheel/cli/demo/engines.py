"""The wheel and its peers behind one interface. All times are in seconds on time.monotonic()."""

import asyncio
import sched
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

from hwheel.timers.system import SystemTimer
from hwheel_core import TimerTask


class Engine:
    """The interface that the driver uses."""

    name: ClassVar[str]
    most: ClassVar[int] = 20_000  # pending timers that the engine can handle
    call_at: Callable[..., Any]  # (when, callback, index) -> handle
    cancel: Callable[[Any], Any]  # True if this call prevented the callback; None if the engine does not report it

    def wait(self, until: float) -> None:
        """Return at ``until``. Until then, the engine can run callbacks."""
        time.sleep(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Drop pending timers and end threads."""


class WheelEngine(Engine):
    """hwheel.SystemTimer, which runs callbacks in a thread of its own."""

    name = "hwheel"

    def __init__(self, tick_ms: int, wheel_size: int) -> None:
        self.timer = SystemTimer("demo", tick_ms=tick_ms, wheel_size=wheel_size)
        self.call_at = self.timer.call_at
        self.cancel = TimerTask.cancel
        self.timer.call_later(3600, id, 0).cancel()  # the first add starts the threads, which is no part of its cost

    def close(self) -> None:
        self.timer.close()


class AsyncioEngine(Engine):
    """An asyncio event loop, which runs while the driver waits."""

    name = "asyncio"

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.call_at = self.loop.call_at
        self.cancel = asyncio.TimerHandle.cancel

    def wait(self, until: float) -> None:
        self.loop.call_at(until, self.loop.stop)
        self.loop.run_forever()

    def close(self) -> None:
        self.loop.close()


class SchedEngine(Engine):
    """A sched.scheduler, which runs while the driver waits. Its cancel searches the whole queue."""

    name = "sched"
    most = 2_000

    def __init__(self) -> None:
        self.scheduler = sched.scheduler(time.monotonic, time.sleep)
        self.call_at = lambda when, callback, index: self.scheduler.enterabs(when, 0, callback, (index,))
        self.cancel = self._cancel

    def _cancel(self, event: sched.Event) -> bool:
        try:
            self.scheduler.cancel(event)
        except ValueError:
            return False
        return True

    def wait(self, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            next_in = self.scheduler.run(blocking=False)
            time.sleep(max(0.0, left if next_in is None else min(left, next_in)))
        self.scheduler.run(blocking=False)


class ThreadsEngine(Engine):
    """threading.Timer: a thread for each timer."""

    name = "threading.Timer"
    most = 300

    def __init__(self) -> None:
        self.threads: list[threading.Timer] = []
        self.call_at = self._call_at
        self.cancel = threading.Timer.cancel

    def _call_at(self, when: float, callback: Callable[[int], object], index: int) -> threading.Timer:
        thread = threading.Timer(max(0.0, when - time.monotonic()), callback, (index,))
        thread.daemon = True
        thread.start()
        self.threads.append(thread)
        return thread

    def close(self) -> None:
        for thread in self.threads:
            thread.cancel()
        for thread in self.threads:
            thread.join()


PEERS: list[type[Engine]] = [AsyncioEngine, SchedEngine, ThreadsEngine]
