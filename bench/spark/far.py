"""The cost of messages with distant due times: cascades, and batches that span a month."""

from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from hwheel.spark import hold_until_due
from job import NAMES, START_MS, Job

TICK_MS, WHEEL_SIZE = 1000, 256
DAY_MS = 86_400_000
COUNT = 1_000_000
BATCH = 250_000
WHEEL_SIZES = (256, 1024, 4096)


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
