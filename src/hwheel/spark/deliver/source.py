"""The input of a delivery: a stream of the files in a directory, or of the records of a topic."""

import operator
from collections.abc import Collection
from dataclasses import dataclass
from functools import reduce
from typing import cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from hwheel.spark.deliver.directory import SLASHES, Directory, steps_of
from hwheel.spark.deliver.json_lines import BLANK_LINE, MAX_SHOWN, NUMBER, READ, READ_BY_ID, JsonLines
from hwheel.spark.deliver.parquet_due import DueInMs, stored_schema
from hwheel.spark.deliver.settings import UNITS_MS, DeliverySettings
from hwheel.spark.deliver.topic import HEADERS, TARGET, Topic, is_topic
from hwheel.spark.durations import duration_ms

SCHEMA = "id string, key string, due bigint, cancel boolean, payload string"
UNREADABLE = "unreadable"  # the reason why a row is malformed, or null if its columns decide
LINE = "line"  # the JSON of a malformed row
BYTES = "bytes"  # the size of a message that is too large, or null
EXCERPT = "excerpt"  # the first characters of a message that is too large, or null
TOO_LARGE = "larger than --largest-message: {} bytes"
FILE = "file"  # the input file of a row
BLOCK = "block"  # the first byte of the part of the file in which NUMBER counts
PLACE_IN_FILE = (NUMBER, BLOCK, FILE)
PLACE_IN_TOPIC = ("topic", "partition", "offset")
OWN_HEADERS = ("id", "due", "cancel", "topic")  # the output writes its own, or drops them
REPLACE = "replace"  # a column, field, or header, with by_id
HEADERS_TYPE = "array<struct<key string, value binary>>"
RECORD = "record"  # the whole record, for a topic of dead letters
UNLIMITED_AGE = "36500000d"  # beyond the date of any file
BLANK = " \t\r"  # a line of only these characters is ignored
GROWTH = 6  # a control character in a string of JSON becomes six characters
CONSUMER = {"isolation.level": "read_committed"}  # records of aborted transactions are no messages
TAKE_FOR_PATTERNS = "__globPaths__"


