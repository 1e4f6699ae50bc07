"""The outputs of a delivery: a directory, which gets each message once, or a topic, which gets it at least once."""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from hwheel.spark.deliver.checkpoint import batch_time_ms
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.failures import Failure, failure_of
from hwheel.spark.deliver.owner import OWNER, Owner, owner_of, store_owner, store_published
from hwheel.spark.deliver.source import FILE, HEADERS_TYPE, LINE, PLACE_IN_TOPIC, RECORD
from hwheel.spark.deliver.topic import HEADERS, TARGET, KafkaOptions, Topic
from hwheel_core import HwheelError

# A due time in this range is in 1970 if read as milliseconds, and in the present or future if read as seconds.
LIKE_SECONDS = (10**8, 10**11)


class BatchNotWrittenError(HwheelError, RuntimeError):
    """A batch was not written, for the reason in the message."""


class DirectoryTakenError(HwheelError, RuntimeError):
    """The directory belongs to another checkpoint."""


@dataclass(kw_only=True)
class Sink(ABC):
    """The function that foreachBatch calls. Its counters are for display."""

    rows: int = 0
    batches: int = 0
    lag_ms: int | None = None  # of the earliest message that was held in time, in the last batch with such messages
    late_arrivals: int = 0  # messages that arrived after a batch that would have delivered them
    like_seconds: int = 0  # messages whose due time seems to be in seconds
    failure: Failure | None = None  # of the last batch, if it was not written
    check_input: Callable[[DataFrame, int], None] = lambda batch, batch_id: None  # called before a batch is read
    query: Directory | None = None  # the checkpoint of the query
    tick_ms: int = 1000
    clock_ms: int | None = None  # the time of the last batch

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        try:
            self.check_input(batch, batch_id)
            self.write_and_count(batch, batch_id)
            self.batches += 1
            self.failure = None
        except Exception as error:
            # Spark applies a recursive regular expression to the text of this exception, and a Java stack trace in it
            # overflows the stack. So the text is short, and the failure keeps the details.
            self.failure = failure_of(error)
            raise BatchNotWrittenError(self.failure.what) from None

    def write_and_count(self, batch: DataFrame, batch_id: int) -> None:
        observed = Observation()
        settled_ms = self.settled_until_ms(batch_id)
        counts = [
            F.count(F.lit(1)).alias("rows"),
            F.min(F.when(F.col("due") > settled_ms, F.col("due"))).alias("first_due"),
            F.count_if(F.col("due") <= settled_ms).alias("late_arrivals"),
            F.count_if(F.col("due").between(*LIKE_SECONDS)).alias("like_seconds"),
        ]
        self.write(batch.observe(observed, *counts), batch_id)
        found = observed.get
        self.finish(batch, batch_id, bool(found["rows"]))
        if found["rows"]:
            self.rows += found["rows"]
            self.like_seconds += found["like_seconds"]
            self.late_arrivals += found["late_arrivals"]
            if found["first_due"] is not None:
                self.lag_ms = int(time.time() * 1000) - found["first_due"]

    def settled_until_ms(self, batch_id: int) -> int:
        """Return the time until which earlier batches have delivered all messages that had arrived.

        Before the first batch of a checkpoint, no message was on time.
        """
        begun_ms = int(time.time() * 1000)
        if self.query is not None:
            begun_ms = batch_time_ms(self.query, batch_id) or begun_ms
            self.clock_ms = self.clock_ms or batch_time_ms(self.query, batch_id - 1)
        before_ms, self.clock_ms = self.clock_ms or begun_ms, begun_ms
        return before_ms - before_ms % self.tick_ms

    @abstractmethod
    def add(self, rows: DataFrame, name: str) -> None:
        """Write rows that belong to no batch; once for each name if the sink can."""

    @abstractmethod
    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch in one Spark action, because each action runs the batch with its state again."""

    def finish(self, batch: DataFrame, batch_id: int, any_rows: bool) -> None:  # noqa: B027    (not every sink needs it)
        """Complete a batch after all rows have been written."""


# --- a directory ------------------------------------------------------------------------------------------------------

STAGING = ".staging"
WHOLE = "_SUCCESS"  # Spark writes this file last
WRITE_WHOLE = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
SUFFIXES = {"json": ".json", "parquet": ".parquet"}
QUERY_ID = "sql.streaming.queryId"  # Spark sets it while a batch runs
# A task may write several files, for example with spark.sql.files.maxRecordsPerFile. Spark numbers them after the c.
PART = re.compile(r"part-(?P<task>\d+)-.*-c(?P<number>\d+)(?:\.|$)")


@dataclass
class DirectorySink(Sink):
    """A directory that gets the messages of each batch exactly once, for any reader of its files.

    Spark's own file sink is exactly-once only for readers of its log; others see the files of interrupted attempts.
    This sink writes into a hidden directory and then renames the files by batch and task. A batch that is repeated
    after a crash has the same rows, because its offsets, time, and state are logged. So an existing file is complete,
    and the new one is dropped.

    A repeated batch may have its rows in another order, because the number of cores decides how Spark divides input.
    If a task writes several files, files of two attempts could share some rows and lack others. So the first attempt
    that was written completely is published, and a later attempt is dropped.

    The directory belongs to one checkpoint: another checkpoint would take its batches for existing ones and lose them.
    So the sink stores the id of its query, which Spark keeps in the checkpoint, in the directory. It also stores the
    number of a batch before it publishes its first file, so that existing files of a higher number are noticed.

    The checkpoint of the query gets the number of the last batch with messages.

    Args:
        one_file: Write each batch as one file, whatever spark.sql.files.maxRecordsPerFile says. Required where a
            repeated batch may divide its rows among tasks differently.
    """

    path: str
    format: str
    one_file: bool = False
    claimed: bool = False

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write the rows into a hidden directory."""
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
            staging += "-again"  # finish() ignores these files, but the state is updated only by a write
        writer.save(f"{self.path}/{staging}")

    def add(self, rows: DataFrame, name: str) -> None:
        """Write rows into a file of this name, if it does not exist."""
        directory, staging = Directory(rows.sparkSession, self.path), f"{STAGING}-{name}"
        rows.coalesce(1).write.format(self.format).mode("overwrite").save(f"{self.path}/{staging}")
        for part in directory.names(staging):
            if part.startswith("part-"):
                directory.move(f"{staging}/{part}", f"{name}{SUFFIXES[self.format]}")
        directory.delete(staging)

    def finish(self, batch: DataFrame, batch_id: int, any_rows: bool) -> None:
        """Publish the hidden files under their final names."""
        directory = Directory(batch.sparkSession, self.path)
        staging = f"{STAGING}/{batch_id}"
        finals = self.final_names(directory.names(staging) if any_rows else [], batch_id)
        if finals:
            begin_to_publish(directory, batch_id, [*finals.values()])
        for name, final in finals.items():
            # The final names of an attempt all differ, so an existing file is from an earlier attempt at this batch.
            if not directory.move(f"{staging}/{name}", final) and not directory.exists(final):
                raise BatchNotWrittenError(f"{self.path}/{staging}/{name} could not be renamed to {final}")
        if finals and self.query is not None:
            store_published(self.query, directory, batch_id)
        directory.delete(STAGING)

    def final_names(self, staged: list[str], batch_id: int) -> dict[str, str]:
        """Return the final names of the files of an attempt.

        Raises:
            BatchNotWrittenError: Two files would have the same name, so that one would be lost.
        """
        names = {}
        for name in staged:
            if not name.startswith("part-"):
                continue
            part = PART.match(name)
            if part is None:
                raise BatchNotWrittenError(f"the name {name} does not have the form of Spark's output files")
            number = "" if int(part["number"]) == 0 else f"-{part['number']}"
            names[name] = f"{batch_id:09d}-{part['task']}{number}{SUFFIXES[self.format]}"
        if len({*names.values()}) < len(names):
            raise BatchNotWrittenError(f"two files of batch {batch_id} would have the same name: {sorted(names)}")
        return names


