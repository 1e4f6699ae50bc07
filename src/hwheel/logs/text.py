"""Logs as text: JSON lines, or CSV with a first line of names. A file is read as a whole."""

from collections.abc import Callable
from pathlib import PurePosixPath

from hwheel.extras import needed_by

with needed_by("hwheel.logs.text", "tune", without=("rich", "matplotlib")):
    import pyarrow as pa
    from pyarrow import csv, json

BLOCK_BYTES_MOST = 2**31 - 1


def read_csv(stream: pa.NativeFile, bytes_at_most: int) -> pa.Table:
    return csv.read_csv(stream, read_options=csv.ReadOptions(block_size=bytes_at_most))


def read_json(stream: pa.NativeFile, bytes_at_most: int) -> pa.Table:
    return json.read_json(stream, read_options=json.ReadOptions(block_size=bytes_at_most))


READERS: dict[str, Callable[[pa.NativeFile, int], pa.Table]] = {
    ".jsonl": read_json,
    ".ndjson": read_json,
    ".json": read_json,
    ".csv": read_csv,
}


def is_text(path: str) -> bool:
    """Whether a file is taken for text, by its name."""
    return PurePosixPath(path).suffix.lower() in READERS


def read_text(path: str, stream: pa.NativeFile) -> pa.Table:
    """All of a log. Types are found out by pyarrow: numbers, and times as ISO 8601 has them.

    Raises pyarrow.ArrowInvalid for what is neither JSON lines nor CSV.
    """
    # In one block, because the types of the first one would be those of all.
    everything = min(max(stream.size() + 1, 1), BLOCK_BYTES_MOST)
    return READERS[PurePosixPath(path).suffix.lower()](stream, everything)
