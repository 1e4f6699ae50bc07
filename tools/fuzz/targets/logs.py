"""Damaged log files: read_files() raises LogError or returns a log."""

import io
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hwheel.logs.columns import LogColumns, LogError
from hwheel.logs.files import read_files
from tape import number

KINDS = ("jsonl", "csv", "parquet")
ROWS = {"start": [0, 5, 9], "timeout": [30, 30, 1], "end": [7, None, 9]}


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(ROWS), sink)
    return sink.getvalue()


PARQUET = parquet()
FOLDER = tempfile.TemporaryDirectory(prefix="hwheel-fuzz-")


def run(data: bytes) -> int:
    """Read the bytes as a log, or, for Parquet, a valid file altered by them. Return the number of operations, 1."""
    kind, data = KINDS[data[0] % len(KINDS)] if data else "csv", data[1:]
    path = Path(FOLDER.name) / f"log.{kind}"
    path.write_bytes(altered(PARQUET, data) if kind == "parquet" else data)
    try:
        log, _ = read_files([str(path)], LogColumns())
    except LogError:
        return 1
    log.replay()
    return 1


def altered(good: bytes, edits: bytes) -> bytes:
    """Return a copy with some bytes replaced, counted from the end like Parquet's footer, or cut off."""
    made, tape = bytearray(good), iter(edits)
    for choice in tape:
        at = max(len(made) - 1 - number(tape), 0)
        if choice == 255:
            del made[at:]
        elif made:
            made[at] = choice
    return bytes(made)
