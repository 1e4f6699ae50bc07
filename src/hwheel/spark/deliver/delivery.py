"""The job of `hwheel deliver`: two queries over one input, one for messages and one for dead letters."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructField, StructType

from hwheel.spark.deliver.checkpoint import (
    DEAD_LETTERS,
    MESSAGES,
    OPTIONS,
    begin_next_batch,
    check_and_store_outputs,
    correct_place,
)
from hwheel.spark.deliver.directory import Directory, steps_of
from hwheel.spark.deliver.failures import GO_ON, WORKER_KILLED, WORKER_LATE, WORKERS_KILLED, Failure, failure_of
from hwheel.spark.deliver.held_index import IndexKeeper, set_up_index
from hwheel.spark.deliver.input_files import IN_FUTURE, IgnoredNames, SourceCleaner, SourceLog, check_removed, utc
from hwheel.spark.deliver.kept_input import Lateness, kept_lateness
from hwheel.spark.deliver.letters import CODES, TOO_LATE, WHOLE_FILE, code_of
from hwheel.spark.deliver.owner import check_late_letters, check_output
from hwheel.spark.deliver.parquet_due import FAST_READER
from hwheel.spark.deliver.rest import Arrivals, LocalFiles, Rest
from hwheel.spark.deliver.settings import DeliverySettings
from hwheel.spark.deliver.sink import (
    DirectorySink,
    Sink,
    TooLate,
    TopicSink,
    dead_records,
    header_records,
    json_records,
)
from hwheel.spark.deliver.source import FILE, LINE, RECORD, REPLACE, UNREADABLE, Source
from hwheel.spark.deliver.throttle import Throttle
from hwheel.spark.deliver.topic import Topic, TopicClient, is_topic
from hwheel.spark.deliver.unreadable_files import (
    DueCheck,
    LeavingOut,
    Search,
    SilentFiles,
    UnreadableFiles,
    letter_name,
)
from hwheel.spark.durations import duration_ms
from hwheel.spark.hold import dead_letters, hold_until_due
from hwheel.spark.session.conf import set_up_local_checkpoint, set_up_local_input

NAMES = {"id": "id", "key": "key", "due": "due", "cancel": "cancel", "unreadable": UNREADABLE}
STARTS = 10
FUTURE_MS = 60_000  # a date that is ahead by less is tolerated, because clocks differ
DUE_IN_SECONDS = (
    "messages were delivered at once because their due times, read as milliseconds, are in 1970: they seem "
    "to be seconds\nsend milliseconds, or use --due-unit s with a new checkpoint and output"
)


# --- the frames of the two queries ------------------------------------------------------------------------------------


@dataclass
class Frames:
    """The DataFrames of the two queries. Each call excludes the files that are left out at that time."""

    source: Source
    left_out: UnreadableFiles

    @property
    def names(self) -> dict[str, Any]:
        """The arguments of hold_until_due() and dead_letters() that name columns."""
        return NAMES | ({"replace": REPLACE, "by_id": True} if self.source.by_id else {})

    def due_messages(self, by_row: bool = False) -> DataFrame:
        settings, wheel = self.source.settings, self.source.settings.wheel
        due = self.source.messages(self.left_out.names(), by_row).transform(
            hold_until_due,
            **self.names,
            payload=["payload", *settings.kafka.carried],
            tick=wheel.tick,
            wheel_size=wheel.wheel_size,
            shards=wheel.shards,
            dedup=wheel.dedup,
        )
        return due if settings.rate is None else due.mapInArrow(Throttle(settings.rate / wheel.partitions), due.schema)

    def dead_letters(self, by_row: bool = False) -> DataFrame:
        """Return the malformed rows, each with a reason, its code, and the time of the batch.

        A reason of the reader takes precedence over one of the columns. A repeated batch has the same time.
        """
        settings = self.source.settings
        found = self.source.all_rows(self.left_out.names(), by_row).transform(dead_letters, **self.names)
        found = found.withColumn("reason", F.coalesce(UNREADABLE, "reason")).drop(UNREADABLE, *settings.kafka.carried)
        found = found.withColumns({"code": code_of(F.col("reason")), "time": F.unix_millis(F.current_timestamp())})
        return found if is_topic(settings.places.dead_letters) else found.drop(RECORD)


@dataclass
class Letters:
    """Writes dead letters about whole files, and about messages that are too late."""

    frames: Frames
    sink: Sink

    @cached_property
    def schema(self) -> StructType:
        columns = self.frames.dead_letters().schema  # costly: the frame names all files that are left out
        # All nullable: for example, a letter about a whole file has no line.
        return StructType([StructField(column.name, column.dataType) for column in columns])

    def send(self, file: str, reason: str, changed_ms: int | None = None) -> None:
        """Write a dead letter about a file. A directory gets it once for each file and `changed_ms`."""
        letter: dict[str, Any] = dict.fromkeys(self.schema.names)
        letter |= {FILE: file, "reason": f"the file cannot be read: {reason}", "code": WHOLE_FILE}
        letter["time"] = int(time.time() * 1000)
        rows = self.frames.source.spark.createDataFrame([tuple(letter.values())], self.schema)
        self.sink.add(rows, letter_name(file if changed_ms is None else f"{file} {changed_ms}"))
        self.sink.rows += 1
        self.sink.codes[WHOLE_FILE] += 1

    def send_late(self, messages: DataFrame, max_ms: int, name: str, count: int) -> None:
        """Write dead letters about messages that are later than a limit. A directory gets them once for each `name`."""
        line = F.to_json(F.struct("id", "key", "due", "payload"))
        reason = F.lit(f"later than --max-lateness: {max_ms} ms")
        given = {"reason": reason, "code": F.lit(TOO_LATE), LINE: line, "time": F.lit(int(time.time() * 1000))}
        given |= {column: F.col(column) for column in ("id", "key", "due", "payload")}
        fields = [field for field in self.schema if field.name != RECORD]
        columns = [given.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in fields]
        self.sink.add(messages.select(*columns), name)
        self.sink.rows += count
        self.sink.codes[TOO_LATE] += count


# --- a running query --------------------------------------------------------------------------------------------------


@dataclass
class QueryRun:
    """One of the two queries: its sink, and its restarts.

    Args:
        start: Starts the query.
        query: The running query.
    """

    name: str
    start: Callable[[], StreamingQuery]
    sink: Sink
    query: StreamingQuery
    starts: int = 0  # restarts since the last completed batch
    batches_at_start: int = -1

    def failure(self) -> Failure | None:
        """Return why the query ended, or None if it runs."""
        if self.query.isActive:
            return None
        if self.sink.failure is not None:
            return self.sink.failure
        error = self.query.exception()
        return failure_of(error) if error is not None else Failure("a query ended without an error", GO_ON, "")

    def may_restart(self, failure: Failure) -> bool:
        """Count a restart. Return True if the fault may be temporary and STARTS restarts in a row are not used up.

        Restarts are in a row if no batch completes between them. Temporary faults are: an inaccessible file; a plan
        that does not fit the files of a batch; a Python worker that takes more than Spark's limit of ten seconds to
        start; and a killed Python worker. On a single machine Spark does not retry the task of a killed worker.
        """
        of_workers = any(text in failure.details for text in (WORKER_LATE, WORKER_KILLED, WORKERS_KILLED))
        is_temporary = failure.file or failure.is_plan or of_workers
        starts = self.starts + 1 if self.batches_at_start == self.sink.batches else 1
        if not is_temporary or starts > STARTS:
            return False
        self.batches_at_start, self.starts = self.sink.batches, starts
        return True

    def restart(self) -> None:
        self.query = self.start()

    def stop(self) -> None:
        """Stop the query. Spark waits for a running call of the sink, so end the sink's rest first."""
        rest = self.sink.rest
        if rest is not None:
            rest.stopped.set()
        self.query.stop()
        if rest is not None:
            rest.arrivals.close()


