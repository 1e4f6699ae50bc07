"""Tables of operations: the time with hwheel, the ratio to it with the others, and growth with the number of timers."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from implementations.base import BULK, SINGLE, Implementation
from lib.cell import Cell, ratios
from lib.table import show_rows, three

GROWING = ("hwheel", "hwheel bulk")
FEWEST = 10_000
OURS = {**dict.fromkeys(SINGLE, "hwheel"), **dict.fromkeys(BULK, "hwheel bulk")}


def show_operations(cells: Sequence[Cell], console: Console) -> None:
    """Print a table per operation, with a row per implementation and a column per number of pending timers."""
    console.print("Median (minimum–maximum) over the rounds: hwheel in ns a timer, the others in times that.\n")
    for operation, ours in OURS.items():
        of_it = [cell for cell in cells if cell.operation == operation]
        if of_it:
            console.print(operation_table(operation, of_it, ours))


def operation_table(operation: str, cells: Sequence[Cell], ours: str) -> Table:
    """Format ns per timer in our row, and ratios of the same rounds in the others."""
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
    """Format a cell, or a dash if it was not measured."""
    if cell is None:
        return "–"
    return three(cell.ns if base is None else ratios(cell, base))


def show_notes(implementations: Sequence[type[Implementation]], console: Console) -> None:
    """Print the operations that implementations lack, with substitutes, and notes on measurements."""
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


def show_growth(cells: Sequence[Cell], console: Console) -> None:
    """Print a row per operation of ours, and a column per number of timers."""
    places = {(cell.operation, cell.implementation, cell.pending): cell for cell in cells}
    sizes = sorted({cell.pending for cell in cells if cell.implementation in GROWING})
    sizes = [size for size in sizes if size >= min(FEWEST, sizes[-1] // 2)]
    if len(sizes) < 2:
        return
    rows = []
    for operation, name in dict.fromkeys((cell.operation, cell.implementation) for cell in cells):
        base = places.get((operation, name, sizes[0]))
        if name in GROWING and base is not None:
            more = [places.get((operation, name, size)) for size in sizes[1:]]
            rows.append(
                [f"{operation}, {name}", three(base.ns), *(three(ratios(cell, base)) if cell else "–" for cell in more)]
            )
    title = f"growth: ns a timer with {sizes[0]:,} pending; with more, in times that"
    show_rows(title, ["", *(f"{size:,}" for size in sizes)], rows, console)
