"""The ids and keys of what went out or was cancelled, kept for the dedup horizon, so that what comes again is known.

They are kept by the tick in which they were due, in slices of ticks: whoever sends a message again sends the same due,
so one or two slices tell. Slices of long ago are longer, as the buckets of far-away levels are: a backlog of years
makes as few of them as one of minutes.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import arrow_array, gathered, one_array
from hwheel.spark.shard.chunk_map import ChunkMap, Key
from hwheel_core import group, place

SLICES = 128  # in a horizon, and of one level
RECALL_ROWS = 262_144
RECALL_BYTES = 16 * 1024 * 1024


@dataclass
class Delivered:
    """(id, key, tick) of what was settled, in slices of ticks; without the key where that is the id's column."""

    chunks: ChunkMap
    until_ms: dict[Key, int]
    dedup_ms: int
    tick_ms: int

    @property
    def slice_ms(self) -> int:
        """The length of a slice of level 1: whole ticks."""
        return -(-max(self.dedup_ms // SLICES, 1) // self.tick_ms) * self.tick_ms

    def remember(self, settled: pa.Table, now_ms: int) -> None:
        """Adds ids, keys and ticks, none of them in the future."""
        if not self.dedup_ms or not settled.num_rows:
            return
        ticks = one_array(settled.column("tick"))
        # The past mirrored into the future: how long ago decides the level.
        placed, _ = place(pc.subtract(2 * now_ms, ticks), now_ms, self.slice_ms, SLICES)
        levels = pc.max_element_wise(arrow_array(placed), pa.scalar(1, pa.int64()))
        numbers = pc.divide(ticks, self.lengths(levels))
        order, starts = group(levels, numbers)
        settled = settled.take(arrow_array(order))
        for start, end in zip(starts[:-1], starts[1:], strict=True):
            key = levels[order[start]].as_py(), numbers[order[start]].as_py()
            self.chunks.append(key, settled.slice(start, end - start))
            self.until_ms[key] = now_ms + self.dedup_ms

    def lengths(self, levels: pa.Array) -> pa.Array:
        """Slice lengths of the levels, in ms."""
        most = pc.max(levels).as_py()
        by_level = pa.array([self.slice_ms * SLICES ** max(0, level - 1) for level in range(most + 1)], pa.int64())
        return by_level.take(levels)

    def recall(self, ticks: pa.Array, ids: pa.Array) -> pa.Table:
        """What is remembered of the slices in which these ticks lie, as far as it may have one of these ids."""
        found: list[pa.Table] = [self.chunks.schema.empty_table()]
        for level in {level for level, _ in self.chunks.entries}:
            for number in pc.unique(pc.divide(ticks, self.slice_ms * SLICES ** (level - 1))).to_pylist():
                if (level, number) in self.chunks.entries:
                    for table in gathered(self.chunks.read((level, number)), RECALL_ROWS, RECALL_BYTES):
                        # A slice can have all of a burst, and there be a handful of ids.
                        many = table.num_rows > len(ids)
                        found.append(table.filter(pc.is_in(table.column(0), value_set=ids)) if many else table)
        return pa.concat_tables(found)

    def forget(self, now_ms: int) -> None:
        """Drops the slices whose horizon has passed."""
        for key in [key for key, until_ms in self.until_ms.items() if until_ms <= now_ms]:
            self.chunks.drop(key)
            del self.until_ms[key]