@dataclass
class InputWatch:
    """Checks the input directory while the queries run."""

    ignored: IgnoredNames
    silent: SilentFiles | None
    left_out: UnreadableFiles
    cleaner: SourceCleaner | None = None

    def notices(self) -> list[str]:
        """Check and clean the directory; return notices for the user."""
        return [
            *self.ignored.notices(),
            *(left_out_notice(file, reason) for file, reason in (self.silent.find() if self.silent else [])),
            *(self.cleaner.clean() if self.cleaner else []),
        ]

    def names_to_keep(self) -> set[str]:
        """Return the names of files that must not be removed: they are unreadable, or not checked yet."""
        names = {unquote(steps_of(file)[-1]) for file in self.left_out.names()}
        return names | {*(self.silent.take_up() if self.silent else [])}


@dataclass
class Delivery:
    """A running delivery.

    Args:
        input: Checks the input directory. None for a topic.
        notices: Messages for the user, of two lines each, about problems that do not stop the delivery.
        search: A search for unreadable files after a failure. It serves both queries.
    """

    message_run: QueryRun
    letter_run: QueryRun
    leaving_out: LeavingOut | None = None
    input: InputWatch | None = None
    due_unit: str = "ms"
    notices: list[str] = field(default_factory=list)
    search: Search | None = None
    index: IndexKeeper | None = None

    @property
    def messages(self) -> StreamingQuery:
        return self.message_run.query

    @property
    def sink(self) -> Sink:
        return self.message_run.sink

    @property
    def dead_sink(self) -> Sink:
        return self.letter_run.sink

    def tend(self) -> Failure | None:
        """Restart queries after temporary faults, check the input, and collect notices. Call this repeatedly.

        Unreadable files are left out. A search for many of them takes several calls.

        Returns:
            The failure of a query that must not restart.
        """
        for run in (self.message_run, self.letter_run):
            if (failure := run.failure()) is not None and not self.recover(run, failure):
                return failure
        if self.sink.like_seconds and self.due_unit == "ms":
            self.notify(DUE_IN_SECONDS)
        for notice in self.input.notices() if self.input else ():
            self.notify(notice)
        self.read_older_files()
        return None

    def read_older_files(self) -> None:
        """Restart the queries if a file dated in the future would make Spark ignore the files that follow."""
        cleaner = self.input.cleaner if self.input else None
        if cleaner is None or cleaner.forget_ms is None or self.leaving_out is None:
            return
        source = self.leaving_out.source
        if cleaner.ahead_ms() <= source.ahead_ms + FUTURE_MS:
            return
        source.ahead_ms = cleaner.ahead_ms()
        self.notify(IN_FUTURE.format(time=utc(cleaner.logs[0].newest_ms)))
        for run in (self.message_run, self.letter_run):
            run.stop()
            run.restart()

    def recover(self, run: QueryRun, failure: Failure) -> bool:
        """Restart a query that has ended, or first search for the files at fault. Return False to give up."""
        if self.search is None:
            self.search = Search(run.name, self.leaving_out.after(run.name, failure) if self.leaving_out else iter(()))
        if self.search.query != run.name or not self.search.step(self.notify_left_out):
            return True
        found, self.search = self.search.found, None
        if not found and not run.may_restart(failure):
            return False
        run.restart()
        return True

    def notify_left_out(self, file: str, reason: str) -> None:
        self.notify(left_out_notice(file, reason))

    def notify(self, notice: str) -> None:
        """Add a notice, unless it was given before."""
        if notice not in self.notices:
            self.notices.append(notice)

    def stop(self) -> None:
        """Stop both queries. The next start repeats an interrupted batch."""
        self.message_run.stop()
        self.letter_run.stop()
        if self.index is not None:
            self.index.stop()

    def failure(self) -> Failure | None:
        """Return why a query ended, or None if both run."""
        return self.message_run.failure() or self.letter_run.failure()

    def error(self) -> str | None:
        """Return the failure as two lines, or None."""
        found = self.failure()
        return None if found is None else str(found)


