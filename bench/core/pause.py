"""The duration of an add while a bucket with many entries cascades in another thread."""

import threading
import time
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console

from hwheel import SystemTimer
from lib.figures import distribution, show_rows
from lib.settings import Settings

WHEEL_SIZE = 1024  # a bucket of level 2 spans this many ticks
TRIES = 20  # attempts: a short cascade can end before this thread runs again


def measure(settings: Settings, on_turn: Callable[[str], object]) -> dict[str, Any]:
    """Measure adds in us during the cascade of one bucket with all entries, and as many adds at rest."""
    # All entries are in one bucket of level 2.
    entries = settings.pause_timers
    bucket_ms = 2 * WHEEL_SIZE
    delays_ms = np.random.default_rng(3).integers(bucket_ms, bucket_ms + WHEEL_SIZE, entries)
    busy: list[float] = []
    idle: list[float] = []
    for number in range(settings.rounds):
        on_turn(f"round {number + 1} of {settings.rounds}")
        for _ in range(TRIES):
            during, at_rest = adds_during_a_jump(delays_ms, bucket_ms, WHEEL_SIZE)
            if during:
                break
        busy += during
        idle += at_rest
    return {
        "entries": entries,
        "rounds": settings.rounds,
        "wheel_size": WHEEL_SIZE,
        "during_us": distribution(busy),
        "at_rest_us": distribution(idle),
    }


def adds_during_a_jump(delays_ms: Any, to_ms: int, wheel_size: int) -> tuple[list[float], list[float]]:
    """Return us of each add during the cascade in another thread, and of as many adds afterwards."""
    now_ms = 0
    timer = SystemTimer("bench", wheel_size=wheel_size, clock=lambda: now_ms, reaper=False, executor="inline")
    timer.call_many(delays_ms, len)
    now_ms = to_ms
    jump = threading.Thread(target=timer.advance_clock, args=(0,))
    adds_us, moves = array("d"), array("q")
    jump.start()
    while jump.is_alive():
        moves.append(timer.stats().cascaded)
        adds_us.append(timed_add(timer))
    jump.join()
    # The thread lives longer than the cascade, because it waits for the GIL before and after.
    moved = timer.stats().cascaded
    during = [us for us, before in zip(adds_us, moves, strict=True) if 0 < before < moved]
    at_rest = [timed_add(timer) for _ in range(max(1000, len(during)))]
    timer.close()
    return during, at_rest


def timed_add(timer: SystemTimer) -> float:
    """Return the duration of an add in us."""
    start = time.perf_counter()
    timer.call_later(3600, int)
    return (time.perf_counter() - start) * 1e6


def show(part: dict[str, Any], console: Console) -> None:
    """Print both distributions."""
    rows = [
        [what, *(part[key][name] for name in ("count", "p50", "p99", "p99.9", "max"))]
        for what, key in ((f"while {part['entries']:,} entries cascade", "during_us"), ("at rest", "at_rest_us"))
    ]
    show_rows("how long one add takes, us", ["", "adds", "p50", "p99", "p99.9", "max"], rows, console)
