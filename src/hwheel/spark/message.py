"""A message's columns: their checks, what makes a row malformed, and when a message is due."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampType,
)

# Columns of our own, beside those of the message, which are called c0, c1, ... inside: any name is good for a user's.
SHARD = "shard"
TOMBSTONE = "cancel"
SEQUENCE = "sequence"
# Where ids are looked up. With TOMBSTONE it makes four kinds of rows: a message; a cancel with a due; a message that
# replaces what there was of its id and key; and a cancel of all of these, which in the state lies in the tick of each.
BY_ID = "by_id"
HASH = "hash"  # of id and key; it is not kept with the message

LAST_DUE_MS = 253_402_300_799_999  # the end of the year 9999
NAMES = (StringType, BinaryType, ByteType, ShortType, IntegerType, LongType)


@dataclass(frozen=True)
class MessageColumns:
    """Which columns of a frame mean what."""

    id: str
    key: str
    due: str
    cancel: str | None
    replace: str | None
    payload: tuple[str, ...]

    @property
    def kept(self) -> list[str]:
        """The columns that are held and come out again."""
        return list(dict.fromkeys([self.id, self.key, self.due, *self.payload]))

    def inside(self, name: str) -> str:
        """What a kept column is called inside the query and in the state."""
        return f"c{self.kept.index(name)}"


def message_columns(
    df: DataFrame,
    id: str,
    key: str,
    due: str,
    cancel: str | None,
    payload: str | Sequence[str] | None,
    unreadable: str | None = None,
    replace: str | None = None,
    by_id: bool = False,
) -> MessageColumns:
    """Checks names and types; ValueError and TypeError name the argument and the column."""
    if not isinstance(by_id, bool):
        raise TypeError(f"by_id must be a bool, not {type(by_id).__name__}")
    if replace is not None and not by_id:
        raise ValueError("replace goes with by_id=True alone: without it nobody knows where the message lies")
    if by_id and due in (id, key):
        raise ValueError(f"by_id: due must be a column of its own, not {due!r}, or what is replaced has another name")
    if payload is None:
        payload = [name for name in df.columns if name not in (id, key, due, cancel, replace, unreadable)]
    elif isinstance(payload, str):
        payload = [payload]
    columns = MessageColumns(id, key, due, cancel, replace, tuple(payload))
    check_column(df, "id", id, NAMES, "a string, binary or an integer")
    check_column(df, "key", key, NAMES, "a string, binary or an integer")
    check_column(df, "due", due, (LongType, TimestampType), "a bigint of epoch milliseconds or a timestamp")
    for argument, flag in (("cancel", cancel), ("replace", replace)):
        if flag is not None:
            check_column(df, argument, flag, (BooleanType,), "a boolean")
    if unreadable is not None:
        check_column(df, "unreadable", unreadable, (DataType,), "any type")
    for name in columns.payload:
        check_column(df, "payload", name, (DataType,), "any type")
    return columns


def check_column(df: DataFrame, argument: str, name: str, types: tuple[type[DataType], ...], wanted: str) -> None:
    """Raises if the frame has no such column, or one of another type."""
    if not isinstance(name, str):
        raise TypeError(f"{argument} must be the name of a column, not {type(name).__name__}")
    found = [field for field in df.schema.fields if field.name == name]
    if len(found) != 1:
        raise ValueError(
            f"{argument}: there {'is no column' if not found else 'are several columns'} {name!r}; "
            f"the columns are {', '.join(df.columns)}"
        )
    if not isinstance(found[0].dataType, types):
        raise TypeError(f"{argument}: column {name!r} must be {wanted}, not {found[0].dataType.simpleString()}")


def quoted(name: str) -> Column:
    """A column by its plain name, dots and all."""
    return F.col("`" + name.replace("`", "``") + "`")


def is_true(name: str | None) -> Column:
    """Whether a boolean column is so; null is not, and neither is a column that there is none of."""
    return F.lit(False) if name is None else F.coalesce(quoted(name), F.lit(False))


def malformed(
    df: DataFrame,
    id: str,
    due: str,
    unreadable: str | None = None,
    cancel: str | None = None,
    replace: str | None = None,
    by_id: bool = False,
) -> Column:
    """Why a row can be no message: a reason, or null. What the reader could not read comes first, because then nothing
    that the other columns say is to be trusted. With `by_id` a cancel needs no due.
    """
    if isinstance(df.schema[due].dataType, TimestampType):
        due_ms = F.unix_millis(quoted(due))
    else:
        due_ms = quoted(due)
    absurd = (due_ms < 0) | (due_ms > LAST_DUE_MS)
    could_not_read = F.lit(False) if unreadable is None else quoted(unreadable).isNotNull()
    return (
        F.when(could_not_read, "not readable")
        .when(quoted(id).isNull(), "id is null")
        .when(F.length(quoted(id).cast("string")) == 0, "id is empty")
        .when(is_true(cancel) & is_true(replace), "cancel and replace are both true")
        .when(quoted(due).isNull() & ~(is_true(cancel) & F.lit(by_id)), "due is null")
        .when(absurd, F.concat(F.lit("due is not between 1970 and 9999: "), due_ms.cast("string"), F.lit(" ms")))
    )


def expirations(due: pa.Array, tick_ms: int) -> pa.Array:
    """When the messages' ticks are over: never before they are due."""
    return pc.multiply(pc.divide(pc.add(due_ms(due), tick_ms - 1), tick_ms), tick_ms)


def due_ms(due: pa.Array) -> pa.Array:
    """Epoch milliseconds, rounded up."""
    if pa.types.is_timestamp(due.type):
        return pc.divide(pc.add(due.cast(pa.timestamp("us", due.type.tz)).cast(pa.int64()), 999), 1000)
    return due
