"""What was measured of one operation, round by round, and how it compares."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass
class Cell:
    """One operation of one implementation with so many timers pending."""

    operation: str
    implementation: str
    pending: int
    ns: list[float] = field(default_factory=list)  # a timer, one figure a round
    checksum: int | None = None
    remark: str = ""


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Minimum, median, maximum: what the code costs, and what the moment added."""
    return min(values), median(values), max(values)


def ratios(cell: Cell, to: Cell) -> list[float]:
    """How many times dearer, round by round: both had their turn in the same moment."""
    return [one / other for one, other in zip(cell.ns, to.ns, strict=True)]
