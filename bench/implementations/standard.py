"""The standard library's timers: asyncio, heapq, sched, and threading.Timer."""

import asyncio
import sched
import threading
import time
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count, repeat
from time import monotonic
from typing import Any

from implementations.base import NO_BULK, NO_RESCHEDULE, Callback, Implementation, RealTime, bursts


class Loop(Implementation):
    """An event loop's own call_later and cancel, called by callbacks of the running loop."""

    lacks = NO_BULK
    remarks = NO_RESCHEDULE
    loop: Any

    def drive(self, bursts: Iterable[None]) -> None:
        iterator = iter(bursts)

        def one_pass() -> None:
            is_over = True
            try:
                is_over = next(iterator, True) is True
            finally:
                if is_over:
                    self.loop.stop()
                else:
                    self.loop.call_soon(one_pass)

        self.loop.call_soon(one_pass)
        self.loop.run_forever()

    def expire(self) -> None:
        self.loop.call_soon(self.loop.stop)  # one pass runs all due timers
        self.loop.run_forever()

    def close(self) -> None:
        self.loop.close()


class Asyncio(Loop):
    """asyncio.SelectorEventLoop on its own clock, which is set ahead for expiry.

    A pass of the loop removes cancelled handles when they are more than half of all.
    """

    name = "asyncio"
    leaves_cancelled = True
    delay_offset_s = 1000.0  # longer than the other operations

    def __init__(self, pending: int) -> None:
        self.loop = asyncio.SelectorEventLoop()
        self.add = self.loop.call_later  # type: ignore[method-assign]
        self.cancel = asyncio.TimerHandle.cancel  # type: ignore[method-assign, assignment]

    def before_expiry(self) -> None:
        end = self.loop.time() + 1200
        self.loop.time = lambda: end


CALLBACK, ARGUMENT = 2, 3  # positions in an entry of the heap


class Heap(Implementation):
    """A heap of lists (when, number, callback, argument). A cancelled entry loses its callback.

    Like asyncio, it removes cancelled entries when they are more than half of all.
    """

    name = "heapq"
    leaves_cancelled = True
    lacks = {name: why for name, why in NO_BULK.items() if name != "bulk add"}
    remarks = NO_RESCHEDULE | {"add + cancel": "inline, without a call of a function", "bulk add": "heapify"}

    def __init__(self, pending: int) -> None:
        self.heap: list[list[Any]] = []
        self.numbers = count()
        self.cancelled = 0

    def add(self, delay_s: float, callback: Callback, argument: Any) -> list[Any]:
        entry = [monotonic() + delay_s, next(self.numbers), callback, argument]
        heappush(self.heap, entry)
        return entry

    def cancel(self, handle: list[Any]) -> None:
        handle[CALLBACK] = handle[ARGUMENT] = None
        self.cancelled += 1

    def pairs(self, count: int, delay_s: float, callback: Callback) -> Iterator[None]:
        heap, numbers = self.heap, self.numbers
        for burst in bursts(count):
            for _ in repeat(None, burst):
                entry = [monotonic() + delay_s, next(numbers), callback, -1]
                heappush(heap, entry)
                entry[CALLBACK] = None
            self.cancelled += burst
            yield

    def drive(self, bursts: Iterable[None]) -> None:
        for _ in bursts:
            if 2 * self.cancelled > len(self.heap):
                self.heap[:] = [entry for entry in self.heap if entry[CALLBACK] is not None]
                heapify(self.heap)
                self.cancelled = 0

    def expire(self) -> None:
        heap = self.heap
        while heap:
            _, _, callback, argument = heappop(heap)
            if callback is not None:
                callback(argument)

    def add_many(self, delays_ms: Any, fired: list[Any]) -> Any:
        now, append = monotonic(), fired.append
        entries = [[now + delay / 1000, next(self.numbers), append, i] for i, delay in enumerate(delays_ms.tolist())]
        self.heap += entries
        heapify(self.heap)
        return entries

    def close(self) -> None:
        self.heap.clear()


class Sched(Implementation):
    """sched.scheduler on time.monotonic, which is set ahead for expiry. Its cancel searches the queue."""

    name = "sched"
    most = 10_000
    is_quick = False
    lacks = NO_BULK
    remarks = NO_RESCHEDULE

    def __init__(self, pending: int) -> None:
        self.scheduler = sched.scheduler(time.monotonic, time.sleep)
        self.cancel = self.scheduler.cancel  # type: ignore[method-assign, assignment]

    def add(self, delay_s: float, callback: Callback, argument: Any) -> Any:
        return self.scheduler.enter(delay_s, 0, callback, (argument,))

    def before_expiry(self) -> None:
        end = time.monotonic() + 200
        self.scheduler.timefunc = lambda: end

    def expire(self) -> None:
        self.scheduler.run()


class Threads(RealTime):
    """threading.Timer, a thread for each timer."""

    name = "threading.Timer"
    most = 1_000
    is_quick = False
    lacks = NO_BULK
    remarks = NO_RESCHEDULE
    least_s, per_timer_s = 0.1, 2.5e-3
    delay_scale = 0.001

    def __init__(self, pending: int) -> None:
        super().__init__(pending)
        self.timers: list[threading.Timer] = []

    def add(self, delay_s: float, callback: Callback, argument: Any) -> Any:
        timer = threading.Timer(delay_s, callback, (argument,))
        timer.daemon = True
        timer.start()
        self.timers.append(timer)
        return timer

    def cancel(self, handle: Any) -> None:
        handle.cancel()

    def expire(self) -> None:
        for timer in self.timers:
            timer.join()

    def close(self) -> None:
        for timer in self.timers:
            timer.cancel()
        for timer in self.timers:
            timer.join()
