"""A timing wheel whose buckets lie in a state store: the algorithm of one shard.

What the wheel of the core does to one entry after the other is done here to columns of a batch:

- Arrived messages are placed into (level, expiration of the bucket), by the same placement, for a clock that stands at
  the batch's time; level 1 holds ticks, rounded up, so that nothing goes out early. A bucket gets its rows as a chunk.
- A batch takes the buckets that are due. What it finds in coarse ones and is not due yet is placed again, and lands
  lower. The rest goes out, in order of due time and then of arrival.
- A cancel is a row like a message, a tombstone: it has the message's due, so the two meet in the message's tick at the
  latest, in whatever order they came, and so do a message and its duplicates. What meets a tombstone or an earlier
  equal, by id and key, is dropped; which were settled is remembered for the dedup horizon.
- Where ids are looked up, a cancel by id, or a message that replaces others, becomes such tombstones in the ticks of
  what it takes back: see by_id.py.

When much is due at once (a burst, or all of a pause), ticks are settled some at a time, and what waits for its turn
waits on disk, so that memory holds so much and not all: see Limits.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import arrow_array, constant, gathered, one_array
from hwheel.spark.message import HASH, SEQUENCE, expirations
from hwheel.spark.shard.by_id import ById
from hwheel.spark.shard.delivered import Delivered, delivered_schema
from hwheel.spark.shard.settings import WheelSettings
from hwheel.spark.shard.settle import Settler
from hwheel.spark.shard.spill import Passed, Spill
from hwheel.spark.shard.state import ByIdEntries, ChunkMap, Chunks, ShardIndex, schema_text
from hwheel_core import group, place


@dataclass
class Span:
    """Ticks that are settled together: one, or those of a slice of what has passed."""

    slice: int | None = None
    ticks: list[int] = field(default_factory=list)  # which have a bucket
    rows: int = 0
    bytes: int = 0


class ShardWheel:
    """The wheel of one shard for one batch: made from its state, advanced, and its index stored by the caller."""

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
        """The index of a shard that gets its first rows."""
        schema = pa.schema([column for column in arrived if column.name != HASH] + [pa.field(SEQUENCE, pa.int64())])
        by_id = ByIdEntries() if settings.by_id else None
        return ShardIndex(settings.placement, settings.columns, settings.names, schema_text(schema), by_id=by_id)

    @property
    def next_ms(self) -> int | None:
        """When there is something to do next, if nothing arrives: the head of the delay queue, or ids to forget."""
        times = [expiration_ms for _, expiration_ms in self.index.buckets]
        times += self.index.delivered_until_ms.values()
        if self.index.by_id is not None:
            times += self.index.by_id.recalled_until_ms.values()
        return min(times, default=None)

    def advance(self, arrived: Iterable[pa.RecordBatch], now_ms: int) -> Iterator[pa.Table]:
        """Takes in what arrived and yields what is due at now_ms, in order, a piece at a time."""
        limits = self.settings.limits
        settler = Settler(self.settings, self.schema, self.delivered, self.index.clock_ms, now_ms)
        with Spill(self.schema, limits.spill_bytes) as spill:
            passed = Passed(spill, self.settings.placement.tick_ms, now_ms)
            for table in gathered(arrived, limits.step_rows, limits.step_bytes):
                self.add(self.taken_in(table, now_ms), now_ms, passed)
            for key in sorted(self.coarse(now_ms), key=lambda key: key[1]):
                # What lies in a coarse bucket is due at its expiration or later.
                if sum(spill.bytes.values()) >= limits.step_bytes or sum(spill.rows.values()) >= limits.step_rows:
                    yield from self.settle(settler, passed, key[1] - 1)
                for table in gathered(self.buckets.take(key), limits.move_rows, limits.move_bytes):
                    self.add(table, now_ms, passed)
            yield from self.settle(settler, passed, now_ms)
        self.delivered.forget(now_ms)
        if self.by_id is not None:
            self.by_id.forget(now_ms, sum(entry.rows for entry in self.index.buckets.values()))
        self.index.clock_ms = max(self.index.clock_ms, now_ms)

    def coarse(self, now_ms: int) -> list[tuple[int, int]]:
        """The buckets that are due and are to be placed again."""
        return [key for key in self.index.buckets if key[0] > 1 and key[1] <= now_ms]

    def taken_in(self, arrived: pa.Table, now_ms: int) -> pa.Table:
        """The rows that there are to place of what arrived."""
        if self.by_id is None:
            return self.numbered(arrived)
        hashes = arrived.column(HASH)
        return self.by_id.apply(self.numbered(arrived.drop_columns([HASH])), hashes, now_ms)

    def numbered(self, arrived: pa.Table) -> pa.Table:
        """The rows with their numbers in order of arrival, in the columns of the state."""
        first, count = self.index.sequence, arrived.num_rows
        self.index.sequence += count
        arrived = arrived.append_column(SEQUENCE, pc.cumulative_sum(constant(1, count), start=first - 1))
        # Spark's types are the same, for they were checked; Arrow's differ by the session's time zone.
        return arrived if arrived.schema.equals(self.schema) else arrived.cast(self.schema)

    def add(self, rows: pa.Table, clock_ms: int, passed: Passed) -> None:
        """Places rows for a clock that stands at clock_ms; those that are due already go to `passed`."""
        placement = self.settings.placement
        ticks = expirations(one_array(rows.column(self.settings.names.due)), placement.tick_ms)
        placed = place(ticks, clock_ms, placement.tick_ms, placement.wheel_size)
        levels, expirations_ms = map(arrow_array, placed)
        due = pc.equal(levels, 0)
        if pc.any(due).as_py():
            passed.append(rows.filter(due), ticks.filter(due))
            keep = pc.invert(due)
            rows, levels, expirations_ms = rows.filter(keep), levels.filter(keep), expirations_ms.filter(keep)
        order, starts = group(levels, expirations_ms)
        rows = rows.take(arrow_array(order))
        for start, end in zip(starts[:-1], starts[1:], strict=True):
            key = levels[order[start]].as_py(), expirations_ms[order[start]].as_py()
            self.buckets.append(key, rows.slice(start, end - start))

    def settle(self, settler: Settler, passed: Passed, until_ms: int) -> Iterator[pa.Table]:
        """Yields what goes out of the ticks up to until_ms, as many of them at once as memory should hold."""
        limits = self.settings.limits
        step: list[Span] = []
        rows = size = 0
        for span in self.spans(passed, until_ms):
            if step and (rows + span.rows > limits.step_rows or size + span.bytes > limits.step_bytes):
                yield from settler.settle(self.take(step, passed), rows, size)
                step, rows, size = [], 0, 0
            step.append(span)
            rows, size = rows + span.rows, size + span.bytes
        if step:
            yield from settler.settle(self.take(step, passed), rows, size)

    def spans(self, passed: Passed, until_ms: int) -> list[Span]:
        """What there is of the ticks up to until_ms, in order of time. Of a slice that goes on after it, nothing."""
        found: dict[int, Span] = {}
        for number in passed.numbers(until_ms):
            span = found[passed.begin_ms(number)] = Span(slice=number)
            span.rows, span.bytes = passed.spill.rows[number], passed.spill.bytes[number]
        for (level, tick_ms), entry in self.index.buckets.items():
            if level == 1 and tick_ms <= until_ms:
                begun = passed.slice_of(tick_ms)
                begin_ms = tick_ms if begun is None else passed.begin_ms(begun)
                if begun is None or begin_ms in found:
                    span = found.setdefault(begin_ms, Span())
                    span.ticks.append(tick_ms)
                    span.rows, span.bytes = span.rows + entry.rows, span.bytes + entry.bytes
        return [span for _, span in sorted(found.items(), key=lambda item: item[0])]

    def take(self, spans: list[Span], passed: Passed) -> Iterator[pa.RecordBatch]:
        """Empties them."""
        for span in spans:
            for tick_ms in span.ticks:
                yield from self.buckets.take((1, tick_ms))
            if span.slice is not None:
                yield from passed.spill.take(span.slice)
