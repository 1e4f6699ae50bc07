"""The code that Spark's Python workers run: packing, the stateful processor of a shard, and unpacking.

A row that crosses into a stateful operator costs tens of microseconds. So Packer joins the messages of a shard into a
few blobs before the state, and ``unpack()`` splits the blobs that the state emits.
"""

import gc
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from hwheel.spark.arrow import arrow_array, from_stream, gather, one_array, slices, to_stream
from hwheel.spark.message import BY_ID, SEQUENCE, SHARD, TOMBSTONE
from hwheel.spark.shard.arrivals import ArrivalWriter, arrival_writer
from hwheel.spark.shard.settings import WheelSettings
from hwheel.spark.shard.spill import Spill
from hwheel.spark.shard.state import Chunks, ShardIndex
from hwheel.spark.shard.wheel import ShardWheel
from hwheel_core import group

# --- garbage collection -----------------------------------------------------------------------------------------------

FREEZES = 2  # in a worker; the first task still imports modules, and the second one begins with all of them

tasks_begun = 0


def begin_task() -> None:
    """Exclude the objects of imported modules from garbage collection. Each function of a worker calls this first.

    A worker runs a full collection after each task. The 80,000 objects of pandas, pyarrow, and pyspark made it take 30
    to 40 ms, during which other workers of a busy machine had to wait. The call is cheap to repeat, and outside of a
    worker it does nothing. It follows a collection, so that it freezes little garbage.
    """
    global tasks_begun
    if tasks_begun < FREEZES and TaskContext.get() is not None:
        tasks_begun += 1
        gc.freeze()


# --- shards -----------------------------------------------------------------------------------------------------------

MASK = 0xFFFFFFFF


