"""hwheel.spark and a query with a timer for each message, in one run. See README.md.

python bench/spark/run.py [--pending 10000000] [--only wheel ...]
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

sys.path.extend(map(str, Path(__file__).parents[:2]))

from by_id import by_id
from hwheel.spark import hold_until_due
from hwheel.spark.deliver.pending import indexes, state_variable
from hwheel.spark.session.local import make_session
from job import NAMES, PAYLOAD, SETTINGS, START_MS, Job
from lag import SETTINGS as LAGS
from lag import lags
from lib.machine import machine
from one_timer import one_timer_a_message
from processes import processor_seconds

BATCH = 250_000
SMALL_BATCH = 50_000
HELD = 8_000_000
WARM_UP = 8  # batches, while Java compiles
OUT, OUTS = 500_000, 9  # messages of a batch of `emission`, and batches
TICK_MS, WHEEL_SIZE = 1000, 256  # of `cascade`
COUNT = 1_000_000
DAY_MS = 86_400_000


def fill(job: Job, pending: int) -> None:
    """Fill a job to a number of pending messages."""
    while job.pending < pending:
        job.ingest(min(1_000_000, pending - job.pending))


def batch_times(job: Job, size: int, times: int) -> list[float]:
    return [round(job.ingest(size), 3) for _ in range(times)]


def wheel(spark: SparkSession, directory: Path, pendings: list[int]) -> dict[str, object]:
    """Measure hold_until_due with few to many pending messages."""
    job = Job(spark, directory, partial(hold_until_due, **NAMES))
    found: dict[str, object] = {}
    job.ingest(SMALL_BATCH)  # starts workers; not counted
    for pending in pendings:
        fill(job, pending)
        found[f"{BATCH:,} a batch, {pending:,} pending"] = rate(BATCH, batch_times(job, BATCH, 5))
        found[f"{SMALL_BATCH:,} a batch, {pending:,} pending"] = rate(SMALL_BATCH, batch_times(job, SMALL_BATCH, 5))
    found["state"] = state_size(spark, str(directory / "checkpoint"), job.pending)
    for count in (SMALL_BATCH, 1_000_000):
        count = min(count, job.pending // 6)
        found[f"emit about {count:,}"] = [emitted(*job.emit(count)) for _ in range(4)]
    job.stop()
    return found


def timers(job: Job) -> dict[str, object]:
    """Measure the slow job with a few batches."""
    job.ingest(2000)
    found: dict[str, object] = {f"{SMALL_BATCH:,} a batch": rate(SMALL_BATCH, batch_times(job, SMALL_BATCH, 3))}
    found["emit"] = [emitted(*job.emit(min(SMALL_BATCH, job.pending // 3))) for _ in range(2)]
    job.stop()
    return found


def rate(size: int, seconds: list[float]) -> dict[str, object]:
    median = statistics.median(seconds)
    return {"messages/s": round(size / median), "batch s": median, "all": seconds}


def emitted(count: int, seconds: float) -> dict[str, object]:
    return {"messages": count, "s": round(seconds, 3), "messages/s": round(count / seconds)}


def state_size(spark: SparkSession, checkpoint: str, pending: int) -> dict[str, float]:
    """Return the bytes of a message in chunks and index, and its overhead."""
    chunks = (
        state_variable(spark, checkpoint, "buckets").agg(F.sum(F.length("user_map_value.rows")), F.count("*")).first()
    )
    assert chunks is not None
    index = sum(len(one.to_json()) for one in indexes(spark, checkpoint))
    own = len("m000000000000") + len("user-000000") + len(PAYLOAD) + 8
    bytes_a_message = (chunks[0] + index) / pending
    return {
        "pending": pending,
        "chunks": chunks[1],
        "bytes a message": round(bytes_a_message, 1),
        "beyond its own": round(bytes_a_message - own, 1),
    }


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


def cascade(spark: SparkSession, directory: Path) -> dict[str, object]:
    """Let one full bucket of level 3 expire: all its messages are placed again, and no message is delivered."""
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--pending", type=int, default=10_000_000, help="maximum number of pending messages (default: %(default)s)"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=["timers", "wheel", "lag", "cascade", "by_id", "emission"],
    )
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # Spark's workers import one_timer
    spark = make_session("local[2]", SETTINGS)
    pendings = [count for count in (100_000, 1_000_000, 10_000_000) if count <= options.pending]
    with tempfile.TemporaryDirectory(prefix="hwheel-bench-") as place:
        runs: dict[str, Callable[[Path], object]] = {
            "timers": lambda directory: timers(Job(spark, directory, one_timer_a_message)),
            "wheel": lambda directory: wheel(spark, directory, pendings),
            "lag": lambda directory: [lags(spark, directory / str(i), *one) for i, one in enumerate(LAGS)],
            "cascade": partial(cascade, spark),
            "by_id": lambda directory: by_id(spark, directory, min(options.pending, 1_000_000)),
            "emission": partial(emission, spark),
        }
        print(json.dumps({"machine": machine(), "pyspark": spark.version}), flush=True)
        for name in options.only:
            # Separate directories, because Spark may still write files of the previous run.
            print(json.dumps({name: runs[name](Path(place) / name)}, indent=1), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
