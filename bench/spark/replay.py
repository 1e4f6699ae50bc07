"""hwheel.spark.replay and the best equivalent query of Spark SQL, in one run. See README.md.

python bench/spark/replay.py [--timers 16000000] [--rounds 3] [--only files shards sql]
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

sys.path.extend(map(str, Path(__file__).parents[:2]))

from hwheel.spark.replay import replay
from hwheel.spark.session.local import make_session
from lib.machine import machine
from processes import processor_seconds

START_MS = 1_795_176_000_000
HOUR_MS = 3_600_000
FILES = 8
WHEELS = 8
SETTINGS = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": str(WHEELS)}

# The outcome of each timer with a tick of 1 ms.
TIMERS = f"""
    SELECT pmod(xxhash64(key), {WHEELS}) AS shard, start, end IS NULL OR end >= start + timeout AS fired,
           if(end IS NULL OR end >= start + timeout, start + timeout, end) AS at
    FROM log"""
EVENTS = f"""
    SELECT shard, inline(array(struct(start AS t, 1L AS d, 0L AS f), struct(at AS t, -1L AS d, int(fired) AS f)))
    FROM ({TIMERS})"""
# For each shard, the peak of pending timers and the number of fired ones. A replay also computes moves, wake-ups,
# lateness, and the order within an instant. `pending` is a running sum over the events in order of time, and only the
# last event of an instant has the true number.
SQL = f"""
    SELECT shard, max(pending) AS peak, sum(f) AS fired FROM (
        SELECT shard, if(last, pending, 0) AS pending, f FROM (
            SELECT *, sum(d) OVER (PARTITION BY shard ORDER BY t ROWS UNBOUNDED PRECEDING) AS pending,
                   coalesce(lead(t) OVER (PARTITION BY shard ORDER BY t) > t, true) AS last
            FROM ({EVENTS})))
    GROUP BY shard"""


def write_log(directory: Path, timers: int, in_order: bool) -> None:
    """Write requests of an hour with timeouts of 5, 30, and 60 s. One in 20 is never answered."""
    directory.mkdir()
    count = timers // FILES
    for number in range(FILES):
        rng = np.random.default_rng(number)
        starts = rng.integers(0, HOUR_MS, count) + START_MS
        if in_order:
            starts.sort()
        timeouts = rng.choice([5000, 30_000, 60_000], count)
        ends = starts + np.minimum(rng.exponential(800, count).astype(np.int64), 2 * timeouts)
        pq.write_table(
            pa.table(
                {
                    "id": np.arange(number * count, (number + 1) * count),
                    "key": pa.array(np.char.mod("user-%06d", rng.integers(0, 100_000, count))),
                    "start": starts,
                    "timeout": timeouts,
                    "end": pa.array(ends, mask=rng.random(count) < 0.05),
                }
            ),
            directory / f"{number}.parquet",
        )


def in_files(spark: SparkSession, place: Path) -> int:
    """Replay a divided log: each file has a wheel."""
    return replay(str(place / "divided")).costs[0].fired


def in_shards(spark: SparkSession, place: Path) -> int:
    """Replay a log in any order, by key."""
    return replay(str(place / "mixed"), key="key", wheels=WHEELS).costs[0].fired


def in_sql(spark: SparkSession, place: Path) -> int:
    spark.read.parquet(str(place / "mixed")).createOrReplaceTempView("log")
    rows = spark.sql(SQL).collect()
    assert len(rows) == WHEELS
    return sum(row.fired for row in rows)


WAYS: dict[str, Callable[[SparkSession, Path], int]] = {"files": in_files, "shards": in_shards, "sql": in_sql}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--timers", type=int, default=16_000_000, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=WAYS, default=[*WAYS])
    options = parser.parse_args()
    spark = make_session("local[2]", SETTINGS)
    found: dict[str, dict[str, list[float]]] = {name: {"s": [], "processor s": []} for name in options.only}
    with tempfile.TemporaryDirectory(prefix="hwheel-bench-") as directory:
        place = Path(directory)
        write_log(place / "divided", options.timers, True)
        write_log(place / "mixed", options.timers, False)
        fired = {}
        for number in range(options.rounds + 1):  # the first round starts workers and compiles; it is not counted
            for name in options.only:
                began, used = time.perf_counter(), processor_seconds()
                fired[name] = WAYS[name](spark, place)
                took, worked = round(time.perf_counter() - began, 2), round(processor_seconds() - used, 2)
                print(f"round {number}: {name}: {took} s, {worked} processor s", file=sys.stderr, flush=True)
                if number:
                    found[name]["s"].append(took)
                    found[name]["processor s"].append(worked)
        if len({count for name, count in fired.items() if name != "files"}) > 1:
            raise SystemExit(f"the results differ: {fired}")
    spark.stop()
    print(json.dumps({"machine": machine(), "timers": options.timers, "events": 2 * options.timers}))
    for name, row in found.items():
        print(json.dumps({name: figures(row, options.timers)}))


def figures(row: dict[str, list[float]], timers: int) -> dict[str, Any]:
    """Return the rates. Each timer has two events, its start and its end."""
    median, used = statistics.median(row["s"]), statistics.median(row["processor s"])
    return {
        "M events/s": round(2 * timers / median / 1e6, 2),
        "M events/s at best": round(2 * timers / min(row["s"]) / 1e6, 2),
        "M events a processor second": round(2 * timers / used / 1e6, 2),
        **row,
    }


if __name__ == "__main__":
    main()
