"""Rows with a hash and a tick, kept until the tick is settled, and found by the hash.

What is added lies together, as it came, until there is enough of it to be divided among the parts, by hash: so a batch
makes one state call and not one for each part. To find some hashes, what lies together is read, and the parts in which
they are. In each part rows stand in the order in which they were added.

Rows whose tick is settled are of no use any more. Nobody takes them away one by one; they go when what lies together is
divided, and when there are more rows than can be of use: then parts are written anew without them.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import arrow_array, gathered, one_array, row_numbers
from hwheel.spark.shard.state import ChunkMap, Entry, Key
from hwheel_core import group

PARTS = 256
TOGETHER = PARTS  # the number of what is not divided yet
TOGETHER_BYTES = 4 * 1024 * 1024
SPARE_ROWS = 65_536  # so many settled ones do no harm
TIDY_ROWS = 1_000_000  # so many are read in a batch to take settled ones away


def hashes_of(hashes: pa.ChunkedArray) -> pa.Array:
    """The upper half of hashes of 64 bits, which is kept of them: who finds a row looks whether it is its own."""
    return pc.shift_right(one_array(hashes), 32).cast(pa.int32())


@dataclass
class Hashed:
    """Rows with columns `hash`, int32, and `tick`, int64, and maybe others. `level`: that of its keys in the state.

    `floor_ms`: ticks up to here were settled before this batch, and no row is of use that has one.
    """

    chunks: ChunkMap
    level: int
    floor_ms: int

    @property
    def rows(self) -> int:
        return sum(entry.rows for entry in self.chunks.entries.values())

    def append(self, rows: pa.Table) -> None:
        """Adds rows."""
        if not rows.num_rows:
            return
        # A message that comes late is settled in this batch, and may be cancelled in it before.
        self.floor_ms = min(self.floor_ms, pc.min(rows.column("tick")).as_py() - 1)
        together = (self.level, TOGETHER)
        self.chunks.append(together, rows.cast(self.chunks.schema))
        if self.chunks.entries[together].bytes >= TOGETHER_BYTES:
            self.divide()

    def divide(self) -> None:
        """What lies together goes into the parts."""
        rows = self.of_use(pa.Table.from_batches(self.chunks.take((self.level, TOGETHER)), self.chunks.schema))
        parts = pc.bit_wise_and(one_array(rows.column("hash")).cast(pa.int64()), PARTS - 1)
        order, starts = group(parts)
        rows = rows.take(arrow_array(order))
        for start, end in zip(starts[:-1], starts[1:], strict=True):
            self.chunks.append((self.level, parts[order[start]].as_py()), rows.slice(start, end - start))

    def of_use(self, rows: pa.Table, settled_ms: int | None = None) -> pa.Table:
        """Those whose tick is not settled."""
        return rows.filter(pc.greater(rows.column("tick"), self.floor_ms if settled_ms is None else settled_ms))

    def find(self, hashes: "np.ndarray[Any, np.dtype[np.int32]]") -> pa.Table:
        """The rows of use with one of these hashes; those of one hash in the order in which they were added."""
        wanted = pa.array(hashes)
        found = [self.chunks.schema.empty_table()]
        for part in [*np.unique(hashes & (PARTS - 1)).tolist(), TOGETHER]:
            if (self.level, part) in self.chunks.entries:
                for batch in self.chunks.read((self.level, part)):
                    of_these = pc.is_in(batch.column("hash"), value_set=wanted)
                    found.append(self.of_use(pa.Table.from_batches([batch]).filter(of_these)))
        return pa.concat_tables(found)

    def tidy(self, settled_ms: int, most_rows: int) -> None:
        """Takes settled rows away where there are many: of all rows no more than most_rows are of use."""
        entries = self.chunks.entries
        if not most_rows:
            for key in [*entries]:
                self.chunks.drop(key)
            return
        too_many = self.rows - 2 * most_rows - SPARE_ROWS
        may_read = TIDY_ROWS
        largest_first = sorted(entries, key=lambda key: entries[key].rows, reverse=True)
        for key in largest_first:
            if too_many <= 0 or may_read <= 0:
                break
            before = entries[key].rows
            rows = self.of_use(pa.Table.from_batches(self.chunks.take(key), self.chunks.schema), settled_ms)
            if rows.num_rows:
                self.chunks.append(key, rows)
            too_many -= before - entries.get(key, Entry(0, 0, 0, 0)).rows
            may_read -= before


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
