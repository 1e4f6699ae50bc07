"""Where the messages of a delivery come from: a stream of the files in a directory, or of the records of a topic."""

import operator
from collections.abc import Collection
from dataclasses import dataclass
from functools import reduce
from typing import cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from hwheel.spark.deliver.directory import SLASHES, Directory, steps_of
from hwheel.spark.deliver.json_lines import READ, READ_BY_ID, SHOWN, JsonLines
from hwheel.spark.deliver.settings import UNITS_MS
from hwheel.spark.deliver.topic import HEADERS, TARGET, KafkaOptions, Topic, is_topic
from hwheel.spark.durations import duration_ms

SCHEMA = "id string, key string, due bigint, cancel boolean, payload string"
UNREADABLE = "unreadable"  # why a row cannot be a message, whatever its columns say; null: it can
LINE = "line"  # the JSON of a malformed row, as it came
FILE = "file"  # where it came from
PLACE_IN_TOPIC = ("topic", "partition", "offset")
OWN_HEADERS = ("id", "due", "cancel", "topic")  # which are said anew, or were meant for the delivery
REPLACE = "replace"  # by_id alone has it: a column, a field or a header
HEADERS_TYPE = "array<struct<key string, value binary>>"
RECORD = "record"  # the record as it came, for a topic of dead letters
FOR_GOOD = "36500d"
BLANK = " \t\r"  # of this alone a line may be that is none
TAKE_FOR_PATTERNS = "__globPaths__"  # whether a file called `a[1].json` stands for others, too


