"""Scaling to a second thread: pairs of add and cancel by two threads beside one thread.

Only an interpreter without the GIL can gain. Two rows are yardsticks. A timer per thread is the upper bound. Two reads
of an attribute of one object show the cost of reference counts, so a loop should bind `call_later` once.
"""

import sys
import threading
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any

from rich.console import Console

from hwheel import SystemTimer
from lib.figures import median_and_range, show_rows
from lib.settings import Settings

THREADS = 2
DELAY_S = 60  # a small int, which is immortal; threads would share the reference count of a float

Loop = Callable[[], object]


def measure(settings: Settings, on_turn: Callable[[str], object]) -> dict[str, Any]:
    """Measure ns per pair in one thread, and the speed-up of two threads, for each row and round."""
    pairs = settings.thread_pairs
    rows: dict[str, dict[str, list[float]]] = {}
    timers = [SystemTimer(f"bench-{number}") for number in range(THREADS)]
    try:
        for _ in range(settings.rounds):
            for name, loops in each_row(timers, pairs):
                on_turn(name)
                alone, together = seconds(loops[:1]), seconds(loops)
                row = rows.setdefault(name, {"alone_ns": [], "times": []})
                row["alone_ns"].append(alone / pairs * 1e9)
                row["times"].append(len(loops) * alone / together)
    finally:
        for timer in timers:
            timer.close()
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    return {"threads": THREADS, "pairs": pairs, "gil": gil, "rows": rows}


def each_row(timers: list[SystemTimer], pairs: int) -> list[tuple[str, list[Loop]]]:
    """Return a name and the work of each thread."""
    one = timers[0]
    return [
        ("a timer a thread", [lambda own=own: add_and_cancel(own, pairs) for own in timers]),
        ("one timer", [lambda: add_and_cancel(one, pairs)] * len(timers)),
        ("one timer, a thousand pending a thread", [lambda: cancel_later(one, pairs)] * len(timers)),
        ("one timer, its method looked up each time", [lambda: look_up_and_add(one, pairs)] * len(timers)),
        ("two looks at one object", [lambda: look_twice(one, pairs)] * len(timers)),
    ]


def add_and_cancel(timer: SystemTimer, pairs: int) -> None:
    call_later = timer.call_later
    for _ in repeat(None, pairs):
        call_later(DELAY_S, int).cancel()


def cancel_later(timer: SystemTimer, pairs: int) -> None:
    """Cancel each task a thousand adds later, when it has reached the wheel."""
    call_later = timer.call_later
    calls = [call_later(DELAY_S, int) for _ in range(1000)]
    for i in range(pairs):
        calls[i % 1000].cancel()
        calls[i % 1000] = call_later(DELAY_S, int)
    for call in calls:
        call.cancel()


def look_up_and_add(timer: SystemTimer, pairs: int) -> None:
    for _ in repeat(None, pairs):
        timer.call_later(DELAY_S, int).cancel()


def look_twice(timer: SystemTimer, pairs: int) -> None:
    for _ in repeat(None, pairs):
        timer.closed  # noqa: B018
        timer.closed  # noqa: B018


def seconds(loops: list[Loop]) -> float:
    """Measure from the start of the first thread, when all are ready, to the end of the last one."""
    together = threading.Barrier(len(loops))
    spans: list[tuple[float, float]] = []

    def work(loop: Loop) -> None:
        together.wait()
        start = time.perf_counter()
        loop()
        spans.append((start, time.perf_counter()))

    threads = [threading.Thread(target=work, args=(loop,)) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(end for _, end in spans) - min(start for start, _ in spans)


def show(part: dict[str, Any], console: Console) -> None:
    """Print each row, and whether the interpreter has a GIL."""
    gil = "with" if part["gil"] else "without"
    title = f"{part['threads']} threads, {gil} a GIL, {part['pairs']:,} pairs of add and cancel each"
    headers = ["", "ns a pair, one thread", f"{part['threads']} threads do, times one"]
    rows = [
        [name, median_and_range(row["alone_ns"]), median_and_range(row["times"])] for name, row in part["rows"].items()
    ]
    show_rows(title, headers, rows, console)
