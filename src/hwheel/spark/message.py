"""The columns of a message: their checks, the rules for malformed rows, and deadlines."""

import dataclasses
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

# The query's own columns. The columns of a message are called c0, c1, ... inside the query, so that no name of a user's
# column can collide with these.
SHARD = "shard"
TOMBSTONE = "cancel"
SEQUENCE = "sequence"
# With by_id=True, TOMBSTONE and BY_ID together distinguish four kinds of rows: a message, a cancel with a deadline, a
# replacement, and a cancel by id. A replacement is a message that cancels earlier ones with its id and key. In the
# state, a cancel by id becomes a tombstone in each tick in which a message with its id and key may be pending.
BY_ID = "by_id"
HASH = "hash"  # of id and key; the state does not store it with the message

LAST_DUE_MS = 253_402_300_799_999  # the end of the year 9999
ID_TYPES = (StringType, BinaryType, ByteType, ShortType, IntegerType, LongType)


@dataclass(frozen=True)
class MessageColumns:
    """The columns of a frame by their role in a message."""

    id: str
    key: str
    due: str
    cancel: str | None = None
    replace: str | None = None
    unreadable: str | None = None
    by_id: bool = False
    payload: tuple[str, ...] = ()

    @property
    def kept(self) -> list[str]:
        """The columns that the state keeps and the query returns."""
        return list(dict.fromkeys([self.id, self.key, self.due, *self.payload]))

    def inner_name(self, name: str) -> str:
        """Return the name of a kept column inside the query and in the state."""
        return f"c{self.kept.index(name)}"

    def with_payload(self, df: DataFrame, payload: str | Sequence[str] | None) -> "MessageColumns":
        """Return these columns with a payload. None means all other columns of the frame."""
        roles = (self.id, self.key, self.due, self.cancel, self.replace, self.unreadable)
        if payload is None:
            payload = [name for name in df.columns if name not in roles]
        elif isinstance(payload, str):
            payload = [payload]
        return dataclasses.replace(self, payload=tuple(payload))

    def check(self, df: DataFrame) -> None:
        """Check names and types of the columns.

        Raises:
            TypeError, ValueError: The message names the argument and the column.
        """
        if not isinstance(self.by_id, bool):
            raise TypeError(f"by_id must be a bool, not {type(self.by_id).__name__}")
        if self.replace is not None and not self.by_id:
            raise ValueError("replace requires by_id=True: only the index of ids can find the message to replace")
        if self.by_id and self.due in (self.id, self.key):
            raise ValueError(f"by_id requires a separate column for due, not {self.due!r}: a replacement changes due")
        check_column(df, "id", self.id, ID_TYPES, "a string, binary or an integer")
        check_column(df, "key", self.key, ID_TYPES, "a string, binary or an integer")
        check_column(df, "due", self.due, (LongType, TimestampType), "a bigint of epoch milliseconds or a timestamp")
        for argument, flag in (("cancel", self.cancel), ("replace", self.replace)):
            if flag is not None:
                check_column(df, argument, flag, (BooleanType,), "a boolean")
        if self.unreadable is not None:
            check_column(df, "unreadable", self.unreadable, (DataType,), "any type")
        for name in self.payload:
            check_column(df, "payload", name, (DataType,), "any type")


def check_column(df: DataFrame, argument: str, name: str, types: tuple[type[DataType], ...], wanted: str) -> None:
    """Raise an error if the frame has no such column, or if its type is not one of ``types``."""
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
    """Return a column by its literal name, which may contain dots."""
    return F.col("`" + name.replace("`", "``") + "`")


def is_true(name: str | None) -> Column:
    """Return true where a boolean column is true; null and a missing column count as false."""
    return F.lit(False) if name is None else F.coalesce(quoted(name), F.lit(False))


def malformed(df: DataFrame, columns: MessageColumns) -> Column:
    """Return the reason why a row is malformed, or null.

    An unreadable row is reported first, because its other columns cannot be trusted. With by_id, a cancel needs no
    deadline.
    """
    due = quoted(columns.due)
    due_ms = F.unix_millis(due) if isinstance(df.schema[columns.due].dataType, TimestampType) else due
    out_of_range = (due_ms < 0) | (due_ms > LAST_DUE_MS)
    is_unreadable = F.lit(False) if columns.unreadable is None else quoted(columns.unreadable).isNotNull()
    cancel = is_true(columns.cancel)
    return (
        F.when(is_unreadable, "not readable")
        .when(quoted(columns.id).isNull(), "id is null")
        .when(F.length(quoted(columns.id).cast("string")) == 0, "id is empty")
        .when(cancel & is_true(columns.replace), "cancel and replace are both true")
        .when(due.isNull() & ~(cancel & F.lit(columns.by_id)), "due is null")
        .when(out_of_range, F.concat(F.lit("due is not between 1970 and 9999: "), due_ms.cast("string"), F.lit(" ms")))
    )


def expirations(due: pa.Array, tick_ms: int) -> pa.Array:
    """Round deadlines up to ticks, so that no message is early."""
    return pc.multiply(pc.divide(pc.add(due_ms(due), tick_ms - 1), tick_ms), tick_ms)


def due_ms(due: pa.Array) -> pa.Array:
    """Return deadlines in epoch milliseconds, rounded up."""
    if pa.types.is_timestamp(due.type):
        return pc.divide(pc.add(due.cast(pa.timestamp("us", due.type.tz)).cast(pa.int64()), 999), 1000)
    return due
