"""A log of timers replayed on Spark: what became of each, and what another tick, wheel size or timeout would have cost.

A wheel belongs to one process, so a log is replayed a part at a time, each part on a wheel of its own, and costs are
added up. What becomes of a timer does not depend on how the log is divided; wake-ups, moves and peaks do.

    log already divided:    each file is a part. A worker gets the names of files and reads them itself, through pyarrow
    anything else, by key:  rows are packed where they are read, a few blobs are shuffled, and sorted where they arrive
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructType

from hwheel.logs.columns import LogColumns, LogError
from hwheel.replay import Log
from hwheel.spark.arrow import gather
from hwheel.spark.message import quoted
from hwheel.spark.replay.by_key import PACKED, Packer, ShardParts
from hwheel.spark.replay.parts import PART, FileParts, FrameParts, study_of
from hwheel.spark.worker import shard_labels
from hwheel.tune.study import Grid, Study
from hwheel_core import DEFAULT_WHEEL_SIZE

OUTCOMES = pa.array(["fired", "cancelled"])
CHUNK_ROWS = 1_000_000
CHUNK_BYTES = 2**30  # far below what the 32 bits of Arrow's offsets reach
WHEELS_MOST = 4096


def replay(
    log: str | Sequence[str] | DataFrame,
    *,
    start: str = "start",
    timeout: str = "timeout",
    end: str = "end",
    key: str | None = None,
    wheels: int | None = None,
    ticks: Sequence[int] = (1,),
    wheel_sizes: Sequence[int] = (DEFAULT_WHEEL_SIZE,),
    timeouts: Sequence[int | None] = (None,),
    curves: bool = False,
) -> Study:
    """Lives through a log in virtual time, with every tick, wheel size and timeout that is asked for.

    Each part of the log has a wheel of its own: each file, or each partition of a frame; with key and wheels, all
    timers whose keys fall into the same shard, wherever they stand. A timer fires as in SystemTimer, never early; at
    one instant timers fire first, then they are cancelled, then started.

    Arguments:
        log: Parquet files or directories, by path or URL, which the workers read themselves; or a frame.
        start: the column that says when a timer was started: integers of ms or timestamps. In any order.
        timeout: for how long: integers of ms or a day-time interval.
        end: when it was cancelled, as start; null: never.
        key: the column by which timers are spread over wheels, as a service spreads its keys over its processes.
        wheels: over how many; with key, and only then.
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
    check_wheels(key, wheels)
    frame, files = opened(log, columns, key)
    if key is None or wheels is None:
        parts = frame.mapInArrow(
            FrameParts(columns, grid, curves) if files is None else FileParts(files, columns, grid, curves), PART
        )
    else:
        packed = frame.mapInArrow(Packer(key, columns, shard_labels(wheels, wheels), files), PACKED)
        parts = packed.repartition(wheels, "shard").mapInArrow(ShardParts(grid, curves), PART)
    return study_of(parts)


def check_wheels(key: str | None, wheels: int | None) -> None:
    if (key is None) != (wheels is None):
        raise ValueError("key and wheels go together: by which column, over how many wheels")
    if wheels is None:
        return
    if isinstance(wheels, bool) or not isinstance(wheels, int):
        raise TypeError(f"wheels must be an int, not {type(wheels).__name__}")
    if not 1 <= wheels <= WHEELS_MOST:
        raise ValueError(f"wheels must be from 1 to {WHEELS_MOST}, not {wheels}")


def opened(
    log: str | Sequence[str] | DataFrame, columns: LogColumns, key: str | None
) -> tuple[DataFrame, list[str] | None]:
    """The log's own columns; or the numbers of its files, one a partition, and the files."""
    if isinstance(log, DataFrame):
        check_frame(log, columns, key)
        return log.select(*map(quoted, columns.names if key is None else [key, *columns.names])), None
    paths = [log] if isinstance(log, str) else [*log]
    spark = SparkSession.active()
    try:
        found = spark.read.parquet(*paths)
        files = list(found.inputFiles())
    except AnalysisException as error:
        raise LogError(f"{', '.join(paths)}: {error.getMessage() or error}") from None
    check_key(found, key)
    return spark.range(0, len(files), 1, len(files)), files


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
    """Adds what became of each timer to the rows of a log, inside mapInArrow."""

    columns: LogColumns
    tick_ms: int
    wheel_size: int
    timeout_ms: int | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in gather(batches, CHUNK_ROWS, CHUNK_BYTES):
            yield from self.replayed(table)

    def replayed(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        log = Log(*self.columns.arrays(table, "the log"))
        found = log.replay(tick_ms=self.tick_ms, wheel_size=self.wheel_size, timeout_ms=self.timeout_ms)
        table = table.append_column("outcome", OUTCOMES.take(pa.array(found.outcomes)))
        yield from table.append_column("at", pa.array(found.at_ms)).to_batches()


def check_frame(log: DataFrame, columns: LogColumns, key: str | None = None) -> None:
    if log.isStreaming:
        raise ValueError("log must be a batch DataFrame, not a streaming one")
    columns.check(log.limit(0).toArrow().schema, "the log")
    check_key(log, key)


def check_key(log: DataFrame, key: str | None) -> None:
    if key is not None and key not in log.columns:
        raise LogError(f"there is no column {key!r}; the columns are {', '.join(log.columns)}")
