"""The files of a log. A file gets its name when it is complete, so readers see only whole files, also after a kill."""

import os
import time
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from hwheel.logs import DROPPED, SCHEMA


class Row(NamedTuple):
    """A timer that has ended. Times are in ms. end: the time of the cancel; None: the timer expired."""

    key: str | None
    start: int
    timeout: int
    end: int | None


class LogWriter:
    """Collects rows, and writes them to a file on request. Rows are numbered in order."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        pa.array([0])  # pyarrow imports modules at its first use, and imports fail while the process exits
        self._directory = directory
        # Unique: another recorder, or an earlier process with this pid, has another time or id.
        self._prefix = f"timers-{time.time_ns() // 1_000_000}-{os.getpid()}-{id(self):x}"
        self._batches: list[pa.RecordBatch] = []
        self._next_id = 0
        self.rows = 0  # added since the last file
        self.files = 0

    def add(self, rows: list[Row]) -> None:
        """Keep rows in memory, in 40 bytes each."""
        columns = [
            pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), SCHEMA.types[1:], strict=True)
        ]
        ids = pa.array(range(self._next_id, self._next_id + len(rows)), pa.int64())
        self._batches.append(pa.RecordBatch.from_arrays([ids, *columns], schema=SCHEMA))
        self._next_id += len(rows)
        self.rows += len(rows)

    def finish(self, dropped: int) -> None:
        """Write the rows in memory to a file. If this raises OSError, the rows are lost."""
        name = f"{self._prefix}-{self.files:06d}.parquet"
        table = pa.Table.from_batches(self._batches, SCHEMA).replace_schema_metadata({DROPPED: str(dropped)})
        self._batches, self.rows = [], 0
        unfinished = self._directory / f".{name}.unfinished"
        pq.write_table(table, unfinished, row_group_size=131_072)
        unfinished.replace(self._directory / name)
        self.files += 1
