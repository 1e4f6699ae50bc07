"""What use_huge_pages() gives: operations on a great many tasks, with it and without, in processes of their own, in
turns."""

import random
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console

from core.memory import nothing, resident_bytes
from core.rounds import timed
from hwheel import ManualTimer, TimerTask, use_huge_pages
from lib.isolated import isolated
from lib.table import show_rows, three

OPERATIONS = ("add", "cancel at random", "expiry with a callback")


def measure(timers: int, rounds: int, on_turn: Callable[[str], object] = lambda turn: None) -> dict[str, Any]:
    """ns a timer of each operation, and the bytes that the process grew by, round by round."""
    found: dict[str, list[Any]] = {"small": [], "huge": []}
    for number in range(rounds):
        for pages, runs in found.items():
            on_turn(f"{pages} pages, round {number + 1} of {rounds}")
            runs.append(isolated("core.huge_pages", "measure_one", timers, pages == "huge"))
    return {"timers": timers, **found}


def measure_one(timers: int, huge: bool) -> dict[str, float] | None:
    """One turn, here. None: there are no huge pages."""
    if huge and not use_huge_pages():
        return None
    before = resident_bytes()
    chance = random.Random(1)
    timer = ManualTimer()
    delays = [chance.uniform(1, 60) for _ in range(timers)]
    tasks: list[TimerTask] = []

    def add() -> None:
        call_later, keep = timer.call_later, tasks.append
        for delay in delays:
            keep(call_later(delay, nothing, delay))

    def cancel() -> None:
        for task in tasks[: timers // 2]:
            task.cancel()

    add_s = timed(add, time.process_time)
    grown = resident_bytes() - before
    chance.shuffle(tasks)
    cancel_s = timed(cancel, time.process_time)
    tasks.clear()
    expiry_s = timed(lambda: timer.advance(60), time.process_time)
    ns = zip(OPERATIONS, (add_s / timers, cancel_s / (timers // 2), expiry_s / (timers - timers // 2)), strict=True)
    return {**{what: seconds * 1e9 for what, seconds in ns}, "bytes": grown / timers}


def show(part: dict[str, Any], console: Console) -> None:
    """A row for each size of pages."""
    rows = [
        [pages, *(three([run[what] for run in part[pages]]) for what in (*OPERATIONS, "bytes"))]
        for pages in ("small", "huge")
        if None not in part[pages]
    ]
    headers = ["pages", *(f"{what}, ns" for what in OPERATIONS), "bytes resident"]
    show_rows(f"use_huge_pages(), {part['timers']:,} tasks", headers, rows, console)
