"""The wheel of one shard: the timing wheel of the core, applied to columns instead of single entries.

- The placement of the core assigns each arrived message to a bucket (level, expiration), at the time of the batch.
  Level 1 contains ticks, which are rounded up, so that no message is early. The rows of a bucket are stored as
  chunks.
- A batch takes the due buckets. Rows of coarse buckets that are not due yet are placed again, into a lower level. The
  other rows are delivered by due time and then by arrival.
- A cancel is stored as a row: a tombstone. It has the due time of its message, so the two meet in their tick at the
  latest, in either order of arrival. Duplicates meet their message in the same way. A row that meets a tombstone or an
  earlier row with equal id and key is dropped. Settled messages are remembered for the dedup horizon.
- With by_id, a cancel or replacement by id becomes tombstones in the ticks of the messages that it cancels. See by_id.

When many messages are due at once, for example after a pause, the wheel settles some ticks at a time. The others
wait in a temporary file, so that memory is bounded by Limits.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import arrow_array, constant, gather, one_array
from hwheel.spark.message import HASH, SEQUENCE, expirations
from hwheel.spark.shard.arrivals import ArrivalWriter
from hwheel.spark.shard.by_id import ById
from hwheel.spark.shard.delivered import Delivered, delivered_schema
from hwheel.spark.shard.settings import WheelSettings
from hwheel.spark.shard.settle import Settler
from hwheel.spark.shard.spill import ExpiredRows, Spill
from hwheel.spark.shard.state import ByIdEntries, ChunkMap, Chunks, ShardIndex, schema_text
from hwheel_core import group, place


@dataclass
class Span:
    """Ticks that are settled together: a single tick, or the ticks of a slice of ExpiredRows."""

    slice: int | None = None
    ticks: list[int] = field(default_factory=list)  # the ticks that have a bucket
    rows: int = 0
    bytes: int = 0


class ShardWheel:
    """The wheel of one shard during one batch.

    The caller creates it from the state of the shard, advances it, and stores its index.
    """

    def __init__(
        self, settings: WheelSettings, index: ShardIndex, buckets: Chunks, delivered: Chunks, named: Chunks
    ) -> None:
        settings.check(index.placement, index.columns, index.names, index.by_id is not None)
        self.settings = settings
        self.index = index
        self.schema = index.arrow_schema
        self.buckets = ChunkMap(buckets, self.schema, index.buckets)
        identity = [pa.field(name, self.schema.field(name).type) for name in settings.names.identity]
        self.delivered = Delivered(
            ChunkMap(delivered, delivered_schema(identity, settings.by_id), index.delivered),
            index.delivered_until_ms,
            settings.dedup_ms,
            settings.placement.tick_ms,
            index.slices_ms,
        )
        self.by_id = None
        if index.by_id is not None:
            self.by_id = ById(settings, self.schema, index.by_id, named, self.delivered, index.clock_ms)

    @staticmethod
    def new_index(settings: WheelSettings, arrived: pa.Schema) -> ShardIndex:
        """Return the index of a shard without state."""
        schema = pa.schema([column for column in arrived if column.name != HASH] + [pa.field(SEQUENCE, pa.int64())])
        by_id = ByIdEntries() if settings.by_id else None
        return ShardIndex(settings.placement, settings.columns, settings.names, schema_text(schema), by_id=by_id)

    @property
    def next_ms(self) -> int | None:
        """The next time at which a bucket expires or a slice of ids can be forgotten, or None."""
        times = [expiration_ms for _, expiration_ms in self.index.buckets]
        times += self.index.delivered_until_ms.values()
        if self.index.by_id is not None:
            times += self.index.by_id.recalled_until_ms.values()
        return min(times, default=None)

    def advance(
        self, arrived: Iterable[pa.RecordBatch], now_ms: int, arrivals: ArrivalWriter | None = None
    ) -> Iterator[pa.Table]:
        """Add arrived rows, and yield the messages that are due at ``now_ms``, in order and in pieces.

        Args:
            arrivals: Writes the added rows to the lookup index.
        """
        limits = self.settings.limits
        settler = Settler(self.settings, self.schema, self.delivered, self.index.clock_ms, now_ms)
        with Spill(self.schema, limits.spill_bytes) as spill:
            expired = ExpiredRows(spill, self.settings.placement.tick_ms, now_ms)
            for table in gather(arrived, limits.step_rows, limits.step_bytes):
                rows = self.accepted(table, now_ms)
                if arrivals is not None:
                    arrivals(rows, now_ms)
                self.add(rows, now_ms, expired)
            for key in sorted(self.due_coarse_buckets(now_ms), key=lambda key: key[1]):
                # No row of a coarse bucket is due before its expiration, so earlier ticks are complete.
                if sum(spill.bytes.values()) >= limits.step_bytes or sum(spill.rows.values()) >= limits.step_rows:
                    yield from self.settle(settler, expired, key[1] - 1)
                for table in gather(self.buckets.take(key), limits.move_rows, limits.move_bytes):
                    self.add(table, now_ms, expired)
            yield from self.settle(settler, expired, now_ms)
        self.index.duplicates += settler.duplicates
        self.index.cancelled += settler.cancelled
        self.delivered.forget(now_ms)
        if self.by_id is not None:
            self.by_id.forget(now_ms, sum(entry.rows for entry in self.index.buckets.values()))
        self.index.clock_ms = max(self.index.clock_ms, now_ms)

    def due_coarse_buckets(self, now_ms: int) -> list[tuple[int, int]]:
        return [key for key in self.index.buckets if key[0] > 1 and key[1] <= now_ms]

    def accepted(self, arrived: pa.Table, now_ms: int) -> pa.Table:
        """Return the arrived rows that must be placed, with sequence numbers."""
        if self.by_id is None:
            return self.numbered(arrived)
        hashes = arrived.column(HASH)
        return self.by_id.apply(self.numbered(arrived.drop_columns([HASH])), hashes, now_ms)

    def numbered(self, arrived: pa.Table) -> pa.Table:
        """Return the rows with sequence numbers, in the schema of the state."""
        first, count = self.index.sequence, arrived.num_rows
        self.index.sequence += count
        arrived = arrived.append_column(SEQUENCE, pc.cumulative_sum(constant(1, count), start=first - 1))
        # check() made sure that Spark's types are equal, but Arrow's types depend on the time zone of the session.
        return arrived if arrived.schema.equals(self.schema) else arrived.cast(self.schema)

    def add(self, rows: pa.Table, clock_ms: int, expired: ExpiredRows) -> None:
        """Place rows for a clock at ``clock_ms``. Rows that are already due are appended to ``expired``."""
        placement = self.settings.placement
        ticks = expirations(one_array(rows.column(self.settings.names.due)), placement.tick_ms)
        placed = place(ticks, clock_ms, placement.tick_ms, placement.wheel_size)
        levels, expirations_ms = map(arrow_array, placed)
        due = pc.equal(levels, 0)
        if pc.any(due).as_py():
            expired.append(rows.filter(due), ticks.filter(due))
            keep = pc.invert(due)
            rows, levels, expirations_ms = rows.filter(keep), levels.filter(keep), expirations_ms.filter(keep)
        order, starts = group(levels, expirations_ms)
        rows = rows.take(arrow_array(order))
        for start, end in zip(starts[:-1], starts[1:], strict=True):
            key = levels[order[start]].as_py(), expirations_ms[order[start]].as_py()
            self.buckets.append(key, rows.slice(start, end - start))

    def settle(self, settler: Settler, expired: ExpiredRows, until_ms: int) -> Iterator[pa.Table]:
        """Yield the messages to deliver up to ``until_ms``. Settle as many ticks at once as memory allows."""
        limits = self.settings.limits
        step: list[Span] = []
        rows = size = 0
        for span in self.spans(expired, until_ms):
            if step and (rows + span.rows > limits.step_rows or size + span.bytes > limits.step_bytes):
                yield from settler.settle(self.take(step, expired), rows, size)
                step, rows, size = [], 0, 0
            step.append(span)
            rows, size = rows + span.rows, size + span.bytes
        if step:
            yield from settler.settle(self.take(step, expired), rows, size)

    def spans(self, expired: ExpiredRows, until_ms: int) -> list[Span]:
        """Return the ticks up to ``until_ms`` in order of time. A slice that ends later is left out."""
        found: dict[int, Span] = {}
        for number in expired.numbers(until_ms):
            span = found[expired.begin_ms(number)] = Span(slice=number)
            span.rows, span.bytes = expired.spill.rows[number], expired.spill.bytes[number]
        for (level, tick_ms), entry in self.index.buckets.items():
            if level == 1 and tick_ms <= until_ms:
                number_of_slice = expired.slice_of(tick_ms)
                begin_ms = tick_ms if number_of_slice is None else expired.begin_ms(number_of_slice)
                if number_of_slice is None or begin_ms in found:
                    span = found.setdefault(begin_ms, Span())
                    span.ticks.append(tick_ms)
                    span.rows, span.bytes = span.rows + entry.rows, span.bytes + entry.bytes
        return [span for _, span in sorted(found.items(), key=lambda item: item[0])]

    def take(self, spans: list[Span], expired: ExpiredRows) -> Iterator[pa.RecordBatch]:
        """Yield and remove the rows of spans."""
        for span in spans:
            for tick_ms in span.ticks:
                yield from self.buckets.take((1, tick_ms))
            if span.slice is not None:
                yield from expired.spill.take(span.slice)
