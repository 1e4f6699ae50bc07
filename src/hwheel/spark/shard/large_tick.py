"""A tick of which there is more than memory should hold: it is put in order by way of a temporary file, in 3 passes.

1. All rows go into the file as they come. What tells them apart goes into parts by a hash of the id, so that all that
   may be equal is in one part; and every so many bytes a row is noted as a sample of the order.
2. Each part alone says which of its rows go out.
3. These are divided, by what the sample says, into ranges of the order of about equal size, again in the file; and each
   range, put in order, goes out.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import arrow_array, constant, gathered, one_array
from hwheel.spark.message import SEQUENCE
from hwheel.spark.shard.settings import Limits
from hwheel.spark.shard.spill import Spill
from hwheel_core import group, order_by

SAMPLES = 64  # of a range
ROW = "row"


class Large:
    """`parts`: into how many parts and ranges it is divided. `told_apart`: what of rows decides about them."""

    def __init__(
        self, schema: pa.Schema, limits: Limits, parts: int, told_apart: Callable[[pa.Table], pa.Table]
    ) -> None:
        self.limits = limits
        self.parts = parts
        self.told_apart = told_apart
        names = told_apart(schema.empty_table()).schema.append(pa.field(ROW, pa.int64()))
        self.rows, self.names, self.ranges = (Spill(one, limits.spill_bytes) for one in (schema, names, schema))
        self.sample: list[pa.Table] = []
        self.keeps = np.zeros(0, np.bool_)

    def __enter__(self) -> "Large":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for spill in (self.rows, self.names, self.ranges):
            spill.__exit__(kind, error, at)

    def take_in(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Takes all rows in, and then gives what tells them apart, a part at a time."""
        count = 0
        for table in gathered(batches, self.limits.step_rows, self.limits.move_bytes):
            self.rows.append(0, table)
            names = self.told_apart(table).append_column(ROW, pc.add(ascending(table.num_rows), count))
            for part, rows in by_id(names, self.parts):
                self.names.append(part, rows)
            range_rows = min(self.limits.step_rows, self.limits.step_bytes * table.num_rows // max(1, table.nbytes))
            some = arrow_array(array("q", range(0, table.num_rows, max(1, range_rows // SAMPLES))))
            self.sample.append(names.select(["due", SEQUENCE]).take(some))
            count += table.num_rows
        self.keeps = np.zeros(count, np.bool_)
        for part in sorted(self.names.rows):
            yield pa.Table.from_batches(self.names.take(part), self.names.schema)

    def keep(self, told_apart: pa.Table) -> None:
        """Says of rows of a part that they go out."""
        self.keeps[told_apart.column(ROW).to_numpy()] = True

    def in_order(self) -> Iterator[tuple[pa.Table, pa.Array]]:
        """The rows that go out, a range of the order at a time: rows, and their numbers in order."""
        sample = pa.concat_tables(self.sample)
        order = order_of(sample)
        ends = [order[number * len(order) // self.parts] for number in range(1, self.parts)]
        edges = sample.take(arrow_array(array("q", ends)))
        begin = 0
        for table in gathered(self.rows.take(0), self.limits.step_rows, self.limits.move_bytes):
            kept = table.filter(pa.array(self.keeps[begin : begin + table.num_rows]))
            begin += table.num_rows
            for number, rows in by_range(kept, self.told_apart(kept).select(["due", SEQUENCE]), edges):
                self.ranges.append(number, rows)
        for number in sorted(self.ranges.rows):
            table = pa.Table.from_batches(self.ranges.take(number), self.ranges.schema).combine_chunks()
            yield table, arrow_array(order_of(self.told_apart(table)))


def by_id(names: pa.Table, parts: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows by a hash of the first column; the same in each attempt at a batch, as Python's own is not."""
    ids = one_array(names.column(0))
    if pa.types.is_integer(ids.type):
        numbers = array("q", (value % parts for value in ids.to_pylist()))
    else:
        numbers = array("q", (crc32(value) % parts for value in ids.cast(pa.binary()).to_pylist()))
    order, starts = group(numbers)
    names = names.take(arrow_array(order))
    for start, end in zip(starts[:-1], starts[1:], strict=True):
        yield numbers[order[start]], names.slice(start, end - start)


def by_range(rows: pa.Table, places: pa.Table, edges: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The rows by the range in which their places lie; an edge is the last place of a range."""
    order = np.asarray(order_of(pa.concat_tables([places, edges])))
    is_edge = order >= rows.num_rows
    rows = rows.take(pa.array(order[~is_edge]))
    ends = np.flatnonzero(is_edge) - np.arange(edges.num_rows)
    start = 0
    for number, end in enumerate([*ends.tolist(), rows.num_rows]):
        if end > start:
            yield number, rows.slice(start, end - start)
        start = end


def order_of(places: pa.Table) -> "array[int]":
    """Row numbers by due time, then by arrival."""
    return order_by(one_array(places.column("due")), one_array(places.column(SEQUENCE)))


def ascending(count: int) -> pa.Array:
    """0, 1, 2, ..."""
    return pc.cumulative_sum(constant(1, count), start=-1)
