"""The cost of the index of ids, and of replacements by id: jobs with and without an index, in turns."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from hwheel.spark import hold_until_due
from job import NAMES, SCHEMA, Job, messages
from processes import processor_seconds

NAMED = {"cancel": "cancel", "replace": "replace"}
BATCH = 50_000
BATCHES = 16  # enough that the index is divided, which only some batches do
FILL_BATCH = 250_000
SHARES = (0.01, 0.1, 1.0)
SHARE_BATCHES = 3


def by_id(spark: SparkSession, directory: Path, pending: int) -> dict[str, object]:
    """Run batches of new messages through both jobs in turns, then batches of which some messages replace others."""
    without = Job(spark, directory / "without", partial(hold_until_due, **NAMES))
    index = Job(
        spark,
        directory / "index",
        partial(hold_until_due, **NAMES, **NAMED, by_id=True),
        schema=f"{SCHEMA}, cancel boolean, replace boolean",
    )
    jobs = {"without": without, "by_id": index}
    for job in jobs.values():
        job.ingest(BATCH)  # starts workers; not counted
        while job.pending < pending:
            job.ingest(min(FILL_BATCH, pending - job.pending))
    times: dict[str, list[float]] = {name: [] for name in jobs}
    processor: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(BATCHES):
        for name in [*jobs][:: 1 if number % 2 else -1]:
            before = processor_seconds()
            times[name].append(round(jobs[name].ingest(BATCH), 3))
            processor[name].append(round(processor_seconds() - before, 2))
    found: dict[str, object] = {"pending": pending}
    for what, seconds in (("time", times), ("processor time", processor)):
        rates = {name: round(BATCH * BATCHES / sum(of_job)) for name, of_job in seconds.items()}
        medians = {name: round(BATCH / float(np.median(of_job))) for name, of_job in seconds.items()}
        found[f"messages a second of {what}"] = {
            "mean": rates,
            "by_id of without": round(rates["by_id"] / rates["without"], 3),
            "medians": medians,
            "by_id of without, by medians": round(medians["by_id"] / medians["without"], 3),
        }
    found["s"] = times
    for share in SHARES:
        seconds = [round(replacing(index, share), 3) for _ in range(SHARE_BATCHES)]
        found[f"{share:.0%} of a batch replace"] = {
            "messages/s": round(BATCH * SHARE_BATCHES / sum(seconds)),
            "s": seconds,
        }
    for job in jobs.values():
        job.stop()
    return found


def replacing(job: Job, share: float) -> float:
    """Run a batch of which a share replaces pending messages; return its duration in seconds."""
    count = int(BATCH * share)
    new = messages(job.sent, job.first_due_ms + job.rng.integers(0, job.spread_ms, BATCH - count))
    job.sent += BATCH - count
    numbers = np.unique(job.rng.integers(0, job.sent - BATCH, count))
    moved = messages(0, job.first_due_ms + job.rng.integers(0, job.spread_ms, len(numbers)), numbers)
    moved = moved.append_column("replace", pa.repeat(pa.scalar(True), len(numbers)))
    for table in (new, moved):
        hidden = job.directory / "in" / f".{job.files}"
        pq.write_table(table, hidden)
        hidden.rename(hidden.with_name(f"{job.files}.parquet"))
        job.files += 1
    return job.batch(1000)
