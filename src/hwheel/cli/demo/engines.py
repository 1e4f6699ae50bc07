"""The wheel and its peers behind one face, so that one driver runs the same workload on each of them.

Times are in seconds on time.monotonic(), the clock that all four go by.
"""

import sched
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

from hwheel.timers.system import SystemTimer
from hwheel_core import TimerTask

Callback = Callable[[int], object]


class Engine:
    """What the driver needs of a timer."""

    name: ClassVar[str]
    most: ClassVar[int]  # how many requests of a demo it can bear
    most_for_memory: ClassVar[int]  # how many to hold while their memory is measured

    def call_at(self, when: float, callback: Callback, index: int) -> Any:
        """Has callback(index) called at a time. Returns a handle."""
        raise NotImplementedError

    def cancel(self, handle: Any) -> bool | None:
        """Whether this call kept it from running; None where the engine does not say."""
        raise NotImplementedError

    def wait(self, until: float) -> None:
        """Lets the time pass until then, and things run meanwhile."""
        time.sleep(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Drops what is pending, ends threads."""


class WheelEngine(Engine):
    """hwheel.SystemTimer, with a thread of its own for the callbacks."""

    name = "hwheel"
    most = 2**63 - 1
    most_for_memory = 20_000

    def __init__(self, tick_ms: int, wheel_size: int) -> None:
        self.timer = SystemTimer("demo", tick_ms=tick_ms, wheel_size=wheel_size)
        self.call_at = self.timer.call_at  # type: ignore[method-assign, assignment]
        self.cancel = TimerTask.cancel  # type: ignore[method-assign, assignment]
        self.timer.call_later(3600, id, 0).cancel()  # the first add starts the threads: no part of an add's cost

    def close(self) -> None:
        self.timer.close()


class AsyncioEngine(Engine):
    """An asyncio event loop, which runs while the driver waits."""

    name = "asyncio"
    most = 20_000
    most_for_memory = 20_000

    def __init__(self) -> None:
        import asyncio

        self.loop = asyncio.new_event_loop()
        self.call_at = self.loop.call_at  # type: ignore[method-assign, assignment]
        self.cancel = asyncio.TimerHandle.cancel  # type: ignore[method-assign, assignment]

    def wait(self, until: float) -> None:
        self.loop.call_at(until, self.loop.stop)
        self.loop.run_forever()

    def close(self) -> None:
        self.loop.close()


class SchedEngine(Engine):
    """A sched.scheduler, which runs while the driver waits. Its cancel searches the whole queue."""

    name = "sched"
    most = 2_000
    most_for_memory = 2_000

    def __init__(self) -> None:
        self.scheduler = sched.scheduler(time.monotonic, time.sleep)

    def call_at(self, when: float, callback: Callback, index: int) -> sched.Event:
        return self.scheduler.enterabs(when, 0, callback, (index,))

    def cancel(self, handle: Any) -> bool:
        try:
            self.scheduler.cancel(handle)
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
    most_for_memory = 200

    def __init__(self) -> None:
        self.threads: list[threading.Timer] = []

    def call_at(self, when: float, callback: Callback, index: int) -> threading.Timer:
        thread = threading.Timer(max(0.0, when - time.monotonic()), callback, (index,))
        thread.daemon = True
        thread.start()
        self.threads.append(thread)
        return thread

    def cancel(self, handle: Any) -> None:
        handle.cancel()

    def close(self) -> None:
        for thread in self.threads:
            thread.cancel()
        for thread in self.threads:
            thread.join()


PEERS: list[type[Engine]] = [AsyncioEngine, SchedEngine, ThreadsEngine]
