"""Rows under keys (level, number), in chunks of bounded size in a map state.

A state call costs tens of microseconds, so a key's rows lie together in chunks of many rows; while the last chunk is
small it is rewritten with what is added, and left alone from then on. What each key holds stands in `entries`, which
the shard's index keeps: no state call is needed to know it.
"""

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from hwheel.spark.arrow import cut, from_chunk, one_batch, to_chunk

OPEN_BYTES = 16 * 1024  # a last chunk below this is rewritten by the next append
CHUNK_BYTES = 1024 * 1024
FEW_ROWS = 2048


class Entry(NamedTuple):
    """How much a key holds."""

    chunks: int
    open_bytes: int  # of the last chunk
    rows: int
    bytes: int


Key = tuple[int, int]
Chunks = MutableMapping[tuple[int, int, int], bytes]


def blobs(rows: pa.Table) -> Iterator[bytes]:
    """The rows as chunks. How large some slices of a table are takes as long to tell as to write them, so where there
    are few rows they are written first."""
    if rows.num_rows <= FEW_ROWS and len(blob := to_chunk(one_batch(rows))) <= CHUNK_BYTES:
        yield blob
        return
    for piece in cut(rows, rows.num_rows, CHUNK_BYTES):
        yield to_chunk(one_batch(piece))


@dataclass
class ChunkMap:
    """A map from (level, number) to rows, kept in chunks."""

    chunks: Chunks
    schema: pa.Schema
    entries: dict[Key, Entry] = field(default_factory=dict)

    def append(self, key: Key, rows: pa.Table) -> None:
        """Adds rows after those that are there."""
        entry = self.entries.get(key, Entry(0, 0, 0, 0))
        added = rows.num_rows
        count, size = entry.chunks, entry.bytes
        if count and entry.open_bytes < OPEN_BYTES:
            count -= 1
            size -= entry.open_bytes
            tail = pa.Table.from_batches([from_chunk(self.chunks[(*key, count)], self.schema)])
            rows = pa.concat_tables([tail, rows])
        blob = b""
        for blob in blobs(rows):
            self.chunks[(*key, count)] = blob
            count += 1
            size += len(blob)
        self.entries[key] = Entry(count, len(blob), entry.rows + added, size)

    def read(self, key: Key) -> Iterator[pa.RecordBatch]:
        """The rows under a key, a chunk at a time."""
        for chunk in range(self.entries[key].chunks):
            yield from_chunk(self.chunks[(*key, chunk)], self.schema)

    def take(self, key: Key) -> Iterator[pa.RecordBatch]:
        """The rows under a key, which are gone afterwards."""
        for chunk in range(self.entries.pop(key).chunks):
            yield from_chunk(self.chunks.pop((*key, chunk)), self.schema)

    def drop(self, key: Key) -> None:
        """Forgets the rows under a key, unread."""
        for chunk in range(self.entries.pop(key).chunks):
            del self.chunks[(*key, chunk)]
