"""A streaming query whose clock only the test moves: one batch a move, at multiples of 1000 ms.

Spark has the clock for its own tests and no public way to it, so this goes through the JVM.
"""

import json
import os
import time

PATIENCE_S = 300
SCHEMA = "id string, key string, due bigint, cancel boolean, payload string"


class ClockedQuery:
    """transform(df) over JSON files in a directory, into memory; `batch` adds a file, moves the clock, and waits."""

    def __init__(self, spark, directory, transform):
        self.spark, self.directory = spark, directory
        (directory / "in").mkdir(exist_ok=True)
        self.files = len(list((directory / "in").iterdir()))
        self.jvm = spark._jvm
        source = spark.readStream.schema(SCHEMA).json(str(directory / "in"))
        self.frame = transform(source)
        self.clock = self.jvm.org.apache.spark.util.ManualClock()
        self.sink = self.jvm.org.apache.spark.sql.execution.streaming.sources.MemorySink()
        self.query = None

    def start(self):
        jvm, none = self.jvm, self.jvm.scala.Option.empty()
        manager = self.spark._jsparkSession.sessionState().streamingQueryManager()
        no_options = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(jvm.java.util.HashMap())
        return manager.startQuery(
            none,
            none,
            jvm.scala.Option.apply(str(self.directory / "checkpoint")),
            self.frame._jdf,
            no_options,
            self.sink,
            jvm.org.apache.spark.sql.streaming.OutputMode.Append(),
            False,
            True,
            jvm.org.apache.spark.sql.streaming.Trigger.ProcessingTime(1000),
            self.clock,
            none,
            none,
        )

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
            self.query = self.start()       # a query's first batch starts at once, so the time must be there before
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
