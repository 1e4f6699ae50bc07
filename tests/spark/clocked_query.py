"""A streaming query on a manual clock: one batch for each move of the clock.

Spark has this clock for its own tests and no public API for it, so the query is started through the JVM.
"""

import json
import os
import time

from hwheel.spark.deliver.failures import WORKER_LATE

PATIENCE_S = 1800
SCHEMA = "id string, key string, due bigint, cancel boolean, payload string"


def start_with_clock(frame, checkpoint, sink, clock):
    """Start a query with one batch a second of a JVM clock; return the JVM's query."""
    jvm = frame.sparkSession._jvm
    none = jvm.scala.Option.empty()
    manager = frame.sparkSession._jsparkSession.sessionState().streamingQueryManager()
    (count,) = {one.getParameterCount() for one in manager.getClass().getMethods() if one.getName() == "startQuery"}
    return manager.startQuery(
        *[none] * (count - 11),  # names: one in Spark 4.1, two in 4.3
        jvm.scala.Option.apply(str(checkpoint)),
        frame._jdf,
        jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(jvm.java.util.HashMap()),
        sink,
        jvm.org.apache.spark.sql.streaming.OutputMode.Append(),
        False,
        True,
        jvm.org.apache.spark.sql.streaming.Trigger.ProcessingTime(1000),
        clock,
        none,
        none,
    )


class ClockedQuery:
    """Runs transform(df) over the JSON files of a directory. A context manager that stops the query."""

    def __init__(self, spark, directory, transform, schema=SCHEMA):
        self.spark, self.directory, self.schema = spark, directory, schema
        (directory / "in").mkdir()
        self.files = 0
        self.query = None
        self.restart(transform)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def restart(self, transform=None):
        """Stop the query; the next batch starts it on its checkpoint, with another transform if one is given."""
        self.stop()
        self.transform = transform or self.transform
        source = self.spark.readStream.schema(self.schema).json(str(self.directory / "in"))
        self.frame = self.transform(source)
        self.clock = self.spark._jvm.org.apache.spark.util.ManualClock()
        self.sink = self.spark._jvm.org.apache.spark.sql.execution.streaming.sources.MemorySink()
        self.query = None

    def batch(self, records, now_ms):
        """Return the rows of the batch at now_ms, a multiple of 1000 after that of the last one, as dicts in order."""
        if records:
            hidden = self.directory / "in" / f".{self.files}"
            hidden.write_text("".join(json.dumps(record) + "\n" for record in records))
            os.rename(hidden, self.directory / "in" / f"{self.files}.json")
            self.files += 1
        before = self.batch_id()
        self.clock.setTime(now_ms)
        if self.query is None:
            # Only now: the first batch of a query starts at once, and reads the clock.
            self.query = start_with_clock(self.frame, self.directory / "checkpoint", self.sink, self.clock)
        give_up = time.monotonic() + PATIENCE_S
        while self.batch_id() == before:
            if self.query.exception().isDefined():
                error = self.query.exception().get().toString()
                assert WORKER_LATE in error, error
                self.query = start_with_clock(self.frame, self.directory / "checkpoint", self.sink, self.clock)
            assert time.monotonic() < give_up, f"no batch in {PATIENCE_S} s"
            time.sleep(0.01)
        data = self.sink.latestBatchData()
        return [json.loads(data.apply(i).json()) for i in range(data.size())]

    def batch_id(self):
        latest = self.sink.latestBatchId()
        return latest.get() if latest.isDefined() else None

    def stop(self):
        """Stop after the commit of the last batch, because Spark would repeat an uncommitted one."""
        if self.query is None:
            return
        commit = self.directory / "checkpoint" / "commits" / str(self.batch_id())
        give_up = time.monotonic() + PATIENCE_S
        while not commit.exists() and not self.query.exception().isDefined() and time.monotonic() < give_up:
            time.sleep(0.01)
        self.query.stop()
        self.query = None
