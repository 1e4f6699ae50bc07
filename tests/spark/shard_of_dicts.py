"""A shard of hold_until_due on a state that is some dicts."""

import zlib
from dataclasses import replace

import pyarrow as pa

from hwheel.spark.message import BY_ID, HASH, TOMBSTONE
from hwheel.spark.shard.settings import Column, ColumnNames, Placement, WheelSettings
from hwheel.spark.shard.state import ShardIndex
from hwheel.spark.shard.wheel import ShardWheel
from plain_model import Record

SCHEMA = pa.schema(
    [("id", pa.string()), ("key", pa.string()), ("due", pa.int64()), ("payload", pa.string()), (TOMBSTONE, pa.bool_())]
)
SCHEMA_BY_ID = SCHEMA.append(pa.field(BY_ID, pa.bool_())).append(pa.field(HASH, pa.int64()))

COLUMNS = [Column("id", "string"), Column("key", "string"), Column("due", "bigint"), Column("payload", "string")]


class Shard:
    """A shard whose state survives between batches as bytes and text, as it does in the store."""

    def __init__(self, tick_ms=1000, wheel_size=4, dedup_ms=10**9, limits=None, by_id=False):
        placement = Placement(tick_ms, wheel_size, shards=1, partitions=1)
        self.settings = WheelSettings(COLUMNS, ColumnNames("id", "key", "due"), placement, dedup_ms, by_id=by_id)
        self.schema = SCHEMA_BY_ID if by_id else SCHEMA
        if limits:
            self.settings = replace(self.settings, limits=limits)
        self.index = None
        self.buckets, self.delivered, self.named = {}, {}, {}

    def batch(self, records, now_ms):
        """Record, Record, ... -> what goes out."""
        arrived = self.schema.empty_table()
        if records:
            rows = [
                r._asdict() | {HASH: self.hash(r), BY_ID: r.replace or (r.cancel and r.due is None)} for r in records
            ]
            arrived = pa.Table.from_pylist(rows, schema=self.schema)
        if self.index is None:
            if not records:
                return []
            index = ShardWheel.new_index(self.settings, self.schema)
        else:
            index = ShardIndex.from_json(self.index)
        wheel = ShardWheel(self.settings, index, self.buckets, self.delivered, self.named)
        out = [row for table in wheel.advance(arrived.to_batches(), now_ms) for row in table.to_pylist()]
        self.next_ms = wheel.next_ms
        self.index = index.to_json()
        self.check(index)
        return [Record(row["id"], row["key"], row["due"], row[TOMBSTONE], row["payload"]) for row in out]

    @staticmethod
    def hash(record):
        """64 bits of id and key, of which the upper half counts."""
        return zlib.crc32(repr((record.id, record.key)).encode()) - 2**31 << 32

    def check(self, index):
        """The index tells what the state holds."""
        for chunks, entries in ((self.buckets, index.buckets), (self.delivered, index.delivered)):
            assert {*chunks} == {(*key, i) for key, entry in entries.items() for i in range(entry.chunks)}
        assert len(index.buckets) <= self.settings.placement.wheel_size * 64
        assert {*index.delivered} == {*index.delivered_until_ms}
        if index.by_id is not None:
            parts = (index.by_id.register, index.by_id.taken_back, index.by_id.recalled)
            keys = [(*key, i) for entries in parts for key, entry in entries.items() for i in range(entry.chunks)]
            assert len(keys) == len({*keys}) and {*self.named} == {*keys}
            assert {*index.by_id.recalled} == {*index.by_id.recalled_until_ms}
