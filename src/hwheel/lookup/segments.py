"""Segments: immutable files of held messages, in which one message is found without reading the others.

A segment is an Arrow file with one record batch, which readers map into memory. Its rows are sorted by the hash of the
key. Three columns have an order of their own: the hashes of all ids with the row of each, and all ticks.

Each batch of the job adds small segments. The job merges segments below LARGE_BYTES into larger ones, and drops rows
that are due. A merged segment names the segments that it replaces. So no row counts twice if the job crashes before it
deletes these, or if a reader sees both.

A segment has the number of its last batch in its name. Segments of batches that Spark has not committed do not count.
"""

import json
import os
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SUFFIX = ".arrow"
NAME = re.compile(r"(?P<tier>\d)-(?P<batch>\d{9,})-[\w-]+\.arrow", re.ASCII)
MERGE_AT = 16  # small segments of a tier are merged
MERGE_BYTES = 256 * 1024 * 1024  # of segments that are merged at a time
LARGE_BYTES = MERGE_BYTES // 4  # larger segments are not merged
LAST_TIER = 9
USEFUL_SHARE = 0.5  # a large segment with a smaller share of pending rows is written again
HASHES = ("key_hash", "id_hash", "id_row")
TICKS = "ticks"
REPLACES = b"replaces"

Hashes = np.ndarray[Any, np.dtype[np.uint32]]


def hash_of(value: bytes | None) -> int:
    return 0 if value is None else zlib.crc32(value)


def hashes(values: pa.ChunkedArray) -> Hashes:
    """Return a hash of each value of a binary column."""
    return np.fromiter(map(hash_of, values.to_pylist()), np.uint32, len(values))


@dataclass(frozen=True)
class Segment:
    """An open segment.

    Args:
        batch: The rows, and the columns that have an order of their own.
        replaces: The names of the segments that were merged into this one.
    """

    name: str
    tier: int
    batch_id: int
    batch: pa.RecordBatch
    replaces: tuple[str, ...]

    @classmethod
    def open(cls, file: Path) -> "Segment":
        parts = NAME.fullmatch(file.name)
        if parts is None:
            raise ValueError(f"{file} is no segment")
        reader = pa.ipc.open_file(pa.memory_map(str(file)))
        replaces = tuple(json.loads((reader.schema.metadata or {}).get(REPLACES, b"[]")))
        return cls(file.name, int(parts["tier"]), int(parts["batch"]), reader.get_batch(0), replaces)

    @property
    def is_large(self) -> bool:
        return bool(self.batch.nbytes >= LARGE_BYTES)

    @cached_property
    def rows(self) -> pa.RecordBatch:
        """The rows without the columns that have an order of their own."""
        return self.batch.select([name for name in self.batch.schema.names if name not in (*HASHES, TICKS)])

    def numbers(self, name: str) -> Any:
        """Return a column of numbers without copying it. Arrow's own conversion would import pandas first."""
        return np.frombuffer(self.batch.column(name).buffers()[1], str(self.batch.column(name).type))

    def find(self, column: str, wanted: int) -> list[dict[str, Any]]:
        """Return the rows whose id or key has this hash.

        Calls none of Arrow's functions, because these import pandas first, which takes longer than the search.
        """
        sorted_hashes = self.numbers(f"{column}_hash")
        start, end = (int(np.searchsorted(sorted_hashes, np.uint32(wanted), side)) for side in ("left", "right"))
        places = range(start, end) if column == "key" else self.numbers("id_row")[start:end].tolist()
        return [row for at in places for row in self.rows.slice(at, 1).to_pylist()]

    def pending(self, clock_ms: int) -> int:
        """Return the number of rows whose tick is after a time."""
        return int(self.batch.num_rows - np.searchsorted(self.numbers(TICKS), clock_ms, "right"))


