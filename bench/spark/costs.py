"""The cost of a batch: compared with other jobs, with distant due times, and with deliveries and cascades."""

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from hwheel.spark import hold_until_due
from job import NAMES, SCHEMA, START_MS, Job, messages
from processes import processor_seconds

SIZES = (50_000, 250_000)
TINY = 2
WARM_UP = 8  # batches of each job, while Java compiles
ROUNDS = 5
TRIGGER_S = 0.25
HELD = 8_000_000
OUT = 500_000
OUTS = 9
TICK_MS, WHEEL_SIZE = 1000, 256
DAY_MS = 86_400_000
COUNT = 1_000_000
BATCH = 250_000
WHEEL_SIZES = (256, 1024, 4096)


def deduplicated(frame: DataFrame) -> DataFrame:
    """Return Spark's own stateful transformation of the same stream."""
    return frame.dropDuplicates(["id", "due"])


def yardsticks(spark: SparkSession, directory: Path) -> dict[str, object]:
    """Return the median durations of batches of three jobs in turns, by clock and by processor time.

    A batch of two rows stands for an empty one where a job cannot run an empty batch.
    """
    transforms: dict[str, Callable[[DataFrame], DataFrame]] = {
        "pass-through": lambda frame: frame,
        "dropDuplicates": deduplicated,
        "hold_until_due": partial(hold_until_due, **NAMES),
    }
    jobs = {name: Job(spark, directory / str(i), transform) for i, (name, transform) in enumerate(transforms.items())}
    for job in jobs.values():
        for _ in range(WARM_UP):
            job.ingest(SIZES[0])
            job.ingest(TINY)
    found: dict[str, object] = {}
    for size in (TINY, *SIZES):
        times: dict[str, list[float]] = {name: [] for name in jobs}
        processor: dict[str, list[float]] = {name: [] for name in jobs}
        for number in range(ROUNDS):
            for name in [*jobs][:: 1 if number % 2 else -1]:
                before = processor_seconds()
                empty = name == "hold_until_due" and size == TINY
                times[name].append(jobs[name].batch(1000) if empty else jobs[name].ingest(size))
                processor[name].append(processor_seconds() - before)
        found[f"{size:,} a batch"] = {
            name: {
                "s": round(statistics.median(times[name]), 3),
                "at best": round(min(times[name]), 3),
                "processor s": round(statistics.median(processor[name]), 2),
                "hold_until_due to this": ratio(times["hold_until_due"], times[name]),
            }
            for name in jobs
        }
    for job in jobs.values():
        job.stop()
    return found


def ratio(these: list[float], those: list[float]) -> float:
    """Return the median of the ratios of all rounds."""
    return round(statistics.median(a / b for a, b in zip(these, those, strict=True)), 2)


def emission(spark: SparkSession, directory: Path) -> dict[str, object]:
    """Return the median rate of batches that deliver OUT messages and read none, after some smaller ones."""
    job = Job(spark, directory, partial(hold_until_due, **NAMES))
    while job.pending < HELD:
        job.ingest(OUT)
    for _ in range(WARM_UP):
        job.emit(OUT // 2)
    rates, processor = [], []
    for _ in range(OUTS):
        before = processor_seconds()
        count, seconds = job.emit(OUT)
        rates.append(round(count / seconds))
        processor.append(processor_seconds() - before)
    job.stop()
    return {
        "messages/s": statistics.median(rates),
        "at best": max(rates),
        "all": rates,
        "processor s": round(statistics.median(processor), 2),
    }


def parts(spark: SparkSession, directory: Path) -> dict[str, object]:
    """Return Spark's own measurements of batches, as medians in ms. They need the system clock."""
    for name in ("in", "staged"):
        (directory / name).mkdir(parents=True)
    frame = spark.readStream.schema(SCHEMA).parquet(str(directory / "in")).transform(partial(hold_until_due, **NAMES))
    now_ms = int(time.time() * 1000)
    for number in range(2 * (WARM_UP + ROUNDS)):
        dues = range(now_ms + 7_200_000 + number, now_ms + 93_600_000, 86_400_000 // (SIZES[0] // 2))
        table = messages(number * SIZES[0], [*dues][: SIZES[0] // 2])
        pq.write_table(table, directory / "staged" / f"{number:04}.parquet")
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(directory / "checkpoint"))
    query = writer.trigger(processingTime=f"{int(TRIGGER_S * 1000)} milliseconds").start()
    staged = sorted((directory / "staged").iterdir())
    while staged:
        for file in staged[:2]:
            file.rename(directory / "in" / file.name)
        del staged[:2]
        for any_rows in (True, False):  # a batch with rows, then an empty one
            wait_for_batch(query, any_rows)
    query.stop()
    found: dict[str, list[dict[str, float]]] = {"empty": [], f"{SIZES[0]:,} a batch": []}
    for progress in query.recentProgress:
        found[f"{SIZES[0]:,} a batch" if progress["numInputRows"] else "empty"].append(durations(progress))
    return {
        kind: {name: statistics.median(one.get(name, 0) for one in rows[WARM_UP:]) for name in rows[-1]}
        for kind, rows in found.items()
    }


def wait_for_batch(query: StreamingQuery, any_rows: bool) -> None:
    """Wait until the last batch has rows, or has none."""
    while (progress := query.lastProgress) is None or bool(progress["numInputRows"]) != any_rows:
        if (error := query.exception()) is not None:
            raise error
        time.sleep(0.01)


def durations(progress: Any) -> dict[str, float]:
    """Return Spark's durations of a batch; those of the state are means over the partitions."""
    of_state = progress["stateOperators"][0]
    partitions = of_state["numShufflePartitions"]
    return {
        **progress["durationMs"],
        "of it, state, a partition: Python and its state calls": of_state["allUpdatesTimeMs"] / partitions,
        "of it, state, a partition: load": of_state["customMetrics"]["rocksdbLoadLatencyMs"] / partitions,
        "of it, state, a partition: commit": of_state["commitTimeMs"] / partitions,
    }


def cascade(spark: SparkSession, directory: Path) -> dict[str, object]:
    """Let one full bucket of level 3 expire: all its messages are placed again, and none is delivered."""
    width_ms = TICK_MS * WHEEL_SIZE**2
    expiration_ms = (START_MS + 30 * DAY_MS) // width_ms * width_ms
    job = Job(
        spark,
        directory,
        partial(hold_until_due, **NAMES, wheel_size=WHEEL_SIZE),
        expiration_ms + TICK_MS,
        width_ms - 2 * TICK_MS,
    )
    job.ingest(COUNT // 2)
    job.ingest(COUNT // 2)
    seconds = job.batch(expiration_ms - job.now_ms)
    job.stop()
    return {"moved": COUNT, "s": round(seconds, 3), "messages/s": round(COUNT / seconds)}


def month(spark: SparkSession, directory: Path, wheel_size: int) -> dict[str, object]:
    """Run batches of messages that are due within a month."""
    job = Job(spark, directory, partial(hold_until_due, **NAMES, wheel_size=wheel_size), START_MS + DAY_MS, 30 * DAY_MS)
    job.ingest(COUNT)
    seconds = sorted(job.ingest(BATCH) for _ in range(5))
    job.stop()
    median = seconds[len(seconds) // 2]
    return {"messages/s": round(BATCH / median), "batch s": round(median, 3), "all": [round(one, 3) for one in seconds]}
