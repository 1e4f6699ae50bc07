"""The columns of a log of timers: checks, and conversion for hwheel.replay."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hwheel.extras import needed_by
from hwheel_core import HwheelError

with needed_by("hwheel.logs.columns", "tune", without=("rich", "matplotlib")):
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    import pyarrow.compute as pc

    from hwheel.replay import NEVER

Column = npt.NDArray[np.int64]


class LogError(HwheelError, ValueError):
    """A log is invalid. The message names the file, the column, and the row."""


@dataclass(frozen=True)
class LogColumns:
    """The names of a log's columns.

    start and end are numbers of ms or timestamps, and timeout is a number of ms or a duration. A null or NaN end means
    that the timer was never cancelled. Fractions of ms are rounded down in times and up in timeouts.
    """

    start: str = "start"
    timeout: str = "timeout"
    end: str = "end"

    @property
    def names(self) -> list[str]:
        return [self.start, self.timeout, self.end]

    def check(self, schema: pa.Schema, file: str) -> None:
        """Raise LogError for a column that is missing or has another type."""
        for name, is_duration in ((self.start, False), (self.timeout, True), (self.end, False)):
            found = schema.get_all_field_indices(name)
            if len(found) != 1:
                problem = "there are several columns" if found else "there is no column"
                raise LogError(f"{file}: {problem} {name!r}; the columns are {', '.join(schema.names)}")
            kind = schema.field(name).type
            if not (
                pa.types.is_integer(kind)
                or pa.types.is_floating(kind)
                or (pa.types.is_duration if is_duration else pa.types.is_timestamp)(kind)
                or (pa.types.is_null(kind) and name == self.end)
            ):
                wanted = "a duration" if is_duration else "a timestamp"
                raise LogError(f"{file}: column {name!r} must be a number of milliseconds or {wanted}, got {kind}")

    def arrays(self, table: pa.Table | pa.RecordBatch, file: str, first_row: int = 0) -> list[Column]:
        """Return starts, timeouts, and ends in ms, with NEVER for null ends. Raise LogError for an invalid row."""
        try:
            starts, timeouts, ends = (
                milliseconds(table.column(name), is_duration=name == self.timeout) for name in self.names
            )
        except pa.ArrowInvalid as error:  # infinite, or beyond 64 bits
            raise LogError(f"{file}: {error}") from None
        for name, column in ((self.start, starts), (self.timeout, timeouts)):
            if column.null_count:
                row = first_row + column.is_null().index(True).as_py()
                raise LogError(f"{file}, row {row}: {name!r} is null")
        arrays = [to_numpy(starts), to_numpy(timeouts), to_numpy(ends.fill_null(NEVER))]
        refuse_rows(arrays[0] < 0, f"{self.start!r} is negative", file, first_row)
        refuse_rows(arrays[1] < 0, f"{self.timeout!r} is negative", file, first_row)
        is_reversed = (arrays[2] < arrays[0]) & (arrays[2] != NEVER)
        refuse_rows(is_reversed, f"{self.end!r} is before {self.start!r}", file, first_row)
        return arrays


def milliseconds(column: Any, *, is_duration: bool) -> Any:
    """Convert to int64 milliseconds. Round times down and durations up. NaN becomes null."""
    kind = column.type
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
        rounded = (pc.ceil if is_duration else pc.floor)(column)
        return pc.if_else(pc.is_nan(column), None, rounded).cast(pa.int64())
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64())
    if pa.types.is_duration(kind):
        a_ms = {"us": 1000, "ns": 1_000_000}.get(kind.unit, 1)
        count = (column if a_ms > 1 else column.cast(pa.duration("ms"))).cast(pa.int64())
        return pc.divide(pc.add(count, a_ms - 1), a_ms)
    return column.cast(pa.int64())


def to_numpy(column: Any) -> Column:
    array: Column = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    return array


def refuse_rows(is_bad: npt.NDArray[np.bool_], problem: str, file: str, first_row: int) -> None:
    """Raise LogError for the first bad row, if any."""
    if is_bad.any():
        raise LogError(f"{file}, row {first_row + int(is_bad.argmax())}: {problem}")


def joined(parts: Sequence[list[Column]]) -> list[Column]:
    """Concatenate the columns of the parts of a log."""
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]
