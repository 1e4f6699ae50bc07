"""How `hwheel deliver` is getting on: a line on the terminal."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hwheel.spark.deliver.delivery import Delivery

SHOW_EVERY_S = 1.0  # on a terminal, where the line is written over
LOG_EVERY_S = 30.0  # elsewhere
COUNT_EVERY_S = 30.0  # what is pending is read from the state store, which costs more the more there is:
COUNT_SHARE = 20  # no more often than this many times as long as it takes


class Progress:
    """Counts since the start, and shows them from time to time."""

    def __init__(self, delivery: "Delivery", count_pending: Callable[[], int]) -> None:
        self.delivery = delivery
        self.count_pending = count_pending
        self.terminal = sys.stderr.isatty()
        self.rows_in = 0
        self.last_batch = -1
        self.pending: int | None = None
        self.shown_at = time.monotonic()
        self.count_at = self.shown_at

    def show(self) -> None:
        """A line, if it is time for one."""
        now = time.monotonic()
        if now - self.shown_at < (SHOW_EVERY_S if self.terminal else LOG_EVERY_S):
            return
        self.shown_at = now
        for batch in self.delivery.messages.recentProgress:
            if batch.batchId > self.last_batch:
                self.rows_in += batch.numInputRows
                self.last_batch = batch.batchId
        if self.last_batch >= 0 and now >= self.count_at:
            self.pending = self.counted()
            took = time.monotonic() - now
            self.count_at = now + max(COUNT_EVERY_S, COUNT_SHARE * took)
        end = "\r" if self.terminal else "\n"
        print(f"{self.line():<110}" if self.terminal else self.line(), end=end, file=sys.stderr, flush=True)

    def counted(self) -> int | None:
        """None where the state store cannot be read now: no batch yet, or its old files are just being cleared away."""
        from pyspark.errors import PySparkException

        try:
            return self.count_pending()
        except PySparkException:
            return None

    def line(self) -> str:
        """in, out, pending, lag, malformed."""
        lag_ms = self.delivery.sink.lag_ms
        parts = [
            f"in {self.rows_in:,}",
            f"out {self.delivery.sink.rows:,}",
            "pending ?" if self.pending is None else f"pending {self.pending:,}",
            "lag ?" if lag_ms is None else f"lag {lag_ms / 1000:.1f} s",
        ]
        if self.delivery.dead_sink.rows:
            parts.append(f"malformed {self.delivery.dead_sink.rows:,}")
        return "  ".join(parts)
