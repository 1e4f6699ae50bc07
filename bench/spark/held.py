"""The cost of 100 million pending messages: batches, a restart, disk, and memory. Linux only.

python bench/spark/held.py [--held 100000000] [--place DIRECTORY]

The messages are small and due evenly within a day. For 100 million of them, filling takes at least 20 minutes and 20 GB
of disk in `place`, which is emptied at the end. Each step is a process, so that only the checkpoint connects them.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.extend(map(str, Path(__file__).parents[:2]))

from hwheel.spark import hold_until_due
from hwheel.spark.deliver.pending import matching_rows, rows_held
from hwheel.spark.session.local import make_session
from job import NAMES, SETTINGS, START_MS, Job
from lib.machine import load_average, machine
from processes import Peaks

FILL_BATCH = 1_000_000
SIZES = (50_000, 250_000)
TIMES = 5
STOPS = (100_000, 10_000_000)
GB = 1e9


def small_messages(first: int, due_ms: "np.ndarray[Any, Any]") -> pa.Table:
    """Return messages of 40 bytes: an id of 13, a key of 11, a due of 8, and a payload of 8."""
    numbers = np.arange(first, first + len(due_ms))
    ids = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 12, "0")
    keys = pc.utf8_lpad(pa.array(numbers * 7919 % 1_000_000).cast(pa.string()), 6, "0")
    return pa.table(
        {
            "id": pc.binary_join_element_wise("m", ids, ""),
            "key": pc.binary_join_element_wise("user-", keys, ""),
            "due": due_ms,
            "payload": pa.repeat("8 bytes.", len(numbers)),
        }
    )


class Held(Job):
    """A job that continues the job of another process, and deletes its input files after reading."""

    def __init__(self, *arguments: Any, sent: int, batches: int) -> None:
        super().__init__(*arguments, keep=batches > 0)
        self.sent, self.files, self.batches = sent, sent, batches
        self.now_ms = START_MS + batches * 1000

    def ingest(self, count: int) -> float:
        files = []
        for _ in range(2):
            due_ms = self.first_due_ms + self.rng.integers(0, self.spread_ms, count // 2)
            hidden = self.directory / "in" / f".{self.sent}"
            pq.write_table(small_messages(self.sent, due_ms), hidden)
            self.sent += count // 2
            files.append(hidden.rename(hidden.with_name(f"{hidden.name[1:]}.parquet")))
        seconds = self.batch(1000)
        for file in files:
            file.unlink()
        return seconds


class Looks:
    """Samples the memory of this process's children and the use of the disk."""

    def __init__(self, place: Path) -> None:
        self.place, self.peaks, self.most_disk, self.over = place, Peaks(), 0, threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self) -> None:
        while not self.over.wait(2):
            self.peaks.look(os.getpid())
            self.most_disk = max(self.most_disk, size_of(self.place))

    def found(self) -> dict[str, object]:
        self.over.set()
        self.thread.join()
        return {
            "MB of the JVM at its highest": self.peaks.java,
            "of the largest Python worker": self.peaks.worker,
            "GB of disk at its highest": round(self.most_disk / GB, 1),
        }


def size_of(place: Path) -> int:
    """Return the bytes on disk. A file that disappears is not counted."""
    total = 0
    for directory, _, names in os.walk(place):
        for name in names:
            try:
                total += os.stat(os.path.join(directory, name)).st_blocks * 512
            except OSError:
                continue
    return total


def batches(job: Job) -> dict[str, object]:
    """Return the median durations of batches in seconds, in turns."""
    job.batch(1000)
    seconds: dict[str, list[float]] = {"empty": [], **{f"{size:,}": [] for size in SIZES}}
    for _ in range(TIMES):
        seconds["empty"].append(job.batch(1000))
        for size in SIZES:
            seconds[f"{size:,}"].append(job.ingest(size))
    medians = {name: round(statistics.median(all), 3) for name, all in seconds.items()}
    return medians | {"at best": {name: round(min(all), 3) for name, all in seconds.items()}}


