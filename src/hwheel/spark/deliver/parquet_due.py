"""The types of `due` in Parquet files: which ones are read, and how they become milliseconds.

Spark reads a file with the type that the query asks for. If the query asks for a bigint, Spark returns the days of a
DATE and the microseconds of a TIMESTAMP as they are stored, and it fails on UINT64. So the delivery looks at the footer
of each file before Spark reads the batch:

- Files of plain integers are read with Spark's fast reader.
- For an unsigned integer of 64 bits, a decimal, or a timestamp, the query starts again with the row reader. That reader
  returns every number as it is stored, and DueInMs converts it.
- A file of any other type is left out.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.sql import SparkSession

from hwheel.spark.worker import begin_task
from hwheel_core import HwheelError

PLAIN = ("integer", "uint32")  # the kinds that Spark's fast reader returns as a bigint
UNITS_PER_MS = {"ms": 1, "us": 1000, "ns": 1_000_000}  # the kinds that are timestamps
STORED = "decimal(38,0)"  # the type in which the row reader returns any number as it is stored
KINDS = "hwheel.parquet.due"  # the local property with the kinds of a batch's files
FAST_READER = "spark.sql.parquet.enableVectorizedReader"
MAGIC = b"PAR1"
TAIL_BYTES = 64 * 1024
MOST = 2**63 - 1


class DueTypeError(HwheelError, TypeError):
    """The type of the column `due` in a file has no meaning as a time, or several. The message says why."""


# --- the footer of a file ---------------------------------------------------------------------------------------------


def due_kind(files: Any, path: Any) -> str:
    """Return the kind of due times in a file. A file without `due` or without a readable footer counts as plain.

    Args:
        files: Hadoop's file system.
        path: Hadoop's path of the file.

    Raises:
        DueTypeError: The type has no meaning as a time, or more than one.
    """
    try:
        columns = footer(files, path).schema
        fields = [field for field in columns.to_arrow_schema() if field.name.lower() == "due"]
    except (Py4JJavaError, pa.ArrowException):
        return PLAIN[0]  # Spark reports the file when it reads it
    if len(fields) != 1:
        return PLAIN[0]
    physical = [column.physical_type for column in map(columns.column, range(len(columns)))]
    paths = [column.path for column in map(columns.column, range(len(columns)))]
    return kind_of(fields[0].type, dict(zip(paths, physical, strict=True)).get(fields[0].name))


def footer(files: Any, path: Any) -> pq.FileMetaData:
    """Read the footer of a Parquet file through Hadoop."""
    size = files.getFileStatus(path).getLen()
    tail = tail_of(files, path, size, TAIL_BYTES)
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    if len(tail) < needed <= size:
        tail = tail_of(files, path, size, needed)
    return pq.read_metadata(pa.BufferReader(MAGIC + tail[-needed:]))


def tail_of(files: Any, path: Any, size: int, count: int) -> bytes:
    """Return the last `count` bytes of a file of `size` bytes, or all of them."""
    stream = files.open(path)
    try:
        stream.seek(max(0, size - count))
        return bytes(stream.readNBytes(count))
    finally:
        stream.close()


def kind_of(type: pa.DataType, physical: str | None = None) -> str:
    """Return the kind of an Arrow type.

    >>> kind_of(pa.uint64()), kind_of(pa.timestamp("us", "UTC"))
    ('number', 'us')

    Raises:
        DueTypeError: The type is not accepted.
    """
    if pa.types.is_dictionary(type):
        type = type.value_type
    if pa.types.is_uint32(type):
        return "uint32"
    if pa.types.is_null(type) or (pa.types.is_integer(type) and not pa.types.is_uint64(type)):
        return "integer"
    if pa.types.is_uint64(type) or (pa.types.is_decimal(type) and type.scale == 0):
        return "number"
    if pa.types.is_timestamp(type) and type.tz is not None:
        return str(type.unit)
    if physical == "INT96":
        raise DueTypeError("due is an INT96: write timestamps as TIMESTAMP(MICROS), which has a unit and a zone")
    if pa.types.is_timestamp(type):
        raise DueTypeError(f"due is a {type} without a time zone: write it with a zone, or write milliseconds as int64")
    raise DueTypeError(f"due is a {type}: write milliseconds as int64, or a timestamp with a zone")


# --- reading any accepted kind ----------------------------------------------------------------------------------------


def stored_schema(schema: str) -> str:
    """Return the schema of messages with `due` as the row reader returns it."""
    return schema.replace("due bigint", f"due {STORED}")


@contextmanager
def row_reader(spark: SparkSession) -> Iterator[None]:
    """Read Parquet with Spark's row reader in this block."""
    before = spark.conf.get(FAST_READER)
    spark.conf.set(FAST_READER, "false")
    try:
        yield
    finally:
        spark.conf.set(FAST_READER, before or "true")


@dataclass(frozen=True)
class DueInMs:
    """Convert due times of the type STORED to milliseconds, inside mapInArrow. The last column is the file name.

    The kinds of a batch are in a local property, because the plan of the query is fixed before the files are known.

    Args:
        unit_ms: The unit of due times that are plain numbers.
    """

    unit_ms: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        context = TaskContext.get()
        kinds = json.loads((context.getLocalProperty(KINDS) if context else None) or "{}")
        for batch in batches:
            due_index = batch.schema.get_field_index("due")
            files = batch.column(batch.num_columns - 1).dictionary_encode()
            per_file = [kinds.get(file_name(file), "integer") for file in files.dictionary.to_pylist()]
            found = pa.nulls(batch.num_rows, pa.int64())
            for kind in {*per_file}:
                of_kind = pa.array([file_kind == kind for file_kind in per_file]).take(files.indices)
                found = pc.if_else(of_kind, in_ms(batch.column(due_index), kind, self.unit_ms), found)
            yield batch.set_column(due_index, "due", found)


def file_name(url: str) -> str:
    return url.rpartition("/")[2]


def in_ms(stored: pa.Array, kind: str, unit_ms: int) -> pa.Array:
    """Convert stored numbers of one kind to milliseconds, rounded up. Numbers that do not fit stay out of range."""
    most = MOST // unit_ms
    whole = pc.if_else(pc.greater(stored, pa.scalar(most, stored.type)), pa.scalar(most, stored.type), stored)
    lowest = pa.scalar(-most, stored.type)
    number = pc.if_else(pc.less(whole, lowest), lowest, whole).cast(pa.int64())
    if kind in UNITS_PER_MS:
        quotient = pc.divide(number, UNITS_PER_MS[kind])
        return pc.add(quotient, pc.less(pc.multiply(quotient, UNITS_PER_MS[kind]), number).cast(pa.int64()))
    if kind == "uint32":  # the row reader returns the upper half as negative numbers
        number = pc.if_else(pc.less(number, 0), pc.add(number, 2**32), number)
    return pc.multiply(number, unit_ms)
