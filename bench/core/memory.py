"""Memory per pending timer, and the cost of garbage collections with many of them."""

import gc
import os
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console

from core.trials import inputs_of
from implementations import available
from lib.figures import show_rows
from lib.machine import isolated
from lib.settings import Settings

COLLECTIONS = 5


def nothing(argument: object) -> None:
    """A callback."""


class Owner:
    """An object whose callbacks are bound methods, a new one for each timer."""

    def nothing(self, argument: object) -> None:
        """A callback."""


def measure(settings: Settings, on_turn: Callable[[str], object]) -> list[dict[str, Any]]:
    """Measure each implementation in another process: allocated bytes, growth of the process, and a collection.

    An implementation that cannot handle so many timers gets fewer.
    """
    rows = []
    for make in available()[0]:
        on_turn(f"memory, {make.name}")
        rows.append(isolated("core.memory", "measure_one", make.name, min(settings.memory_timers, make.most)))
    return rows


def measure_one(name: str, timers: int) -> dict[str, Any]:
    """Measure one implementation in this process."""
    resident = fill(name, timers, traced=False)
    allocated = fill(name, timers, traced=True)
    methods = fill(name, timers, traced=False, owner=Owner())
    return {
        "implementation": name,
        "timers": timers,
        "allocated_bytes": allocated.bytes_a_timer,
        "resident_bytes": resident.bytes_a_timer,
        "handle_bytes": resident.handle_bytes,
        "collect_without_ms": resident.without_ms,
        "collect_with_ms": resident.with_ms,
        "collect_methods_ms": methods.with_ms,
    }


class Filled(NamedTuple):
    """sys.getsizeof of a handle, and ms of gc.collect() without timers and with all of them pending."""

    bytes_a_timer: float
    handle_bytes: int
    without_ms: float
    with_ms: float


def fill(name: str, timers: int, *, traced: bool, owner: Any = sys.modules[__name__]) -> Filled:
    """Add timers that call ``owner.nothing``. traced: count allocated bytes; otherwise the growth of the process."""
    [make] = [make for make in available()[0] if make.name == name]
    inputs = inputs_of(timers)
    handles: list[Any] = [None] * timers
    if traced:
        tracemalloc.start()
    without_ms = collection_ms()
    before = tracemalloc.get_traced_memory()[0] if traced else resident_bytes()
    timer = make(timers)
    try:
        if "add" in make.lacks:
            handles[0] = timer.add_many(inputs.delays_ms, [])
        else:
            delay_s = timer.delay_offset_s
            for i in inputs.indices:
                handles[i] = timer.add(delay_s + inputs.delays_s[i], owner.nothing, None)
        after = tracemalloc.get_traced_memory()[0] if traced else resident_bytes()
        with_ms = collection_ms()
        handle_bytes = sys.getsizeof(handles[0])
    finally:
        if traced:
            tracemalloc.stop()
        handles.clear()
        timer.close()
    return Filled((after - before) / timers, handle_bytes, without_ms, with_ms)


def collection_ms() -> float:
    """Measure a full garbage collection."""
    gc.collect()
    took_ms = []
    for _ in range(COLLECTIONS):
        begin = time.perf_counter()
        gc.collect()
        took_ms.append((time.perf_counter() - begin) * 1e3)
    return median(took_ms)


def resident_bytes() -> int:
    """Return the resident bytes of this process, or 0 if the system does not report them."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


def show(part: list[dict[str, Any]], console: Console) -> None:
    """Print a row per implementation."""
    show_rows(
        "memory, and a gc.collect() with all of them pending",
        ["", "timers", "bytes allocated", "bytes resident", "handle", "ms to collect", "with methods", "with none"],
        [
            [
                row["implementation"],
                row["timers"],
                row["allocated_bytes"],
                row["resident_bytes"],
                row["handle_bytes"],
                row["collect_with_ms"],
                row["collect_methods_ms"],
                row["collect_without_ms"],
            ]
            for row in part
        ],
        console,
    )
