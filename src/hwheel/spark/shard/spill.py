"""Rows that wait for their turn within a batch, in memory up to a limit and in a temporary file beyond it.

The file has no name, so the system deletes it when the process ends, however it ends.
"""

import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import arrow_array, from_chunk, one_batch, slices, to_chunk
from hwheel_core import group

CHUNK_ROWS = 1_000_000
CHUNK_BYTES = 1024 * 1024
EXPIRED_SLICES = 64


class Spill:
    """A map from keys to rows. The rows of a key keep the order in which they were appended."""

    def __init__(self, schema: pa.Schema, max_bytes: int) -> None:
        self.schema = schema
        self.max_bytes = max_bytes
        self.rows: dict[Any, int] = {}  # the number of rows of each key
        self.bytes: dict[Any, int] = {}  # the size of the rows of each key
        self.held: dict[Any, list[pa.Table]] = defaultdict(list)  # rows in memory
        self.held_bytes = 0
        self.written: dict[Any, list[tuple[int, int]]] = defaultdict(list)  # (position, length) in the file
        self.file: IO[bytes] | None = None
        self.length = 0  # of the file

    def __enter__(self) -> "Spill":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.held.clear()
        if self.file:
            self.file.close()

    def append(self, key: Any, table: pa.Table) -> None:
        """Append rows to the rows of a key."""
        if not table.num_rows:
            return
        size = table.nbytes
        self.rows[key] = self.rows.get(key, 0) + table.num_rows
        self.bytes[key] = self.bytes.get(key, 0) + size
        self.held[key].append(table)
        self.held_bytes += size
        if self.held_bytes > self.max_bytes:
            self.write()

    def write(self) -> None:
        """Move all rows from memory to the file."""
        if self.file is None:
            self.file = tempfile.TemporaryFile(prefix="hwheel-", dir=local_directory())
        for key, tables in self.held.items():
            for piece in slices(pa.concat_tables(tables), CHUNK_ROWS, CHUNK_BYTES):
                blob = to_chunk(one_batch(piece))
                self.file.write(blob)
                self.written[key].append((self.length, len(blob)))
                self.length += len(blob)
        self.file.flush()
        self.held.clear()
        self.held_bytes = 0

    def take(self, key: Any) -> Iterator[pa.RecordBatch]:
        """Yield and remove the rows of a key."""
        if self.rows.pop(key, 0):
            self.held_bytes -= sum(table.nbytes for table in self.held[key])
            del self.bytes[key]
            for position, length in self.written.pop(key, ()):
                assert self.file is not None
                yield from_chunk(os.pread(self.file.fileno(), length, position), self.schema)
            for table in self.held.pop(key):
                yield from table.to_batches()


def local_directory() -> str | None:
    """Return Spark's directory for the temporary files of workers, or None for Python's default."""
    directory = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return directory if os.path.isdir(directory) else None


class ExpiredRows:
    """The rows of a batch whose tick has expired, by slices of ticks, until they are settled.

    These rows arrived late or come from a coarse bucket. A slice is one tick. In a long backlog a slice has more ticks,
    so that the backlog of the first appended rows has at most EXPIRED_SLICES slices. Slice 0 also has all rows that are
    older than these.
    """

    def __init__(self, spill: Spill, tick_ms: int, now_ms: int) -> None:
        self.spill = spill
        self.tick_ms, self.now_ms = tick_ms, now_ms
        self.first_ms = self.width_ms = 0

    def append(self, rows: pa.Table, ticks: pa.Array) -> None:
        """Add rows with their ticks, all of which have expired."""
        if not self.spill.rows:
            self.first_ms = pc.min(ticks).as_py()
            span = (self.now_ms - self.first_ms) // self.tick_ms
            self.width_ms = (span // EXPIRED_SLICES + 1) * self.tick_ms
        numbers = pc.divide(pc.subtract(pc.max_element_wise(ticks, self.first_ms), self.first_ms), self.width_ms)
        order, starts = group(numbers)
        if len(starts) > 2:
            rows = rows.take(arrow_array(order))
        for start, end in zip(starts[:-1], starts[1:], strict=True):
            self.spill.append(numbers[order[start]].as_py(), rows.slice(start, end - start))

    def slice_of(self, tick_ms: int) -> int | None:
        """Return the number of the slice that contains a tick, or None if that slice has no rows."""
        if not self.spill.rows:
            return None
        number = max(tick_ms - self.first_ms, 0) // self.width_ms
        return number if number in self.spill.rows else None

    def begin_ms(self, number: int) -> int:
        """Return the first tick of a slice."""
        return self.first_ms + number * self.width_ms

    def numbers(self, until_ms: int) -> list[int]:
        """Return the slices whose last tick, up to now, is not after ``until_ms``."""
        return [
            number
            for number in self.spill.rows
            if min(self.begin_ms(number + 1) - self.tick_ms, self.now_ms) <= until_ms
        ]
