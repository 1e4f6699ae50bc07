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

OPERATIONS = ("add to new memory", "cancel at random", "add to memory that is there", "expiry with a callback")


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

    def add(delays: list[float]) -> None:
        call_later, keep = timer.call_later, tasks.append
        for delay in delays:
            keep(call_later(delay, nothing, delay))

    def cancel(half: list[TimerTask]) -> None:
        for task in half:
            task.cancel()

    seconds = [timed(lambda: add(delays), time.process_time) / timers]
    grown = resident_bytes() - before
    chance.shuffle(tasks)
    half = tasks[: timers // 2]
    seconds.append(timed(lambda: cancel(half), time.process_time) / len(half))
    del tasks[: timers // 2]
    half.clear()
    seconds.append(timed(lambda: add(delays[: timers // 2]), time.process_time) / (timers // 2))
    tasks.clear()
    seconds.append(timed(lambda: timer.advance(60), time.process_time) / timers)
    return {**{what: each * 1e9 for what, each in zip(OPERATIONS, seconds, strict=True)}, "bytes": grown / timers}


def show(part: dict[str, Any], console: Console) -> None:
    """A row for each size of pages."""
    rows = [
        [pages, *(three([run[what] for run in part[pages]]) for what in (*OPERATIONS, "bytes"))]
        for pages in ("small", "huge")
        if None not in part[pages]
    ]
    headers = ["pages", *(f"{what}, ns" for what in OPERATIONS), "bytes resident"]
    show_rows(f"use_huge_pages(), {part['timers']:,} tasks", headers, rows, console)
