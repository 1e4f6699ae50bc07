"""`hwheel deliver`'s job: messages in from files or a topic, what is due out into files or a topic."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from hwheel.spark.deliver.checkpoint import DEAD_LETTERS, MESSAGES, begin_next_batch, keep_outputs
from hwheel.spark.deliver.directory import Directory, steps_of
from hwheel.spark.deliver.failures import GO_ON, WORKER_KILLED, WORKER_LATE, Failure, failure_of
from hwheel.spark.deliver.input_files import SourceCleaner, SourceLog, UnseenNames
from hwheel.spark.deliver.settings import WheelOptions
from hwheel.spark.deliver.sink import DirectorySink, Sink, TopicSink, dead_records, header_records, json_records
from hwheel.spark.deliver.source import FILE, RECORD, REPLACE, UNREADABLE, Source
from hwheel.spark.deliver.topic import KafkaOptions, Topic, is_topic
from hwheel.spark.deliver.unreadable_files import LeavingOut, Search, SilentFiles, UnreadableFiles, letter_name
from hwheel.spark.durations import duration_ms
from hwheel.spark.hold import dead_letters, hold_until_due
from hwheel.spark.session.conf import set_up_local_checkpoint, set_up_local_input

NAMES = {"id": "id", "key": "key", "due": "due", "cancel": "cancel", "unreadable": UNREADABLE}
DEAD_LETTERS_EVERY = "5 seconds"  # each time all lines since the last are read again, and messages are late by that
STARTS = 10
SECONDS = (
    "messages went out at once whose due, read as milliseconds, is in 1970: it seems to be in seconds\n"
    "send milliseconds, or give --due-unit s to a new checkpoint and output"
)


@dataclass(frozen=True)
class DoneFiles:
    """What becomes of input files that were read: they go into a directory, or if there is none, away."""

    archive: str | None


@dataclass
class Delivery:
    """The two queries of a delivery while they run, each with the sink that counts what it writes.

    `notices`: what the user has to know although it goes on, each in two lines.
    """

    messages: StreamingQuery
    dead: StreamingQuery
    sink: Sink
    dead_sink: Sink
    start_again: dict[str, Callable[[], StreamingQuery]]
    leaving_out: LeavingOut | None = None
    look: Callable[[], list[str]] = list  # after input files: takes away what was read, and returns notices
    due_unit: str = "ms"
    starts: dict[str, tuple[int, int]] = field(default_factory=dict)  # of each query, after how many batches how many
    notices: list[str] = field(default_factory=list)
    search: Search | None = None  # of the query that failed first: what it finds the other need not look for

    def tend(self) -> Failure | None:
        """Starts a query again that has ended for a reason that is none to give up; returns one that is, or that came
        STARTS times without a batch in between. (One that ends meanwhile is seen at the next call.)

        A Python worker was too slow to start: Spark gives it ten seconds, which is little on a busy machine. One was
        killed: on one machine Spark does not try again by itself. An input file cannot be read: it is left out; where
        there are many, that takes several calls. A file could not be read and now can be.
        """
        for name, start in self.start_again.items():
            if getattr(self, name).isActive or (failure := self.failure_of(name)) is None:
                continue
            if self.search is None:
                self.search = Search(name, self.leaving_out.after(name, failure) if self.leaving_out else iter(()))
            if self.search.query != name or not self.search.go_on(lambda *found: self.tell(left_out_notice(*found))):
                continue
            unreadable, self.search = self.search.found, None
            passing = failure.file or WORKER_LATE in failure.details or WORKER_KILLED in failure.details
            if not unreadable:
                batches = self.sink_of(name).batches
                then, starts = self.starts.get(name, (batches, 0))
                starts = starts + 1 if then == batches else 1
                if not passing or starts > STARTS:
                    return failure
                self.starts[name] = batches, starts
            setattr(self, name, start())
        if self.sink.like_seconds and self.due_unit == "ms":
            self.tell(SECONDS)
        for notice in self.look():
            self.tell(notice)
        return None

    def tell(self, notice: str) -> None:
        """Once."""
        if notice not in self.notices:
            self.notices.append(notice)

    def failure_of(self, name: str) -> Failure | None:
        """Why a query has ended, if it has."""
        query = getattr(self, name)
        if query.isActive:
            return None
        if (found := self.sink_of(name).failure) is not None:
            return found
        error = query.exception()
        return failure_of(error) if error is not None else Failure("a query has ended by itself", GO_ON, "")

    def sink_of(self, name: str) -> Sink:
        """That of a query."""
        return self.sink if name == "messages" else self.dead_sink

    def stop(self) -> None:
        """Ends both queries. A batch that is cut off is run again at the next start."""
        self.messages.stop()
        self.dead.stop()

    def failure(self) -> Failure | None:
        """Why a query has ended, if one has."""
        return self.failure_of("messages") or self.failure_of("dead")

    def error(self) -> str | None:
        """The same, in two lines."""
        found = self.failure()
        return None if found is None else str(found)


def start_delivery(
    source: Source,
    to: str,
    dead_to: str,
    format: str,
    checkpoint: str,
    options: WheelOptions,
    trigger: str,
    kafka: KafkaOptions = KafkaOptions(),
    dead_letters_every: str = DEAD_LETTERS_EVERY,
    done_files: DoneFiles | None = None,
) -> Delivery:
    """Starts the queries. `to` and `dead_to` are directories, or topics as kafka://BROKERS/TOPIC. `done_files`: what
    becomes of input files that both queries are through with; None: they stay.

    Raises:
        BatchElsewhereError: a batch that was cut off has files in another directory than `to` or `dead_to`.
        ListDamagedError: which files of the input could not be read is not known any more.
    """
    duration_ms(dead_letters_every, "dead_letters_every")
    spark = source.spark
    spark.conf.set("spark.sql.shuffle.partitions", options.partitions)
    state = Directory(spark, checkpoint)
    if state.local_path is not None:
        set_up_local_checkpoint(spark)
    directory = None if is_topic(source.place) else Directory(spark, source.place)
    if directory and directory.local_path is not None:
        set_up_local_input(spark)
    keep_outputs(state, {MESSAGES: to, DEAD_LETTERS: dead_to}, {MESSAGES: "--to", DEAD_LETTERS: "--dead-letters"})
    queries = {"messages": state.child_directory(MESSAGES), "dead": state.child_directory(DEAD_LETTERS)}
    left_out = UnreadableFiles(state)

    names: dict[str, Any] = NAMES | ({"replace": REPLACE, "by_id": True} if source.by_id else {})

    def held() -> DataFrame:
        return source.messages(left_out.names()).transform(
            hold_until_due,
            **names,
            payload=["payload", *source.kafka.carried],
            tick=options.tick,
            wheel_size=options.wheel_size,
            shards=options.shards,
            dedup=options.dedup,
        )

    def dead() -> DataFrame:
        found = letters(source.all_rows(left_out.names()), names).drop(*source.kafka.carried)
        return found if is_topic(dead_to) else found.drop(RECORD)

    sink = sink_at(spark, to, format, kafka, header_records if kafka.format == "headers" else json_records)
    # Which task reads which malformed rows depends on the cores of this start.
    dead_sink = sink_at(spark, dead_to, format, kafka, dead_records, one_file=True)
    start: dict[str, Callable[[], StreamingQuery]] = {
        "messages": lambda: going_on(held(), sink, queries["messages"], trigger),
        "dead": lambda: started(dead(), dead_sink, queries["dead"].path, dead_letters_every),
    }

    @cache
    def letter_schema() -> StructType:
        return dead().schema

    def send_letter(file: str, reason: str) -> None:
        schema = letter_schema()  # once, because a frame names all files that are left out, and there may be many
        letter = dict.fromkeys(schema.names) | {FILE: file, "reason": f"the file cannot be read: {reason}"}
        dead_sink.add(spark.createDataFrame([tuple(letter.values())], schema), letter_name(file))
        dead_sink.rows += 1

    every_s = duration_ms(dead_letters_every, "dead_letters_every") / 1000
    leaving_out = LeavingOut(source, left_out, queries, send_letter)
    unseen = UnseenNames(directory, every_s) if directory else None
    silent = cleaner = None
    if directory and source.file_format == "text":
        log = SourceLog(queries["messages"], steps_of(directory.url))
        silent = SilentFiles(spark, log, left_out, leaving_out.leave_out, every_s)

    def to_keep() -> set[str]:
        names = {unquote(steps_of(file)[-1]) for file in left_out.names()}
        return names | {*(silent.take_up() if silent else [])}

    def look() -> list[str]:
        return [
            *(unseen.look() if unseen else []),
            *(left_out_notice(file, reason) for file, reason in (silent.look() if silent else [])),
            *(cleaner.clean() if cleaner else []),
        ]

    if directory and done_files is not None:
        cleaner = SourceCleaner(
            directory,
            None if done_files.archive is None else Directory(spark, done_files.archive),
            [*queries.values()],
            to_keep,
            every_s,
            None if source.forget_files is None else duration_ms(source.forget_files, "forget_files"),
        )
        if cleaner.archive is not None:
            cleaner.archive.make()
    return Delivery(start["messages"](), start["dead"](), sink, dead_sink, start, leaving_out, look, source.due_unit)


def left_out_notice(file: str, reason: str) -> str:
    return (
        f"{file} cannot be read and is left out: {reason}\n"
        "mend it and move it in under another name; the dead letters have its name"
    )


def letters(rows: DataFrame, names: dict[str, Any]) -> DataFrame:
    """The malformed rows, each with the reason that its reader gave, or that its columns give."""
    found = rows.transform(dead_letters, **names)
    return found.withColumn("reason", F.coalesce(UNREADABLE, "reason")).drop(UNREADABLE)


def sink_at(
    spark: SparkSession,
    place: str,
    format: str,
    kafka: KafkaOptions,
    records: Callable[[DataFrame], DataFrame],
    one_file: bool = False,
) -> Sink:
    """A topic, which gets records, or a directory, which is made."""
    if is_topic(place):
        return TopicSink(topic=Topic.of(place), options=kafka, records=records)
    Directory(spark, place).make()
    return DirectorySink(place, format, one_file)


def going_on(frame: DataFrame, sink: Sink, checkpoint: Directory, trigger: str) -> StreamingQuery:
    """The query that holds messages. Its first batch comes at once, because something may have fallen due meanwhile."""
    begin_next_batch(checkpoint)
    return started(frame, sink, checkpoint.path, trigger)


def started(frame: DataFrame, sink: Sink, checkpoint: str, trigger: str) -> StreamingQuery:
    """A query into a sink."""
    sink.failure = None
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    return writer.trigger(processingTime=f"{duration_ms(trigger, 'trigger')} milliseconds").start()