@dataclass
class Source:
    """The input of a delivery. ``messages()`` and ``all_rows()`` return the same rows, for one query each.

    Args:
        ahead_ms: How far the newest file that was read is dated in the future. With --forget-files, Spark would ignore
            later files, which are older.
    """

    spark: SparkSession
    settings: DeliverySettings
    ahead_ms: int = 0

    @property
    def place(self) -> str:
        return self.settings.places.source

    @property
    def by_id(self) -> bool:
        return self.settings.wheel.by_id

    @property
    def schema(self) -> str:
        """The columns of a message."""
        return f"{SCHEMA}, {REPLACE} boolean" if self.by_id else SCHEMA

    def messages(self, without: Collection[str] = (), by_row: bool = False) -> DataFrame:
        """Return the columns of messages, carried columns, and UNREADABLE, with due in milliseconds.

        Args:
            without: Files to leave out, by FILE.
            by_row: Read all accepted types of `due` in Parquet, with the row reader. See parquet_due.
        """
        return self.rows(without, [], by_row).drop(LINE)

    def all_rows(self, without: Collection[str] = (), by_row: bool = False) -> DataFrame:
        """Return the same rows with the columns that dead letters show.

        These are LINE for JSON, FILE, NUMBER, and BLOCK for files, and PLACE_IN_TOPIC and RECORD for a topic.
        """
        return self.rows(without, [*PLACE_IN_TOPIC, RECORD] if is_topic(self.place) else [*PLACE_IN_FILE], by_row)

    def rows(self, without: Collection[str], places: list[str], by_row: bool) -> DataFrame:
        unit_ms = UNITS_MS[self.settings.wheel.due_unit]
        if by_row:  # the row reader returns `due` as it is stored, and DueInMs needs the file of each row
            rows = self.of_files(without, [*PLACE_IN_FILE], stored_schema(self.schema))
            fields = [StructField("due", LongType()) if field.name == "due" else field for field in rows.schema.fields]
            rows = self.fitting_record(rows.mapInArrow(DueInMs(unit_ms), StructType(fields)))
            return rows if FILE in places else rows.drop(*PLACE_IN_FILE)
        rows = self.of_records(places) if is_topic(self.place) else self.of_files(without, places, self.schema)
        return self.fitting_record(rows.withColumn("due", in_ms("due", unit_ms)))

    @property
    def largest(self) -> int:
        return self.settings.largest_message

    def fitting_record(self, rows: DataFrame) -> DataFrame:
        """Mark messages as unreadable whose record in an output topic would be too large: JSON in a string grows."""
        if not is_topic(self.settings.places.to) or self.settings.kafka.format != "json":
            return rows
        value = F.octet_length(F.to_json(F.struct("id", "key", "due", "payload")))
        size = value + size_of("id", "key")
        is_large = (size_of("payload") * GROWTH > self.largest) & (size > self.largest)
        return rows.withColumn(UNREADABLE, F.coalesce(UNREADABLE, F.when(is_large, too_large(size))))

    # --- files --------------------------------------------------------------------------------------------------------

    def of_files(self, without: Collection[str], places: list[str], schema: str) -> DataFrame:
        """Read the files of the directory, the oldest first. Subdirectories are ignored."""
        files = self.file_stream(schema)
        path = F.col("_metadata.file_path")
        # Spark applies conditions on this column to the list of files, so it does not open the others.
        steps = len(steps_of(Directory(self.spark, self.place).url)) + 1
        files = files.where(F.size(F.split(F.regexp_replace(path, SLASHES, "/"), "/")) == steps)
        if without:
            files = files.where(~path.isin(*without))
        place = [F.col("_metadata.file_block_start").alias(BLOCK), path.alias(FILE)] if FILE in places else []
        if self.settings.format == "json":
            is_large = F.octet_length("value") > self.largest
            is_blank = ~is_large & (F.length(F.trim("value", F.lit(BLANK))) == 0)
            if place:
                return self.of_json(files.select(*self.cut("value"), is_blank.alias(BLANK_LINE), *place))
            return self.of_json(files.where(~is_blank).select(*self.cut("value")))
        texts = ("id", "key", "payload")
        is_text = reduce(operator.and_, (F.coalesce(F.is_valid_utf8(name), F.lit(True)) for name in texts))
        size = size_of(*texts)
        unreadable = F.when(size > self.largest, too_large(size)).when(~is_text, "not UTF-8").alias(UNREADABLE)
        names = [field.name for field in cast(StructType, StructType.fromDDL(schema))]
        columns = [self.excerpt_of(name, size).alias(name) if name in texts else F.col(name) for name in names]
        number = [(F.col("_metadata.row_index") + 1).alias(NUMBER)] if place else []
        return files.select(*columns, unreadable, *number, *place)

    def cut(self, name: str) -> list[Column]:
        """Return the columns of a text: its bytes, or null if they are too many; and then BYTES and EXCERPT."""
        size = F.octet_length(name)
        is_large = size > self.largest
        start = F.left(F.col(name).cast("string"), F.lit(MAX_SHOWN))
        return [
            F.when(~is_large, F.col(name).cast("binary")).alias(name),
            F.when(is_large, size).alias(BYTES),
            F.when(is_large, F.coalesce(F.concat(F.try_validate_utf8(start), F.lit("...")), F.lit(""))).alias(EXCERPT),
        ]

    def excerpt_of(self, name: str, size: Column) -> Column:
        return F.when(size > self.largest, F.left(F.col(name), F.lit(MAX_SHOWN))).otherwise(F.col(name))

    def file_stream(self, schema: str) -> DataFrame:
        settings = self.settings
        age = settings.forget_files
        age = UNLIMITED_AGE if age is None else f"{duration_ms(age, 'forget_files') + self.ahead_ms}ms"
        reader = self.spark.readStream.option("maxFileAge", age)
        # Without this option, Spark would take a subdirectory `due=5` for a partition column that replaces the file's
        # own column. With it, Spark lists the files of subdirectories, which of_files() removes.
        reader = reader.option("recursiveFileLookup", True)
        reader = reader.option(TAKE_FOR_PATTERNS, False)  # a file `a[1].json` is only that file
        if settings.files_a_batch:
            reader = reader.option("maxFilesPerTrigger", settings.files_a_batch)
        if settings.format != "json":
            reader = reader.schema(schema)
        return reader.format(settings.file_format).load(self.place)

    # --- a topic ------------------------------------------------------------------------------------------------------

    def of_records(self, places: list[str]) -> DataFrame:
        """Read the records of the topic.

        In the format "json", a message without a key gets the key of its record, as text. In the format "headers", key
        and payload are the bytes of the record's key and value.
        """
        records = self.record_stream()
        carried = [self.carried_headers().alias(HEADERS)] if self.settings.kafka.carry_headers else []
        if self.settings.kafka.format == "headers":
            return self.of_headers(records, [*map(F.col, places), *carried])
        found = self.of_json(records.select(*self.cut("value"), F.col("key").alias("record_key"), *places, *carried))
        return found.withColumn("key", F.coalesce("key", as_text("record_key"))).drop("record_key")

    def record_stream(self) -> DataFrame:
        topic, options = Topic.of(self.place), self.settings.kafka
        reader = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", topic.brokers)
            .option("subscribe", topic.name)
            .option("includeHeaders", True)
            .option("startingOffsets", options.starting_offsets)
            .option("failOnDataLoss", not options.skip_lost)
            .options(**{f"kafka.{name}": value for name, value in {**CONSUMER, **options.java_conf}.items()})
        )
        if options.offsets_a_batch:
            reader = reader.option("maxOffsetsPerTrigger", options.offsets_a_batch)
        # A larger value would also be too large for the topic of dead letters.
        value = F.when(F.octet_length("value") <= self.largest, F.col("value")).alias("value")
        return reader.load().withColumn(RECORD, F.struct("key", value, "headers"))

    def carried_headers(self) -> Column:
        own = (*OWN_HEADERS, REPLACE) if self.by_id else OWN_HEADERS
        others = F.filter("headers", lambda header: ~header["key"].isin(*own))
        return F.coalesce(others, F.array().cast(HEADERS_TYPE))

    def of_headers(self, records: DataFrame, rest: list[Column]) -> DataFrame:
        """Return the messages of records whose fields are headers."""
        size = size_of("key", "value")
        unreadable = F.when(size > self.largest, too_large(size))
        unreadable = unreadable.when(~header_is_boolean("cancel"), "cancel is neither true nor false")
        replace: list[Column] = []
        if self.by_id:
            unreadable = unreadable.when(~header_is_boolean(REPLACE), f"{REPLACE} is neither true nor false")
            # An invalid due must not look like a missing one, because a cancel by id has none.
            no_number = has_header("due") & header("due").try_cast("bigint").isNull()
            unreadable = unreadable.when(no_number, "due is no whole number of 64 bits")
            replace.append((F.lower(header(REPLACE)) == "true").alias(REPLACE))
        topics = self.settings.kafka.topics
        if topics is not None:
            unreadable = F.coalesce(unreadable, unknown_topic(topics))
            rest = [*rest, header("topic").alias(TARGET)]
        return records.select(
            header("id").alias("id"),
            "key",
            header("due").try_cast("bigint").alias("due"),
            (F.lower(header("cancel")) == "true").alias("cancel"),
            F.col("value").alias("payload"),
            *replace,
            unreadable.alias(UNREADABLE),
            *rest,
        )

    def of_json(self, lines: DataFrame) -> DataFrame:
        """Parse the lines, which are the columns of ``cut()``. Keep the other columns."""
        topics = self.settings.kafka.topics
        read = cast(StructType, StructType.fromDDL(READ_BY_ID if self.by_id else READ))
        target = [] if topics is None else [StructField(TARGET, StringType())]
        rest = [
            StructField(NUMBER, LongType()) if field.name == BLANK_LINE else field for field in lines.schema.fields[1:]
        ]
        schema = StructType([*read.fields, *target, *rest])
        found = lines.mapInArrow(JsonLines(UNITS_MS[self.settings.wheel.due_unit], topics, self.by_id), schema)
        reason = F.when(F.col(BYTES).isNotNull(), too_large(F.col(BYTES)))
        found = found.withColumn(UNREADABLE, F.coalesce(reason, UNREADABLE))
        return found.withColumn(LINE, F.coalesce(EXCERPT, LINE)).drop(BYTES, EXCERPT)


