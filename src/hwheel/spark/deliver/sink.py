"""The outputs of a delivery: a directory, which gets each message once, or a topic, which gets it at least once."""

import operator
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from hwheel.spark.deliver.checkpoint import batch_time_ms
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.failures import Failure, failure_of
from hwheel.spark.deliver.json_lines import NUMBER
from hwheel.spark.deliver.kept_input import Lateness
from hwheel.spark.deliver.owner import OWNER, Owner, owner_of, store_owner, store_published
from hwheel.spark.deliver.rest import Rest
from hwheel.spark.deliver.source import BLOCK, FILE, HEADERS_TYPE, LINE, PLACE_IN_FILE, PLACE_IN_TOPIC, RECORD
from hwheel.spark.deliver.topic import HEADERS, TARGET, KafkaOptions, Topic
from hwheel_core import HwheelError

# A due time in this range is in 1970 if read as milliseconds, and in the present or future if read as seconds.
LIKE_SECONDS = (10**8, 10**11)
LATENESS_EDGES_S = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
LATE = "late"  # the mark of --too-late mark


class BatchNotWrittenError(HwheelError, RuntimeError):
    """A batch was not written, for the reason in the message."""


class DirectoryTakenError(HwheelError, RuntimeError):
    """The directory belongs to another checkpoint."""


@dataclass(frozen=True)
class TooLate:
    """The rule for messages that are overdue by more than a limit when their batch starts.

    Args:
        limit_of: Returns the limit of a batch.
        send: Writes dead letters about messages: the messages, the limit, a name to write once, and their number.
    """

    limit_of: Callable[[int], Lateness]
    send: Callable[[DataFrame, int, str, int], None]


