"""The files of a log. A file gets its name when it is complete: whoever reads the directory, or a kill at any moment,
finds whole files."""

import os
import time
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from hwheel.logs.schema import DROPPED, SCHEMA


class Row(NamedTuple):
    """A timer that is over. Times in ms."""

    key: str | None
    start: int
    timeout: int
    end: int | None  # when it was cancelled; None: it expired


class LogWriter:
    """Collects rows, and writes them as one file when told to. Rows are numbered in the order in which they come."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        pa.array([0])  # loads what pyarrow loads at first use, which it could not while the process ends
        self._directory = directory
        # Unlike that of any other recorder, also of one of an earlier process with this number.
        self._prefix = f"timers-{time.time_ns() // 1_000_000}-{os.getpid()}-{id(self):x}"
        self._batches: list[pa.RecordBatch] = []
        self._next_id = 0
        self.rows = 0  # that wait for their file
        self.files = 0

    def add(self, rows: list[Row]) -> None:
        """Keeps rows in 40 bytes each."""
        columns = [
            pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), SCHEMA.types[1:], strict=True)
        ]
        ids = pa.array(range(self._next_id, self._next_id + len(rows)), pa.int64())
        self._batches.append(pa.RecordBatch.from_arrays([ids, *columns], schema=SCHEMA))
        self._next_id += len(rows)
        self.rows += len(rows)

    def finish(self, dropped: int) -> None:
        """Writes a file of what was added. Raises OSError, and then nothing is left of it."""
        name = f"{self._prefix}-{self.files:06d}.parquet"
        table = pa.Table.from_batches(self._batches, SCHEMA).replace_schema_metadata({DROPPED: str(dropped)})
        self._batches, self.rows = [], 0
        unfinished = self._directory / f".{name}.unfinished"
        pq.write_table(table, unfinished, row_group_size=131_072)
        unfinished.replace(self._directory / name)
        self.files += 1