def left_out_notice(file: str, reason: str) -> str:
    return (
        f"{file} cannot be read and is left out: {reason}\n"
        "repair it and move it in under another name; the dead letters have its name"
    )


# --- the start --------------------------------------------------------------------------------------------------------


def start_delivery(spark: SparkSession, settings: DeliverySettings) -> Delivery:
    """Start the two queries.

    Raises:
        BatchElsewhereError: An interrupted batch has files in another output.
        TimesDifferError: The checkpoint, an output, or the input was restored from an older copy.
        ListDamagedError: The list of unreadable files is damaged.
    """
    places = settings.places
    letters_every_s = duration_ms(settings.dead_letters_every, "dead_letters_every") / 1000
    checkpoint = Directory(spark, places.checkpoint)
    directory = None if is_topic(places.source) else Directory(spark, places.source)
    set_up_session(spark, settings, checkpoint, directory)
    outputs = {MESSAGES: places.to, DEAD_LETTERS: places.dead_letters}
    check_times(checkpoint, outputs, directory)
    check_and_store_outputs(checkpoint, outputs, OPTIONS)
    correct_place(checkpoint.child_directory(MESSAGES))
    index = set_up_index(checkpoint, settings.index)

    left_out = UnreadableFiles(checkpoint)
    source = Source(spark, settings)
    frames = Frames(source, left_out)
    queries = {name: checkpoint.child_directory(name) for name in (MESSAGES, DEAD_LETTERS)}
    letter_sink = sink_at(spark, places.dead_letters, settings, dead_records, queries[DEAD_LETTERS], one_file=True)
    letter_sink.codes = dict.fromkeys(CODES, 0)
    letters = Letters(frames, letter_sink)
    leaving_out = LeavingOut(source, left_out, queries, letters.send)
    if directory is not None and settings.forget_files is not None:
        source.ahead_ms = ahead_of_now_ms(queries[MESSAGES], directory)
    watch = None
    if directory is not None:
        watch = input_watch(settings, directory, leaving_out, letters_every_s)
        if watch.cleaner is not None:
            watch.cleaner.send_letter = letters.send
    return Delivery(
        message_run(frames, queries[MESSAGES], directory, too_late(settings, queries[MESSAGES], letters)),
        letter_run(frames, queries[DEAD_LETTERS], letter_sink),
        leaving_out,
        watch,
        settings.wheel.due_unit,
        index=None if index is None else IndexKeeper(queries[MESSAGES], index),
    )


