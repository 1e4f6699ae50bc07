"""A checkpoint that an earlier version wrote: a start continues from it.

    python -P tests/spark/test_upgrade.py   # write the archive again, with the job in /before-the-upgrade

The archive has `state` and `out` of a job with by_id.
"""

import json
import shutil
import sys
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest

sys.path.append(str(Path(__file__).parent))
from deliveries import WHEEL, Deliveries, first_batches_done, json_rows, put_lines
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.kept_input import kept_input
from hwheel.spark.deliver.pending import matching_rows
from hwheel.spark.deliver.settings import WheelOptions

DATA = Path(__file__).parent / "data" / "checkpoint-0.1.0.tar.gz"
FORMER = Path("/before-the-upgrade")
WRITTEN_BY = (4, 2)  # Spark reads the state of earlier versions only
BY_ID = replace(WHEEL, by_id=True, dedup="100000 days")
FAR_MS = 4 * 10**12
AHEAD_MS = 60_000  # held when the archive is written, and due when the test reads it


def messages(now_ms):
    """Return the lines of the old job: delivered ones, held ones, cancelled ones, and one that was moved."""
    delivered = [{"id": f"out{i}", "key": "k", "due": 1000 + i} for i in range(5)]
    held = [{"id": f"m{i}", "key": f"k{i % 3}", "due": now_ms + AHEAD_MS, "payload": f"p{i}"} for i in range(20)]
    cancels = [{**row, "cancel": True} for row in held[:3]]
    moved = {"id": "m5", "key": "k2", "due": FAR_MS, "replace": True, "payload": "moved"}
    return [*delivered, *held, *cancels, moved]


@pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < WRITTEN_BY, reason="a later version of Spark wrote the state"
)
def test_start_continues_from_the_checkpoint_of_an_earlier_version(deliveries, spark, tmp_path):
    with tarfile.open(DATA) as archive:
        archive.extractall(tmp_path, filter="data")
    held = json.loads((tmp_path / "held.json").read_text())
    state = Directory(spark, str(tmp_path / "state"))
    assert WheelOptions.from_json(state.read("hwheel.json")) == BY_ID
    by_id_cancel = {"id": "m9", "key": "k0", "cancel": True}
    put_lines(tmp_path / "in", "b.json", *messages(0)[:5], by_id_cancel, {"id": "new", "due": 2000})
    place, _ = kept_input(state, str(tmp_path / "in"), None, str(FORMER / "in"))
    assert place == f"file:{tmp_path}/in"
    before = {row["id"] for row in json_rows(tmp_path / "out")}
    assert before == {f"out{i}" for i in range(5)}
    expected = {*held} - {"m0", "m1", "m2", "m5", "m9"} | {"new"}
    deliveries.run(lambda one: one.sink.rows >= len(expected), wheel=BY_ID)
    rows = [row["id"] for row in json_rows(tmp_path / "out")]
    assert sorted(rows) == sorted(before | expected)
    (left,) = [row for row in matching_rows(spark, f"{state.path}/messages", "m5") if not row["cancelled"]]
    assert (left["due"], left["payload"]) == (FAR_MS, ["moved"])


def write(directory):
    """Write the archive with this version of hwheel."""
    from local_spark import start_session

    spark = start_session(directory / "warehouse")
    rows = messages(int(time.time() * 1000))
    put_lines(directory / "in", "a.json", *rows)
    (directory / "held.json").write_text(json.dumps(sorted({row["id"] for row in rows if row["id"][0] == "m"})))
    deliveries = Deliveries(spark, directory)
    deliveries.run(lambda one: one.sink.rows == 5 and first_batches_done(directory / "state"), wheel=BY_ID)
    state = Directory(spark, str(directory / "state"))
    (directory / "state" / "hwheel.json").write_text(BY_ID.to_json())
    kept_input(state, str(directory / "in"))
    spark.stop()
    DATA.parent.mkdir(exist_ok=True)
    with tarfile.open(DATA, "w:gz") as archive:
        for name in ("state", "out", "held.json"):
            archive.add(
                directory / name, name, filter=lambda one: one.replace(uid=0, gid=0, uname="", gname="", deep=False)
            )


if __name__ == "__main__":
    FORMER.mkdir()
    write(FORMER)
    shutil.rmtree(FORMER)
