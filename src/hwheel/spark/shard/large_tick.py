"""An external sort for ticks that do not fit into memory, in three passes over temporary files.

1. All rows are written as they arrive. Their decisive columns are divided into parts by a hash of the id, so that all
   duplicates are in one part. Some rows are sampled.
2. Each part decides which of its rows are delivered.
3. These rows are divided into ranges of about equal size, with bounds from the sample. Each range is sorted in memory.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import arrow_array, constant, gather, one_array
from hwheel.spark.message import SEQUENCE
from hwheel.spark.shard.settings import Limits
from hwheel.spark.shard.spill import Spill
from hwheel_core import group, order_by

SAMPLES = 64  # for each range
ROW = "row"


class LargeTick:
    """The rows of one or several ticks, on disk.

    Args:
        parts: The number of parts and of ranges.
        decisive: Returns the columns that decide which rows are delivered.
    """

    def __init__(self, schema: pa.Schema, limits: Limits, parts: int, decisive: Callable[[pa.Table], pa.Table]) -> None:
        self.limits = limits
        self.parts = parts
        self.decisive = decisive
        divided = decisive(schema.empty_table()).schema.append(pa.field(ROW, pa.int64()))
        # All rows; the decisive columns, by part; the rows to deliver, by range.
        self.rows, self.divided, self.ranges = (Spill(one, limits.spill_bytes) for one in (schema, divided, schema))
        self.sample: list[pa.Table] = []
        self.keeps = np.zeros(0, np.bool_)

    def __enter__(self) -> "LargeTick":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for spill in (self.rows, self.divided, self.ranges):
            spill.__exit__(kind, error, at)

    def take_in(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Write all rows, then yield their decisive columns, one part at a time."""
        count = 0
        for table in gather(batches, self.limits.step_rows, self.limits.move_bytes):
            self.rows.append(0, table)
            decisive = self.decisive(table).append_column(ROW, pc.add(ascending(table.num_rows), count))
            for part, rows in by_hash(decisive, self.parts):
                self.divided.append(part, rows)
            range_rows = min(self.limits.step_rows, self.limits.step_bytes * table.num_rows // max(1, table.nbytes))
            some = arrow_array(array("q", range(0, table.num_rows, max(1, range_rows // SAMPLES))))
            self.sample.append(decisive.select(["due", SEQUENCE]).take(some))
            count += table.num_rows
        self.keeps = np.zeros(count, np.bool_)
        for part in sorted(self.divided.rows):
            yield pa.Table.from_batches(self.divided.take(part), self.divided.schema)

    def keep(self, decisive: pa.Table) -> None:
        """Mark rows of a part as delivered."""
        self.keeps[decisive.column(ROW).to_numpy()] = True

    def in_order(self) -> Iterator[tuple[pa.Table, pa.Array]]:
        """Yield the marked rows, one range at a time: rows, and their numbers in order."""
        sample = pa.concat_tables(self.sample)
        order = order_of(sample)
        ends = [order[number * len(order) // self.parts] for number in range(1, self.parts)]
        bounds = sample.take(arrow_array(array("q", ends)))
        begin = 0
        for table in gather(self.rows.take(0), self.limits.step_rows, self.limits.move_bytes):
            kept = table.filter(pa.array(self.keeps[begin : begin + table.num_rows]))
            begin += table.num_rows
            for number, rows in by_range(kept, self.decisive(kept).select(["due", SEQUENCE]), bounds):
                self.ranges.append(number, rows)
        for number in sorted(self.ranges.rows):
            table = pa.Table.from_batches(self.ranges.take(number), self.ranges.schema).combine_chunks()
            yield table, arrow_array(order_of(self.decisive(table)))


def by_hash(rows: pa.Table, parts: int) -> Iterator[tuple[int, pa.Table]]:
    """Divide rows by a hash of the first column. The hash is the same in each attempt at a batch; Python's is not."""
    ids = one_array(rows.column(0))
    if pa.types.is_integer(ids.type):
        numbers = array("q", (value % parts for value in ids.to_pylist()))
    else:
        numbers = array("q", (crc32(value) % parts for value in ids.cast(pa.binary()).to_pylist()))
    order, starts = group(numbers)
    rows = rows.take(arrow_array(order))
    for start, end in zip(starts[:-1], starts[1:], strict=True):
        yield numbers[order[start]], rows.slice(start, end - start)


def by_range(rows: pa.Table, places: pa.Table, bounds: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Divide rows by the range of their places. A bound is the last place of its range."""
    order = np.asarray(order_of(pa.concat_tables([places, bounds])))
    is_bound = order >= rows.num_rows
    rows = rows.take(pa.array(order[~is_bound]))
    ends = np.flatnonzero(is_bound) - np.arange(bounds.num_rows)
    start = 0
    for number, end in enumerate([*ends.tolist(), rows.num_rows]):
        if end > start:
            yield number, rows.slice(start, end - start)
        start = end


def order_of(places: pa.Table) -> "array[int]":
    """Return row numbers by due time and then by arrival."""
    return order_by(one_array(places.column("due")), one_array(places.column(SEQUENCE)))


def ascending(count: int) -> pa.Array:
    """Return 0, 1, 2, ..."""
    return pc.cumulative_sum(constant(1, count), start=-1)
