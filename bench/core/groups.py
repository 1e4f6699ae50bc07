"""What a task of a group costs beside one without, and what moving many timers costs beside cancelling them."""

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
    """ns a timer, round by round, of each step, in turns; and bytes a task."""
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
        tasks = [add(1 + i % DELAYS_S, int) for i in range(timers)]  # so that memory and levels are there
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
    """A batch in random order: what is moved at once beside what is cancelled at once, in the processor's time.

    A cancel of 200,000 takes a ms, less than a time slice: by the wall clock of a busy machine a move took 0.2 to 13
    times that, where it is 1.2 to 1.7 times.
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
    """That were allocated, beside the list that holds them."""
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
    """Steps, bytes, and how many times a bulk cancel a bulk move takes, of the same rounds."""
    rows = [[name, three(ns)] for name, ns in part["ns"].items()]
    rows += [[f"{name}: bytes", count] for name, count in part["bytes"].items()]
    cancel = part["ns"]["batch: cancel, random order"]
    moved = part["ns"]["batch: reschedule, random order"]
    times = median(one / other for one, other in zip(moved, cancel, strict=True))
    rows.append(["batch: a move, times a cancel", times])
    headers = ["step", "ns a timer"]
    show_rows(f"groups, and timers that are moved at once, {part['timers']:,} of each", headers, rows, console)