def claim(directory: Directory, batch: DataFrame) -> None:
    """Store the id of a batch's query in a directory.

    Raises:
        DirectoryTakenError: The directory has the id of another query.
    """
    query_id = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    if query_id is None:
        raise RuntimeError("a DirectorySink writes only batches of a streaming query")
    owner = owner_of(directory)
    if owner is None:
        store_owner(directory, Owner(query_id))
    elif owner.query_id != query_id:
        raise DirectoryTakenError(
            f"{directory.path} has the files of another checkpoint\n"
            "give each checkpoint its own output directory (or, if these files are no longer needed, remove them all, "
            f"and {OWNER})"
        )


def begin_to_publish(directory: Directory, batch_id: int, finals: list[str]) -> None:
    """Store the number of a batch in its output before its first file.

    Raises:
        BatchNotWrittenError: The batch has files already, although it was never published here.
    """
    owner = owner_of(directory) or Owner("")
    if owner.batch >= batch_id:  # an earlier attempt
        return
    if any(map(directory.exists, finals)):
        raise BatchNotWrittenError(
            f"{directory.path} has files of batch {batch_id}, which this checkpoint has not written: one of the two is "
            "older than the other\nrestore both from copies of one time, or use another output directory"
        )
    store_owner(directory, Owner(owner.query_id, batch_id))


