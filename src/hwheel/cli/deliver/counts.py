"""The counts of a running delivery, and the line that shows them on the terminal."""

import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hwheel.spark.deliver.delivery import Delivery

LOOK_EVERY_S = 1.0
# Pending rows are counted in the state store, at a cost that grows with the state.
COUNT_EVERY_S = 30.0
COUNT_SHARE = 20  # the time between counts is at least this multiple of the duration of a count
BATCH_EDGES_S = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
WHOLE_BATCH = "triggerExecution"  # the phase that contains all other phases of a batch
HEALTHY_S = 300.0  # the longest time between two looks of a healthy job
LAST_COUNT = "pending.json"  # the file of the last count in the checkpoint, for `hwheel pending --last`
STATE_ON_DISK = "rocksdbSstFileSize"
SHOW_EVERY_S = 1.0  # on a terminal, where each line replaces the last
LOG_EVERY_S = 30.0  # elsewhere


class Held(NamedTuple):
    """The counts of the state, and the number of messages that it has dropped since the start of the checkpoint."""

    rows: int
    overdue_s: float = 0.0  # of the earliest due row
    duplicates: int = 0
    cancelled: int = 0


@dataclass
class BatchTimes:
    """A histogram of the durations of batches in seconds. `counts` has one bin more than there are edges."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BATCH_EDGES_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BATCH_EDGES_S, seconds)] += 1
        self.sum_s += seconds


class Counts:
    """Counts since the start. One thread calls ``look()`` repeatedly; any thread may read.

    Attributes:
        held: The last count in the state, or None if unknown.
        phases_ms: The time of all batches by phase.
        state_bytes: The size of the state on disk and in memory.
    """

    def __init__(self, delivery: "Delivery", count_pending: Callable[[], Held]) -> None:
        self.delivery = delivery
        self.count_pending = count_pending
        self.rows_in = 0
        self.last_batch = -1
        self.last_batch_at_s: float | None = None  # epoch seconds
        self.batch_times = BatchTimes()
        self.state_bytes: dict[str, int] = {}
        self.phases_ms: dict[str, int] = {}
        self.held: Held | None = None
        self.last_look_s = self.next_look_s = self.next_count_s = time.monotonic()

    @property
    def pending(self) -> int | None:
        """Rows in buckets, or None if unknown."""
        return None if self.held is None else self.held.rows

    @property
    def rows_out(self) -> int:
        return self.delivery.sink.rows

    @property
    def dead_letters(self) -> int:
        return self.delivery.dead_sink.rows

    @property
    def letters_by_code(self) -> dict[str, int]:
        return self.delivery.dead_sink.codes

    @property
    def lag_ms(self) -> int | None:
        """The lag of the earliest message that arrived in time, in the last batch with such messages."""
        return self.delivery.sink.lag_ms

    @property
    def late_arrivals(self) -> int:
        """Delivered messages that arrived after their due time, so that no job could deliver them on time."""
        return self.delivery.sink.late_arrivals

    def is_healthy(self) -> bool:
        """Return True if ``look()`` was called lately, so that the job tends its queries."""
        return time.monotonic() - self.last_look_s < HEALTHY_S

    def look(self) -> None:
        """Update the counts if LOOK_EVERY_S has passed. Reports get lost only if 100 batches complete in between."""
        now = self.last_look_s = time.monotonic()
        if now < self.next_look_s:
            return
        self.next_look_s = now + LOOK_EVERY_S
        latest = self.delivery.messages.lastProgress
        if latest is not None and latest.batchId > self.last_batch:
            is_next = latest.batchId == self.last_batch + 1
            self.take([latest] if is_next else self.delivery.messages.recentProgress)
        if self.last_batch >= 0 and now >= self.next_count_s:
            self.held = self.counted()
            took = time.monotonic() - now
            self.next_count_s = now + max(COUNT_EVERY_S, COUNT_SHARE * took)

    def take(self, batches: Iterable[Any]) -> None:
        """Add the reports of new batches."""
        for batch in batches:
            if batch.batchId > self.last_batch:
                self.rows_in += batch.numInputRows
                self.last_batch = batch.batchId
                self.last_batch_at_s = time.time()
                self.batch_times.add(batch.durationMs.get(WHOLE_BATCH, 0) / 1000)
                for phase, took_ms in batch.durationMs.items():
                    if phase != WHOLE_BATCH:
                        self.phases_ms[phase] = self.phases_ms.get(phase, 0) + took_ms
                self.state_bytes = state_bytes(batch.stateOperators)

    def counted(self) -> Held | None:
        """Count the pending rows. Return None if there is no state yet, or if Spark is deleting old files of it."""
        from hwheel.spark.deliver.directory import DirectoryError
        from hwheel.spark.deliver.failures import FROM_JAVA

        try:
            return self.count_pending()
        except (*FROM_JAVA, DirectoryError):
            return None


def state_bytes(operators: Iterable[Any]) -> dict[str, int]:
    """Return the size of RocksDB on all executors, on disk and in memory."""
    found = {"disk": 0, "memory": 0}
    for operator in operators:
        found["disk"] += operator.customMetrics.get(STATE_ON_DISK, 0)
        found["memory"] += operator.memoryUsedBytes
    return found


class Progress:
    """Shows the counts at intervals."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.terminal = sys.stderr.isatty()
        self.last_shown_s = time.monotonic()

    def show(self) -> None:
        """Print a line if the interval has passed."""
        now = time.monotonic()
        if now - self.last_shown_s < (SHOW_EVERY_S if self.terminal else LOG_EVERY_S):
            return
        self.last_shown_s = now
        end = "\r" if self.terminal else "\n"
        print(f"{self.line():<110}" if self.terminal else self.line(), end=end, file=sys.stderr, flush=True)

    def line(self) -> str:
        counts = self.counts
        parts = [
            f"in {counts.rows_in:,}",
            f"out {counts.rows_out:,}",
            "pending ?" if counts.pending is None else f"pending {counts.pending:,}",
            "lag ?" if counts.lag_ms is None else f"lag {counts.lag_ms / 1000:.1f} s",
        ]
        if counts.late_arrivals:
            parts.append(f"arrived late {counts.late_arrivals:,}")
        if counts.dead_letters:
            parts.append(f"malformed {counts.dead_letters:,}")
        return "  ".join(parts)
