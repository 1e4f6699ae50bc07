"""Tasks of a group beside tasks without one, and bulk moves beside bulk cancels."""

import time
import tracemalloc
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console

from hwheel import ManualTimer
from lib.table import show_rows, three

DELAYS_S = 1000
AGAIN_MS = 700_000


def measure(timers: int, rounds: int, on_turn: Callable[[str], object] = lambda turn: None) -> dict[str, Any]:
    """Measure ns per timer of each step, in turns, and bytes per task."""
    steps: dict[str, list[float]] = {}
    for _ in range(rounds):
        on_turn("groups")
        for name, ns in [*one_round(timers), *bulk_round(timers)]:
            steps.setdefault(name, []).append(ns)
    return {"timers": timers, "ns": steps, "bytes": {name: bytes_a_task(name, timers) for name in ("plain", "grouped")}}


def one_round(timers: int) -> list[tuple[str, float]]:
    """Tasks one by one."""
    found = []
    for kind in ("plain", "grouped"):
        timer = ManualTimer()
        group = timer.group()
        add = timer.call_later if kind == "plain" else group.call_later
        tasks = [add(1 + i % DELAYS_S, int) for i in range(timers)]  # allocates memory and levels
        for task in tasks:
            task.cancel()
        start = time.perf_counter()
        for i in range(timers):
            tasks[i] = add(1 + i % DELAYS_S, int)
        found.append((f"{kind}: add", ns_since(start, timers)))
        start = time.perf_counter()
        for task in tasks:
            task.cancel()
        found.append((f"{kind}: cancel, one by one", ns_since(start, timers)))
        if kind == "grouped":
            for i in range(timers):
                tasks[i] = add(1 + i % DELAYS_S, int)
            start = time.perf_counter()
            group.cancel()
            found.append((f"{kind}: cancel of the group", ns_since(start, timers)))
        for i in range(timers):
            tasks[i] = add(1 + i % DELAYS_S, int)
        tasks.clear()
        start = time.perf_counter()
        timer.advance(DELAYS_S + 1)
        found.append((f"{kind}: expire", ns_since(start, timers)))
    return found


def bulk_round(timers: int) -> list[tuple[str, float]]:
    """Measure processor time of a bulk move and of a bulk cancel of a batch in random order.

    A cancel of 200,000 takes a ms, less than a time slice. By the wall clock of a busy machine, the ratio of move to
    cancel was 0.2 to 13 instead of 1.2 to 1.7.
    """
    dice = np.random.default_rng(5)
    delays_ms = dice.integers(1, DELAYS_S * 1000, timers)
    order = dice.permutation(timers)
    again_ms = dice.integers(1, DELAYS_S * 1000, timers)
    found = []
    for name, act in (
        ("batch: reschedule, random order", lambda batch: batch.reschedule(order, again_ms)),
        ("batch: reschedule, all to one time", lambda batch: batch.reschedule(order, AGAIN_MS)),
        ("batch: cancel, random order", lambda batch: batch.cancel(order)),
    ):
        timer = ManualTimer()
        batch = timer.call_many(delays_ms, len)
        start = time.thread_time()
        done = act(batch)
        found.append((name, (time.thread_time() - start) * 1e9 / timers))
        if done != timers:
            raise AssertionError(f"{name}: {done} of {timers}")
        timer.close()
    return found


def ns_since(start: float, timers: int) -> float:
    """A timer."""
    return (time.perf_counter() - start) * 1e9 / timers


def bytes_a_task(kind: str, timers: int) -> float:
    """Measure the allocated bytes, without the list of the tasks."""
    timer = ManualTimer()
    group = timer.group()
    add = timer.call_later if kind == "plain" else group.call_later
    add(DELAYS_S, int).cancel()
    tasks: list[Any] = [None] * timers
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for i in range(timers):
            tasks[i] = add(DELAYS_S, int)
        return (tracemalloc.get_traced_memory()[0] - before) / timers
    finally:
        tracemalloc.stop()
        group.close()
        timer.close()


def show(part: dict[str, Any], console: Console) -> None:
    """Print steps, bytes, and the ratio of bulk move to bulk cancel in the same rounds."""
    rows = [[name, three(ns)] for name, ns in part["ns"].items()]
    rows += [[f"{name}: bytes", count] for name, count in part["bytes"].items()]
    cancel = part["ns"]["batch: cancel, random order"]
    moved = part["ns"]["batch: reschedule, random order"]
    times = median(one / other for one, other in zip(moved, cancel, strict=True))
    rows.append(["batch: a move, times a cancel", times])
    headers = ["step", "ns a timer"]
    show_rows(f"groups, and timers that are moved at once, {part['timers']:,} of each", headers, rows, console)