# --- a topic ----------------------------------------------------------------------------------------------------------

# If a send was given up while later ones succeeded, the repeated batch would fill the gap out of order. So no send is
# given up: without brokers, the job waits.
PRODUCER = {"enable.idempotence": "true", "acks": "all", "delivery.timeout.ms": str(2**31 - 1)}
V1_SOURCES = "spark.sql.sources.useV1SourceList"
CONNECT = "__connect.errors."


@dataclass(kw_only=True)
class TopicSink(Sink):
    """A topic that gets the messages of each batch at least once.

    A topic cannot take records back, so an interrupted batch is sent again as a whole. Each attempt sends the messages
    of a key in order through one task, and the producer neither reorders nor repeats nor skips them. So the first
    copies, by id and due, are in order too, and a consumer that drops later copies gets each message once.

    Args:
        records: Returns key, value, headers, and topic of the rows of a batch.
    """

    topic: Topic
    options: KafkaOptions
    records: Callable[[DataFrame], DataFrame]

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Send the rows, and wait until the brokers have all of them."""
        # Spark's default for Kafka, the V1 sink, loses observations.
        session = batch.sparkSession
        v1_sources = (session.conf.get(V1_SOURCES) or "").split(",")
        session.conf.set(V1_SOURCES, ",".join(name for name in v1_sources if name != "kafka"))
        self.add(batch, "")

    def add(self, rows: DataFrame, name: str) -> None:
        """Send rows, each time this is called."""
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
    """Return records whose value is the message as JSON. The headers have id and due too."""
    return messages.select(
        F.col("key"), F.to_json(F.struct("id", "key", "due", "payload")).alias("value"), *routing(messages)
    )


def header_records(messages: DataFrame) -> DataFrame:
    """Return records whose value is the payload, with id and due as headers."""
    return messages.select(F.col("key"), F.col("payload").alias("value"), *routing(messages))


def routing(messages: DataFrame) -> list[Column]:
    """Return the topic of each message, or null, and its headers: the carried ones, then id and due."""
    target = F.col(TARGET).alias("topic") if TARGET in messages.columns else no_topic()
    identity = F.array(header("id", F.col("id")), header("due", F.col("due")))
    headers = F.concat(F.col(HEADERS), identity) if HEADERS in messages.columns else identity
    return [target, headers.alias("headers")]


def no_topic() -> Column:
    """Return null for the topic of each row, which means the topic of the sink."""
    return F.lit(None).cast("string").alias("topic")


def dead_records(rows: DataFrame) -> DataFrame:
    """Return malformed rows as records, unchanged, with a header `reason`.

    Rows of a topic also get the headers of Kafka Connect's dead letters, which say where a record was.
    """
    reason = F.array(header("reason", F.col("reason")))
    if RECORD in rows.columns:
        original = F.coalesce(F.col(RECORD)["headers"], F.array().cast(HEADERS_TYPE))
        place = F.array(*(header(f"{CONNECT}{name}", F.col(name)) for name in PLACE_IN_TOPIC))
        why = F.array(header(f"{CONNECT}exception.message", F.col("reason")))
        headers = F.concat(original, reason, place, why)
        return rows.select(f"{RECORD}.key", f"{RECORD}.value", headers.alias("headers"), no_topic())
    names = [name for name in rows.columns if name not in ("reason", LINE, FILE)]
    value = F.to_json(F.struct(*names))
    if LINE in rows.columns:
        value = F.coalesce(F.col(LINE), value)
    if FILE in rows.columns:
        reason = F.concat(reason, F.array(header("file", F.col(FILE))))
    return rows.select(F.col("key"), value.alias("value"), reason.alias("headers"), no_topic())


def header(name: str, value: Column) -> Column:
    """Return a header of a record: a struct of its name and the bytes of its value."""
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
