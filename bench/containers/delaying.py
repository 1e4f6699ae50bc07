"""DelayQueue beside a heap and other queues: put, reset, remove, get, and memory."""

import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import Console

from containers.queues import available
from core.rounds import timed
from lib.cell import Cell, ratios
from lib.isolated import isolated
from lib.table import show_rows, three

OURS = "hwheel.DelayQueue"
OPERATIONS = ("put", "reset", "remove", "get")
LONGEST_S = 3600.0


def measure(items: int, rounds: int, on_turn: Callable[[str], object] = lambda turn: None) -> dict[str, Any]:
    """Measure ns of processor time per operation in each round, and bytes per item."""
    makes, left_out = available()
    cells = {
        (what, make.name): Cell(what, make.name, items)
        for what in OPERATIONS
        for make in makes
        if what not in make.lacks
    }
    for _ in range(rounds):
        for make in makes:
            on_turn(f"queues, {make.name}")
            for what, ns in operations(make, items).items():
                cells[what, make.name].ns.append(ns)
    return {
        "items": items,
        "cells": [asdict(cell) for cell in cells.values()],
        "bytes": {make.name: isolated("containers.delaying", "bytes_of", make.name, items) for make in makes},
        "left_out": left_out,
    }


def operations(make: Any, items: int) -> dict[str, float]:
    """Measure ns per operation in random order. Half of the items are reset and removed; get takes the others."""
    chance = np.random.default_rng(7)
    delays = chance.uniform(1, LONGEST_S, items).tolist()
    later = chance.uniform(1, LONGEST_S, items).tolist()
    numbers = [int(number) for number in chance.permutation(items)[: items // 2]]
    queue = make()
    put, reset, remove, get = queue.put, queue.reset, queue.remove, queue.get
    keys: list[Any] = []
    ns = {}

    def put_all() -> None:
        for number, delay in enumerate(delays):
            keys.append(put(number, delay))

    def reset_half() -> None:
        for number in numbers:
            moved = reset(keys[number], later[number])
            if moved is not True:  # a new key
                keys[number] = moved

    def remove_half() -> None:
        for number in numbers:
            remove(keys[number])

    def get_all() -> None:
        for _ in range(remaining):
            get()

    def a_time(what: str, work: Callable[[], object], count: int) -> None:
        ns[what] = timed(work, time.process_time) * 1e9 / count

    gc.collect()
    a_time("put", put_all, items)
    remaining = items
    if not make.lacks:
        a_time("reset", reset_half, len(numbers))
        a_time("remove", remove_half, len(numbers))
        remaining -= len(numbers)
    keys.clear()
    queue.let_all_fall_due()
    a_time("get", get_all, remaining)
    return ns


def bytes_of(name: str, items: int) -> float:
    """Measure bytes per item without the item, in another process that keeps no keys."""
    [make] = [make for make in available()[0] if make.name == name]
    delays = np.random.default_rng(7).uniform(1, LONGEST_S, items).tolist()
    queue = make()
    tracemalloc.start()
    for delay in delays:
        queue.put("item", delay)
    taken = tracemalloc.get_traced_memory()[0] / items
    tracemalloc.stop()
    return taken


def show(part: dict[str, Any], console: Console) -> None:
    """Print a table of operations and bytes."""
    cells = {(cell["operation"], cell["implementation"]): Cell(**cell) for cell in part["cells"]}
    rows: list[list[object]] = []
    for name, taken in part["bytes"].items():
        row: list[object] = [f"{name}, ns" if name == OURS else f"{name}, times that"]
        for what in OPERATIONS:
            cell = cells.get((what, name))
            if cell is None:
                row.append("–")
            else:
                row.append(three(cell.ns if name == OURS else ratios(cell, cells[what, OURS])))
        rows.append([*row, taken])
    title = f"queues whose items come out when due, {part['items']:,} items, random delays, keys in random order"
    show_rows(title, ["", *OPERATIONS, "bytes an item"], rows, console)
    for note in part["left_out"]:
        console.print(note, style="yellow")
