"""A timing wheel whose buckets lie in a state store: the algorithm of one shard.

What the wheel of the core does to one entry after the other is done here to columns of a batch:

- Arrived messages are placed into (level, expiration of the bucket), by the same placement, for a clock that stands at
  the batch's time; level 1 holds ticks, rounded up, so that nothing goes out early. A bucket gets its rows as a chunk.
- A batch takes the buckets that are due. What it finds in coarse ones and is not due yet is placed again, and lands
  lower. The rest goes out, in order of due time and then of arrival.
- A cancel is a row like a message, a tombstone: it has the message's due, so the two meet in the message's tick at the
  latest, in whatever order they came, and so do a message and its duplicates. What meets a tombstone or an earlier
  equal, by id and key, is dropped; which were settled is remembered for the dedup horizon.

When much is due at once (after a pause), the clock is moved in steps, so that memory holds some buckets and not all.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import arrow_array, codes, constant, joined, one_array
from hwheel.spark.message import SEQUENCE, TOMBSTONE, due_ms, expirations
from hwheel.spark.shard.chunk_map import ChunkMap, Chunks
from hwheel.spark.shard.delivered import Delivered
from hwheel.spark.shard.index import ShardIndex, schema_text
from hwheel.spark.shard.settings import WheelSettings
from hwheel_core import group, order_by, place, survivors

STEP_ROWS = 1_000_000  # of due buckets before the clock pauses
MOVE_ROWS = 65_536  # of a coarse bucket at once
EMIT_ROWS = 65_536


class ShardWheel:
    """The wheel of one shard for one batch: made from its state, advanced, and its index stored by the caller."""

    def __init__(self, settings: WheelSettings, index: ShardIndex, buckets: Chunks, delivered: Chunks) -> None:
        settings.check(index.placement, index.columns, index.names)
        self.settings = settings
        self.index = index
        self.schema = index.arrow_schema
        self.buckets = ChunkMap(buckets, self.schema, index.buckets)
        identity = [pa.field(name, self.schema.field(name).type) for name in settings.names.identity]
        self.delivered = Delivered(
            ChunkMap(delivered, pa.schema([*identity, ("tick", pa.int64())]), index.delivered),
            index.delivered_until_ms,
            settings.dedup_ms,
            settings.placement.tick_ms,
        )

    @staticmethod
    def new_index(settings: WheelSettings, arrived: pa.Table) -> ShardIndex:
        """The index of a shard that gets its first rows."""
        schema = arrived.schema.append(pa.field(SEQUENCE, pa.int64()))
        return ShardIndex(settings.placement, settings.columns, settings.names, schema_text(schema))

    @property
    def next_ms(self) -> int | None:
        """When there is something to do next, if nothing arrives: the head of the delay queue, or ids to forget."""
        times = [expiration_ms for _, expiration_ms in self.index.buckets]
        return min([*times, *self.index.delivered_until_ms.values()], default=None)

    def advance(self, arrived: pa.Table | None, now_ms: int) -> Iterator[pa.Table]:
        """Takes in what arrived and yields what is due at now_ms, in order."""
        late = self.schema.empty_table() if arrived is None else self.add(self.numbered(arrived), now_ms)
        while True:
            step_ms = self.next_step(now_ms)
            yield from self.advance_to(step_ms, late, now_ms)
            if step_ms == now_ms:
                break
            late = late.filter(pc.greater(self.ticks(late), step_ms))
        self.delivered.forget(now_ms)
        self.index.clock_ms = max(self.index.clock_ms, now_ms)

    def numbered(self, arrived: pa.Table) -> pa.Table:
        """The rows with their numbers in order of arrival, in the columns of the state."""
        first, count = self.index.sequence, arrived.num_rows
        self.index.sequence += count
        arrived = arrived.append_column(SEQUENCE, pc.cumulative_sum(constant(1, count), start=first - 1))
        # Spark's types are the same, for they were checked; Arrow's differ by the session's time zone.
        return arrived if arrived.schema.equals(self.schema) else arrived.cast(self.schema)

    def add(self, rows: pa.Table, clock_ms: int) -> pa.Table:
        """Places rows for a clock that stands at clock_ms; returns those that are due already."""
        placement = self.settings.placement
        levels, expirations_ms = place(self.ticks(rows), clock_ms, placement.tick_ms, placement.wheel_size)
        due = pc.equal(arrow_array(levels), 0)
        late = rows.filter(due)
        if late.num_rows:
            keep = pc.invert(due)
            rows = rows.filter(keep)
            columns = arrow_array(levels).filter(keep), arrow_array(expirations_ms).filter(keep)
        else:
            columns = arrow_array(levels), arrow_array(expirations_ms)
        order, starts = group(*columns)
        rows = rows.take(arrow_array(order))
        for start, end in zip(starts[:-1], starts[1:], strict=True):
            key = columns[0][order[start]].as_py(), columns[1][order[start]].as_py()
            self.buckets.append(key, rows.slice(start, end - start))
        return late

    def next_step(self, now_ms: int) -> int:
        """How far the clock may go with what it finds kept in memory."""
        rows = 0
        due = sorted((key[1], entry.rows) for key, entry in self.index.buckets.items() if key[1] <= now_ms)
        for expiration_ms, count in due[:-1]:
            rows += count
            if rows >= STEP_ROWS:
                return expiration_ms
        return now_ms

    def advance_to(self, step_ms: int, late: pa.Table, now_ms: int) -> Iterator[pa.Table]:
        """Takes the buckets due at step_ms and yields what is due of them and of `late`. It goes out at now_ms."""
        keys = sorted((key for key in self.index.buckets if key[1] <= step_ms), key=lambda key: key[1])
        due = [late.filter(pc.less_equal(self.ticks(late), step_ms))]
        for key in keys:
            due += self.take(key, step_ms)
        rows = joined(due).combine_chunks()
        if rows.num_rows:
            yield from self.settle(rows, now_ms)

    def take(self, key: tuple[int, int], now_ms: int) -> Iterator[pa.Table]:
        """Empties a bucket: yields what is due, and places the rest again."""
        moved: list[pa.RecordBatch] = []
        for batch in self.buckets.take(key):
            if key[0] == 1:
                yield pa.Table.from_batches([batch])
                continue
            moved.append(batch)
            if sum(one.num_rows for one in moved) >= MOVE_ROWS:
                yield self.add(pa.Table.from_batches(moved), now_ms)
                moved = []
        if moved:
            yield self.add(pa.Table.from_batches(moved), now_ms)

    def settle(self, rows: pa.Table, now_ms: int) -> Iterator[pa.Table]:
        """Of all rows of some ticks: yields the messages that are to go out, and remembers which are settled."""
        ticks = self.ticks(rows)
        named = rows.select(self.settings.names.identity).append_column("tick", ticks)
        cancels = one_array(rows.column(TOMBSTONE)).cast(pa.int64())
        # A tick that the clock had passed before may have been settled: what is remembered of it counts as tombstones.
        passed = ticks.filter(pc.less_equal(ticks, self.index.clock_ms))
        known = self.delivered.recall(passed)
        both = joined([named.cast(known.schema), known])
        order = order_by(due_ms(one_array(rows.column(self.settings.names.due))), one_array(rows.column(SEQUENCE)))
        out = arrow_array(
            survivors(
                order,
                pa.concat_arrays([cancels, constant(1, known.num_rows)]),
                *(codes(one_array(both.column(name))) for name in self.settings.names.identity),
                one_array(both.column("tick")),
            )
        )
        self.delivered.remember(both.take(out), now_ms)
        self.delivered.remember(both.slice(0, rows.num_rows).filter(pc.equal(cancels, 1)), now_ms)
        for start in range(0, len(out), EMIT_ROWS):
            yield rows.take(out[start : start + EMIT_ROWS])

    def ticks(self, rows: pa.Table) -> pa.Array:
        """When each row's tick is over."""
        return expirations(one_array(rows.column(self.settings.names.due)), self.settings.placement.tick_ms)
