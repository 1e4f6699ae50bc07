"""The stores of by_id: rows that are found by the hash of id and key, and the ids that were recalled recently."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import arrow_array, gather, one_array, row_numbers
from hwheel.spark.shard.state import ChunkMap, Entry, Key
from hwheel_core import group

# --- rows by hash -----------------------------------------------------------------------------------------------------

PARTS = 256
TOGETHER = PARTS  # the number of the undivided part
TOGETHER_BYTES = 4 * 1024 * 1024
SPARE_ROWS = 65_536  # settled rows that tidy() tolerates
TIDY_ROWS = 1_000_000  # rows that tidy() reads in a batch, at most


def hashes_of(hashes: pa.ChunkedArray) -> pa.Array:
    """Return the upper halves of 64-bit hashes. Readers compare id and key, so collisions are harmless."""
    return pc.shift_right(one_array(hashes), 32).cast(pa.int32())


@dataclass
class HashedRows:
    """Rows with a hash and a tick, stored until the tick is settled, and found by the hash.

    New rows collect in one undivided part, so that a batch makes one state call. When that part is large enough, its
    rows are divided among 256 parts by hash. A lookup reads the undivided part and the parts of its hashes. The rows of
    one hash keep the order in which they were appended.

    Rows of settled ticks are useless. They are removed when the undivided part is divided, and when ``tidy()``
    rewrites parts because there are too many of them.

    Args:
        chunks: The rows: `hash` (int32), `tick` (int64), and any others.
        level: The level of the keys in the state.
        floor_ms: All ticks up to this one were settled before this batch, so rows with such a tick are useless.
    """

    chunks: ChunkMap
    level: int
    floor_ms: int

    @property
    def rows(self) -> int:
        return sum(entry.rows for entry in self.chunks.entries.values())

    def append(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        # A late message is settled in this batch, and a cancel in the same batch must still find it.
        self.floor_ms = min(self.floor_ms, pc.min(rows.column("tick")).as_py() - 1)
        together = (self.level, TOGETHER)
        self.chunks.append(together, rows.cast(self.chunks.schema))
        if self.chunks.entries[together].bytes >= TOGETHER_BYTES:
            self.divide()

    def divide(self) -> None:
        """Divide the rows of the undivided part among the parts."""
        rows = self.unsettled(pa.Table.from_batches(self.chunks.take((self.level, TOGETHER)), self.chunks.schema))
        parts = pc.bit_wise_and(one_array(rows.column("hash")).cast(pa.int64()), PARTS - 1)
        order, starts = group(parts)
        rows = rows.take(arrow_array(order))
        for start, end in zip(starts[:-1], starts[1:], strict=True):
            self.chunks.append((self.level, parts[order[start]].as_py()), rows.slice(start, end - start))

    def unsettled(self, rows: pa.Table, settled_ms: int | None = None) -> pa.Table:
        """Return the rows whose tick is not settled."""
        return rows.filter(pc.greater(rows.column("tick"), self.floor_ms if settled_ms is None else settled_ms))

    def find(self, hashes: "np.ndarray[Any, np.dtype[np.int32]]") -> pa.Table:
        """Return the unsettled rows with one of these hashes."""
        wanted = pa.array(hashes)
        found = [self.chunks.schema.empty_table()]
        for part in [*np.unique(hashes & (PARTS - 1)).tolist(), TOGETHER]:
            if (self.level, part) in self.chunks.entries:
                for batch in self.chunks.read((self.level, part)):
                    has_hash = pc.is_in(batch.column("hash"), value_set=wanted)
                    found.append(self.unsettled(pa.Table.from_batches([batch]).filter(has_hash)))
        return pa.concat_tables(found)

    def tidy(self, settled_ms: int, max_useful: int) -> None:
        """If there are many settled rows, rewrite the largest parts without them.

        Args:
            max_useful: At least the number of unsettled rows.
        """
        entries = self.chunks.entries
        if not max_useful:
            for key in [*entries]:
                self.chunks.drop(key)
            return
        too_many = self.rows - 2 * max_useful - SPARE_ROWS
        may_read = TIDY_ROWS
        largest_first = sorted(entries, key=lambda key: entries[key].rows, reverse=True)
        for key in largest_first:
            if too_many <= 0 or may_read <= 0:
                break
            before = entries[key].rows
            rows = self.unsettled(pa.Table.from_batches(self.chunks.take(key), self.chunks.schema), settled_ms)
            if rows.num_rows:
                self.chunks.append(key, rows)
            too_many -= before - entries.get(key, Entry(0, 0, 0, 0)).rows
            may_read -= before


# --- recalled ids -----------------------------------------------------------------------------------------------------

RECALLED_SLICES = 8
READ_ROWS = 262_144
READ_BYTES = 16 * 1024 * 1024


@dataclass
class RecalledIds:
    """The ids and keys that a cancel by id or a replacement named recently.

    A message that arrives after its cancel counts as delayed in transit and is dropped. Each batch with messages reads
    all recalled ids, because each message may be one of them. They are stored by arrival, in slices of an eighth of the
    dedup horizon. A slice is forgotten one horizon after its last addition.

    Without a horizon, an id is remembered to the end of its batch.

    Args:
        level: The level of the keys in the state.
    """

    chunks: ChunkMap
    until_ms: dict[Key, int]
    dedup_ms: int
    level: int
    of_this_batch: list[pa.Table] = field(default_factory=list)

    def remember(self, named: pa.Table, now_ms: int) -> None:
        """Add ids and keys."""
        if not named.num_rows:
            return
        if not self.dedup_ms:
            self.of_this_batch.append(named)
            return
        key = self.level, now_ms // max(1, self.dedup_ms // RECALLED_SLICES)
        self.chunks.append(key, named)
        self.until_ms[key] = now_ms + self.dedup_ms

    def known(self, named: pa.Table) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Return for each id and key whether it is recalled."""
        ids = one_array(named.column(0))
        found = [named]
        for piece in self.of_this_batch:
            found.append(piece.filter(pc.is_in(piece.column(0), value_set=ids)))
        for key in self.chunks.entries if named.num_rows else ():
            for piece in gather(self.chunks.read(key), READ_ROWS, READ_BYTES):
                found.append(piece.filter(pc.is_in(piece.column(0), value_set=ids)))
        numbers = row_numbers(pa.concat_tables(found))
        return np.isin(numbers[: named.num_rows], numbers[named.num_rows :])

    def __bool__(self) -> bool:
        return bool(self.chunks.entries or self.of_this_batch)

    def forget(self, now_ms: int) -> None:
        """Drop the slices whose horizon has passed."""
        for key in [key for key, until_ms in self.until_ms.items() if until_ms <= now_ms]:
            self.chunks.drop(key)
            del self.until_ms[key]
