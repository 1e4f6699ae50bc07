"""A job that was stopped between two batches, and started again while nothing new comes in."""

import json
import time

import chaos
from hwheel.spark.deliver.checkpoint import MESSAGES, begin_next_batch, last_batch
from hwheel.spark.deliver.delivery import start_delivery
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.settings import WheelOptions
from hwheel.spark.deliver.source import Source

OPTIONS = WheelOptions("100 ms", 16, 2, 2, "10 minutes")


def test_batches_go_on_although_nothing_comes_in(spark, tmp_path):
    source, out, query = tmp_path / "in", tmp_path / "out", Directory(spark, str(tmp_path / "state" / MESSAGES))
    source.mkdir()
    due_ms = int(time.time() * 1000) + 12_000  # not before the first batch
    held = {id: {"id": id, "key": "k", "due": due_ms + 10**9 * (id == "far")} for id in ("far", "due", "cancelled")}
    (source / "a.json").write_text("".join(json.dumps(message) + "\n" for message in held.values()))
    give_up = time.monotonic() + chaos.PATIENCE_S

    def run(trigger, until_batch):
        to, dead, state = str(out), str(tmp_path / "dead"), str(tmp_path / "state")
        one = start_delivery(Source(spark, str(source)), to, dead, "json", state, OPTIONS, trigger)
        try:
            while last_batch(query, "commits") < until_batch:
                assert one.tend() is None and time.monotonic() < give_up, "what is held would not go out"
                time.sleep(0.05)
        finally:
            one.stop()

    run("1 hour", 0)  # it has one batch, and is not within the next when it is stopped
    assert last_batch(query, "offsets") == last_batch(query, "commits") == 0
    # While nothing runs, both fall due, and then comes a cancel of one, which the next batch has to see.
    time.sleep(max(0, due_ms / 1000 + 0.2 - time.time()))
    (source / "b.json").write_text(json.dumps(held["cancelled"] | {"cancel": True}))
    run("200 milliseconds", 3)
    lines = [line for file in out.glob("*.json") for line in file.read_text().splitlines()]
    assert [json.loads(line)["id"] for line in lines] == ["due"]


def write(query, log, batch, text):
    (query / log).mkdir(parents=True, exist_ok=True)
    (query / log / str(batch)).write_text(text)


def test_the_batch_that_is_written_down(spark, tmp_path):
    query = Directory(spark, str(tmp_path))
    about = {"batchWatermarkMs": 0, "batchTimestampMs": 1000, "conf": {"spark.sql.shuffle.partitions": "2"}}
    assert not begin_next_batch(query), "a new checkpoint"
    write(tmp_path, "offsets", 9, "v1\n{}\n-")
    write(tmp_path, "offsets", 10, f'v1\n{json.dumps(about)}\n{{"logOffset":3}}')
    write(tmp_path, "commits", 9, "v1\n{}")
    assert not begin_next_batch(query), "Spark runs the last one again, by itself"
    write(tmp_path, "commits", 10, "v1\n{}")
    assert begin_next_batch(query) and not begin_next_batch(query)
    assert (tmp_path / "offsets" / "11").read_text() == (tmp_path / "offsets" / "10").read_text()


def test_a_log_of_another_kind_is_left_alone(spark, tmp_path):
    query = Directory(spark, str(tmp_path))
    for text in ('v2\n{"batchTimestampMs": 1}\n-', "v1\ncut", 'v1\n{"batchTimestampMs": 1}', ""):
        write(tmp_path, "offsets", 0, text)
        write(tmp_path, "commits", 0, "v1\n{}")
        assert not begin_next_batch(query)
        assert last_batch(query, "offsets") == 0
