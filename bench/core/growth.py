"""Growth: what add, cancel and expire cost with more and more timers pending, against the fewest."""

from collections.abc import Sequence

from rich.console import Console

from lib.cell import Cell, ratios
from lib.table import show_rows, three

OURS = ("hwheel", "hwheel bulk")
FEWEST = 10_000


def show(cells: Sequence[Cell], console: Console) -> None:
    """A row an operation of ours, a column a number of timers."""
    places = {(cell.operation, cell.implementation, cell.pending): cell for cell in cells}
    sizes = sorted({cell.pending for cell in cells if cell.implementation in OURS})
    sizes = [size for size in sizes if size >= min(FEWEST, sizes[-1] // 2)]
    if len(sizes) < 2:
        return
    rows = []
    for operation, name in dict.fromkeys((cell.operation, cell.implementation) for cell in cells):
        base = places.get((operation, name, sizes[0]))
        if name in OURS and base is not None:
            more = [places.get((operation, name, size)) for size in sizes[1:]]
            rows.append(
                [f"{operation}, {name}", three(base.ns), *(three(ratios(cell, base)) if cell else "–" for cell in more)]
            )
    title = f"growth: ns a timer with {sizes[0]:,} pending; with more, in times that"
    show_rows(title, ["", *(f"{size:,}" for size in sizes)], rows, console)
