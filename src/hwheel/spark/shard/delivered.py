"""The ids and keys of settled messages, remembered for the dedup horizon so that duplicates are recognized.

They are stored by tick, in slices of ticks. A duplicate has the due time of its message, so a lookup reads one or two
slices. Older slices are wider, like the buckets of higher levels, so a backlog of years has as few slices as one of
minutes.

The width of a slice depends on the horizon, which a restart may change. Existing slices keep their width, which the
index stores, until they are forgotten.
"""

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import arrow_array, gather, one_array
from hwheel.spark.shard.state import ChunkMap, Key
from hwheel_core import group, place

SLICES = 128  # in a horizon, and in each level
LEVELS = 64  # above the number of levels; the key of a slice has level + LEVELS * index of the width in slices_ms
READ_ROWS = 262_144
READ_BYTES = 16 * 1024 * 1024
OUT = "out"


def delivered_schema(identity: list[pa.Field], by_id: bool) -> pa.Schema:
    """Return the columns that are remembered of a message."""
    return pa.schema([*identity, ("tick", pa.int64()), *([(OUT, pa.bool_())] if by_id else [])])


@dataclass
class Delivered:
    """(id, key, tick) of settled messages, in slices of ticks. One column may be both id and key.

    With by_id, the column OUT is true for delivered messages and false for cancelled ones.

    Args:
        slices_ms: The widths of level 1, one for each horizon of which slices exist.
    """

    chunks: ChunkMap
    until_ms: dict[Key, int]
    dedup_ms: int
    tick_ms: int
    slices_ms: list[int]
    width_index: int = field(init=False)  # of the width of new slices, in slices_ms

    def __post_init__(self) -> None:
        slice_ms = -(-max(self.dedup_ms // SLICES, 1) // self.tick_ms) * self.tick_ms  # whole ticks
        if slice_ms not in self.slices_ms:
            used = {level // LEVELS for level, _ in self.until_ms}
            free = [number for number in range(len(self.slices_ms)) if number not in used]
            if free:
                self.slices_ms[free[0]] = slice_ms
            else:
                self.slices_ms.append(slice_ms)
        self.width_index = self.slices_ms.index(slice_ms)

    def remember(self, settled: pa.Table, now_ms: int) -> None:
        """Add ids, keys, and ticks. All ticks must have passed."""
        if not self.dedup_ms or not settled.num_rows:
            return
        ticks = one_array(settled.column("tick"))
        # The age of a tick decides its level, so the past is mirrored into the future.
        placed, _ = place(pc.subtract(2 * now_ms, ticks), now_ms, self.slices_ms[self.width_index], SLICES)
        levels = pc.add(pc.max_element_wise(arrow_array(placed), pa.scalar(1, pa.int64())), self.width_index * LEVELS)
        numbers = pc.divide(ticks, self.widths_ms(levels))
        order, starts = group(levels, numbers)
        settled = settled.take(arrow_array(order))
        for start, end in zip(starts[:-1], starts[1:], strict=True):
            key = levels[order[start]].as_py(), numbers[order[start]].as_py()
            self.chunks.append(key, settled.slice(start, end - start))
            self.until_ms[key] = now_ms + self.dedup_ms

    def width_ms(self, level: int) -> int:
        """Return the width of the slices of a level."""
        width_index, level_of_slices = divmod(level, LEVELS)
        return int(self.slices_ms[width_index] * SLICES ** (level_of_slices - 1))

    def widths_ms(self, levels: pa.Array) -> pa.Array:
        """Return the width of the slices for each of many levels."""
        found = pc.unique(levels)
        by_level = pa.array([self.width_ms(level) for level in found.to_pylist()], pa.int64())
        return by_level.take(pc.index_in(levels, value_set=found))

    def recall(self, ticks: pa.Array, ids: pa.Array) -> pa.Table:
        """Return remembered messages in the slices of these ticks, at least those with one of these ids."""
        found: list[pa.Table] = [self.chunks.schema.empty_table()]
        for level in {level for level, _ in self.chunks.entries}:
            for number in pc.unique(pc.divide(ticks, self.width_ms(level))).to_pylist():
                if (level, number) in self.chunks.entries:
                    for table in gather(self.chunks.read((level, number)), READ_ROWS, READ_BYTES):
                        # A slice may contain a whole burst, so it is filtered when only a few ids are wanted.
                        many = table.num_rows > len(ids)
                        found.append(table.filter(pc.is_in(table.column(0), value_set=ids)) if many else table)
        return pa.concat_tables(found)

    def forget(self, now_ms: int) -> None:
        """Drop the slices whose horizon has passed."""
        for key in [key for key, until_ms in self.until_ms.items() if until_ms <= now_ms]:
            self.chunks.drop(key)
            del self.until_ms[key]
