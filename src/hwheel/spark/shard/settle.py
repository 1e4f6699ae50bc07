"""Settling ticks: which rows of expired ticks are delivered, and in which order."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import arrow_array, codes, constant, flags, one_array, row_numbers, slices
from hwheel.spark.message import BY_ID, SEQUENCE, TOMBSTONE, due_ms, expirations
from hwheel.spark.shard.delivered import OUT, Delivered
from hwheel.spark.shard.large_tick import LargeTick
from hwheel.spark.shard.settings import WheelSettings
from hwheel_core import order_by, survivors


@dataclass
class Settler:
    """Settles expired ticks in one batch. A tick before ``clock_ms`` may have been settled in an earlier batch."""

    settings: WheelSettings
    schema: pa.Schema
    delivered: Delivered
    clock_ms: int  # of the previous batch
    now_ms: int
    duplicates: int = 0  # messages that were dropped as duplicates
    cancelled: int = 0  # messages that were dropped because of a cancel

    def settle(self, batches: Iterable[pa.RecordBatch], rows: int, size: int) -> Iterator[pa.Table]:
        """Yield the messages to deliver, by due time and then by arrival, and remember all settled messages.

        Args:
            batches: All rows of some ticks.
            rows, size: The number of rows, and their size in bytes.
        """
        limits = self.settings.limits
        if rows <= limits.step_rows and size <= limits.step_bytes:
            table = pa.Table.from_batches(batches, self.schema).combine_chunks()
            yield from self.pieces(table, self.outgoing(self.decisive(table)))
            return
        parts = max(-(-rows // limits.step_rows), -(-size // limits.step_bytes))
        with LargeTick(self.schema, limits, parts, self.decisive) as large:
            for decisive in large.take_in(batches):
                large.keep(decisive.take(self.outgoing(decisive)))
            for table, order in large.in_order():
                yield from self.pieces(table, order)

    def decisive(self, rows: pa.Table) -> pa.Table:
        """Return the columns that decide which rows are delivered: identity, tick, due, sequence, and tombstone."""
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
        """Return the numbers of the rows to deliver, in order. Count the dropped rows, and remember the settled ones.

        All duplicates of a row must be among the rows.
        """
        identity = self.settings.names.identity
        named = rows.select([*identity, "tick"])
        ticks, cancels = one_array(named.column("tick")), one_array(rows.column(TOMBSTONE))
        # Messages that were settled earlier count as tombstones.
        earlier = ticks.filter(pc.less_equal(ticks, self.clock_ms))
        known = self.delivered.recall(earlier, one_array(named.column(0)))
        known = known.select(named.column_names)
        both = pa.concat_tables([named.cast(known.schema), known])
        order = order_by(one_array(rows.column("due")), one_array(rows.column(SEQUENCE)))
        tombstones = pa.concat_arrays([cancels, constant(1, known.num_rows)])
        columns = [*(codes(one_array(both.column(name))) for name in identity), one_array(both.column("tick"))]
        if self.settings.by_id and pc.any(rows.column(BY_ID)).as_py():
            tombstones, is_replacement = with_replacements(rows, named, tombstones)
            columns.append(is_replacement)
        out = arrow_array(survivors(order, tombstones, *columns))
        self.count_dropped(named, cancels, out)
        self.remember(named.take(out), True)
        self.remember(named.filter(pc.equal(cancels, 1)), False)
        return out

    def count_dropped(self, named: pa.Table, cancels: pa.Array, out: pa.Array) -> None:
        """Count the messages that are not delivered: as cancelled if a cancel names them, otherwise as duplicates."""
        is_dropped = cancels.to_numpy() == 0
        is_dropped[out.to_numpy()] = False
        dropped = int(is_dropped.sum())
        cancelled = 0
        if dropped and pc.any(pc.equal(cancels, 1)).as_py():
            numbers = row_numbers(named)
            cancelled = int(np.isin(numbers[is_dropped], numbers[cancels.to_numpy() == 1]).sum())
        self.duplicates += dropped - cancelled
        self.cancelled += cancelled

    def remember(self, settled: pa.Table, out: bool) -> None:
        """Remember messages as delivered (``out``) or as cancelled."""
        if self.settings.by_id:
            settled = settled.append_column(OUT, pa.repeat(pa.scalar(out), settled.num_rows))
        self.delivered.remember(settled, self.now_ms)

    def pieces(self, rows: pa.Table, order: pa.Array) -> Iterator[pa.Table]:
        """Yield the rows in this order, in pieces that are small enough to emit."""
        limits = self.settings.limits
        count = limits.emit_bytes * rows.num_rows // max(1, rows.nbytes)
        count = min(max(count, 1), limits.emit_rows)
        for start in range(0, len(order), count):
            yield from slices(rows.take(order.slice(start, count)), limits.emit_rows, limits.emit_bytes)


def with_replacements(rows: pa.Table, named: pa.Table, tombstones: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Prepare rows with replacements for ``survivors()``.

    The last replacement of an id and key is delivered unless a later tombstone cancels it. Then all other rows with its
    id and key, which are earlier or are duplicates, count as tombstones.

    Args:
        rows: All rows of some ticks.
        named: Identity and tick of these rows.
        tombstones: The tombstone flags of the rows, followed by those of remembered messages.

    Returns:
        The new flags, and a column that is 1 for a replacement to deliver and 0 otherwise, so that no tombstone of its
        tick matches the replacement.
    """
    numbers = row_numbers(named)
    sequence = rows.column(SEQUENCE).to_numpy()
    cancel = rows.column(TOMBSTONE).to_numpy() != 0
    replacing = flags(rows.column(BY_ID)) & ~cancel
    last_cancel = np.full(len(numbers), -1)
    np.maximum.at(last_cancel, numbers[cancel], sequence[cancel])
    last_replacement = np.full(len(numbers), -1)
    np.maximum.at(last_replacement, numbers[replacing], sequence[replacing])
    is_delivered = replacing & (sequence == last_replacement[numbers]) & (sequence >= last_cancel[numbers])
    is_replaced = np.zeros(len(numbers), np.bool_)
    is_replaced[numbers[is_delivered]] = True
    counted = tombstones.to_numpy().copy()
    counted[: rows.num_rows] |= is_replaced[numbers] & ~is_delivered
    apart = np.zeros(len(counted), np.int64)
    apart[: rows.num_rows] = is_delivered
    return pa.array(counted), pa.array(apart)
