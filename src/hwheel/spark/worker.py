"""What Spark's Python workers do between tasks, made short.

A worker that has done a task collects garbage, all generations, and on two cores that stands in the way of those who
still work on the batch: for the 80,000 objects that pandas, pyarrow and pyspark have brought into memory, and that stay
for good, it took 30 to 40 ms at each task of each worker. So they are shown to the collector no more.
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

from hwheel.spark.arrow import arrow_array, cut, from_stream, gathered, one_array, to_stream
from hwheel.spark.message import BY_ID, SEQUENCE, SHARD, TOMBSTONE
from hwheel.spark.shard.settings import WheelSettings
from hwheel.spark.shard.spill import Spill
from hwheel.spark.shard.state import Chunks, ShardIndex
from hwheel.spark.shard.wheel import ShardWheel
from hwheel_core import group

TASKS = 2  # what the first task still imports is there at the second

tasks_begun = 0


def begin_task() -> None:
    """Called by all that runs in a worker, at its begin: that is behind a collection, so little garbage stays with it.

    Of objects that are there at a worker's first two tasks the collector frees no cycles any more; by reference count
    they are freed as ever. Outside of a worker it does nothing.
    """
    global tasks_begun
    if tasks_begun < TASKS and TaskContext.get() is not None:
        tasks_begun += 1
        gc.freeze()


MASK = 0xFFFFFFFF


def labels(shards: int, partitions: int) -> list[int]:
    """Distinct labels, shard i's in state partition i % partitions.

    >>> [partition_of(label, 3) for label in labels(6, 3)]
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
    """Where Spark puts a group of this number: its Murmur3 hash of an int, with seed 42, by the partitions."""
    mixed = rotated(label * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    value = (rotated(42 ^ mixed, 13) * 5 + 0xE6546B64) & MASK
    value ^= 4
    value = (value ^ value >> 16) * 0x85EBCA6B & MASK
    value = (value ^ value >> 13) * 0xC2B2AE35 & MASK
    value ^= value >> 16
    return (value - (1 << 32) if value >> 31 else value) % partitions


def rotated(value: int, bits: int) -> int:
    """32 bits, rotated left."""
    return (value << bits | value >> 32 - bits) & MASK


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


# As objects: what is given as text Spark has the JVM parse, at each start of a task.
INDEX = StructType([StructField("json", StringType())])
CHUNK_KEY = StructType(
    [StructField("level", IntegerType()), StructField("number", LongType()), StructField("chunk", IntegerType())]
)
CHUNK = StructType([StructField("rows", BinaryType())])
EMITTED = "blob binary"


@dataclass
class StateChunks(MutableMapping[tuple[int, int, int], bytes]):
    """Spark's map state as a mapping, as far as a chunk map needs one."""

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

    def pop(self, key: tuple[int, int, int]) -> bytes:  # type: ignore[override]
        """In two calls; MutableMapping's would do as well, with a default that nobody gives."""
        blob = self[key]
        del self[key]
        return blob

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return iter(self.state.keys())

    def __len__(self) -> int:
        return sum(1 for _ in self)


class HoldProcessor(StatefulProcessor):
    """One shard is one group. A timer is kept at the next time at which there is something to do, one a shard: the
    delay queue holds buckets, and its head is what a timer is needed for.

    What it yields goes to the JVM a frame at a time. (With rows in place of frames Spark would gather all of them
    first, in one batch of Arrow's: a burst of any size, and two gigabytes at most.)
    """

    def __init__(self, settings: WheelSettings) -> None:
        self.settings = settings

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once a task: finds its state variables."""
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
        """A batch with packed messages for this shard, a frame for each of Spark's. Takes the due buckets as well, so
        that all goes out in order."""
        first = next(rows)
        schema = from_stream(first.blob[0]).schema
        with Spill(schema, self.settings.limits.spill_bytes) as spill:
            for frame in chain([first], rows):
                for task, part, blob in zip(frame.task, frame.part, frame.blob, strict=True):
                    spill.append((task, part), from_stream(blob))
            arrived = chain.from_iterable(map(spill.take, sorted(spill.rows)))
            index = self.stored_index() or ShardWheel.new_index(self.settings, schema)
            yield from self.advance(index, arrived, timerValues.getCurrentProcessingTimeInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        """The shard's timer. Spark itself takes the timer away afterwards."""
        index = self.stored_index()
        if index is None:
            raise RuntimeError(f"shard {key} has a timer and no index")
        if index.timer_ms == expiredTimerInfo.getExpiryTimeInMs():
            index.timer_ms = None
        yield from self.advance(index, (), timerValues.getCurrentProcessingTimeInMs())

    def stored_index(self) -> ShardIndex | None:
        found = self.index.get()
        return ShardIndex.from_json(found[0]) if found else None

    def advance(self, index: ShardIndex, arrived: Iterable[pa.RecordBatch], now_ms: int) -> Iterator[pd.DataFrame]:
        """Advances the shard's wheel, and stores what is new of it."""
        wheel = ShardWheel(self.settings, index, self.buckets, self.delivered, self.named)
        for table in wheel.advance(arrived, now_ms):
            yield pd.DataFrame({"blob": [to_stream(table)]})
        next_ms = wheel.next_ms
        if next_ms != index.timer_ms:
            if index.timer_ms is not None:
                self.handle.deleteTimer(index.timer_ms)
            if next_ms is not None:
                self.handle.registerTimer(next_ms)
            index.timer_ms = next_ms
        self.index.update((index.to_json(),))
