"""replay() and outcomes().

A wheel belongs to one process, so each part of a log is replayed on its own wheel, and the costs are added. The outcome
of a timer does not depend on the parts; wake-ups, moves, and peaks do.

- A divided log: each file is a part. Workers get the names of files and read them with pyarrow.
- Any other log, by key: rows are packed where they are read, shuffled as a few blobs, and sorted where they arrive.
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
CHUNK_BYTES = 2**30  # far below the limit of Arrow's 32-bit offsets
MAX_WHEELS = 4096


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
    """Replay a log in virtual time with each combination of tick, wheel size, and timeout.

    Each part of the log has its own wheel. A part is a file or a partition of a frame; with key and wheels, a part is
    all timers whose keys are in the same shard. A timer fires as in SystemTimer, never early. At one instant, timers
    fire first, then timers are cancelled, then timers start.

    Args:
        log: Parquet files or directories, by path or URL, which the workers read; or a frame.
        start: The column with the start of a timer: integers of milliseconds, or timestamps. In any order.
        timeout: The column with its timeout: integers of milliseconds, or a day-time interval.
        end: The column with the time of its cancel, of the type of start. Null: the timer was not cancelled.
        key: The column that divides timers among wheels, as a service divides keys among processes.
        wheels: The number of wheels. Required with key.
        ticks: Tick lengths in milliseconds.
        wheel_sizes: Numbers of buckets in each level.
        timeouts: Timeouts in milliseconds that replace those of all timers. None: the timers' own.
        curves: Also count pending timers over time, and the delays until cancels.

    Returns:
        A hwheel.tune.study.Study: ``.costs`` has a ReplayCosts for each combination, summed over the parts. Also
        ``.at(tick, size)`` and ``.curves``.

    Raises:
        LogError: A ValueError: a column is missing or has the wrong type, a row is not a timer, or the log is empty.
            The message names file, column, and row.
        TypeError, ValueError: As in hwheel.replay.

    A worker keeps its part in memory: about 150 bytes for each row.

    O(1) for each timer and combination, after a sort.

    Example:
        >>> from hwheel.spark.replay import replay
        >>> study = replay("log", ticks=[1, 10, 100])  # doctest: +SKIP
        >>> for costs in study.costs:  # doctest: +SKIP
        ...     print(costs.tick_ms, costs.wakeups, costs.lateness.max)
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
        raise ValueError("key and wheels go together: give both, or neither")
    if wheels is None:
        return
    if isinstance(wheels, bool) or not isinstance(wheels, int):
        raise TypeError(f"wheels must be an int, not {type(wheels).__name__}")
    if not 1 <= wheels <= MAX_WHEELS:
        raise ValueError(f"wheels must be from 1 to {MAX_WHEELS}, not {wheels}")


def opened(
    log: str | Sequence[str] | DataFrame, columns: LogColumns, key: str | None
) -> tuple[DataFrame, list[str] | None]:
    """Return the input of the workers, and the files that they read.

    For a frame, the input is its columns, and there are no files. For files, the input is their numbers, one in each
    partition.
    """
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
    """Return the rows of a log with `outcome`, "fired" or "cancelled", and `at`, its time in milliseconds.

    Args:
        log: A frame with the columns start, timeout, and end, as in ``replay()``. Other columns are kept.
        tick, wheel_size: The settings of the wheel; tick in milliseconds.
        timeout_for_all: A timeout in milliseconds that replaces those of all timers.

    Raises:
        LogError, TypeError, ValueError: As in ``replay()``. A row that is not a timer makes the query fail.

    Rows are replayed in chunks in the order of arrival, because no outcome depends on another timer.

    O(1) for each timer.

    Example:
        >>> from hwheel.spark.replay import outcomes
        >>> log = spark.read.parquet("log")  # doctest: +SKIP
        >>> outcomes(log, tick=10).groupBy("outcome").count().show()  # doctest: +SKIP
    """
    [(tick_ms, size, timeout_ms)] = Grid.checked([tick], [wheel_size], [timeout_for_all])
    columns = LogColumns(start, timeout, end)
    check_frame(log, columns)
    for name in ("outcome", "at"):
        if name in log.columns:
            raise ValueError(f"log must not have a column {name!r}, because outcomes() adds it")
    schema = StructType([*log.schema.fields]).add("outcome", StringType()).add("at", LongType())
    return log.mapInArrow(Outcomes(columns, tick_ms, size, timeout_ms), schema)


@dataclass(frozen=True)
class Outcomes:
    """Add the outcomes to the rows of a log, inside mapInArrow."""

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
