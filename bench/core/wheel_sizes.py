"""The table behind the default wheel_size: the cost of expiry, memory, and the pauses of cascades by size."""

import tracemalloc
from collections.abc import Callable
from typing import Any

from rich.console import Console

from core import pause
from core.trials import RANGE_MS, BulkLife, SingleLife, inputs_of
from hwheel import SystemTimer
from implementations.base import Implementation
from implementations.wheel import WheelBulk, WheelTasks
from lib.figures import median_and_range, quantile, show_rows
from lib.settings import Settings

SIZES = (4, 8, 16, 20, 32, 64, 128, 256, 512, 1024, 2048, 4096)
TASKS = 5  # the divisor of the number of timers if each is an object


def measure(settings: Settings, on_turn: Callable[[str], object]) -> list[dict[str, Any]]:
    """Measure each size. Sizes take turns in each round."""
    timers, figures = settings.wheel_timers, ("bulk_expire_ns", "add_cancel_ns", "expire_ns", "pause_us")
    rows: dict[int, dict[str, Any]] = {
        size: {"wheel_size": size, "timers": timers, **{figure: [] for figure in figures}} for size in SIZES
    }
    inputs = inputs_of(timers)
    fewer = inputs_of(timers // TASKS)
    for number in range(settings.rounds):
        for size, row in rows.items():
            on_turn(f"round {number + 1} of {settings.rounds}: wheel size {size}")
            bulk, tasks = BulkLife(sized(WheelBulk, size), inputs), SingleLife(sized(WheelTasks, size), fewer)
            for life, operations in (
                (bulk, {"bulk expire": "bulk_expire_ns"}),
                (tasks, {"add + cancel": "add_cancel_ns", "expire": "expire_ns"}),
            ):
                seconds = life.run()
                life.check()
                for operation, figure in operations.items():
                    row[figure].append(seconds[operation] / life.counts[operation] * 1e9)
                life.close()
            during, _ = pause.adds_during_a_jump(inputs.delays_ms, RANGE_MS, size)
            row["pause_us"].append(quantile(during, 0.999))
    for size, row in rows.items():
        row.update(structure(size, inputs.delays_ms))
    return list(rows.values())


def structure(size: int, delays_ms: Any) -> dict[str, Any]:
    """Return the constant figures of a size: levels, moves per timer, and bytes of the wheel."""
    now_ms = 0
    tracemalloc.start()
    timer = SystemTimer(wheel_size=size, clock=lambda: now_ms, reaper=False, executor="inline")
    with timer:
        timer.call_later(RANGE_MS / 1000, int)
        wheel_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        timer.call_many(delays_ms, len)
        now_ms = RANGE_MS
        timer.advance_clock(0)
        stats = timer.stats()
    return {"levels": stats.levels, "moves_a_timer": stats.cascaded / len(delays_ms), "wheel_bytes": wheel_bytes}


def sized(make: Any, size: int) -> type[Implementation]:
    """Return the implementation with this wheel size."""

    class Sized(make):  # type: ignore[misc]
        def __init__(self, pending: int) -> None:
            super().__init__(pending, wheel_size=size)

    return Sized


def show(part: list[dict[str, Any]], console: Console) -> None:
    """Print a row per size."""
    timers = part[0]["timers"]
    rows = [
        [
            row["wheel_size"],
            row["levels"],
            row["moves_a_timer"],
            median_and_range(row["bulk_expire_ns"]),
            median_and_range(row["expire_ns"]),
            median_and_range(row["add_cancel_ns"]),
            row["wheel_bytes"] / 1024,
            median_and_range(row["pause_us"]),
        ]
        for row in part
    ]
    show_rows(
        f"wheel sizes: {timers:,} timers over 100 s, tick 1 ms (tasks: {timers // TASKS:,})",
        [
            "size",
            "levels",
            "moves\na timer",
            "bulk expiry\nns",
            "expiry of tasks\nns",
            "add + cancel\nns",
            "wheel\nKiB",
            "p99.9 of an add\nduring expiry, us",
        ],
        rows,
        console,
    )
