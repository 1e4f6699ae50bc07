"""Spark's side of a shard: its state variables, its timer, and the calls that Spark makes."""

from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from hwheel.spark.arrow import from_stream, to_stream
from hwheel.spark.shard.chunk_map import Chunks
from hwheel.spark.shard.index import ShardIndex
from hwheel.spark.shard.settings import WheelSettings
from hwheel.spark.shard.spill import Spill
from hwheel.spark.shard.wheel import ShardWheel
from hwheel.spark.worker_heap import begin_task

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
