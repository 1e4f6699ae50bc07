"""The state of a shard: its index in one value state, and rows in chunks of bounded size in map states.

A state call costs tens of microseconds. So the rows of a key are stored in chunks of many rows. The index has the
number of chunks and rows of each key, which saves a state call.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from hwheel.spark.arrow import checksum, from_chunk, one_batch, slices, to_chunk
from hwheel.spark.shard.settings import Column, ColumnNames, Placement

# --- chunks -----------------------------------------------------------------------------------------------------------

OPEN_BYTES = 16 * 1024  # an append to a key rewrites the last chunk if it is smaller
CHUNK_BYTES = 1024 * 1024
FEW_ROWS = 2048  # at most this many are first written as one chunk


class Entry(NamedTuple):
    """The size of the rows of one key."""

    chunks: int
    open_bytes: int  # of the last chunk
    rows: int
    bytes: int


Key = tuple[int, int]  # (level, number)
Chunks = MutableMapping[tuple[int, int, int], bytes]


def chunks_of(rows: pa.Table) -> Iterator[bytes]:
    """Serialize rows as chunks."""
    # Computing the size of a sliced table takes as long as writing it, so a few rows are written without computing it.
    if rows.num_rows <= FEW_ROWS and len(blob := to_chunk(one_batch(rows))) <= CHUNK_BYTES:
        yield blob
        return
    for piece in slices(rows, rows.num_rows, CHUNK_BYTES):
        yield to_chunk(one_batch(piece))


@dataclass
class ChunkMap:
    """A map from (level, number) to rows, stored in chunks."""

    chunks: Chunks
    schema: pa.Schema
    entries: dict[Key, Entry] = field(default_factory=dict)

    def append(self, key: Key, rows: pa.Table) -> None:
        """Append rows to the rows of a key."""
        entry = self.entries.get(key, Entry(0, 0, 0, 0))
        added = rows.num_rows
        count, size = entry.chunks, entry.bytes
        if count and entry.open_bytes < OPEN_BYTES:
            count -= 1
            size -= entry.open_bytes
            tail = pa.Table.from_batches([from_chunk(self.chunks[(*key, count)], self.schema)])
            rows = pa.concat_tables([tail, rows])
        blob = b""
        for blob in chunks_of(rows):
            self.chunks[(*key, count)] = blob
            count += 1
            size += len(blob)
        self.entries[key] = Entry(count, len(blob), entry.rows + added, size)

    def read(self, key: Key) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a key, one chunk at a time."""
        for chunk in range(self.entries[key].chunks):
            yield from_chunk(self.chunks[(*key, chunk)], self.schema)

    def take(self, key: Key) -> Iterator[pa.RecordBatch]:
        """Yield and remove the rows of a key."""
        for chunk in range(self.entries.pop(key).chunks):
            yield from_chunk(self.chunks.pop((*key, chunk)), self.schema)

    def drop(self, key: Key) -> None:
        """Remove the rows of a key without reading them."""
        for chunk in range(self.entries.pop(key).chunks):
            del self.chunks[(*key, chunk)]


# --- the index --------------------------------------------------------------------------------------------------------

FORMAT = 4
DAMAGED = "the index of a shard in the state of this checkpoint is damaged: its checksum does not match"


@dataclass
class ByIdEntries:
    """The part of the index that only a shard with by_id has: the entries of ById's three chunk maps."""

    settled_ms: int = -1  # the time of the previous batch: all ticks up to it are settled
    register: dict[Key, Entry] = field(default_factory=dict)
    taken_back: dict[Key, Entry] = field(default_factory=dict)
    recalled: dict[Key, Entry] = field(default_factory=dict)
    recalled_until_ms: dict[Key, int] = field(default_factory=dict)

    def to_fields(self) -> dict[str, Any]:
        return {
            "settled_ms": self.settled_ms,
            "register": rows_of(self.register),
            "taken_back": rows_of(self.taken_back),
            "recalled": rows_with(self.recalled, self.recalled_until_ms),
        }

    @classmethod
    def of_fields(cls, fields: dict[str, Any]) -> "ByIdEntries":
        return cls(
            fields["settled_ms"],
            entries_of(fields["register"]),
            entries_of(fields["taken_back"]),
            *entries_with(fields["recalled"]),
        )


