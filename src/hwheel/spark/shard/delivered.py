"""The ids and keys of what went out or was cancelled, kept for the dedup horizon, so that what comes again is known.

They are kept by the tick in which they were due, in slices of ticks: whoever sends a message again sends the same due,
so one or two slices tell. Slices of long ago are longer, as the buckets of far-away levels are: a backlog of years
makes as few of them as one of minutes.

How long a slice is hangs on the horizon, which a restart may change. So the slices that there are keep their length,
which the index knows, until they are forgotten.
"""

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import arrow_array, gathered, one_array
from hwheel.spark.shard.state import ChunkMap, Key
from hwheel_core import group, place

SLICES = 128  # in a horizon, and of one level
LEVELS = 64  # more than there are: what is above is the number of the length
RECALL_ROWS = 262_144
RECALL_BYTES = 16 * 1024 * 1024
OUT = "out"


def delivered_schema(identity: list[pa.Field], by_id: bool) -> pa.Schema:
    """The columns of what is remembered."""
    return pa.schema([*identity, ("tick", pa.int64()), *([(OUT, pa.bool_())] if by_id else [])])


@dataclass
class Delivered:
    """(id, key, tick) of what was settled, in slices of ticks; without the key where that is the id's column. With
    by_id also OUT, whether it went out, or was taken back.

    `slices_ms`: the lengths that slices of level 1 have, one for each horizon of which there are slices.
    """

    chunks: ChunkMap
    until_ms: dict[Key, int]
    dedup_ms: int
    tick_ms: int
    slices_ms: list[int]
    length: int = field(init=False)  # the number of the one that new slices have

    def __post_init__(self) -> None:
        slice_ms = -(-max(self.dedup_ms // SLICES, 1) // self.tick_ms) * self.tick_ms  # whole ticks
        if slice_ms not in self.slices_ms:
            used = {level // LEVELS for level, _ in self.until_ms}
            free = [number for number in range(len(self.slices_ms)) if number not in used]
            if free:
                self.slices_ms[free[0]] = slice_ms
            else:
                self.slices_ms.append(slice_ms)
        self.length = self.slices_ms.index(slice_ms)

    def remember(self, settled: pa.Table, now_ms: int) -> None:
        """Adds ids, keys and ticks, none of them in the future."""
        if not self.dedup_ms or not settled.num_rows:
            return
        ticks = one_array(settled.column("tick"))
        # The past mirrored into the future: how long ago decides the level.
        placed, _ = place(pc.subtract(2 * now_ms, ticks), now_ms, self.slices_ms[self.length], SLICES)
        levels = pc.add(pc.max_element_wise(arrow_array(placed), pa.scalar(1, pa.int64())), self.length * LEVELS)
        numbers = pc.divide(ticks, self.lengths(levels))
        order, starts = group(levels, numbers)
        settled = settled.take(arrow_array(order))
        for start, end in zip(starts[:-1], starts[1:], strict=True):
            key = levels[order[start]].as_py(), numbers[order[start]].as_py()
            self.chunks.append(key, settled.slice(start, end - start))
            self.until_ms[key] = now_ms + self.dedup_ms

    def length_ms(self, level: int) -> int:
        """How long the slices of a level are."""
        length, above = divmod(level, LEVELS)
        return int(self.slices_ms[length] * SLICES ** (above - 1))

    def lengths(self, levels: pa.Array) -> pa.Array:
        """The same for each of many."""
        found = pc.unique(levels)
        by_level = pa.array([self.length_ms(level) for level in found.to_pylist()], pa.int64())
        return by_level.take(pc.index_in(levels, value_set=found))

    def recall(self, ticks: pa.Array, ids: pa.Array) -> pa.Table:
        """What is remembered of the slices in which these ticks lie, as far as it may have one of these ids."""
        found: list[pa.Table] = [self.chunks.schema.empty_table()]
        for level in {level for level, _ in self.chunks.entries}:
            for number in pc.unique(pc.divide(ticks, self.length_ms(level))).to_pylist():
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