def ahead_of_now_ms(query: Directory, directory: Directory) -> int:
    """Return how many milliseconds the newest file that a query has read is dated in the future, at least 0."""
    newest_ms = max((entry.changed_ms for entry in SourceLog(query, steps_of(directory.url)).newly_done()), default=0)
    return max(0, newest_ms - int(time.time() * 1000))


def check_times(checkpoint: Directory, outputs: dict[str, str], directory: Directory | None) -> None:
    """Raise TimesDifferError if the checkpoint, an output, or a cleaned input was restored from an older copy."""
    queries = {name: checkpoint.child_directory(name) for name in outputs}
    for name, place in outputs.items():
        if not is_topic(place):
            check_output(queries[name], Directory(checkpoint.spark, place), OPTIONS[name])
    if not is_topic(outputs[DEAD_LETTERS]):
        letters = Directory(checkpoint.spark, outputs[DEAD_LETTERS])
        check_late_letters(queries[MESSAGES], letters, OPTIONS[DEAD_LETTERS])
    if directory is not None:
        check_removed(directory, [*queries.values()])


def set_up_session(
    spark: SparkSession, settings: DeliverySettings, checkpoint: Directory, directory: Directory | None
) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", settings.wheel.partitions)
    if checkpoint.local_path is not None:
        set_up_local_checkpoint(spark)
    if directory is not None and directory.local_path is not None:
        set_up_local_input(spark)


def too_late(settings: DeliverySettings, query: Directory, letters: Letters) -> TooLate:
    """Return the rule for messages that are too late."""
    limit = settings.max_lateness
    max_ms = None if limit is None else duration_ms(limit, "max_lateness")
    return TooLate(kept_lateness(query, Lateness(max_ms, settings.too_late == "mark")), letters.send_late)


def message_run(frames: Frames, checkpoint: Directory, directory: Directory | None, late: TooLate) -> QueryRun:
    """Start the query that holds messages. Its first batch starts at once, because messages may be due already."""
    settings = frames.source.settings
    records = header_records if settings.kafka.format == "headers" else json_records
    sink = sink_at(frames.source.spark, settings.places.to, settings, records, checkpoint)
    sink.too_late = late
    check = due_check(frames, checkpoint, sink)
    arrivals = arrivals_of(frames.source, directory)

    def start() -> StreamingQuery:
        frame = frames.due_messages(check.by_row)
        begin_next_batch(checkpoint)
        if arrivals is not None:
            sink.rest = Rest(arrivals, checkpoint, duration_ms(settings.trigger, "trigger") / 2000)
        return started(frame, sink, checkpoint.path, settings.trigger, check.by_row)

    return QueryRun(MESSAGES, start, sink, start())


