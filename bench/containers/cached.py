"""Calls of a cached function whose result is in the cache, beside cachetools."""

import threading
from collections.abc import Callable
from typing import Any

from rich.console import Console

from containers.compared import measure_operations, processor_ns
from hwheel import cachetools as ours
from lib.figures import Cell, median_and_range, ratios, show_rows
from lib.machine import installed
from lib.settings import Settings

TTL_S = 3600.0
ENTRIES = 1000
OPERATIONS = ("hit", "hit, safe with threads", "hit of a method")


class Ours:
    name = "hwheel.cachetools.cached"
    module = None
    lock = None  # its caches need none

    def __init__(self) -> None:
        self.library: Any = ours


class OfCachetools:
    name = "cachetools.cached"
    module = "cachetools"

    def __init__(self) -> None:
        import cachetools

        self.library = cachetools
        self.lock = threading.Lock()


ALL: tuple[Any, ...] = (Ours, OfCachetools)


def measure(settings: Settings, on_turn: Callable[[str], object]) -> dict[str, Any]:
    """Measure ns of processor time per call in each round."""
    makes, left_out = installed(ALL)
    on_turn("hits")
    cells = measure_operations(makes, operations, settings.container_entries, settings.rounds)
    return {"entries": ENTRIES, "cells": cells, "left_out": left_out}


def operations(make: Any, calls: int) -> dict[str, float]:
    """Measure ns per call with arguments that are all in the cache."""
    one = make()
    cached, new_cache = one.library.cached, lambda: one.library.TTLCache(ENTRIES, TTL_S)

    class Squares:
        def __init__(self) -> None:
            self.cache = new_cache()

        @one.library.cachedmethod(lambda self: self.cache)
        def square(self, number: int) -> int:
            return number * number

    functions = [cached(new_cache())(square), cached(new_cache(), lock=one.lock)(square), Squares().square]
    return {operation: measure_hits(function, calls) for operation, function in zip(OPERATIONS, functions, strict=True)}


def square(number: int) -> int:
    return number * number


def measure_hits(function: Callable[[int], int], calls: int) -> float:
    numbers = range(min(ENTRIES, calls))
    turns = range(max(1, calls // len(numbers)))
    for number in numbers:
        function(number)

    def hit() -> None:
        for _ in turns:
            for number in numbers:
                function(number)

    return processor_ns(hit, len(turns) * len(numbers))


def show(part: dict[str, Any], console: Console) -> None:
    """Print a table: ns of ours, and ratios of the others in the same rounds."""
    cells = {(cell["operation"], cell["implementation"]): Cell(**cell) for cell in part["cells"]}
    rows: list[list[object]] = []
    for name in dict.fromkeys(name for _, name in cells):
        is_ours = name == Ours.name
        found = [cells[operation, name] for operation in OPERATIONS]
        figures = [cell.ns if is_ours else ratios(cell, cells[cell.operation, Ours.name]) for cell in found]
        rows.append([f"{name}, ns" if is_ours else f"{name}, times that", *map(median_and_range, figures)])
    show_rows(f"calls of a cached function, {part['entries']:,} entries", ["", *OPERATIONS], rows, console)
    for note in part["left_out"]:
        console.print(note, style="yellow")
