"""A job that was stopped between two batches, and started again while nothing new comes in."""

import json
import time

import chaos
from hwheel.spark.deliver.batch_logs import begin_next_batch, last_batch
from hwheel.spark.deliver.delivery import MESSAGES, start_delivery
from hwheel.spark.deliver.files import Directory
from hwheel.spark.deliver.options import WheelOptions
from hwheel.spark.deliver.source import Source

OPTIONS = WheelOptions("100 ms", 16, 2, 2, "10 minutes")


def test_batches_go_on_although_nothing_comes_in(spark, tmp_path):
    source, query = tmp_path / "in", Directory(spark, str(tmp_path / "state" / MESSAGES))
    source.mkdir()
    (source / "a.json").write_text(json.dumps({"id": "a", "key": "k", "due": int(time.time() * 1000) + 10**9}))
    give_up = time.monotonic() + chaos.PATIENCE_S

    def run(trigger, until_batch):
        to, dead, state = (str(tmp_path / name) for name in ("out", "dead", "state"))
        one = start_delivery(Source(spark, str(source)), to, dead, "json", state, OPTIONS, trigger)
        try:
            while last_batch(query, "commits") < until_batch:
                assert one.tend() is None and time.monotonic() < give_up, "what is held would not go out"
                time.sleep(0.05)
        finally:
            one.stop()

    run("1 hour", 0)  # it has one batch, and is not within the next when it is stopped
    assert last_batch(query, "offsets") == last_batch(query, "commits") == 0
    run("200 milliseconds", 2)


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
    before_ms = int(time.time() * 1000)
    assert begin_next_batch(query) and not begin_next_batch(query)
    version, first, offset = (tmp_path / "offsets" / "11").read_text().split("\n")
    told = json.loads(first)
    assert before_ms <= told.pop("batchTimestampMs") <= int(time.time() * 1000), "the time that decides what is due"
    assert (version, offset) == ("v1", '{"logOffset":3}')
    assert told == {name: value for name, value in about.items() if name != "batchTimestampMs"}


def test_a_log_of_another_kind_is_left_alone(spark, tmp_path):
    query = Directory(spark, str(tmp_path))
    for text in ('v2\n{"batchTimestampMs": 1}\n-', "v1\n{}\n-", "v1\ncut", 'v1\n{"batchTimestampMs": 1}', ""):
        write(tmp_path, "offsets", 0, text)
        write(tmp_path, "commits", 0, "v1\n{}")
        assert not begin_next_batch(query)
        assert last_batch(query, "offsets") == 0
