"""Whether Celery would gain by a timer on the wheel: kombu's timer, and a subclass of it on a TimingWheel, in turns.

    .venv/bin/python -m pip install kombu
    .venv/bin/python -P bench/dropin/kombu_timer.py

The subclass is what an adaptor would be. docs/adaptors.md says what came out, and why there is none.
"""

import math
import statistics
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from kombu.asynchronous.timer import Entry, Timer

from hwheel import TimerTask, TimingWheel

PENDING = 100_000
ROUNDS = 5


class WheelEntry(Entry):
    """Leaves its timer at once when it is cancelled."""

    __slots__ = ("task",)

    def cancel(self) -> None:
        super().cancel()
        self.task.cancel()


class WheelTimer(Timer):
    """kombu's timer on a wheel: the iterator gives what is due, or how long to wait."""

    Entry = WheelEntry

    def __init__(self, max_interval: float | None = None, on_error: Any = None, **options: Any) -> None:
        super().__init__(max_interval, on_error, **options)
        self.wheel = TimingWheel(1, 512, int(time.monotonic() * 1000))
        self.due: deque[TimerTask] = deque()

    def _enter(self, eta: float, priority: int, entry: WheelEntry, push: object = None) -> WheelEntry:
        entry.task = TimerTask(0, None, entry)
        if not self.wheel.add(entry.task, math.ceil(eta * 1000)):
            self.due.append(entry.task)
        return entry

    def __iter__(self, *_: object) -> Iterator[tuple[float | None, WheelEntry | None]]:
        while True:
            now_ms = int(time.monotonic() * 1000)
            self.due.extend(self.wheel.poll(now_ms))
            while self.due:
                task = self.due.popleft()
                if task.args:
                    yield None, task.args[0]
            next_ms = self.wheel.next_expiration_ms
            yield (None if next_ms is None else min((next_ms - now_ms) / 1000, self.max_interval)), None

    def __len__(self) -> int:
        return len(self.wheel) + len(self.due)


def pairs(timer: Timer) -> float:
    """us of processor time of an add and a cancel, as the acknowledgement deadlines of tasks are."""
    begin = time.process_time()
    for _ in range(PENDING):
        timer.call_after(60, int).cancel()
    return (time.process_time() - begin) / PENDING * 1e6


def dues(timer: Timer) -> float:
    """us of processor time of an add that falls due at once, and its way through the iterator."""
    begin = time.process_time()
    for _ in range(PENDING):
        timer.call_after(0, int)
    left, rounds = PENDING, iter(timer)
    while left:
        _, entry = next(rounds)
        left -= entry is not None
    return (time.process_time() - begin) / PENDING * 1e6


def kept(make: Callable[[], Timer]) -> float:
    """Bytes a cancelled entry, after all of them were cancelled."""
    tracemalloc.start()
    timer = make()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(PENDING):
        timer.call_after(60, int).cancel()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / PENDING


def main() -> None:
    print(f"{'':28}{'kombu':>16}{'on the wheel':>16}   median (minimum) of {ROUNDS} rounds")
    for name, measure in (("add + cancel, us", pairs), ("add, due at once, us", dues)):
        figures: dict[type[Timer], list[float]] = {Timer: [], WheelTimer: []}
        for _ in range(ROUNDS):
            for make, found in figures.items():
                timer = make()
                for number in range(PENDING):
                    timer.call_after(3600 + number / 100, int)
                found.append(measure(timer))
        told = [f"{statistics.median(found):.2f} ({min(found):.2f})" for found in figures.values()]
        print(f"{name:28}{told[0]:>16}{told[1]:>16}")
    print(f"{'bytes a cancelled entry':28}{kept(Timer):>16.0f}{kept(WheelTimer):>16.0f}")


if __name__ == "__main__":
    main()