# --- columns ----------------------------------------------------------------------------------------------------------


def in_ms(name: str, unit_ms: int) -> Column:
    """Return due times in milliseconds. An overflow becomes the largest integer, which is malformed."""
    due = F.col(name)
    if unit_ms == 1:
        return due
    return F.coalesce(F.try_multiply(due, F.lit(unit_ms)), F.when(due.isNotNull(), F.lit(2**63 - 1)))


def size_of(*names: str) -> Column:
    """Return the number of bytes in columns."""
    return reduce(operator.add, (F.coalesce(F.octet_length(name), F.lit(0)) for name in names))


def too_large(size: Column) -> Column:
    """Return the reason for a message of this size."""
    return F.format_string(TOO_LARGE.format("%d"), size)


def as_text(name: str) -> Column:
    """Return bytes as text. Bytes that are not UTF-8 become hexadecimal digits, so that keys stay distinct."""
    return F.coalesce(
        F.try_validate_utf8(F.col(name).cast("string")), F.concat(F.lit("\\x"), F.lower(F.hex(F.col(name))))
    )


def has_header(name: str) -> Column:
    return F.exists("headers", lambda one: one["key"] == name)


def header(name: str) -> Column:
    """Return the last header of this name as text, or null if it is missing or not UTF-8."""
    found = F.filter("headers", lambda one: one["key"] == name)
    return F.try_validate_utf8(F.get(found, F.size(found) - 1)["value"].cast("string"))


def header_is_boolean(name: str) -> Column:
    """Return true where a header is missing, "true", or "false"."""
    return ~has_header(name) | F.coalesce(F.lower(header(name)).isin("true", "false"), F.lit(False))


def unknown_topic(topics: tuple[str, ...]) -> Column:
    """Return why a record names an unknown topic, or null."""
    named = header("topic")
    is_known = named.isin(*topics) if topics else F.lit(False)
    is_valid = ~has_header("topic") | F.coalesce(is_known, F.lit(False))
    shown = F.coalesce(F.substring(named, 1, MAX_SHOWN), F.lit("not UTF-8"))
    return F.when(~is_valid, F.concat(F.lit("topic is none of --to-topics: "), shown))
