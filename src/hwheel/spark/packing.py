"""Before and after the state: many rows into few packed ones, and back. Both run inside `mapInArrow`.

A row that crosses into a stateful operator costs tens of microseconds; a message packed with thousands of others costs
next to nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from hwheel.spark.arrow import arrow_array, cut, from_stream, gathered, one_array, to_stream
from hwheel.spark.message import BY_ID, SEQUENCE, SHARD, TOMBSTONE
from hwheel.spark.worker_heap import begin_task
from hwheel_core import group

PACK_ROWS = 262_144
PACK_BYTES = 32 * 1024 * 1024
BLOB_BYTES = 4 * 1024 * 1024  # a blob is a row to Spark, which has several in memory at a time
PACKED = "shard int, task int, part int, blob binary"
UNPACKED_ROWS = 65_536


@dataclass(frozen=True)
class Packer:
    """Packs the rows of each shard into blobs; (task, part) orders the blobs as the rows arrived."""

    labels: list[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        context = TaskContext.get()
        task = context.partitionId() if context else 0
        part = 0
        for table in gathered(batches, PACK_ROWS, PACK_BYTES):
            for shards, blobs in self.packed(table):
                parts = range(part, part + len(blobs))
                part += len(blobs)
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array(shards, pa.int32()),
                        pa.repeat(pa.scalar(task, pa.int32()), len(blobs)),
                        pa.array(parts, pa.int32()),
                        pa.array(blobs, pa.binary()),
                    ],
                    names=["shard", "task", "part", "blob"],
                )

    def packed(self, table: pa.Table) -> Iterator[tuple[list[int], list[bytes]]]:
        """Blobs of each shard that has a message in the table, beside the shards' labels; some at a time."""
        shards = one_array(table.column(SHARD))
        table = table.drop_columns([SHARD])
        order, starts = group(shards)
        if len(starts) > 2:
            table = table.take(arrow_array(order))
        found: list[int] = []
        blobs: list[bytes] = []
        size = 0
        for start, end in zip(starts[:-1], starts[1:], strict=True):
            label = self.labels[shards[order[start]].as_py()]
            for piece in cut(table.slice(start, end - start), PACK_ROWS, BLOB_BYTES):
                found.append(label)
                blobs.append(to_stream(piece))
                size += len(blobs[-1])
                if size >= BLOB_BYTES:
                    yield found, blobs
                    found, blobs, size = [], [], 0
        if blobs:
            yield found, blobs


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The messages of what the state has emitted."""
    begin_task()
    for batch in batches:
        for blob in batch.column("blob"):
            table = from_stream(blob.as_buffer())
            table = table.select([name for name in table.column_names if name not in (SEQUENCE, TOMBSTONE, BY_ID)])
            yield from table.to_batches(max_chunksize=UNPACKED_ROWS)
