"""How `hwheel deliver` is getting on: a line on the terminal."""

import sys
import time

from hwheel.cli.deliver.counts import Counts

SHOW_EVERY_S = 1.0  # on a terminal, where the line is written over
LOG_EVERY_S = 30.0  # elsewhere


class Progress:
    """Shows the counts from time to time."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.terminal = sys.stderr.isatty()
        self.shown_at = time.monotonic()

    def show(self) -> None:
        """A line, if it is time for one."""
        now = time.monotonic()
        if now - self.shown_at < (SHOW_EVERY_S if self.terminal else LOG_EVERY_S):
            return
        self.shown_at = now
        end = "\r" if self.terminal else "\n"
        print(f"{self.line():<110}" if self.terminal else self.line(), end=end, file=sys.stderr, flush=True)

    def line(self) -> str:
        """in, out, pending, lag, malformed."""
        counts = self.counts
        parts = [
            f"in {counts.rows_in:,}",
            f"out {counts.rows_out:,}",
            "pending ?" if counts.pending is None else f"pending {counts.pending:,}",
            "lag ?" if counts.lag_ms is None else f"lag {counts.lag_ms / 1000:.1f} s",
        ]
        if counts.dead_letters:
            parts.append(f"malformed {counts.dead_letters:,}")
        return "  ".join(parts)
