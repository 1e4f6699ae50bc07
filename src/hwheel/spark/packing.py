"""Before and after the state: many rows into few packed ones, and back. Both run inside `mapInArrow`.

A row that crosses into a stateful operator costs tens of microseconds; a message packed with thousands of others costs
next to nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from hwheel.spark.arrow import arrow_array, from_stream, gathered, one_array, to_stream
from hwheel.spark.message import SEQUENCE, SHARD, TOMBSTONE
from hwheel_core import group

PACK_ROWS = 262_144
PACK_BYTES = 32 * 1024 * 1024
PACKED = "shard int, task int, part int, blob binary"
UNPACKED_ROWS = 65_536


@dataclass(frozen=True)
class Packer:
    """Packs the rows of each shard into blobs; (task, part) orders the blobs as the rows arrived."""

    labels: list[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = context.partitionId() if context else 0
        for part, table in enumerate(gathered(batches, PACK_ROWS, PACK_BYTES)):
            yield self.packed(table, task, part)

    def packed(self, table: pa.Table, task: int, part: int) -> pa.RecordBatch:
        """A row of PACKED for each shard that has a message in the table."""
        shards = one_array(table.column(SHARD))
        table = table.drop_columns([SHARD])
        order, starts = group(shards)
        if len(starts) > 2:
            table = table.take(arrow_array(order))
        found = [shards[order[start]].as_py() for start in starts[:-1]]
        blobs = [to_stream(table.slice(start, end - start)) for start, end in zip(starts[:-1], starts[1:], strict=True)]
        return pa.RecordBatch.from_arrays(
            [
                pa.array([self.labels[shard] for shard in found], pa.int32()),
                pa.array([task] * len(found), pa.int32()),
                pa.array([part] * len(found), pa.int32()),
                pa.array(blobs, pa.binary()),
            ],
            names=["shard", "task", "part", "blob"],
        )


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The messages of what the state has emitted."""
    for batch in batches:
        for blob in batch.column("blob"):
            table = from_stream(blob.as_buffer()).drop_columns([SEQUENCE, TOMBSTONE])
            yield from table.to_batches(max_chunksize=UNPACKED_ROWS)