def fill(place: Path, held: int, minutes: float) -> dict[str, object]:
    """Fill a job to a number of messages, or for a time."""
    over = time.monotonic() + minutes * 60
    spark = make_session("local[2]", {**SETTINGS, "spark.local.dir": str(place / "local")})
    looks = Looks(place)
    job = Held(spark, place / "job", partial(hold_until_due, **NAMES), sent=0, batches=0)
    found: dict[str, object] = {}
    for _ in range(12):  # starts workers and lets Java compile
        job.ingest(8_000)
    for stop in (*(one for one in STOPS if one < held), held):
        filling: list[float] = []
        while job.sent < stop and time.monotonic() < over:
            filling.append(job.ingest(min(FILL_BATCH, stop - job.sent)))
        name = f"{job.sent:,} held"
        row: dict[str, object] = {"load average": load_average()[0], "batches, s": batches(job)}
        if len(filling) > 1:
            row["a batch of a million while it is filled, s"] = round(statistics.median(filling), 2)
            row["the longest"] = round(max(filling), 2)
        row["GB of the checkpoint"] = round(size_of(place / "job/checkpoint") / GB, 2)
        row["GB of Spark's local directory"] = round(size_of(place / "local") / GB, 2)
        found[name] = row
        print(json.dumps({name: row}), file=sys.stderr, flush=True)
    (place / "sent").write_text(json.dumps({"sent": job.sent, "batches": job.batches}))
    job.query.stop()
    spark.stop()
    return found | looks.found()


def again(place: Path) -> dict[str, object]:
    """Continue the job in another process."""
    state = json.loads((place / "sent").read_text())
    begun = time.perf_counter()
    spark = make_session("local[2]", {**SETTINGS, "spark.local.dir": str(place / "local2")})
    session_s = time.perf_counter() - begun
    looks = Looks(place)
    job = Held(spark, place / "job", partial(hold_until_due, **NAMES), sent=state["sent"], batches=state["batches"])
    first_s = job.ingest(SIZES[0])
    found: dict[str, object] = {
        "Spark's start, s": round(session_s, 1),
        "its first batch, s": round(first_s, 1),
        "batches after it, s": batches(job),
    }
    begun = time.perf_counter()
    held = rows_held(spark, str(place / "job/checkpoint"))
    found["how many are held"] = {"rows": held, "s": round(time.perf_counter() - begun, 1)}
    # The first bucket of the second level moves down.
    moved_s = job.batch(job.first_due_ms - job.now_ms)
    found["the batch in which the first coarse bucket moves down, s"] = round(moved_s, 2)
    due = [job.batch(10_000) for _ in range(5)]
    found["batches in which 10 s of messages go out, s"] = [round(one, 2) for one in due]
    (place / "sent").write_text(json.dumps({"sent": job.sent, "batches": job.batches}))
    job.query.stop()
    spark.stop()
    return found | looks.found()


def asked(place: Path) -> dict[str, object]:
    """Ask for pending messages in a third process."""
    spark = make_session("local[2]", {**SETTINGS, "spark.local.dir": str(place / "local3")})
    looks = Looks(place)
    checkpoint = str(place / "job/checkpoint")
    begun = time.perf_counter()
    held = rows_held(spark, checkpoint)
    rows_s = time.perf_counter() - begun
    begun = time.perf_counter()
    one = matching_rows(spark, checkpoint, id="m000000500000", most=1)
    one_s = time.perf_counter() - begun
    spark.stop()
    return {"held": held, "s": round(rows_s, 1), "one by its id": len(one), "s of it": round(one_s, 1)} | looks.found()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--held", type=int, default=100_000_000, help="default: %(default)s")
    parser.add_argument("--minutes", type=float, default=60, help="maximum time to fill (default: %(default)s)")
    parser.add_argument("--place", help="a directory on a large disk (default: the temporary directory)")
    parser.add_argument("--step", choices=["fill", "again", "asked"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        place = Path(options.place)
        if options.step == "fill":
            found = fill(place, options.held, options.minutes)
        else:
            found = {"again": again, "asked": asked}[options.step](place)
        print(json.dumps({options.step: found}, indent=1), flush=True)
        return
    print(json.dumps({"machine": machine(), "held": options.held}), flush=True)
    place = Path(tempfile.mkdtemp(prefix="hwheel-held-", dir=options.place))
    try:
        for name in ("fill", "again", "asked"):
            command = [sys.executable, __file__, "--step", name, "--place", str(place)]
            command += ["--held", str(options.held), "--minutes", str(options.minutes)]
            subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)})
            for local in place.glob("local*"):
                shutil.rmtree(local, ignore_errors=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
