"""Containers compared: processor time of their operations in turns, and bytes an entry."""

import gc
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from lib.figures import Cell, median_and_range, ratios


def processor_ns(work: Callable[[], object], count: int) -> float:
    """Measure processor time per operation."""
    begin = time.process_time()
    work()
    return (time.process_time() - begin) * 1e9 / count


def measure_operations(
    makes: Sequence[Any], operations: Callable[[Any, int], dict[str, float]], entries: int, rounds: int
) -> list[dict[str, Any]]:
    """Return a cell per operation and container, which take turns."""
    cells: dict[tuple[str, str], Cell] = {}
    for _ in range(rounds):
        for make in makes:
            gc.collect()
            for operation, ns in operations(make, entries).items():
                cells.setdefault((operation, make.name), Cell(operation, make.name, entries)).ns.append(ns)
    return [asdict(cell) for cell in cells.values()]


def bytes_each(fill: Callable[[], object], entries: int) -> float:
    """Measure the allocated bytes of an entry."""
    tracemalloc.start()
    fill()
    taken = tracemalloc.get_traced_memory()[0] / entries
    tracemalloc.stop()
    return taken


def rows_of(part: dict[str, Any], ours: str, operations: Sequence[str]) -> list[list[object]]:
    """Return a row per container: ns of ours, ratios of the others in the same rounds, and bytes."""
    cells = {(cell["operation"], cell["implementation"]): Cell(**cell) for cell in part["cells"]}
    rows: list[list[object]] = []
    for name, taken in part["bytes"].items():
        row: list[object] = [f"{name}, ns" if name == ours else f"{name}, times that"]
        for operation in operations:
            cell = cells.get((operation, name))
            if cell is None:
                row.append("–")
            else:
                row.append(median_and_range(cell.ns if name == ours else ratios(cell, cells[operation, ours])))
        rows.append([*row, taken])
    return rows
