"""Of all rows of some ticks: which of them go out, and in what order."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import arrow_array, codes, constant, cut, flags, one_array, row_numbers
from hwheel.spark.message import BY_ID, SEQUENCE, TOMBSTONE, due_ms, expirations
from hwheel.spark.shard.delivered import OUT, Delivered
from hwheel.spark.shard.large_tick import Large
from hwheel.spark.shard.settings import WheelSettings
from hwheel_core import order_by, survivors


@dataclass
class Settler:
    """Settles what falls due in one batch. A tick that the clock had passed before may have been settled."""

    settings: WheelSettings
    schema: pa.Schema
    delivered: Delivered
    clock_ms: int  # of the batch before
    now_ms: int

    def settle(self, batches: Iterable[pa.RecordBatch], rows: int, size: int) -> Iterator[pa.Table]:
        """Of so many rows and bytes, all that there are of their ticks: yields the messages that go out, in order of
        due time and then of arrival, and remembers which are settled.
        """
        limits = self.settings.limits
        if rows <= limits.step_rows and size <= limits.step_bytes:
            table = pa.Table.from_batches(batches, self.schema).combine_chunks()
            yield from self.pieces(table, self.outgoing(self.told_apart(table)))
            return
        parts = max(-(-rows // limits.step_rows), -(-size // limits.step_bytes))
        with Large(self.schema, limits, parts, self.told_apart) as large:
            for told_apart in large.take_in(batches):
                large.keep(told_apart.take(self.outgoing(told_apart)))
            for table, order in large.in_order():
                yield from self.pieces(table, order)

    def told_apart(self, rows: pa.Table) -> pa.Table:
        """What decides about rows, without what they carry: identity, tick, due, sequence, tombstone."""
        due = one_array(rows.column(self.settings.names.due))
        found = rows.select(self.settings.names.identity).append_column(
            "tick", expirations(due, self.settings.placement.tick_ms)
        )
        for name, column in (
            ("due", due_ms(due)),
            (SEQUENCE, rows.column(SEQUENCE)),
            (TOMBSTONE, rows.column(TOMBSTONE).cast(pa.int64())),
        ):
            found = found.append_column(name, column)
        return found.append_column(BY_ID, rows.column(BY_ID)) if self.settings.by_id else found

    def outgoing(self, rows: pa.Table) -> pa.Array:
        """Which of these rows go out, in order. All that may be equal to one of them is among them."""
        identity = self.settings.names.identity
        named = rows.select([*identity, "tick"])
        ticks, cancels = one_array(named.column("tick")), one_array(rows.column(TOMBSTONE))
        # What is remembered of a tick counts as tombstones.
        passed = ticks.filter(pc.less_equal(ticks, self.clock_ms))
        known = self.delivered.recall(passed, one_array(named.column(0)))
        known = known.select(named.column_names)
        both = pa.concat_tables([named.cast(known.schema), known])
        order = order_by(one_array(rows.column("due")), one_array(rows.column(SEQUENCE)))
        tombstones = pa.concat_arrays([cancels, constant(1, known.num_rows)])
        columns = [*(codes(one_array(both.column(name))) for name in identity), one_array(both.column("tick"))]
        if self.settings.by_id and pc.any(rows.column(BY_ID)).as_py():
            tombstones, last_words = heeding_order(rows, named, tombstones)
            columns.append(last_words)
        out = arrow_array(survivors(order, tombstones, *columns))
        self.remember(named.take(out), True)
        self.remember(named.filter(pc.equal(cancels, 1)), False)
        return out

    def remember(self, settled: pa.Table, out: bool) -> None:
        """What went out, or was taken back."""
        if self.settings.by_id:
            settled = settled.append_column(OUT, pa.repeat(pa.scalar(out), settled.num_rows))
        self.delivered.remember(settled, self.now_ms)

    def pieces(self, rows: pa.Table, order: pa.Array) -> Iterator[pa.Table]:
        """The rows in this order, in pieces that are small enough to go out."""
        limits = self.settings.limits
        count = limits.emit_bytes * rows.num_rows // max(1, rows.nbytes)
        count = min(max(count, 1), limits.emit_rows)
        for start in range(0, len(order), count):
            yield from cut(rows.take(order.slice(start, count)), limits.emit_rows, limits.emit_bytes)


def heeding_order(rows: pa.Table, named: pa.Table, tombstones: pa.Array) -> tuple[pa.Array, pa.Array]:
    """For all rows of some ticks: tombstones as `survivors` is to see them, and a column more that tells apart from all
    others of a tick a replacement that goes out. That is one behind which nothing takes back what is of its id and key;
    then all others of these are as tombstones, since they came before it or repeat it. `tombstones` has, behind those
    of the rows, what is remembered.
    """
    numbers = row_numbers(named)
    sequence = rows.column(SEQUENCE).to_numpy()
    cancel = rows.column(TOMBSTONE).to_numpy() != 0
    replacing = flags(rows.column(BY_ID)) & ~cancel
    taken_back = np.full(len(numbers), -1)
    np.maximum.at(taken_back, numbers[cancel], sequence[cancel])
    last = np.full(len(numbers), -1)
    np.maximum.at(last, numbers[replacing], sequence[replacing])
    goes_out = replacing & (sequence == last[numbers]) & (sequence >= taken_back[numbers])
    stood_in_for = np.zeros(len(numbers), np.bool_)
    stood_in_for[numbers[goes_out]] = True
    seen = tombstones.to_numpy().copy()
    seen[: rows.num_rows] |= stood_in_for[numbers] & ~goes_out
    apart = np.zeros(len(seen), np.int64)
    apart[: rows.num_rows] = goes_out
    return pa.array(seen), pa.array(apart)