@dataclass
class ShardIndex:
    """The clock and the counters of a shard, and the size of each bucket and of each slice of delivered ids."""

    placement: Placement
    columns: list[Column]
    names: ColumnNames
    schema: str  # the Arrow schema of the messages, in base64
    clock_ms: int = 0  # of the last batch
    sequence: int = 0  # of the next message to arrive
    timer_ms: int | None = None  # the registered timer
    buckets: dict[Key, Entry] = field(default_factory=dict)  # by (level, expiration)
    delivered: dict[Key, Entry] = field(default_factory=dict)  # by (level and width, slice number)
    delivered_until_ms: dict[Key, int] = field(default_factory=dict)
    slices_ms: list[int] = field(default_factory=list)  # the widths of these slices
    by_id: ByIdEntries | None = None
    duplicates: int = 0  # messages that met an equal one in their tick, since the start of the checkpoint
    cancelled: int = 0  # messages that met a cancel in their tick

    def to_json(self) -> str:
        """Serialize the index with its checksum."""
        fields = (
            {"format": FORMAT}
            | vars(self)
            | {
                "placement": self.placement._asdict(),
                "names": self.names._asdict(),
                "buckets": rows_of(self.buckets),
                "delivered": rows_with(self.delivered, self.delivered_until_ms),
                "by_id": self.by_id and self.by_id.to_fields(),
            }
        )
        del fields["delivered_until_ms"]
        return sealed(json.dumps(fields, separators=(",", ":"))[:-1])

    @classmethod
    def from_json(cls, text: str) -> "ShardIndex":
        """Read what ``to_json()`` wrote.

        Raises:
            ValueError: The text is damaged, or another version of hwheel wrote it in another format.
        """
        try:
            fields = dict(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            raise ValueError(DAMAGED) from None
        found = fields.pop("format", 1)
        if found != FORMAT:
            raise ValueError(
                f"the checkpoint was written by another version of hwheel: its state has format {found}, and this "
                f"version reads {FORMAT}. Let the version that wrote it deliver its messages, and start with a new "
                "checkpoint"
            )
        if sealed(text[:-SEAL_LENGTH]) != text:
            raise ValueError(DAMAGED)
        del fields["crc32"]
        delivered, until_ms = entries_with(fields["delivered"])
        return cls(
            **fields
            | {
                "placement": Placement(**fields["placement"]),
                "columns": [Column(*column) for column in fields["columns"]],
                "names": ColumnNames(**fields["names"]),
                "buckets": entries_of(fields["buckets"]),
                "delivered": delivered,
                "delivered_until_ms": until_ms,
                "by_id": fields["by_id"] and ByIdEntries.of_fields(fields["by_id"]),
            }
        )

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the messages."""
        return pa.ipc.read_schema(pa.py_buffer(b64decode(self.schema)))


def sealed(text: str) -> str:
    """Complete a JSON object with a last field that is the checksum of ``text``, which lacks the closing brace."""
    return f'{text},"crc32":"{checksum(text.encode()).hex()}"}}'


SEAL_LENGTH = len(sealed(""))


def schema_text(schema: pa.Schema) -> str:
    """Serialize a schema in base64."""
    return b64encode(schema.remove_metadata().serialize()).decode()


def rows_of(entries: dict[Key, Entry]) -> list[list[int]]:
    return [[*key, *entry] for key, entry in entries.items()]


def entries_of(rows: list[list[int]]) -> dict[Key, Entry]:
    return {(level, number): Entry(*entry) for level, number, *entry in rows}


def rows_with(entries: dict[Key, Entry], until_ms: dict[Key, int]) -> list[list[int]]:
    """Return a row for each entry, with the time at which it is forgotten."""
    return [[*row, until_ms[row[0], row[1]]] for row in rows_of(entries)]


def entries_with(rows: list[list[int]]) -> tuple[dict[Key, Entry], dict[Key, int]]:
    return entries_of([row[:-1] for row in rows]), {(row[0], row[1]): row[-1] for row in rows}
