"""Where a query's batches go, with a count."""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.failures import Failure, failure_of
from hwheel.spark.deliver.source import FILE, HEADERS_TYPE, LINE, PLACE_IN_TOPIC, RECORD
from hwheel.spark.deliver.topic import HEADERS, TARGET, KafkaOptions, Topic
from hwheel_core import HwheelError

# A due that would be in 1970 or thereabouts as ms, and in the years to come as seconds.
LIKE_SECONDS = (10**8, 10**11)


class BatchNotWrittenError(HwheelError, RuntimeError):
    """A batch was not written, and why."""


@dataclass(kw_only=True)
class Sink(ABC):
    """What foreachBatch calls. `rows`, `lag_ms` and `like_seconds` are for showing. `batches`: those written."""

    rows: int = 0
    batches: int = 0
    lag_ms: int | None = None  # of the latest of the last batch that had any
    like_seconds: int = 0  # so many went out whose due looks as if it were in seconds
    failure: Failure | None = None  # of the last batch that was not written

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        try:
            self.write_and_count(batch, batch_id)
            self.batches += 1
            self.failure = None
        except Exception as error:
            # Spark looks through the text of what is raised here with a regular expression that takes a call a
            # character: where Java's stack traces are in it, that overflows the stack. So all of it is kept here.
            self.failure = failure_of(error)
            raise BatchNotWrittenError(self.failure.what) from None

    def write_and_count(self, batch: DataFrame, batch_id: int) -> None:
        """Writes a batch, and counts its rows and how late the first due of them is."""
        observed = Observation()
        counts = [
            F.count(F.lit(1)).alias("rows"),
            F.min("due").alias("first_due"),
            F.count_if(F.col("due").between(*LIKE_SECONDS)).alias("like_seconds"),
        ]
        self.write(batch.observe(observed, *counts), batch_id)
        found = observed.get
        self.finish(batch, batch_id, bool(found["rows"]))
        if found["rows"]:
            self.rows += found["rows"]
            self.like_seconds += found["like_seconds"]
            self.lag_ms = int(time.time() * 1000) - (found["first_due"] or 0)

    @abstractmethod
    def add(self, rows: DataFrame, name: str) -> None:
        """Writes rows that are of no batch; once for a name, where that can be."""

    @abstractmethod
    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Writes it, in one action: another would run the batch again, state and all."""

    def finish(self, batch: DataFrame, batch_id: int, any_rows: bool) -> None:  # noqa: B027    (not every sink needs it)
        """What is left to do when all rows have been written."""


STAGING = ".staging"
WHOLE = "_SUCCESS"  # Spark writes it when all files of an attempt are there
WRITE_WHOLE = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
SUFFIXES = {"json": ".json", "parquet": ".parquet"}
MARK = ".hwheel-owner"
QUERY_ID = "sql.streaming.queryId"  # set by Spark for what runs inside a batch


# A task may write several files, which Spark numbers behind the c: with spark.sql.files.maxRecordsPerFile it does.
PART = re.compile(r"part-(?P<task>\d+)-.*-c(?P<number>\d+)(?:\.|$)")


class DirectoryTakenError(HwheelError, RuntimeError):
    """The directory belongs to another checkpoint."""


@dataclass
class DirectorySink(Sink):
    """What foreachBatch calls: writes into a directory, in files of a format.

    `one_file`: a batch is one file, whatever spark.sql.files.maxRecordsPerFile says. It has to be where the rows of a
    task or their order may differ when a batch is run again, because its files would then not be those that are there.
    """

    path: str
    format: str
    one_file: bool = False
    claimed: bool = False

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Writes the rows into hidden files, beside those of an attempt that was cut off, if these are all there."""
        if not self.claimed:
            claim(Directory(batch.sparkSession, self.path), batch)
            self.claimed = True
        if self.one_file:
            batch = batch.repartition(1)
        writer = batch.write.format(self.format).mode("overwrite").option(WRITE_WHOLE, "true")
        if self.one_file:
            writer = writer.option("maxRecordsPerFile", 0)
        staging = f"{STAGING}/{batch_id}"
        if Directory(batch.sparkSession, self.path).exists(f"{staging}/{WHOLE}"):
            staging += "-again"  # it has to be written, because the state gets its rows by it
        writer.save(f"{self.path}/{staging}")

    def add(self, rows: DataFrame, name: str) -> None:
        """A file of its own, which is there once."""
        directory, staging = Directory(rows.sparkSession, self.path), f"{STAGING}-{name}"
        rows.coalesce(1).write.format(self.format).mode("overwrite").save(f"{self.path}/{staging}")
        for part in directory.names(staging):
            if part.startswith("part-"):
                directory.move(f"{staging}/{part}", f"{name}{SUFFIXES[self.format]}")
        directory.delete(staging)

    def finish(self, batch: DataFrame, batch_id: int, any_rows: bool) -> None:
        """Gives the hidden files the names by which readers find them."""
        directory = Directory(batch.sparkSession, self.path)
        staging = f"{STAGING}/{batch_id}"
        for name, final in self.final_names(directory.names(staging) if any_rows else [], batch_id).items():
            # What is there already is of an earlier attempt of this batch, because the names of this one all differ.
            if not directory.move(f"{staging}/{name}", final) and not directory.exists(final):
                raise BatchNotWrittenError(f"{self.path}/{staging}/{name} could not be renamed to {final}")
        directory.delete(STAGING)

    def final_names(self, staged: list[str], batch_id: int) -> dict[str, str]:
        """By what readers know the files of an attempt. BatchNotWrittenError where two would have one name, because
        one of them would be lost."""
        names = {}
        for name in staged:
            if not name.startswith("part-"):
                continue
            part = PART.match(name)
            if part is None:
                raise BatchNotWrittenError(f"{name} is not called as Spark calls what a task writes")
            number = "" if int(part["number"]) == 0 else f"-{part['number']}"
            names[name] = f"{batch_id:09d}-{part['task']}{number}{SUFFIXES[self.format]}"
        if len({*names.values()}) < len(names):
            raise BatchNotWrittenError(f"two files of batch {batch_id} would have the same name: {sorted(names)}")
        return names


