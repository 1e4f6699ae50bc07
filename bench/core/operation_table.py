"""Tables of operations: what one costs with hwheel, and how many times as much with the others."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from implementations.base import BULK, SINGLE, Implementation
from lib.cell import Cell, ratios
from lib.table import three

OURS = {**dict.fromkeys(SINGLE, "hwheel"), **dict.fromkeys(BULK, "hwheel bulk")}


def show_operations(cells: Sequence[Cell], console: Console) -> None:
    """A table an operation: rows are implementations, columns numbers of pending timers."""
    console.print("Median (minimum–maximum) over the rounds: hwheel in ns a timer, the others in times that.\n")
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
        table.add_row(
            f"{name}, ns a timer" if name == ours else name,
            *(
                text_of(cell, None if name == ours else by_place.get((ours, size)))
                for cell, size in zip(row, sizes, strict=True)
            ),
            style="bold" if name == ours else None,
        )
    return table


def text_of(cell: Cell | None, base: Cell | None) -> str:
    """A cell's figures, or a dash for what was not measured."""
    if cell is None:
        return "–"
    return three(cell.ns if base is None else ratios(cell, base))


def show_notes(implementations: Sequence[type[Implementation]], console: Console) -> None:
    """Which operations an implementation has not, and what to read instead; and how some were measured."""
    for before, notes in (
        ("no ", {make.name: make.lacks for make in implementations}),
        ("", {make.name: make.remarks for make in implementations}),
    ):
        alike: dict[tuple[tuple[str, ...], str], list[str]] = {}
        for name, of_it in notes.items():
            for note in dict.fromkeys(of_it.values()):
                operations = tuple(f"{before}{operation}" for operation, why in of_it.items() if why == note)
                alike.setdefault((operations, note), []).append(name)
        for (operations, note), names in alike.items():
            console.print(f"{', '.join(names)}: {'; '.join(operations)} ({note})", style="dim")
    console.print("–: more timers than it can bear in a run of reasonable length\n", style="dim")
