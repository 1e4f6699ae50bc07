"""Rows under keys (level, number), in chunks of bounded size in a map state.

A state call costs tens of microseconds, so a key's rows lie together in chunks of many rows; while the last chunk is
small it is rewritten with what is added, and left alone from then on. What each key holds stands in `entries`, which
the shard's index keeps: no state call is needed to know it.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from hwheel.spark.arrow import checksum, cut, from_chunk, one_batch, to_chunk
from hwheel.spark.shard.settings import Column, ColumnNames, Placement

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


FORMAT = 3  # of the state: 1 knew neither the columns' names nor the keys of what was delivered, 2 no checksums
FORMAT_BY_ID = 4  # of a state with by_id; an hwheel that does not know it refuses it

DAMAGED = "the index of a shard, in the state of this checkpoint, is damaged: its checksum is another"


@dataclass
class ByIdEntries:
    """What a shard with by_id holds beyond the others, by the parts of shard/by_id.py."""

    settled_ms: int = -1  # all ticks up to here are settled: the time of the batch before
    register: dict[Key, Entry] = field(default_factory=dict)
    taken_back: dict[Key, Entry] = field(default_factory=dict)
    recalled: dict[Key, Entry] = field(default_factory=dict)
    recalled_until_ms: dict[Key, int] = field(default_factory=dict)

    def to_fields(self) -> dict[str, Any]:
        """For JSON."""
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
    """Clock, counters, and what each bucket and each slice of delivered ids holds."""

    placement: Placement
    columns: list[Column]  # of a message, as the query calls them
    names: ColumnNames
    schema: str  # of the messages, Arrow's, as base64
    clock_ms: int = 0  # the latest batch
    sequence: int = 0  # of the next message to arrive
    timer_ms: int | None = None  # the timer that is registered
    buckets: dict[Key, Entry] = field(default_factory=dict)  # (level, expiration)
    delivered: dict[Key, Entry] = field(default_factory=dict)  # (level and length, number of the slice)
    delivered_until_ms: dict[Key, int] = field(default_factory=dict)
    slices_ms: list[int] = field(default_factory=list)  # the lengths of these slices
    by_id: ByIdEntries | None = None

    def to_json(self) -> str:
        """The index as it is put into the state."""
        fields = (
            {"format": FORMAT if self.by_id is None else FORMAT_BY_ID}
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
        if self.by_id is None:
            del fields["by_id"]
        return sealed(json.dumps(fields, separators=(",", ":"))[:-1])

    @classmethod
    def from_json(cls, text: str) -> "ShardIndex":
        """The index that to_json put into the state. ValueError: another version of hwheel has written it, or it is
        damaged."""
        try:
            fields = dict(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            raise ValueError(DAMAGED) from None
        found = fields.pop("format", 1)
        if found not in (FORMAT, FORMAT_BY_ID):
            raise ValueError(
                f"the checkpoint was written by another version of hwheel: its state has format {found}, and this "
                f"version reads {FORMAT} and {FORMAT_BY_ID}. Let the version that wrote it deliver what it holds, and "
                "start with a new checkpoint"
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
                "by_id": ByIdEntries.of_fields(fields["by_id"]) if found == FORMAT_BY_ID else None,
            }
        )

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the messages."""
        return pa.ipc.read_schema(pa.py_buffer(b64decode(self.schema)))


def sealed(text: str) -> str:
    """An object of JSON whose last field is the checksum of all before it. text: without the last brace."""
    return f'{text},"crc32":"{checksum(text.encode()).hex()}"}}'


SEAL_LENGTH = len(sealed(""))


def schema_text(schema: pa.Schema) -> str:
    """A schema as the index keeps it."""
    return b64encode(schema.remove_metadata().serialize()).decode()


def rows_of(entries: dict[Key, Entry]) -> list[list[int]]:
    return [[*key, *entry] for key, entry in entries.items()]


def entries_of(rows: list[list[int]]) -> dict[Key, Entry]:
    return {(level, number): Entry(*entry) for level, number, *entry in rows}


def rows_with(entries: dict[Key, Entry], until_ms: dict[Key, int]) -> list[list[int]]:
    """Beside each, until when it is kept."""
    return [[*row, until_ms[row[0], row[1]]] for row in rows_of(entries)]


def entries_with(rows: list[list[int]]) -> tuple[dict[Key, Entry], dict[Key, int]]:
    return entries_of([row[:-1] for row in rows]), {(row[0], row[1]): row[-1] for row in rows}
