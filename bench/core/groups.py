"""Tasks of a group beside tasks without one, and bulk moves beside bulk cancels."""

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console

from hwheel import ManualTimer
from lib.figures import median_and_range, show_rows
from lib.settings import Settings

DELAYS_S = 1000
AGAIN_MS = 700_000


def measure(settings: Settings, on_turn: Callable[[str], object]) -> dict[str, Any]:
    """Measure ns per timer of each step, in turns, and bytes per task."""
    timers = settings.group_timers
    steps: dict[str, list[float]] = {}
    for number in range(settings.rounds):
        on_turn(f"round {number + 1} of {settings.rounds}")
        for grouped in (False, True):
            one_round(timers, grouped, steps)
        batch_round(timers, steps)
    bytes_each = {"plain": bytes_a_task(timers, False), "grouped": bytes_a_task(timers, True)}
    return {"timers": timers, "ns": steps, "bytes": bytes_each}


def one_round(timers: int, grouped: bool, steps: dict[str, list[float]]) -> None:
    """Add, cancel, and expire tasks one by one, and cancel a group."""
    timer = ManualTimer()
    group = timer.group()
    call_later = group.call_later if grouped else timer.call_later
    tasks: list[Any] = []

    def add() -> None:
        tasks[:] = [call_later(1 + i % DELAYS_S, int) for i in range(timers)]

    def cancel() -> None:
        for task in tasks:
            task.cancel()

    def measured(step: str, work: Callable[[], object]) -> None:
        start = time.perf_counter()
        work()
        ns = (time.perf_counter() - start) * 1e9 / timers
        steps.setdefault(f"{'grouped' if grouped else 'plain'}: {step}", []).append(ns)

    add()  # allocates memory and levels
    cancel()
    measured("add", add)
    measured("cancel, one by one", cancel)
    add()
    if grouped:
        measured("cancel of the group", group.cancel)
        add()
    tasks.clear()
    measured("expire", lambda: timer.advance(DELAYS_S + 1))


def batch_round(timers: int, steps: dict[str, list[float]]) -> None:
    """Measure processor time of a bulk move and of a bulk cancel of a batch in random order.

    A cancel of 200,000 takes a ms, less than a time slice. By the wall clock of a busy machine, the ratio of move to
    cancel was 0.2 to 13 instead of 1.2 to 1.7.
    """
    dice = np.random.default_rng(5)
    delays_ms = dice.integers(1, DELAYS_S * 1000, timers)
    order = dice.permutation(timers)
    again_ms = dice.integers(1, DELAYS_S * 1000, timers)
    for step, act in (
        ("batch: reschedule, random order", lambda batch: batch.reschedule(order, again_ms)),
        ("batch: reschedule, all to one time", lambda batch: batch.reschedule(order, AGAIN_MS)),
        ("batch: cancel, random order", lambda batch: batch.cancel(order)),
    ):
        with ManualTimer() as timer:
            batch = timer.call_many(delays_ms, len)
            start = time.thread_time()
            done = act(batch)
            steps.setdefault(step, []).append((time.thread_time() - start) * 1e9 / timers)
        if done != timers:
            raise AssertionError(f"{step}: {done} of {timers}")


def bytes_a_task(timers: int, grouped: bool) -> float:
    """Measure the allocated bytes, without the list of the tasks."""
    with ManualTimer() as timer, timer.group() as group:
        call_later = group.call_later if grouped else timer.call_later
        call_later(DELAYS_S, int).cancel()
        tasks: list[Any] = [None] * timers
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for i in range(timers):
            tasks[i] = call_later(DELAYS_S, int)
        taken = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    return taken / timers


def show(part: dict[str, Any], console: Console) -> None:
    """Print steps, bytes, and the ratio of bulk move to bulk cancel in the same rounds."""
    rows: list[list[object]] = [[name, median_and_range(ns)] for name, ns in part["ns"].items()]
    rows += [[f"{name}: bytes", count] for name, count in part["bytes"].items()]
    pairs = zip(part["ns"]["batch: reschedule, random order"], part["ns"]["batch: cancel, random order"], strict=True)
    rows.append(["batch: a move, times a cancel", median_and_range([moved / cancelled for moved, cancelled in pairs])])
    title = f"groups, and timers that are moved at once, {part['timers']:,} of each"
    show_rows(title, ["step", "ns a timer"], rows, console)
