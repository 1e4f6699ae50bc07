"""Lateness in real time: many thousand timers per second, on an idle machine and beside a thread that computes.

Each of `rate` timers runs once a second, at its own offset, and adds itself again for the next second. So a late run
delays no other run, and adds are part of the load.
"""

import math
import random
import statistics
import threading
import time
from array import array
from collections.abc import Callable
from typing import Any

from rich.console import Console

from implementations import available
from lib.figures import distribution, show_rows
from lib.machine import isolated
from lib.settings import Settings

PERIOD_S = 1.0
THREADS_RATE = 100  # for threading.Timer, this is the number of threads
PATIENCE_S = 5.0  # includes timers that have not run at the end


def measure(settings: Settings, on_turn: Callable[[str], object]) -> list[dict[str, Any]]:
    """Measure the lateness of each engine, idle and busy, in turns and in other processes.

    Return a row per engine: the round with the median p99, and `p99_ms` of every round.
    """
    rate, rounds = settings.lateness_rate, settings.lateness_rounds
    installed = {make.name for make in available()[0]}
    turns: dict[tuple[bool, str, int], list[dict[str, Any]]] = {
        (busy, name, engine_rate): []
        for busy in (False, True)
        for name, engine_rate in (
            ("hwheel", rate),
            ("asyncio", rate),
            ("uvloop", rate),
            ("threading.Timer", min(rate, THREADS_RATE)),
        )
        if name in installed
    }
    for number in range(rounds):
        for (busy, name, engine_rate), found in turns.items():
            on_turn(
                f"round {number + 1} of {rounds}: {name}, {engine_rate:,} timers a second, {'busy' if busy else 'idle'}"
            )
            found.append(isolated("core.lateness", "measure_one", name, engine_rate, settings.lateness_s, busy))
    return [median_round(found) for found in turns.values()]


def median_round(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row with the (lower) median p99, with the p99 of all rounds."""
    p99_ms = [row["late_ms"]["p99"] for row in found]
    return found[p99_ms.index(statistics.median_low(p99_ms))] | {"p99_ms": p99_ms}


def measure_one(name: str, rate: int, seconds: float, busy: bool) -> dict[str, Any]:
    """Measure one engine in this process."""
    load = Load(rate, seconds)
    stop = threading.Event()
    thread = threading.Thread(target=compute, args=(stop,), daemon=True)
    if busy:
        thread.start()
    started, used = time.monotonic(), time.process_time()
    ENGINES[name](load)
    overdue = load.finish()
    used = (time.process_time() - used) / (time.monotonic() - started)
    stop.set()
    if busy:
        thread.join()
    return {
        "implementation": name,
        "rate": rate,
        "seconds": seconds,
        "busy": busy,
        "processor_share": used,
        "overdue": overdue,
        "early": sum(late < 0 for late in load.late_s),
        "late_ms": distribution([late * 1e3 for late in load.late_s]),
    }


class Load:
    """The timers of a run. The engine sets `call_at`, and calls `on_time(index)` at `due_s[index]`."""

    call_at: Callable[[float, Callable[[int], object], int], object]

    def __init__(self, rate: int, seconds: float) -> None:
        chance = random.Random(7)
        self.phases_s = [chance.random() * PERIOD_S for _ in range(rate)]
        self.due_s: list[float] = []
        self.seconds = seconds
        self.end_s = math.inf
        self.late_s = array("d")

    def start(self) -> None:
        """Add all timers for the first time."""
        start = time.monotonic() + 0.2 + len(self.phases_s) * 10e-6
        self.due_s = [start + phase for phase in self.phases_s]
        self.end_s = start + self.seconds
        for index, due in enumerate(self.due_s):
            self.call_at(due, self.on_time, index)

    def on_time(self, index: int) -> None:
        due = self.due_s[index]
        self.late_s.append(time.monotonic() - due)
        self.due_s[index] = due = due + PERIOD_S
        if due < self.end_s:
            self.call_at(due, self.on_time, index)

    def give_up_s(self) -> float:
        """Return the time until the last runs should be over."""
        return max(0.0, self.end_s + PATIENCE_S - time.monotonic())

    def is_over(self) -> bool:
        """Return True if all timers have run as often as they should."""
        return len(self.late_s) == len(self.due_s) * math.ceil(self.seconds / PERIOD_S)

    def finish(self) -> int:
        """Record the lateness so far of timers that have not run, and return their number."""
        now = time.monotonic()
        overdue = [now - due for due in self.due_s if due < self.end_s]
        self.late_s.extend(overdue)
        return len(overdue)

    def wait(self) -> None:
        """Sleep until the last run is over."""
        time.sleep(max(0.0, self.end_s - time.monotonic()))
        while not self.is_over() and self.give_up_s():
            time.sleep(0.05)


def compute(stop: threading.Event) -> None:
    """Keep the interpreter busy."""
    while not stop.is_set():
        sum(range(1000))


def on_hwheel(load: Load) -> None:
    """A SystemTimer with its defaults: a reaper, and a thread for the callbacks."""
    from hwheel import SystemTimer

    with SystemTimer("lateness") as timer:
        load.call_at = timer.call_at
        load.start()
        load.wait()


def on_asyncio(load: Load) -> None:
    """asyncio's event loop in this thread. Its clock is time.monotonic()."""
    import asyncio

    loop = asyncio.new_event_loop()
    load.call_at = loop.call_at
    run_loop(loop, load)


def on_uvloop(load: Load) -> None:
    """uvloop in this thread. Its clock has whole milliseconds, so timers get a delay instead of a time."""
    import uvloop

    loop = uvloop.new_event_loop()
    load.call_at = lambda when, callback, index: loop.call_later(when - time.monotonic(), callback, index)
    run_loop(loop, load)


def run_loop(loop: Any, load: Load) -> None:
    """Run until the last run should be over."""
    load.start()
    loop.call_later(load.end_s - time.monotonic(), loop.stop)
    loop.run_forever()
    while not load.is_over() and load.give_up_s():
        loop.call_later(0.05, loop.stop)
        loop.run_forever()
    loop.close()


def on_threads(load: Load) -> None:
    """A thread for each timer."""

    def call_at(when: float, callback: Callable[[int], object], index: int) -> None:
        thread = threading.Timer(max(0.0, when - time.monotonic()), callback, (index,))
        thread.daemon = True
        thread.start()

    load.call_at = call_at
    load.start()
    load.wait()


ENGINES = {"hwheel": on_hwheel, "asyncio": on_asyncio, "uvloop": on_uvloop, "threading.Timer": on_threads}


def show(part: list[dict[str, Any]], console: Console) -> None:
    """Print a row per engine, idle first."""
    rows = [
        [
            row["implementation"],
            "busy" if row["busy"] else "idle",
            row["rate"],
            *(row["late_ms"][name] for name in ("count", "p50", "p99")),
            f"{min(row['p99_ms']):.3g}–{max(row['p99_ms']):.3g}",
            *(row["late_ms"][name] for name in ("p99.9", "max")),
            row["early"],
            row["overdue"],
            row["processor_share"] * 100,
        ]
        for row in part
    ]
    show_rows(
        "lateness, ms, with a thread that computes (busy) and without (idle): the round with the median p99",
        [
            "",
            "",
            "a second",
            "runs",
            "p50",
            "p99",
            "of all rounds",
            "p99.9",
            "max",
            "early",
            "never ran",
            "% of a processor",
        ],
        rows,
        console,
    )
