"""The index of a shard: all that is known of it without reading a bucket, in one value state."""

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, field

import pyarrow as pa

from hwheel.spark.arrow import checksum
from hwheel.spark.shard.chunk_map import Entry, Key
from hwheel.spark.shard.settings import Column, ColumnNames, Placement

FORMAT = 3  # of the state: 1 knew neither the columns' names nor the keys of what was delivered, 2 no checksums

DAMAGED = "the index of a shard, in the state of this checkpoint, is damaged: its checksum is another"


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

    def to_json(self) -> str:
        """The index as it is put into the state."""
        fields = (
            {"format": FORMAT}
            | vars(self)
            | {
                "placement": self.placement._asdict(),
                "names": self.names._asdict(),
                "buckets": rows_of(self.buckets),
                "delivered": [[*row, self.delivered_until_ms[row[0], row[1]]] for row in rows_of(self.delivered)],
            }
        )
        del fields["delivered_until_ms"]
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
        if found != FORMAT:
            raise ValueError(
                f"the checkpoint was written by another version of hwheel: its state has format {found}, and this "
                f"version reads {FORMAT}. Let the version that wrote it deliver what it holds, and start with a new "
                "checkpoint"
            )
        if sealed(text[:-SEAL_LENGTH]) != text:
            raise ValueError(DAMAGED)
        del fields["crc32"]
        delivered = fields.pop("delivered")
        return cls(
            **fields
            | {
                "placement": Placement(**fields["placement"]),
                "columns": [Column(*column) for column in fields["columns"]],
                "names": ColumnNames(**fields["names"]),
                "buckets": entries_of(fields["buckets"]),
                "delivered": entries_of([row[:-1] for row in delivered]),
                "delivered_until_ms": {(row[0], row[1]): row[-1] for row in delivered},
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
