"""A model of hold_until_due in plain Python, and a shard to compare with it.

The model has no buckets, levels, or state store, and never forgets a settled message. Its tests stay within the dedup
horizon; other tests cover the end of the horizon.
"""

import zlib
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from hwheel.spark.message import BY_ID, HASH, TOMBSTONE
from hwheel.spark.shard.settings import Column, ColumnNames, Placement, WheelSettings
from hwheel.spark.shard.state import ShardIndex
from hwheel.spark.shard.wheel import ShardWheel

SCHEMA = pa.schema(
    [("id", pa.string()), ("key", pa.string()), ("due", pa.int64()), ("payload", pa.string()), (TOMBSTONE, pa.bool_())]
)
SCHEMA_BY_ID = SCHEMA.append(pa.field(BY_ID, pa.bool_())).append(pa.field(HASH, pa.int64()))
COLUMNS = [Column("id", "string"), Column("key", "string"), Column("due", "bigint"), Column("payload", "string")]


class Record(NamedTuple):
    id: str
    key: str
    due: int | None  # None for a cancel by id
    cancel: bool = False
    payload: str | None = None
    replace: bool = False

    @property
    def identity(self):
        return self.id, self.key


class PlainModel:
    def __init__(self, tick_ms):
        self.tick_ms = tick_ms
        self.pending = {}  # (id, key, tick) -> (due, sequence, record)
        self.settled = set()  # delivered or cancelled
        self.delivered = set()
        self.recalled = set()  # identities that were cancelled or replaced by id
        self.sequence = 0

    def batch(self, records, now_ms):
        """Add records; return the expired messages in order of deadline, then of arrival."""
        for record in records:
            self.sequence += 1
            self.add(record)
        expired = sorted((entry, slot) for slot, entry in self.pending.items() if slot[-1] * self.tick_ms <= now_ms)
        for _, slot in expired:
            del self.pending[slot]
            self.settled.add(slot)
            self.delivered.add(slot)
        return [record._replace(replace=False) for (_, _, record), _ in expired]

    def add(self, record):
        if record.cancel and record.due is None:
            self.recall(record)
            return
        slot = *record.identity, -(-record.due // self.tick_ms)
        entry = record.due, self.sequence, record
        if record.cancel:
            self.settled.add(slot)
            self.pending.pop(slot, None)
        elif record.replace:
            if slot not in self.delivered:
                self.recall(record)
                self.pending[slot] = entry
        elif record.identity not in self.recalled and slot not in self.settled:
            self.pending[slot] = min(self.pending.get(slot, entry), entry)

    def recall(self, record):
        self.recalled.add(record.identity)
        for slot in [slot for slot in self.pending if slot[:2] == record.identity]:
            del self.pending[slot]
            self.settled.add(slot)


class Shard:
    """A shard whose state is kept in dicts, serialized between batches like in the state store."""

    def __init__(self, tick_ms=1000, wheel_size=4, dedup_ms=10**9, limits=None, by_id=False):
        placement = Placement(tick_ms, wheel_size, shards=1, partitions=1)
        self.settings = WheelSettings(COLUMNS, ColumnNames("id", "key", "due"), placement, dedup_ms, by_id=by_id)
        self.schema = SCHEMA_BY_ID if by_id else SCHEMA
        if limits:
            self.settings = replace(self.settings, limits=limits)
        self.index = None
        self.buckets, self.delivered, self.named = {}, {}, {}

    def read_index(self):
        return ShardIndex.from_json(self.index)

    def wheel(self, index):
        return ShardWheel(self.settings, index, self.buckets, self.delivered, self.named)

    def batch(self, records, now_ms):
        """Add records; return the expired messages in the order in which they go out."""
        if self.index is None and not records:
            return []
        index = self.read_index() if self.index else ShardWheel.new_index(self.settings, self.schema)
        wheel = self.wheel(index)
        out = [row for table in wheel.advance(self.table_of(records), now_ms) for row in table.to_pylist()]
        self.next_ms = wheel.next_ms
        self.index = index.to_json()
        self.check(index)
        return [Record(row["id"], row["key"], row["due"], row[TOMBSTONE], row["payload"]) for row in out]

    def table_of(self, records):
        rows = [{**r._asdict(), HASH: self.hash(r), BY_ID: r.replace or (r.cancel and r.due is None)} for r in records]
        return pa.Table.from_pylist(rows, schema=self.schema).to_batches()

    @staticmethod
    def hash(record):
        """Return 64 bits of id and key, of which the shard uses the upper half."""
        return zlib.crc32(repr(record.identity).encode()) - 2**31 << 32

    def check(self, index):
        """Check that the index lists exactly the chunks of the state."""
        for chunks, entries in ((self.buckets, index.buckets), (self.delivered, index.delivered)):
            assert {*chunks} == {(*key, i) for key, entry in entries.items() for i in range(entry.chunks)}
        assert len(index.buckets) <= self.settings.placement.wheel_size * 64
        assert {*index.delivered} == {*index.delivered_until_ms}
        if index.by_id is not None:
            parts = (index.by_id.register, index.by_id.taken_back, index.by_id.recalled)
            keys = [(*key, i) for entries in parts for key, entry in entries.items() for i in range(entry.chunks)]
            assert len(keys) == len({*keys}) and {*self.named} == {*keys}
            assert {*index.by_id.recalled} == {*index.by_id.recalled_until_ms}


def check_against_model(shard, model, batches):
    """Run batches of (time, records) through both, and then a batch at which everything has expired."""
    for now_ms, records in [*batches, (batches[-1][0] + 10**12, [])]:
        out = shard.batch(records, now_ms)
        assert out == model.batch(records, now_ms)
        assert all(record.due <= now_ms for record in out), "never early"
        if shard.index and model.pending:
            first_expiration_ms = min(tick for _, _, tick in model.pending) * model.tick_ms
            assert now_ms < shard.next_ms <= first_expiration_ms
    assert not shard.buckets and not model.pending
