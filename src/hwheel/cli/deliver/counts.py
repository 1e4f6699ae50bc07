"""What is known of a running delivery: its own counts, and what Spark reports of its batches."""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hwheel.spark.deliver.delivery import Delivery
import sys

LOOK_EVERY_S = 1.0
COUNT_EVERY_S = 30.0  # what is pending is read from the state store, which costs more the more there is:
COUNT_SHARE = 20  # no more often than this many times as long as it takes
BATCH_EDGES_S = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
LAST_COUNT = "pending.json"  # in the checkpoint: what was counted last, for `hwheel pending --last`
STATE_ON_DISK = "rocksdbSstFileSize"


@dataclass
class BatchTimes:
    """A histogram of how long batches took, in seconds; `counts` has one more than there are edges."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BATCH_EDGES_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BATCH_EDGES_S, seconds)] += 1
        self.sum_s += seconds


class Counts:
    """Counts since the start. `look()` is called again and again by one thread; any may read.

    `pending`: rows in buckets, None if that is not known yet. `state_bytes`: by where they are.
    """

    def __init__(self, delivery: "Delivery", count_pending: Callable[[], int]) -> None:
        self.delivery = delivery
        self.count_pending = count_pending
        self.rows_in = 0
        self.last_batch = -1
        self.last_batch_at_s: float | None = None  # of the clock
        self.batch_times = BatchTimes()
        self.state_bytes: dict[str, int] = {}
        self.pending: int | None = None
        self.look_at = self.count_at = time.monotonic()

    @property
    def rows_out(self) -> int:
        return self.delivery.sink.rows

    @property
    def dead_letters(self) -> int:
        return self.delivery.dead_sink.rows

    @property
    def lag_ms(self) -> int | None:
        """Of the message that was due first among those of the last batch with any."""
        return self.delivery.sink.lag_ms

    def look(self) -> None:
        """Reads what Spark reports, if it is time to. It keeps the last hundred batches."""
        now = time.monotonic()
        if now < self.look_at:
            return
        self.look_at = now + LOOK_EVERY_S
        latest = self.delivery.messages.lastProgress
        if latest is not None and latest.batchId > self.last_batch:
            one = latest.batchId == self.last_batch + 1
            self.take([latest] if one else self.delivery.messages.recentProgress)
        if self.last_batch >= 0 and now >= self.count_at:
            self.pending = self.counted()
            took = time.monotonic() - now
            self.count_at = now + max(COUNT_EVERY_S, COUNT_SHARE * took)

    def take(self, batches: Iterable[Any]) -> None:
        """Adds up those that are new."""
        for batch in batches:
            if batch.batchId > self.last_batch:
                self.rows_in += batch.numInputRows
                self.last_batch = batch.batchId
                self.last_batch_at_s = time.time()
                self.batch_times.add(batch.durationMs.get("triggerExecution", 0) / 1000)
                self.state_bytes = state_bytes(batch.stateOperators)

    def counted(self) -> int | None:
        """None where the state store cannot be read now: no batch yet, or its old files are just being cleared away."""
        from hwheel.spark.deliver.directory import DirectoryError
        from hwheel.spark.deliver.failures import FROM_JAVA

        try:
            return self.count_pending()
        except (*FROM_JAVA, DirectoryError):
            return None


def state_bytes(operators: Iterable[Any]) -> dict[str, int]:
    """Those of RocksDB on the executors, as the last batch left it."""
    found = {"disk": 0, "memory": 0}
    for operator in operators:
        found["disk"] += operator.customMetrics.get(STATE_ON_DISK, 0)
        found["memory"] += operator.memoryUsedBytes
    return found


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
