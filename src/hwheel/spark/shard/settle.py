"""Of all rows of some ticks: which of them go out, and in what order."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import arrow_array, codes, constant, cut, one_array
from hwheel.spark.message import BY_ID, SEQUENCE, TOMBSTONE, due_ms, expirations
from hwheel.spark.shard.by_id import heeding_order
from hwheel.spark.shard.delivered import OUT, Delivered
from hwheel.spark.shard.large import Large
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
