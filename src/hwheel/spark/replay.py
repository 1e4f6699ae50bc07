"""A log of timers replayed on Spark: what became of each, and what another tick, wheel size or timeout would have cost.

A wheel belongs to one process, so a log is replayed a part at a time, each part on a wheel of its own, and costs are added
up. What becomes of a timer does not depend on how the log is divided; wake-ups, moves and peaks do.

    log already divided:    each file is a part. A worker gets the names of files and reads them itself, through pyarrow
    anything else, by key:  rows are packed where they are read, a few blobs are shuffled, and sorted where they arrive
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructType

from hwheel_core import DEFAULT_WHEEL_SIZE

from hwheel.replay import Log
from hwheel.spark.replay_parts import PART, FileParts, FrameParts, study_of
from hwheel.tune.grid import Grid
from hwheel.tune.log_table import LogColumns, LogError
from hwheel.tune.study import Study

OUTCOMES = pa.array(["fired", "cancelled"])
CHUNK_ROWS = 1_000_000


def replay(
    log: str | Sequence[str] | DataFrame,
    *,
    start: str = "start",
    timeout: str = "timeout",
    end: str = "end",
    ticks: Sequence[int] = (1,),
    wheel_sizes: Sequence[int] = (DEFAULT_WHEEL_SIZE,),
    timeouts: Sequence[int | None] = (None,),
    curves: bool = False,
) -> Study:
    """Lives through a log in virtual time, with every tick, wheel size and timeout that is asked for.

    Each part of the log has a wheel of its own: each file, or each partition of a frame. A timer fires as in SystemTimer,
    never early; at one instant timers fire first, then they are cancelled, then started.

    Arguments:
        log: Parquet files or directories, by path or URL, which the workers read themselves; or a frame.
        start: the column that says when a timer was started: integers of ms or timestamps. In any order.
        timeout: for how long: integers of ms or a day-time interval.
        end: when it was cancelled, as start; null: never.
        ticks: tick lengths in ms.
        wheel_sizes: buckets a level.
        timeouts: timeouts in ms for all timers instead of their own; None: their own.
        curves: also count how many were pending in the course of time, and how long timers took to be cancelled.
    Returns:
        A hwheel.tune.study.Study: `.costs`, a ReplayCosts for each point of the grid, summed over the parts; `.at(tick,
        size)`; `.curves`.
    Raises:
        LogError (a ValueError): a column is not there or of the wrong type, a row is no timer, or there is no row; it
            names file, column and row.
        TypeError, ValueError: as hwheel.replay.

    A part is held in a worker's memory, some 150 bytes a row.

    Runtime complexity: O(1) a timer and point of the grid, after a sort.
    """
    grid = Grid.checked(ticks, wheel_sizes, timeouts)
    columns = LogColumns(start, timeout, end)
    if isinstance(log, DataFrame):
        check_frame(log, columns)
        parts = log.select(*map(quoted, columns.names)).mapInArrow(FrameParts(columns, grid, curves), PART)
    else:
        spark = SparkSession.active()
        files = files_of(spark, [log] if isinstance(log, str) else [*log])
        parts = spark.range(0, len(files), 1, len(files)).mapInArrow(FileParts(files, columns, grid, curves), PART)
    return study_of(parts)


def outcomes(
    log: DataFrame,
    *,
    start: str = "start",
    timeout: str = "timeout",
    end: str = "end",
    tick: int = 1,
    wheel_size: int = DEFAULT_WHEEL_SIZE,
    timeout_for_all: int | None = None,
) -> DataFrame:
    """The rows of a log with what became of each timer: `outcome`, "fired" or "cancelled", and `at`, when, in ms.

    Arguments:
        log: a frame with the columns start, timeout and end, as for `replay`, and any others, which stay.
        tick, wheel_size: the wheel's; tick in ms.
        timeout_for_all: a timeout in ms for all timers instead of their own.
    Raises:
        LogError, TypeError, ValueError: as `replay`. A row that is no timer makes the query fail when it is run.

    Rows are replayed in chunks, in the order in which they come: no timer's fate depends on another's.

    Runtime complexity: O(1) a timer.
    """
    [(tick_ms, size, timeout_ms)] = Grid.checked([tick], [wheel_size], [timeout_for_all])
    columns = LogColumns(start, timeout, end)
    check_frame(log, columns)
    for name in ("outcome", "at"):
        if name in log.columns:
            raise ValueError(f"log must have no column {name!r}: that is what is added")
    schema = StructType([*log.schema.fields]).add("outcome", StringType()).add("at", LongType())
    return log.mapInArrow(Outcomes(columns, tick_ms, size, timeout_ms), schema)


@dataclass(frozen=True)
class Outcomes:
    """What mapInArrow calls."""

    columns: LogColumns
    tick_ms: int
    wheel_size: int
    timeout_ms: int | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(one.num_rows for one in held) >= CHUNK_ROWS:
                yield from self.replayed(pa.Table.from_batches(held))
                held = []
        if held:
            yield from self.replayed(pa.Table.from_batches(held))

    def replayed(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        log = Log(*self.columns.arrays(table, "the log"))
        found = log.replay(tick_ms=self.tick_ms, wheel_size=self.wheel_size, timeout_ms=self.timeout_ms)
        table = table.append_column("outcome", OUTCOMES.take(pa.array(found.outcomes)))
        yield from table.append_column("at", pa.array(found.at_ms)).to_batches()


def check_frame(log: DataFrame, columns: LogColumns) -> None:
    if log.isStreaming:
        raise ValueError("log must be a batch DataFrame, not a streaming one")
    columns.check(log.limit(0).toArrow().schema, "the log")


def files_of(spark: SparkSession, paths: list[str]) -> list[str]:
    """The files that these paths name to Spark."""
    try:
        return list(spark.read.parquet(*paths).inputFiles())
    except AnalysisException as error:
        raise LogError(f"{', '.join(paths)}: {error.getMessage() or error}") from None


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
