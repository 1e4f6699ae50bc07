"""A streaming query whose clock only the test moves: one batch a move, at multiples of 1000 ms.

Spark has the clock for its own tests and no public way to it, so this goes through the JVM.
"""

import json
import os
import time

PATIENCE_S = 300
SCHEMA = "id string, key string, due bigint, cancel boolean, payload string"


def start_with_clock(frame, checkpoint, sink, clock):
    """Starts a query with a batch a second on a clock of the JVM's; returns the JVM's query."""
    jvm = frame.sparkSession._jvm
    none = jvm.scala.Option.empty()
    manager = frame.sparkSession._jsparkSession.sessionState().streamingQueryManager()
    (count,) = {one.getParameterCount() for one in manager.getClass().getMethods() if one.getName() == "startQuery"}
    return manager.startQuery(
        *[none] * (count - 11),  # names; Spark 4.1 has one, 4.3 two
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
    """transform(df) over JSON files in a directory, into memory; `batch` adds a file, moves the clock, and waits."""

    def __init__(self, spark, directory, transform, schema=SCHEMA):
        self.spark, self.directory = spark, directory
        (directory / "in").mkdir(exist_ok=True)
        self.files = len(list((directory / "in").iterdir()))
        source = spark.readStream.schema(schema).json(str(directory / "in"))
        self.frame = transform(source)
        self.clock = spark._jvm.org.apache.spark.util.ManualClock()
        self.sink = spark._jvm.org.apache.spark.sql.execution.streaming.sources.MemorySink()
        self.query = None

    def batch(self, records, now_ms):
        """What goes out in the batch at now_ms, a multiple of 1000 after the last one; as dicts, in order."""
        if records:
            hidden = self.directory / "in" / f".{self.files}"
            hidden.write_text("".join(json.dumps(record) + "\n" for record in records))
            os.rename(hidden, self.directory / "in" / f"{self.files}.json")
            self.files += 1
        before = self.batch_id()
        self.clock.setTime(now_ms)
        if self.query is None:
            # Now, and not before: a query's first batch starts at once, and the time must be there.
            self.query = start_with_clock(self.frame, self.directory / "checkpoint", self.sink, self.clock)
        give_up = time.monotonic() + PATIENCE_S
        while self.batch_id() == before:
            if self.query.exception().isDefined():
                raise AssertionError(self.query.exception().get().toString())
            assert time.monotonic() < give_up, f"no batch in {PATIENCE_S} s"
            time.sleep(0.01)
        data = self.sink.latestBatchData()
        return [json.loads(data.apply(i).json()) for i in range(data.size())]

    def batch_id(self):
        latest = self.sink.latestBatchId()
        return latest.get() if latest.isDefined() else None

    def stop(self):
        """Stops between two batches: one that is in the sink and not yet committed would come again."""
        if self.query is None:
            return
        commit = self.directory / "checkpoint" / "commits" / str(self.batch_id())
        give_up = time.monotonic() + PATIENCE_S
        while not commit.exists() and not self.query.exception().isDefined() and time.monotonic() < give_up:
            time.sleep(0.01)
        self.query.stop()
