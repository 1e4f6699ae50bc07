"""A query with a manual clock: batches of known size, and due times that pass only when the benchmark advances it."""

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from hwheel.spark.session.conf import BY_FILE_SYSTEM, CHANGELOG, FILE_MANAGER, PROVIDER, ROCKSDB

sys.path.append(str(Path(__file__).parents[2] / "tests" / "spark"))

from clocked_query import start_with_clock

START_MS = 1_795_176_000_000
FIRST_DUE_MS = 3_600_000  # after START_MS, so that no message is due while the job is filled
SPREAD_MS = 86_400_000  # due times are even over a day
PAYLOAD = "a payload of thirty-two letters."
SCHEMA = "id string, key string, due bigint, payload string"
NAMES = {"id": "id", "key": "key", "due": "due", "payload": "payload"}
FILES = 2  # in a batch, one for each core
SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.minBatchesToRetain": "2",
    PROVIDER: ROCKSDB,
    CHANGELOG: "true",
    FILE_MANAGER: BY_FILE_SYSTEM,  # like hwheel deliver with a local checkpoint
}


def messages(first: int, due_ms: Any, numbers: Any = None) -> pa.Table:
    """Return messages with ids from `first`, or with these numbers."""
    count = len(due_ms)
    if numbers is None:
        numbers = np.arange(first, first + count)
    return pa.table(
        {
            "id": pa.array(np.char.mod("m%012d", numbers)),
            "key": pa.array(np.char.mod("user-%06d", numbers * 7919 % 1_000_000)),
            "due": due_ms,
            "payload": pa.repeat(PAYLOAD, count),
        }
    )


class Job:
    """A query from Parquet files to Spark's noop sink. Messages are due evenly over `spread_ms` from `first_due_ms`."""

    def __init__(
        self,
        spark: SparkSession,
        directory: Path,
        transform: Callable[[DataFrame], DataFrame],
        first_due_ms: int = START_MS + FIRST_DUE_MS,
        spread_ms: int = SPREAD_MS,
        schema: str = SCHEMA,
        keep: bool = False,
    ) -> None:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)
        (directory / "in").mkdir(parents=True, exist_ok=True)
        self.spark, self.directory = spark, directory
        self.first_due_ms, self.spread_ms = first_due_ms, spread_ms
        self.frame = transform(spark.readStream.schema(schema).parquet(str(directory / "in")))
        self.clock = spark._jvm.org.apache.spark.util.ManualClock()
        self.now_ms = START_MS
        self.query: Any = None
        self.rng = np.random.default_rng(0)
        self.dues: list[np.ndarray[Any, Any]] = []
        self.files = self.sent = self.batches = 0

    def ingest(self, count: int) -> float:
        """Read messages in one batch; return its duration in seconds."""
        hidden = []
        for _ in range(FILES):
            table = messages(self.sent, self.first_due_ms + self.rng.integers(0, self.spread_ms, count // FILES))
            self.sent += len(table)
            self.dues.append(table["due"].to_numpy())
            hidden.append(self.directory / "in" / f".{self.files}")
            pq.write_table(table, hidden[-1])
            self.files += 1
        for file in hidden:
            file.rename(file.with_name(f"{file.name[1:]}.parquet"))
        return self.batch(1000)

    def emit(self, count: int) -> tuple[int, float]:
        """Advance the clock until about this many messages are due; return the exact number, and the seconds."""
        dues = np.concatenate(self.dues)
        until_ms = -(-int(np.partition(dues, count)[count]) // 1000) * 1000
        self.dues = [dues[dues > until_ms]]
        return len(dues) - len(self.dues[0]), self.batch(until_ms - self.now_ms)

    def batch(self, ahead_ms: int) -> float:
        """Advance the clock and run a batch; return its duration in seconds."""
        sink = getattr(self.spark._jvm.org.apache.spark.sql.execution.datasources.noop, "NoopTable$")
        self.now_ms += ahead_ms
        started = time.perf_counter()
        self.clock.setTime(self.now_ms)
        if self.query is None:
            checkpoint = self.directory / "checkpoint"
            self.query = start_with_clock(self.frame, checkpoint, getattr(sink, "MODULE$"), self.clock)
        while not (self.directory / "checkpoint" / "commits" / str(self.batches)).exists():
            if self.query.exception().isDefined():
                raise RuntimeError(self.query.exception().get().toString())
            time.sleep(0.005)
        self.batches += 1
        return time.perf_counter() - started

    @property
    def pending(self) -> int:
        return sum(map(len, self.dues))

    def stop(self) -> None:
        self.query.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
