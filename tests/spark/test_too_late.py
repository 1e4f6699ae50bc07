"""--max-lateness and --rate: messages after an outage, and bursts."""

import json
import time

import pyarrow as pa
import pytest

from deliveries import json_rows, put_lines
from hwheel.spark.deliver import throttle
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.kept_input import Lateness, kept_lateness
from hwheel.spark.deliver.sink import DirectorySink, json_records
from hwheel.spark.deliver.throttle import Throttle

OLD = [{"id": f"old{i}", "key": "k", "due": 1000 + i, "payload": "p"} for i in range(3)]

NEW = [f"new{i}" for i in range(3)]


def recent():
    return [{"id": id, "key": "k", "due": int(time.time() * 1000) - 1000} for id in NEW]


def test_messages_that_are_too_late_are_dead_letters_once(deliveries, tmp_path, monkeypatch):
    """The job is interrupted after it has written the letters, and repeats the batch without the limit."""
    new = recent()
    put_lines(tmp_path / "in", "a.json", *OLD, *new, {"id": "malformed"})
    finish = DirectorySink.finish

    def interrupted(sink, batch, batch_id, any_rows):
        if any_rows and sink.path == str(tmp_path / "out"):
            raise RuntimeError("interrupted")
        finish(sink, batch, batch_id, any_rows)

    with monkeypatch.context() as patched:
        patched.setattr(DirectorySink, "finish", interrupted)
        assert "interrupted" in str(deliveries.failure_of(deliveries.start(max_lateness="1 day")))
    assert json_rows(tmp_path / "out") == []
    put_lines(tmp_path / "in", "b.json", {"id": "last", "due": 2000})
    deliveries.run(lambda one: one.sink.rows == 4 and (tmp_path / "state/dead-letters/commits/0").exists())
    assert [row["id"] for row in json_rows(tmp_path / "out")] in ([*NEW, "last"], ["last", *NEW])
    rows = json_rows(tmp_path / "dead")
    letters = {json.loads(row["line"])["id"]: row for row in rows}
    assert {*letters} == {"malformed", *(row["id"] for row in OLD)} and len(rows) == 4
    assert letters["old0"]["code"] == "too-late" and json.loads(letters["old0"]["line"]) == OLD[0]
    assert letters["old0"]["reason"] == "later than --max-lateness: 86400000 ms"


def test_interrupted_batch_keeps_its_limit_after_a_restart(spark, tmp_path):
    query = Directory(spark, str(tmp_path))
    day, hour = Lateness(86_400_000), Lateness(3_600_000, True)

    def log(begun, done):
        for name, last in (("offsets", begun), ("commits", done)):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / str(last)).touch()

    assert kept_lateness(query, day)(0) == day
    log(5, 4)
    for _ in range(2):
        limit_of = kept_lateness(query, hour)
        assert (limit_of(5), limit_of(6)) == (day, hour)
    limit_of = kept_lateness(query, Lateness())
    assert (limit_of(5), limit_of(6)) == (day, Lateness())
    log(7, 6)
    limit_of = kept_lateness(query, day)
    assert (limit_of(7), limit_of(8)) == (Lateness(), day)
    log(7, 7)
    assert kept_lateness(query, hour)(7) == hour


def test_messages_that_are_too_late_get_a_mark(deliveries, spark, tmp_path):
    put_lines(tmp_path / "in", "a.json", *OLD, *recent())
    deliveries.run(lambda one: one.sink.rows == 6, max_lateness="1 day", too_late="mark")
    marks = {row["id"]: row["late"] for row in json_rows(tmp_path / "out")}
    assert marks == {f"{kind}{i}": kind == "old" for kind in ("old", "new") for i in range(3)}
    row = spark.createDataFrame(
        [("i", "k", 5, "p", True)], "id string, key string, due long, payload string, late boolean"
    )
    (record,) = json_records(row).collect()
    assert [(name, bytes(value)) for name, value in record.headers] == [("id", b"i"), ("due", b"5"), ("late", b"true")]


@pytest.mark.parametrize("rate", [3, 100, 7_000])
def test_rate_limits_the_rows_of_a_task_in_order(monkeypatch, rate):
    clock = [0.0]
    monkeypatch.setattr(throttle.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(throttle.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    rows = pa.RecordBatch.from_pydict({"n": range(20_000)})
    found = []
    for piece in Throttle(rate)([rows.slice(0, 1), rows.slice(1, 12_000), rows.slice(12_001)]):
        assert len(found) <= clock[0] * rate + 1e-6
        assert piece.num_rows <= max(1, rate / 20)
        found += piece.column("n").to_pylist()
    assert found == [*range(20_000)] and clock[0] == pytest.approx(20_000 / rate)


def test_delivery_with_a_rate(deliveries, tmp_path):
    put_lines(tmp_path / "in", "a.json", *OLD)
    deliveries.run(lambda one: one.sink.rows == 3, rate=100)
    assert json_rows(tmp_path / "out") == OLD