@dataclass(frozen=True)
class Source:
    """A directory or a topic, and how it is read. Both frames are streams of the same rows, for a query each.

    `due_unit`: that of due in what is read; in the frames it is in ms. `forget_files`: how far behind that of the
    newest file the time of change of a file may be, for its name to be remembered, and for it to be read at all; None:
    a hundred years, because Spark's own week would leave out old files. `by_id`: whether there is REPLACE, too.
    """

    spark: SparkSession
    place: str
    format: str = "json"
    files_a_batch: int | None = None
    kafka: KafkaOptions = KafkaOptions()
    due_unit: str = "ms"
    forget_files: str | None = None
    by_id: bool = False

    @property
    def schema(self) -> str:
        """Of a message."""
        return f"{SCHEMA}, {REPLACE} boolean" if self.by_id else SCHEMA

    @property
    def file_format(self) -> str:
        """What Spark reads the files as."""
        return "text" if self.format == "json" else self.format

    def messages(self, without: Collection[str] = ()) -> DataFrame:
        """The columns of a message, those carried, and UNREADABLE. `without`: files that are passed over, by FILE."""
        return self.rows(without, []).drop(LINE)

    def all_rows(self, without: Collection[str] = ()) -> DataFrame:
        """The same rows, with all that dead letters tell of one: its LINE if it is JSON, and the FILE that it is from,
        or its PLACE_IN_TOPIC and the RECORD itself.
        """
        return self.rows(without, [*PLACE_IN_TOPIC, RECORD] if is_topic(self.place) else [FILE])

    def rows(self, without: Collection[str], beside: list[str]) -> DataFrame:
        """The columns of a message, UNREADABLE, LINE if it is JSON, and those beside."""
        if is_topic(self.place):
            rows = self.of_records(beside)
        else:
            rows = self.of_files(without, beside)
        return rows.withColumn("due", in_ms("due", UNITS_MS[self.due_unit]))

    def of_files(self, without: Collection[str], beside: list[str]) -> DataFrame:
        """Oldest files first, and only those of the directory itself."""
        age = FOR_GOOD if self.forget_files is None else f"{duration_ms(self.forget_files, 'forget_files')}ms"
        reader = self.spark.readStream.option("maxFileAge", age)
        # Spark takes `due=5` among the directories in it for a column, which would stand in place of the files' own;
        # unless it shall take the files of all directories, of which those at another depth are passed over here.
        reader = reader.option("recursiveFileLookup", True)
        reader = reader.option(TAKE_FOR_PATTERNS, False)
        if self.files_a_batch:
            reader = reader.option("maxFilesPerTrigger", self.files_a_batch)
        if self.format != "json":
            reader = reader.schema(self.schema)
        files = reader.format(self.file_format).load(self.place)
        path = F.col("_metadata.file_path")
        # Conditions on this one Spark applies to the list of files: what is not wanted is not opened.
        steps = len(steps_of(Directory(self.spark, self.place).url)) + 1
        files = files.where(F.size(F.split(F.regexp_replace(path, SLASHES, "/"), "/")) == steps)
        if without:
            files = files.where(~path.isin(*without))
        rest = [path.alias(FILE)] if FILE in beside else []
        if self.format == "json":
            lines = files.where(F.length(F.trim("value", F.lit(BLANK))) > 0)
            return self.of_json(lines.select(F.col("value").cast("binary"), *rest))
        texts = ("id", "key", "payload")
        text = reduce(operator.and_, (F.coalesce(F.is_valid_utf8(name), F.lit(True)) for name in texts))
        unreadable = F.when(~text, "not UTF-8").alias(UNREADABLE)
        names = [field.name for field in cast(StructType, StructType.fromDDL(self.schema))]
        return files.select(*names, unreadable, *rest)

    def of_records(self, beside: list[str]) -> DataFrame:
        """As JSON the key of the message is the record's, as text, where the JSON has none. With headers, key and
        payload are the record's key and value as they are, bytes.
        """
        topic, options = Topic.of(self.place), self.kafka
        reader = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", topic.brokers)
            .option("subscribe", topic.name)
            .option("includeHeaders", True)
            .option("startingOffsets", options.starting_offsets)
            .option("failOnDataLoss", not options.skip_lost)
            .options(**{f"kafka.{name}": value for name, value in options.conf.items()})
        )
        if options.offsets_a_batch:
            reader = reader.option("maxOffsetsPerTrigger", options.offsets_a_batch)
        records = reader.load().withColumn(RECORD, F.struct("key", "value", "headers"))
        also: list[Column] = []
        if options.headers:
            own = (*OWN_HEADERS, REPLACE) if self.by_id else OWN_HEADERS
            others = F.filter("headers", lambda one: ~one["key"].isin(*own))
            also.append(F.coalesce(others, F.array().cast(HEADERS_TYPE)).alias(HEADERS))
        if options.format == "headers":
            unreadable = F.when(~header_is_boolean("cancel"), "cancel is neither true nor false")
            replace: list[Column] = []
            if self.by_id:
                unreadable = unreadable.when(~header_is_boolean(REPLACE), f"{REPLACE} is neither true nor false")
                no_number = has_header("due") & header("due").try_cast("bigint").isNull()
                unreadable = unreadable.when(no_number, "due is no whole number of 64 bits")  # and not: there is none
                replace.append((F.lower(header(REPLACE)) == "true").alias(REPLACE))
            if options.topics is not None:
                named = header("topic")
                is_known = named.isin(*options.topics) if options.topics else F.lit(False)
                known = ~has_header("topic") | F.coalesce(is_known, F.lit(False))
                shown = F.coalesce(F.substring(named, 1, SHOWN), F.lit("not UTF-8"))
                unknown = F.concat(F.lit("topic is none of --to-topics: "), shown)
                unreadable = F.coalesce(unreadable, F.when(~known, unknown))
                also.append(named.alias(TARGET))
            return records.select(
                header("id").alias("id"),
                "key",
                header("due").try_cast("bigint").alias("due"),
                (F.lower(header("cancel")) == "true").alias("cancel"),
                F.col("value").alias("payload"),
                *replace,
                unreadable.alias(UNREADABLE),
                *beside,
                *also,
            )
        found = self.of_json(records.select("value", F.col("key").alias("record_key"), *beside, *also))
        return found.withColumn("key", F.coalesce("key", as_text("record_key"))).drop("record_key")

    def of_json(self, lines: DataFrame) -> DataFrame:
        """The fields of lines, which are the first column, and the others."""
        read = cast(StructType, StructType.fromDDL(READ_BY_ID if self.by_id else READ))
        target = [] if self.kafka.topics is None else [StructField(TARGET, StringType())]
        schema = StructType([*read.fields, *target, *lines.schema.fields[1:]])
        return lines.mapInArrow(JsonLines(UNITS_MS[self.due_unit], self.kafka.topics, self.by_id), schema)


def in_ms(name: str, unit_ms: int) -> Column:
    """A due; one that does not fit into 64 bits is absurd, and remains so."""
    due = F.col(name)
    if unit_ms == 1:
        return due
    return F.coalesce(F.try_multiply(due, F.lit(unit_ms)), F.when(due.isNotNull(), F.lit(2**63 - 1)))


def as_text(name: str) -> Column:
    """Bytes as text, and such as are none with their digits: two that differ are two keys."""
    return F.coalesce(
        F.try_validate_utf8(F.col(name).cast("string")), F.concat(F.lit("\\x"), F.lower(F.hex(F.col(name))))
    )


def has_header(name: str) -> Column:
    """Whether there is one."""
    return F.exists("headers", lambda one: one["key"] == name)


def header_is_boolean(name: str) -> Column:
    """Whether a header, if there is one, is true or false."""
    return ~has_header(name) | F.coalesce(F.lower(header(name)).isin("true", "false"), F.lit(False))


def header(name: str) -> Column:
    """The last header of this name as text; null if there is none or it is no UTF-8."""
    found = F.filter("headers", lambda one: one["key"] == name)
    return F.try_validate_utf8(F.get(found, F.size(found) - 1)["value"].cast("string"))
