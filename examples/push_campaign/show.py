"""The progress of the campaign on the terminal."""

import time

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from feed import Feeder
from job import Counted
from plan import Kind, repeated

BAR = 90
LOG_EVERY_S = 10.0  # without a terminal
RATE_OVER_S = 5.0


class Progress:
    """A context manager that shows a bar and a line; without a terminal, a line at intervals."""

    def __init__(self, feeder: Feeder, out: Counted, dead: Counted, expected: int, console: Console) -> None:
        self.feeder, self.out, self.dead, self.expected, self.console = feeder, out, dead, expected, console
        plan = feeder.plan
        new = ~repeated(plan)
        self.adds = np.cumsum(new & (plan.kind == Kind.MESSAGE))  # by record
        self.takes = np.cumsum(new & (plan.kind == Kind.CANCEL))
        self.counts: list[tuple[float, int]] = []
        self.log_at = time.monotonic()
        self.live: Live | None = None
        if console.is_terminal:
            self.live = Live(console=console, get_renderable=self.drawn, refresh_per_second=4)

    def __enter__(self) -> "Progress":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.live:
            self.live.stop()
        else:
            self.console.print(self.line())

    def look(self) -> None:
        """Update the display. Call this often."""
        now = time.monotonic()
        self.counts = [*(one for one in self.counts if one[0] > now - RATE_OVER_S), (now, self.out.lines)]
        if self.live is None and now >= self.log_at:
            self.log_at = now + LOG_EVERY_S
            self.console.print(self.line())

    def drawn(self) -> Table:
        """Return the display of a terminal."""
        table = Table.grid()
        table.add_row(ProgressBar(total=self.expected, completed=self.out.lines, width=BAR))
        table.add_row(Text(self.line()))
        return table

    def line(self) -> str:
        """Return the time of day of the campaign, and the counts."""
        done = self.feeder.done
        pending = int(self.adds[done - 1] - self.takes[done - 1]) - self.out.lines if done else 0
        lag = "-" if self.out.lag_ms is None else f"{self.out.lag_ms / 1000:.1f} s"
        day = (time.time() - self.feeder.start_ms / 1000) / self.feeder.plan.seconds
        return (
            f"{clock(day):>6}  pushed {self.out.lines:>9,}  pending {max(0, pending):>9,}  "
            f"{self.rate():>7,.0f} a second  lag {lag:>6}  malformed {self.dead.lines:,}"
        )

    def rate(self) -> float:
        """Return the recent rate of delivered coupons per second."""
        if len(self.counts) < 2:
            return 0.0
        (begun, before), (ended, after) = self.counts[0], self.counts[-1]
        return (after - before) / (ended - begun)


def clock(day: float) -> str:
    """Return the time of day of the campaign.

    >>> clock(0.5), clock(-0.1), clock(1.2)
    ('12:00', 'before', 'after')
    """
    if not 0 <= day < 1:
        return "before" if day < 0 else "after"
    minutes = int(day * 24 * 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
