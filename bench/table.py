"""Tables for people: what an operation costs with hwheel, and how many times as much with the others."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from implementations.base import BULK, SINGLE
from rounds import Cell, ratios, spread

OURS = {**dict.fromkeys(SINGLE, "hwheel"), **dict.fromkeys(BULK, "hwheel bulk")}


def show_operations(cells: Sequence[Cell], console: Console) -> None:
    """A table an operation: rows are implementations, columns numbers of pending timers."""
    console.print("Median (minimum to maximum) over the rounds: hwheel in ns a timer, the others in times that.\n")
    for operation, ours in OURS.items():
        of_it = [cell for cell in cells if cell.operation == operation]
        if of_it:
            console.print(operation_table(operation, of_it, ours))


def operation_table(operation: str, cells: Sequence[Cell], ours: str) -> Table:
    """ns a timer in our row, ratios to it of the same rounds in the others."""
    sizes = sorted({cell.pending for cell in cells})
    by_place = {(cell.implementation, cell.pending): cell for cell in cells}
    table = Table(title=operation, title_justify="left", title_style="bold")
    table.add_column("pending timers", no_wrap=True)
    for size in sizes:
        table.add_column(f"{size:,}", justify="right", no_wrap=True)
    for name in [ours, *(name for name in dict.fromkeys(cell.implementation for cell in cells) if name != ours)]:
        row = [by_place.get((name, size)) for size in sizes]
        remark = next((cell.remark for cell in row if cell is not None and cell.remark), "")
        table.add_row(
            f"{name}, ns a timer" if name == ours else f"{name} ({remark})" if remark else name,
            *(text_of(cell, None if name == ours else by_place.get((ours, size)))
              for cell, size in zip(row, sizes, strict=True)),
            style="bold" if name == ours else None,
        )
    return table


def text_of(cell: Cell | None, base: Cell | None) -> str:
    """A cell's figures, or a dash for what was not measured."""
    if cell is None:
        return "–"
    low, middle, high = spread(cell.ns if base is None else ratios(cell, base))
    return f"{figure(middle)} ({figure(low)} to {figure(high)})"


def figure(value: float) -> str:
    """Three digits, and no exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def show_lacks(lacks: Mapping[str, Mapping[str, str]], console: Console) -> None:
    """Which operations an implementation has not, and what to read instead."""
    alike: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for name, missing in lacks.items():
        for reason in dict.fromkeys(missing.values()):
            operations = tuple(operation for operation, why in missing.items() if why == reason)
            alike.setdefault((operations, reason), []).append(name)
    for (operations, reason), names in alike.items():
        console.print(f"{', '.join(names)}: no {', no '.join(operations)} ({reason})", style="dim")
    console.print("–: more timers than it can bear in a run of reasonable length\n", style="dim")
