"""The ids and keys that a cancel by id, or a replacement, has named of late: a message that comes behind it is taken
for one that was overtaken, and has to be known.

Every batch with messages reads all of it, since each may be one of them. It is kept by the time at which it came, in
slices of an eighth of the horizon, each until its last has been known for as long.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import gathered, one_array, row_numbers
from hwheel.spark.shard.chunk_map import ChunkMap, Key

SLICES = 8
READ_ROWS = 262_144
READ_BYTES = 16 * 1024 * 1024


@dataclass
class Recalled:
    """(id, key), for `dedup_ms` and an eighth at most, and to the end of the batch at the least.

    `level`: that of its keys in the state.
    """

    chunks: ChunkMap
    until_ms: dict[Key, int]
    dedup_ms: int
    level: int
    of_this_batch: list[pa.Table] = field(default_factory=list)

    def remember(self, named: pa.Table, now_ms: int) -> None:
        """Adds ids and keys."""
        if not named.num_rows:
            return
        if not self.dedup_ms:
            self.of_this_batch.append(named)
            return
        key = self.level, now_ms // max(1, self.dedup_ms // SLICES)
        self.chunks.append(key, named)
        self.until_ms[key] = now_ms + self.dedup_ms

    def known(self, named: pa.Table) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """For each id and key, whether it is one of those."""
        ids = one_array(named.column(0))
        found = [named]
        for piece in self.of_this_batch:
            found.append(piece.filter(pc.is_in(piece.column(0), value_set=ids)))
        for key in self.chunks.entries if named.num_rows else ():
            for piece in gathered(self.chunks.read(key), READ_ROWS, READ_BYTES):
                found.append(piece.filter(pc.is_in(piece.column(0), value_set=ids)))
        numbers = row_numbers(pa.concat_tables(found))
        return np.isin(numbers[: named.num_rows], numbers[named.num_rows :])

    def __bool__(self) -> bool:
        return bool(self.chunks.entries or self.of_this_batch)

    def forget(self, now_ms: int) -> None:
        """Drops what has been known for long enough."""
        for key in [key for key, until_ms in self.until_ms.items() if until_ms <= now_ms]:
            self.chunks.drop(key)
            del self.until_ms[key]