def write_segment(directory: Path, name: str, rows: pa.Table, replaces: Iterable[str] = ()) -> None:
    """Write a segment and replace one of the same name, atomically.

    Args:
        rows: The rows, and their hashes in the columns `key_hash` and `id_hash`.
    """
    rows = rows.combine_chunks()
    rows = rows.take(pa.array(np.argsort(rows.column("key_hash").to_numpy(), kind="stable")))
    id_hashes = rows.column("id_hash").to_numpy()
    by_id = np.argsort(id_hashes, kind="stable")
    rows = rows.drop_columns(["id_hash"]).append_column("id_hash", pa.array(id_hashes[by_id]))
    rows = rows.append_column("id_row", pa.array(by_id.astype(np.uint32)))
    rows = rows.append_column(TICKS, pa.array(np.sort(rows.column("tick").to_numpy())))
    rows = rows.replace_schema_metadata({REPLACES: json.dumps([*replaces])}).combine_chunks()
    hidden = directory / f".{name}-{uuid4().hex}"
    with hidden.open("wb") as file:
        with pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_batch(rows.to_batches()[0])
        file.flush()
        os.fsync(file.fileno())
    hidden.replace(directory / name)


def segment_name(tier: int, batch_id: int, label: str) -> str:
    return f"{tier}-{batch_id:09d}-{label}{SUFFIX}"


# --- all segments -----------------------------------------------------------------------------------------------------

TRIES = 20


def open_segments(directory: Path) -> list[Segment]:
    """Open all segments that no other one replaces, in order of their batches.

    Raises:
        OSError, ValueError: A segment cannot be read.
    """
    for left in reversed(range(TRIES)):
        names = sorted(name for name in os.listdir(directory) if NAME.fullmatch(name))
        try:
            found = [Segment.open(directory / name) for name in names]
        except FileNotFoundError:  # the job has just merged or deleted a segment
            if not left:
                raise
            continue
        replaced = {name for segment in found for name in segment.replaces}
        return sorted(
            (segment for segment in found if segment.name not in replaced),
            key=lambda segment: (segment.batch_id, segment.name),
        )
    raise AssertionError


def tidy(directory: Path, committed: int, clock_ms: int) -> bool:
    """Delete useless segments and merge some. Return True if there may be more to do. Only the job may call this.

    Args:
        committed: The last batch that Spark has committed.
        clock_ms: The time of this batch: rows with a tick up to it were delivered.
    """
    segments = [segment for segment in open_segments(directory) if segment.batch_id <= committed]
    kept = {segment.name for segment in segments}
    for name in os.listdir(directory):
        is_old = (parts := NAME.fullmatch(name)) is not None and int(parts["batch"]) <= committed
        if is_old and name not in kept:
            (directory / name).unlink()
    for segment in segments:
        useful = segment.pending(clock_ms)
        if not useful:
            (directory / segment.name).unlink()
        elif segment.is_large and useful < USEFUL_SHARE * segment.batch.num_rows:
            merge(directory, [segment], clock_ms)
            return True
    segments = [segment for segment in segments if segment.pending(clock_ms)]
    for tier in range(LAST_TIER):
        small = [segment for segment in segments if segment.tier == tier and not segment.is_large]
        if len(small) >= MERGE_AT:
            merge(directory, fitting(small), clock_ms)
            return True
    return False


def fitting(segments: list[Segment]) -> list[Segment]:
    """Return the first segments up to MERGE_BYTES, but at least one."""
    sizes = np.cumsum([segment.batch.nbytes for segment in segments])
    return segments[: max(1, int(np.searchsorted(sizes, MERGE_BYTES)))]


def merge(directory: Path, segments: list[Segment], clock_ms: int) -> None:
    """Write the pending rows of some segments into a new one, and delete the old ones."""
    tables = []
    for segment in segments:
        id_hashes = np.empty(segment.batch.num_rows, np.uint32)
        id_hashes[segment.numbers("id_row")] = segment.numbers("id_hash")
        rows = pa.Table.from_batches([segment.rows]).append_column("key_hash", segment.batch.column("key_hash"))
        rows = rows.append_column("id_hash", pa.array(id_hashes))
        tables.append(rows.filter(pc.greater(rows.column("tick"), clock_ms)))
    last_batch = max(segment.batch_id for segment in segments)
    tier = min(LAST_TIER, max(segment.tier for segment in segments) + 1)
    name = segment_name(tier, last_batch, uuid4().hex[:12])
    write_segment(directory, name, pa.concat_tables(tables), [segment.name for segment in segments])
    for segment in segments:
        (directory / segment.name).unlink()