@dataclass(kw_only=True)
class Sink(ABC):
    """An output. foreachBatch calls it with each batch. The counters are for display."""

    rows: int = 0
    batches: int = 0
    lag_ms: int | None = None  # of the earliest message that arrived in time, in the last batch with such messages
    # Messages without late arrivals: those of at most each lateness at the start of their batch, and all.
    lateness: list[int] = field(default_factory=lambda: [0] * (len(LATENESS_EDGES_S) + 1))
    lateness_sum_s: float = 0.0
    late_arrivals: int = 0  # messages that arrived after a batch that would have delivered them
    codes: dict[str, int] = field(default_factory=dict)  # rows by `code`; the sink of dead letters counts them
    like_seconds: int = 0  # messages whose due time seems to be in seconds
    failure: Failure | None = None  # of the last batch, if it was not written
    rest: Rest | None = None  # waits while a batch would change nothing
    busy: bool = False  # the last batch delivered messages, so the next one probably does too
    check_input: Callable[[DataFrame, int], None] = lambda batch, batch_id: None  # called before a batch is read
    too_late: "TooLate | None" = None
    query: Directory | None = None  # the checkpoint of the query
    tick_ms: int = 1000
    clock_ms: int | None = None  # the time of the last batch

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        rows = self.rows
        try:
            if self.rest is not None and not self.busy:
                self.rest(batch_id)
            self.check_input(batch, batch_id)
            self.write_and_count(self.in_time(batch, batch_id), batch_id)
            self.batches += 1
            self.busy = self.rows > rows
            self.failure = None
        except Exception as error:
            # Spark applies a recursive regular expression to the text of this exception, and a Java stack trace in it
            # overflows the stack. So the text is short, and the failure keeps the details.
            self.failure = failure_of(error)
            raise BatchNotWrittenError(self.failure.what) from None
        finally:
            batch.unpersist()

    def in_time(self, batch: DataFrame, batch_id: int) -> DataFrame:
        """Return the messages to deliver: those that are not too late, or all of them with the column LATE.

        Lateness is measured at the time of the batch, so a repeated batch has the same messages.
        """
        if self.too_late is None or self.query is None:
            return batch
        max_ms, mark = self.too_late.limit_of(batch_id)
        if max_ms is None:
            return batch
        batch_ms = batch_time_ms(self.query, batch_id) or int(time.time() * 1000)
        is_late = F.col("due") < batch_ms - max_ms
        if mark:
            return batch.withColumn(LATE, is_late)
        batch = batch.persist()  # otherwise each of the following actions would run the batch with its state again
        if count := batch.where(is_late).count():
            self.too_late.send(batch.where(is_late), max_ms, f"late-{batch_id:09d}", count)
        return batch.where(~is_late)

    def write_and_count(self, batch: DataFrame, batch_id: int) -> None:
        observed = Observation()
        settled_ms = self.settled_until_ms(batch_id)
        held = F.when(F.col("due") > settled_ms, F.col("due"))
        lateness_ms = F.greatest(F.lit(self.clock_ms) - held, F.lit(0))
        counts = [
            F.count(F.lit(1)).alias("rows"),
            F.min(held).alias("first_due"),
            F.sum(lateness_ms).alias("lateness"),
            *(F.count_if(lateness_ms <= edge_s * 1000).alias(f"up to {edge_s}") for edge_s in LATENESS_EDGES_S),
            F.count_if(F.col("due") <= settled_ms).alias("late_arrivals"),
            F.count_if(F.col("due").between(*LIKE_SECONDS)).alias("like_seconds"),
            *(F.count_if(F.col("code") == code).alias(code) for code in self.codes),
        ]
        self.write(batch.observe(observed, *counts), batch_id)
        found = observed.get
        self.finish(batch, batch_id, bool(found["rows"]))
        if found["rows"]:
            self.rows += found["rows"]
            self.like_seconds += found["like_seconds"]
            self.late_arrivals += found["late_arrivals"]
            self.codes = {code: count + found[code] for code, count in self.codes.items()}
            if found["first_due"] is not None:
                up_to = [*(found[f"up to {edge_s}"] for edge_s in LATENESS_EDGES_S)]
                up_to.append(found["rows"] - found["late_arrivals"])
                self.lateness = [*map(operator.add, self.lateness, up_to)]
                self.lateness_sum_s += found["lateness"] / 1000
                self.lag_ms = int(time.time() * 1000) - found["first_due"]

    def settled_until_ms(self, batch_id: int) -> int:
        """Return the time until which earlier batches have delivered all messages that had arrived.

        Set clock_ms to the time of this batch. In the first batch of a checkpoint, all messages are late arrivals.
        """
        batch_ms = int(time.time() * 1000)
        if self.query is not None:
            batch_ms = batch_time_ms(self.query, batch_id) or batch_ms
            self.clock_ms = self.clock_ms or batch_time_ms(self.query, batch_id - 1)
        before_ms, self.clock_ms = self.clock_ms or batch_ms, batch_ms
        return before_ms - before_ms % self.tick_ms

    @abstractmethod
    def add(self, rows: DataFrame, name: str) -> None:
        """Write rows that belong to no batch. If the sink can, write only once for each name."""

    @abstractmethod
    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch in one Spark action, because each action runs the batch with its state again."""

    def finish(self, batch: DataFrame, batch_id: int, any_rows: bool) -> None:  # noqa: B027    (not every sink needs it)
        """Complete a batch after all rows have been written."""


# --- a directory ------------------------------------------------------------------------------------------------------

STAGING = ".staging"
WHOLE = "_SUCCESS"  # Spark writes this file last
WRITE_WHOLE = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
SUFFIXES = {"json": ".json", "parquet": ".parquet", "text": ".json"}
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

    The checkpoint of the query gets the number of the last batch with messages, too.

    Args:
        one_file: Write each batch as one file, whatever spark.sql.files.maxRecordsPerFile says. Required where a
            repeated batch may divide its rows among tasks differently.
    """

    path: str
    format: str
    one_file: bool = False
    claimed: bool = False  # True: the directory has the id of the query

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
            if self.query is not None:
                store_published(self.query, directory, batch_id)
        for name, final in finals.items():
            # The final names of an attempt all differ, so an existing file is from an earlier attempt at this batch.
            if not directory.move(f"{staging}/{name}", final) and not directory.exists(final):
                raise BatchNotWrittenError(f"{self.path}/{staging}/{name} could not be renamed to {final}")
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
    if owner.batch >= batch_id:  # an earlier attempt has stored it
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
        """Send rows, even if rows of this name were sent before."""
        conf = {**PRODUCER, **self.options.java_conf, "bootstrap.servers": self.topic.brokers}
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
    if LATE in messages.columns:
        identity = F.concat(identity, F.array(header(LATE, F.col(LATE))))
    headers = F.concat(F.col(HEADERS), identity) if HEADERS in messages.columns else identity
    return [target, headers.alias("headers")]


def no_topic() -> Column:
    """Return null for the topic of each row, which means the topic of the sink."""
    return F.lit(None).cast("string").alias("topic")


def dead_records(rows: DataFrame) -> DataFrame:
    """Return malformed rows as records, unchanged, with the headers `code` and `reason`.

    Rows of a topic also get the headers of Kafka Connect's dead letters, which say where a record was.
    """
    reason = F.array(header("code", F.col("code")), header("reason", F.col("reason")))
    if RECORD in rows.columns:
        original = F.coalesce(F.col(RECORD)["headers"], F.array().cast(HEADERS_TYPE))
        place = F.array(*(header(f"{CONNECT}{name}", F.col(name)) for name in PLACE_IN_TOPIC))
        why = F.array(header(f"{CONNECT}exception.message", F.col("reason")))
        headers = F.concat(original, reason, place, why)
        return rows.select(f"{RECORD}.key", f"{RECORD}.value", headers.alias("headers"), no_topic())
    names = [name for name in rows.columns if name not in ("reason", "code", "time", LINE, *PLACE_IN_FILE)]
    value = F.to_json(F.struct(*names))
    if LINE in rows.columns:
        value = F.coalesce(F.col(LINE), value)
    if FILE in rows.columns:
        reason = F.concat(reason, F.array(*(header(name, F.col(name)) for name in (FILE, NUMBER, BLOCK))))
    return rows.select(F.col("key"), value.alias("value"), reason.alias("headers"), no_topic())


def header(name: str, value: Column) -> Column:
    """Return a header of a record: a struct of its name and the bytes of its value."""
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
