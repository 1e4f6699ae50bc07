"""Figures: cells, their spread and ratios, distributions, and tables."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

CURVE_POINTS = 60


@dataclass
class Cell:
    """The figures of one operation of one implementation, with a number of pending timers."""

    operation: str
    implementation: str
    pending: int
    collector: bool = False  # whether the garbage collector was on
    ns: list[float] = field(default_factory=list)  # per timer, one figure per round
    checksum: int | None = None


def ratios(cell: Cell, to: Cell) -> list[float]:
    """Return the ratio of two cells in each round."""
    return [one / other for one, other in zip(cell.ns, to.ns, strict=True)]


def quantile(values: Any, share: float) -> float:
    """Return the quantile, or 0 without values."""
    ordered = np.sort(np.asarray(values, dtype=float)) if len(values) else np.zeros(1)
    return float(ordered[min(int(len(ordered) * share), len(ordered) - 1)])


def distribution(values: Sequence[float]) -> dict[str, Any]:
    """Return p50, p99, p99.9, max, and the curve: pairs (value, share of values that are larger or equal)."""
    ordered = np.sort(np.asarray(values, dtype=float)) if len(values) else np.zeros(1)
    shares = np.logspace(0, -math.log10(len(ordered)), CURVE_POINTS)
    at = np.minimum((len(ordered) * (1 - shares)).astype(int), len(ordered) - 1)
    return {
        "count": len(values),
        "p50": quantile(ordered, 0.5),
        "p99": quantile(ordered, 0.99),
        "p99.9": quantile(ordered, 0.999),
        "max": float(ordered[-1]),
        "curve": [list(pair) for pair in zip(ordered[at].tolist(), shares.tolist(), strict=True)],
    }


def figure(value: float) -> str:
    """Format three digits without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def text(value: object) -> str:
    """Format a value for a table."""
    if isinstance(value, float):
        return figure(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def median_and_range(values: Sequence[float]) -> str:
    """Format median (minimum–maximum)."""
    return f"{figure(median(values))} ({figure(min(values))}–{figure(max(values))})"


def show_rows(title: str, headers: Sequence[str], rows: Iterable[Sequence[object]], console: Console) -> None:
    """Print a table with text in the first column and figures in the others."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, header in enumerate(headers):
        table.add_column(header, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(text(value) for value in row))
    console.print(table)
