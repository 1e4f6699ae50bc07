"""Replay of the parts of a log in Spark's workers. Each part returns one row with its results."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from hwheel.logs.columns import LogColumns, LogError, joined
from hwheel.logs.files import read_file
from hwheel.replay import Log
from hwheel.tune.study import Grid, Study, study

PART = "study binary, error string"


def study_of(parts: DataFrame) -> Study:
    """Return the sum of all parts. Raise the LogError of a worker, without Spark's traces."""
    rows = parts.collect()
    for row in rows:
        if row.error is not None:
            raise LogError(row.error)
    return Study.merged([pickle.loads(row.study) for row in rows])


def part_row(make_study: Callable[[], Study]) -> pa.RecordBatch:
    """Return a batch with one row of PART: the results, or the error."""
    found: bytes | None = None
    wrong: str | None = None
    try:
        found = pickle.dumps(make_study())
    except (LogError, OverflowError) as error:
        wrong = str(error)
    return pa.RecordBatch.from_arrays(
        [pa.array([found], pa.binary()), pa.array([wrong], pa.string())], names=["study", "error"]
    )


@dataclass(frozen=True)
class FileParts:
    """Replay each file as a part. The input is the numbers of the files."""

    files: list[str]
    columns: LogColumns
    grid: Grid
    curves: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield part_row(partial(self.replayed, self.files[number]))

    def replayed(self, path: str) -> Study:
        # One thread, because Spark runs a task on each core.
        log, dropped = read_file(path, self.columns)
        return study(log, self.grid, curves=self.curves, dropped=dropped)


@dataclass(frozen=True)
class FrameParts:
    """Replay each partition of a frame as a part. The input is its rows."""

    columns: LogColumns
    grid: Grid
    curves: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield part_row(lambda: self.replayed(batches))

    def replayed(self, batches: Iterable[pa.RecordBatch]) -> Study:
        parts = [self.columns.arrays(batch, "the log") for batch in batches]
        return study(Log(*(joined(parts) if parts else ([], [], []))), self.grid, curves=self.curves)
