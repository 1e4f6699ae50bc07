"""Text tables."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from lib.cell import spread


def figure(value: float) -> str:
    """Format three digits without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def show_rows(title: str, headers: Sequence[str], rows: Iterable[Sequence[object]], console: Console) -> None:
    """Return a table with text in the first column and figures in the others."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, header in enumerate(headers):
        table.add_column(header, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(text(value) for value in row))
    console.print(table)


def text(value: object) -> str:
    """Format a value for a table."""
    if isinstance(value, float):
        return figure(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def three(values: Sequence[float]) -> str:
    """Format median (minimum–maximum)."""
    low, middle, high = spread(values)
    return f"{figure(middle)} ({figure(low)}–{figure(high)})"
