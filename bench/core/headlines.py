"""The figures that the README quotes.

The headline is the fairest comparison: no garbage collector, and event loops that run and clean up. The figure
with the collector is beside it, because it is on in most programs.
"""

from collections.abc import Iterator
from typing import Any

from rich.console import Console

from core.operations import cells_of
from lib.figures import Cell, median_and_range, ratios, show_rows

PAIR = "add + cancel"
PEERS = ("asyncio", "uvloop", "heapq", "sortedcontainers")
OURS = "hwheel"


def show(result: dict[str, Any], console: Console) -> None:
    """Print the figures of the measured parts."""
    rows: list[list[object]] = []
    if "operations" in result:
        fair, usual = (places(result["operations"], collector) for collector in (False, True))
        size = headline_size(fair)
        rows += of_pairs(fair, usual, size)
        rows += of_others(fair, usual, size)
    if "memory" in result:
        rows += of_memory(result["memory"])
    if rows:
        show_rows("headlines", ["", "without the garbage collector", "with it"], rows, console)


def places(part: dict[str, Any], collector: bool) -> dict[tuple[str, str, int], Cell]:
    return {(cell.operation, cell.implementation, cell.pending): cell for cell in cells_of(part, collector=collector)}


def headline_size(cells: dict[tuple[str, str, int], Cell]) -> int:
    """Return the largest number of pending timers that asyncio was measured with."""
    return max(size for operation, name, size in cells if (operation, name) == (PAIR, "asyncio"))


def of_pairs(fair: dict[Any, Cell], usual: dict[Any, Cell], size: int) -> Iterator[list[object]]:
    yield [
        f"{PAIR}, {size:,} pending: {OURS}, ns",
        *(median_and_range(cells[PAIR, OURS, size].ns) for cells in (fair, usual)),
    ]
    for name in PEERS:
        if (PAIR, name, size) in fair:
            pairs = (
                median_and_range(ratios(cells[PAIR, name, size], cells[PAIR, OURS, size])) for cells in (fair, usual)
            )
            yield [f"  {name}, times that", *pairs]


def of_others(fair: dict[Any, Cell], usual: dict[Any, Cell], size: int) -> Iterator[list[object]]:
    for operation, name in (
        ("add", OURS),
        ("cancel", OURS),
        ("expire", OURS),
        *((operation, "hwheel bulk") for operation in ("bulk add", "bulk cancel", "bulk expire")),
    ):
        of_both = [cells.get((operation, name, size)) for cells in (fair, usual)]
        yield [
            f"{operation}, {size:,} timers: {OURS}, ns",
            *(median_and_range(cell.ns) if cell else "–" for cell in of_both),
        ]


def of_memory(part: list[dict[str, Any]]) -> Iterator[list[object]]:
    for row in part:
        if OURS in row["implementation"]:
            what = f"{row['implementation']}, {row['timers']:,} pending"
            yield [f"{what}: bytes a timer", row["allocated_bytes"], "–"]
            yield [f"{what}: gc.collect(), ms (with none pending)", "–", collections(row)]


def collections(row: dict[str, Any]) -> str:
    return f"{row['collect_with_ms']:.1f} ({row['collect_without_ms']:.1f})"