def shard_labels(shards: int, partitions: int) -> list[int]:
    """Return a distinct label for each shard. Spark puts the label of shard i into state partition i % partitions.

    Spark chooses the partition of a group by hash. Plain numbers would leave some partitions empty.

    >>> [partition_of(label, 3) for label in shard_labels(6, 3)]
    [0, 1, 2, 0, 1, 2]
    """
    wanted: list[list[int]] = [[] for _ in range(partitions)]
    rounds = -(-shards // partitions)
    missing = partitions
    candidate = 0
    while missing:
        found = wanted[partition_of(candidate, partitions)]
        if len(found) < rounds:
            found.append(candidate)
            missing -= len(found) == rounds
        candidate += 1
    return [wanted[shard % partitions][shard // partitions] for shard in range(shards)]


def partition_of(label: int, partitions: int) -> int:
    """Return Spark's partition of a group: pmod of the Murmur3 hash of an int, with seed 42."""
    mixed = rotated(label * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    value = (rotated(42 ^ mixed, 13) * 5 + 0xE6546B64) & MASK
    value ^= 4
    value = (value ^ value >> 16) * 0x85EBCA6B & MASK
    value = (value ^ value >> 13) * 0xC2B2AE35 & MASK
    value ^= value >> 16
    return (value - (1 << 32) if value >> 31 else value) % partitions


def rotated(value: int, bits: int) -> int:
    """Rotate 32 bits to the left."""
    return (value << bits | value >> 32 - bits) & MASK


# --- packing ----------------------------------------------------------------------------------------------------------

PACK_ROWS = 262_144
PACK_BYTES = 32 * 1024 * 1024
BLOB_BYTES = 4 * 1024 * 1024  # Spark keeps several blobs in memory at a time
PACKED = "shard int, task int, part int, blob binary"
UNPACKED_ROWS = 65_536
SETTINGS = -1  # the label of a group that holds only the settings of the query


@dataclass(frozen=True)
class Packer:
    """Pack the rows of each shard into blobs. (task, part) orders the blobs by arrival.

    Each task that has rows also sends an empty blob to the group of the settings. A shard compares settings only if it
    has state, and after a change of the number of shards, all rows may go to shards without state.
    """

    labels: list[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        context = TaskContext.get()
        task = context.partitionId() if context else 0
        part = 0
        for table in gather(batches, PACK_ROWS, PACK_BYTES):
            empty = [SETTINGS], [to_stream(table.schema.empty_table().drop_columns([SHARD]))]
            for shards, blobs in chain([empty] if part == 0 else [], self.packed(table)):
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
        """Yield lists of shard labels and of blobs. Each list of blobs has about BLOB_BYTES."""
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
            for piece in slices(table.slice(start, end - start), PACK_ROWS, BLOB_BYTES):
                found.append(label)
                blobs.append(to_stream(piece))
                size += len(blobs[-1])
                if size >= BLOB_BYTES:
                    yield found, blobs
                    found, blobs, size = [], [], 0
        if blobs:
            yield found, blobs


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the messages of the blobs that the state emits."""
    begin_task()
    for batch in batches:
        for blob in batch.column("blob"):
            table = from_stream(blob.as_buffer())
            table = table.select([name for name in table.column_names if name not in (SEQUENCE, TOMBSTONE, BY_ID)])
            yield from table.to_batches(max_chunksize=UNPACKED_ROWS)


# --- the stateful processor -------------------------------------------------------------------------------------------

# These are objects because the JVM would parse schemas in text form at the start of each task.
INDEX = StructType([StructField("json", StringType())])
CHUNK_KEY = StructType(
    [StructField("level", IntegerType()), StructField("number", LongType()), StructField("chunk", IntegerType())]
)
CHUNK = StructType([StructField("rows", BinaryType())])
EMITTED = "blob binary"


@dataclass
class StateChunks(MutableMapping[tuple[int, int, int], bytes]):
    """Spark's map state as a mutable mapping for ChunkMap."""

    state: Any

    def __getitem__(self, key: tuple[int, int, int]) -> bytes:
        found = self.state.getValue(key)
        if found is None:
            raise KeyError(key)
        return bytes(found[0])

    def __setitem__(self, key: tuple[int, int, int], blob: bytes) -> None:
        self.state.updateValue(key, (blob,))

    def __delitem__(self, key: tuple[int, int, int]) -> None:
        self.state.removeKey(key)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return iter(self.state.keys())

    def __len__(self) -> int:
        return sum(1 for _ in self)


class HoldProcessor(StatefulProcessor):
    """Spark's interface to a shard: its state variables, its timer, and the callbacks of Spark.

    One shard is one group. Each shard has at most one timer, at the head of its delay queue of buckets.

    The processor yields pandas frames, because Spark sends each frame to the JVM at once. With rows, Spark would gather
    the whole output in one Arrow batch, which is limited to 2 GB.
    """

    def __init__(self, settings: WheelSettings) -> None:
        self.settings = settings

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state variables. Spark calls this once in each task."""
        begin_task()
        self.handle = handle
        self.index = handle.getValueState("index", INDEX)
        self.buckets = StateChunks(handle.getMapState("buckets", CHUNK_KEY, CHUNK))
        self.delivered = StateChunks(handle.getMapState("delivered", CHUNK_KEY, CHUNK))
        self.named: Chunks = {}
        if self.settings.by_id:
            self.named = StateChunks(handle.getMapState("by_id", CHUNK_KEY, CHUNK))

    def handleInputRows(  # pyright: ignore[reportIncompatibleMethodOverride]    (frames alone)
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Add the packed messages of a batch. Yield the due ones among them and in the buckets."""
        first = next(rows)
        schema = from_stream(first.blob[0]).schema
        if key[0] == SETTINGS:
            self.check_settings(schema)
            return
        with Spill(schema, self.settings.limits.spill_bytes) as spill:
            for frame in chain([first], rows):
                for task, part, blob in zip(frame.task, frame.part, frame.blob, strict=True):
                    spill.append((task, part), from_stream(blob))
            arrived = chain.from_iterable(map(spill.take, sorted(spill.rows)))
            index = self.stored_index() or ShardWheel.new_index(self.settings, schema)
            arrivals = arrival_writer(self.settings, key[0])
            yield from self.advance(index, arrived, timerValues.getCurrentProcessingTimeInMs(), arrivals)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        """Yield the messages of due buckets. Spark deletes the expired timer."""
        index = self.stored_index()
        if index is None:
            raise RuntimeError(f"shard {key} has a timer, but no index")
        if index.timer_ms == expiredTimerInfo.getExpiryTimeInMs():
            index.timer_ms = None
        yield from self.advance(index, (), timerValues.getCurrentProcessingTimeInMs())

    def check_settings(self, schema: pa.Schema) -> None:
        """Compare the settings of the query with the stored ones. The first batch with rows stores them."""
        index = self.stored_index()
        if index is None:
            self.index.update((ShardWheel.new_index(self.settings, schema).to_json(),))
        else:
            self.settings.check(index.placement, index.columns, index.names, index.by_id is not None)

    def stored_index(self) -> ShardIndex | None:
        found = self.index.get()
        return ShardIndex.from_json(found[0]) if found else None

    def advance(
        self, index: ShardIndex, arrived: Iterable[pa.RecordBatch], now_ms: int, arrivals: ArrivalWriter | None = None
    ) -> Iterator[pd.DataFrame]:
        """Advance the wheel of the shard, then move its timer and store its index."""
        wheel = ShardWheel(self.settings, index, self.buckets, self.delivered, self.named)
        for table in wheel.advance(arrived, now_ms, arrivals):
            yield pd.DataFrame({"blob": [to_stream(table)]})
        next_ms = wheel.next_ms
        if next_ms != index.timer_ms:
            if index.timer_ms is not None:
                self.handle.deleteTimer(index.timer_ms)
            if next_ms is not None:
                self.handle.registerTimer(next_ms)
            index.timer_ms = next_ms
        self.index.update((index.to_json(),))
