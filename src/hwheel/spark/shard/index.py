"""The index of a shard: all that is known of it without reading a bucket, in one value state."""

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from hwheel.spark.arrow import checksum
from hwheel.spark.shard.chunk_map import Entry, Key
from hwheel.spark.shard.settings import Column, ColumnNames, Placement

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