def arrivals_of(source: Source, directory: Directory | None) -> Arrivals | None:
    """Return an observer that notices arrivals without a batch, or None if there is no cheap one."""
    if directory is None:
        return TopicClient(source.spark, Topic.of(source.place), source.settings.kafka)
    return None if directory.local_path is None else LocalFiles(directory.local_path)


def letter_run(frames: Frames, checkpoint: Directory, sink: Sink) -> QueryRun:
    """Start the query that writes dead letters."""

    check = due_check(frames, checkpoint, sink)

    def start() -> StreamingQuery:
        every = frames.source.settings.dead_letters_every
        return started(frames.dead_letters(check.by_row), sink, checkpoint.path, every, check.by_row)

    return QueryRun(DEAD_LETTERS, start, sink, start())


def due_check(frames: Frames, checkpoint: Directory, sink: Sink) -> DueCheck:
    """Return the check of a query's input. For Parquet files, also make the sink call it before each batch."""
    check = DueCheck(frames.source, frames.left_out, checkpoint)
    settings = frames.source.settings
    if settings.file_format == "parquet" and not is_topic(settings.places.source):
        sink.check_input = check
    return check


def sink_at(
    spark: SparkSession,
    place: str,
    settings: DeliverySettings,
    records: Callable[[DataFrame], DataFrame],
    query: Directory,
    *,
    one_file: bool = False,
) -> Sink:
    """Return the sink for a place. If the place is a directory, create it.

    Args:
        records: Returns the rows of a batch as records, for a topic.
        query: The checkpoint of the query.
        one_file: Write each batch as one file, or in one transaction. Dead letters need this, because the number of
            cores decides which task reads which malformed rows.
    """
    sink: Sink
    if is_topic(place) and settings.kafka.exactly_once:
        from hwheel.spark.deliver.transactions import TransactionSink  # needs confluent_kafka

        topic, kafka = Topic.of(place), settings.kafka
        sink = TransactionSink(
            topic=topic, options=kafka, records=records, one_task=one_file, partitions=settings.wheel.partitions
        )
    elif is_topic(place):
        sink = TopicSink(topic=Topic.of(place), options=settings.kafka, records=records)
    else:
        Directory(spark, place).make()
        sink = DirectorySink(place, settings.format, one_file)
    sink.query, sink.tick_ms = query, duration_ms(settings.wheel.tick, "tick")
    return sink


def input_watch(
    settings: DeliverySettings, directory: Directory, leaving_out: LeavingOut, every_s: float
) -> InputWatch:
    """Return the checks of the input directory."""
    spark, queries, left_out = directory.spark, leaving_out.queries, leaving_out.files
    silent = None
    if settings.file_format == "text":
        log = SourceLog(queries[MESSAGES], steps_of(directory.url))
        silent = SilentFiles(spark, log, left_out, leaving_out.leave_out, every_s)
    watch = InputWatch(IgnoredNames(directory, every_s), silent, left_out)
    if settings.clean_source is not None:
        archive, forget = settings.places.archive, settings.forget_files
        watch.cleaner = SourceCleaner(
            directory,
            None if archive is None else Directory(spark, archive),
            [*queries.values()],
            watch.names_to_keep,
            every_s,
            None if forget is None else duration_ms(forget, "forget_files"),
        )
        if watch.cleaner.archive is not None:
            watch.cleaner.archive.make()
    return watch


def started(frame: DataFrame, sink: Sink, checkpoint: str, trigger: str, by_row: bool = False) -> StreamingQuery:
    """Start a query into a sink.

    Args:
        by_row: Read Parquet with the row reader.
    """
    sink.failure = None
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    writer = writer.trigger(processingTime=f"{duration_ms(trigger, 'trigger')} milliseconds")
    if by_row:  # never set back, because a batch reads its files with the session of the frame
        frame.sparkSession.conf.set(FAST_READER, "false")
    return writer.start()
