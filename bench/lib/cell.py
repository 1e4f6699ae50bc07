"""The figures of one operation in each round, and their ratios."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass
class Cell:
    """An operation of an implementation with a number of pending timers."""

    operation: str
    implementation: str
    pending: int
    ns: list[float] = field(default_factory=list)  # per timer, one figure per round
    checksum: int | None = None
    remark: str = ""


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the minimum, median, and maximum."""
    return min(values), median(values), max(values)


def ratios(cell: Cell, to: Cell) -> list[float]:
    """Return the ratio in each round, in which both had a turn."""
    return [one / other for one, other in zip(cell.ns, to.ns, strict=True)]