def claim(directory: Directory, batch: DataFrame) -> None:
    """Marks a directory as that of the query whose batch this is. Raises DirectoryTakenError where it is marked as
    another's."""
    query_id = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    if query_id is None:
        raise RuntimeError("a DirectorySink takes the batches of a streaming query only")
    if not directory.exists(MARK):
        directory.write(MARK, query_id)
    if directory.read(MARK) != query_id:
        raise DirectoryTakenError(
            f"{directory.path} has the files of another checkpoint\n"
            "give each checkpoint an output directory of its own (or, if nobody needs these files any more, remove "
            f"them all, and {MARK})"
        )


# A send that is given up after some time while later ones succeed would leave a gap, and the repeated batch would fill
# it out of order. So none is given up: without brokers the job waits.
PRODUCER = {"enable.idempotence": "true", "acks": "all", "delivery.timeout.ms": str(2**31 - 1)}
OLDER_WAY = "spark.sql.sources.useV1SourceList"
CONNECT = "__connect.errors."


@dataclass(kw_only=True)
class TopicSink(Sink):
    """What foreachBatch calls. `records` makes key, value and headers of a batch."""

    topic: Topic
    options: KafkaOptions
    records: Callable[[DataFrame], DataFrame]

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Sends it; returns when the brokers have it all."""
        # Observations are lost on Spark's older way into its Kafka sink, which is the one that it takes unless told.
        session = batch.sparkSession
        older = (session.conf.get(OLDER_WAY) or "").split(",")
        session.conf.set(OLDER_WAY, ",".join(name for name in older if name != "kafka"))
        self.add(batch, "")

    def add(self, rows: DataFrame, name: str) -> None:
        """Sends them; as often as it is called."""
        conf = {**PRODUCER, **self.options.conf, "bootstrap.servers": self.topic.brokers}
        (
            self.records(rows)
            .withColumn("topic", F.coalesce("topic", F.lit(self.topic.name)))
            .write.format("kafka")
            .mode("append")
            .options(**{f"kafka.{name}": value for name, value in conf.items()})
            .save()
        )


def json_records(messages: DataFrame) -> DataFrame:
    """The message as JSON; id and due are headers, too."""
    return messages.select(
        F.col("key"), F.to_json(F.struct("id", "key", "due", "payload")).alias("value"), *ways(messages)
    )


def header_records(messages: DataFrame) -> DataFrame:
    """The payload alone; id and due are headers."""
    return messages.select(F.col("key"), F.col("payload").alias("value"), *ways(messages))


def ways(messages: DataFrame) -> list[Column]:
    """The topic that the message names, null if it names none, and the headers: those that its record came with, and
    behind them its identity."""
    target = F.col(TARGET).alias("topic") if TARGET in messages.columns else no_topic()
    headers = F.concat(F.col(HEADERS), identity()) if HEADERS in messages.columns else identity()
    return [target, headers.alias("headers")]


def no_topic() -> Column:
    """That of the sink."""
    return F.lit(None).cast("string").alias("topic")


def identity() -> Column:
    """What a consumer knows a message by."""
    return F.array(header("id", F.col("id")), header("due", F.col("due")))


def dead_records(rows: DataFrame) -> DataFrame:
    """What was no message, as it came, with a header `reason`, and with those by which Kafka Connect's own dead letters
    say where a record was and why it is there: so whoever reads such can read these.
    """
    reason = F.array(header("reason", F.col("reason")))
    if RECORD in rows.columns:
        came_with = F.coalesce(F.col(RECORD)["headers"], F.array().cast(HEADERS_TYPE))
        place = F.array(*(header(f"{CONNECT}{name}", F.col(name)) for name in PLACE_IN_TOPIC))
        why = F.array(header(f"{CONNECT}exception.message", F.col("reason")))
        headers = F.concat(came_with, reason, place, why)
        return rows.select(f"{RECORD}.key", f"{RECORD}.value", headers.alias("headers"), no_topic())
    names = [name for name in rows.columns if name not in ("reason", LINE, FILE)]
    value = F.to_json(F.struct(*names))
    if LINE in rows.columns:
        value = F.coalesce(F.col(LINE), value)
    if FILE in rows.columns:
        reason = F.concat(reason, F.array(header("file", F.col(FILE))))
    return rows.select(F.col("key"), value.alias("value"), reason.alias("headers"), no_topic())


def header(name: str, value: Column) -> Column:
    """A header of a record: a struct of its name and its value as bytes."""
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
