"""The columns of a log of timers: their checks, and what hwheel.replay takes."""

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
    """A log that cannot be replayed as it is: which file, which column, which row."""


@dataclass(frozen=True)
class LogColumns:
    """Which columns of a table mean what.

    start and end are numbers of ms or timestamps, timeout is a number of ms or a duration; a null end, or NaN: never
    cancelled. Of what has a fraction, an instant is rounded down, a length up. (What tells timers apart, and what they
    belong to, is not looked at in a replay.)
    """

    start: str = "start"
    timeout: str = "timeout"
    end: str = "end"

    @property
    def names(self) -> list[str]:
        return [self.start, self.timeout, self.end]

    def check(self, schema: pa.Schema, where: str) -> None:
        """Raises LogError for a column that is missing or of another type."""
        for name, is_length in ((self.start, False), (self.timeout, True), (self.end, False)):
            found = schema.get_all_field_indices(name)
            if len(found) != 1:
                raise LogError(
                    f"{where}: there {'is no column' if not found else 'are several columns'} {name!r}; "
                    f"the columns are {', '.join(schema.names)}"
                )
            kind = schema.field(name).type
            if not (
                pa.types.is_integer(kind)
                or pa.types.is_floating(kind)
                or (pa.types.is_duration if is_length else pa.types.is_timestamp)(kind)
                or (pa.types.is_null(kind) and name == self.end)
            ):
                wanted = "a duration" if is_length else "a timestamp"
                raise LogError(f"{where}: column {name!r} must be a number of milliseconds or {wanted}, not {kind}")

    def arrays(self, table: pa.Table | pa.RecordBatch, where: str, first_row: int = 0) -> list[Column]:
        """starts, timeouts and ends in ms, NEVER for none. Raises LogError for rows that no timer can have."""
        try:
            starts, timeouts, ends = (
                milliseconds(table.column(name), is_length=name == self.timeout) for name in self.names
            )
        except pa.ArrowInvalid as error:  # infinite, or beyond 64 bits
            raise LogError(f"{where}: {error}") from None
        for name, column in ((self.start, starts), (self.timeout, timeouts)):
            if column.null_count:
                row = first_row + column.is_null().index(True).as_py()
                raise LogError(f"{where}, row {row}: {name!r} is null")
        arrays = [plain(starts), plain(timeouts), plain(ends.fill_null(NEVER))]
        refuse(arrays[0] < 0, f"{self.start!r} is negative", where, first_row)
        refuse(arrays[1] < 0, f"{self.timeout!r} is negative", where, first_row)
        refuse((arrays[2] < arrays[0]) & (arrays[2] != NEVER), "it ends before it starts", where, first_row)
        return arrays


def milliseconds(column: Any, *, is_length: bool) -> Any:
    """int64 milliseconds; instants are rounded down, lengths up. NaN becomes null."""
    kind = column.type
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
        rounded = (pc.ceil if is_length else pc.floor)(column)
        return pc.if_else(pc.is_nan(column), None, rounded).cast(pa.int64())
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64())
    if pa.types.is_duration(kind):
        return pc.divide(pc.add(column.cast(pa.duration("us"), safe=False).cast(pa.int64()), 999), 1000)
    return column.cast(pa.int64())


def plain(column: Any) -> Column:
    array: Column = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    return array


def refuse(bad: npt.NDArray[np.bool_], what: str, where: str, first_row: int) -> None:
    if bad.any():
        raise LogError(f"{where}, row {first_row + int(bad.argmax())}: {what}")


def joined(parts: Sequence[list[Column]]) -> list[Column]:
    """Columns of parts of a log, one part after the other."""
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]
