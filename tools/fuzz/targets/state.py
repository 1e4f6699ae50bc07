"""Altered state of a shard of hwheel.spark: it raises an error or returns the original rows, never others."""

import dataclasses

import pyarrow as pa

from hwheel.spark.arrow import from_chunk, to_chunk
from hwheel.spark.shard.settings import Column, ColumnNames, Placement
from hwheel.spark.shard.state import Entry, ShardIndex, schema_text
from tape import number

SCHEMA = pa.schema([("id", pa.string()), ("due", pa.int64()), ("tags", pa.list_(pa.string()))])
ROWS = pa.record_batch(
    [
        pa.array(["a", "bb", None], pa.string()),
        pa.array([1, 2, 3], pa.int64()),
        pa.array([["x"], [], None], SCHEMA.field("tags").type),
    ],
    schema=SCHEMA,
)
CHUNK = to_chunk(ROWS)
INDEX = ShardIndex(
    Placement(1000, 512, 4, 1),
    [Column("id", "string"), Column("due", "bigint")],
    ColumnNames("id", "id", "due"),
    schema_text(SCHEMA),
    clock_ms=1_795_176_000_000,
    buckets={(1, 5): Entry(1, 100, 3, 100)},
)
TEXT = INDEX.to_json()


def run(data: bytes) -> int:
    """Alter a chunk or the index and read it. Return the number of operations, 1."""
    if data[:1] < b"\x80":
        chunk = altered(CHUNK, data[1:])
        try:
            rows = from_chunk(chunk, SCHEMA)
        except ValueError:
            return 1
        assert chunk == CHUNK and rows.equals(ROWS), "altered rows"
    else:
        text = altered(TEXT.encode(), data[1:]).decode(errors="replace")
        try:
            index = ShardIndex.from_json(text)
        except ValueError:
            return 1
        assert text == TEXT and dataclasses.asdict(index) == dataclasses.asdict(INDEX)
    return 1


def altered(good: bytes, edits: bytes) -> bytes:
    """Return a copy with some bytes replaced, removed, or cut off."""
    made, tape = bytearray(good), iter(edits)
    for choice in tape:
        at = number(tape) % max(len(made), 1)
        if choice == 255:
            del made[at:]
        elif choice == 254:
            del made[at : at + 1]
        elif made:
            made[at] = choice
    return bytes(made)
