"""A job without work runs no batches, and wakes up for files and due times."""

import time

import pytest

from deliveries import ids_in, put_lines
from hwheel.spark.deliver import rest
from hwheel.spark.deliver.checkpoint import MESSAGES, last_batch
from hwheel.spark.deliver.directory import Directory

FAR_MS = 4 * 10**12


@pytest.fixture
def resting(deliveries, tmp_path, monkeypatch):
    """resting(row): return a delivery that holds a message and rests, and the number of its batch."""
    monkeypatch.setattr(rest, "LONGEST_WAIT_S", 10_000)

    def start(row):
        put_lines(tmp_path / "in", "a.json", row)
        delivery = deliveries.start()
        deliveries.tend(delivery, lambda: delivery.sink.rest.resting)
        return delivery, last_batch(Directory(deliveries.spark, str(tmp_path / "state" / MESSAGES)), "offsets")

    return start


def test_no_batch_runs_while_nothing_is_due_and_nothing_arrives(resting, deliveries, tmp_path):
    delivery, batch = resting({"id": "far", "key": "k", "due": FAR_MS})
    query = Directory(deliveries.spark, str(tmp_path / "state" / MESSAGES))
    until = time.monotonic() + 3
    deliveries.tend(delivery, lambda: time.monotonic() > until)
    assert (last_batch(query, "offsets"), last_batch(query, "commits")) == (batch, batch - 1)
    put_lines(tmp_path / "in", "b.json", {"id": "late", "key": "k", "due": 1000})
    deliveries.tend(delivery, lambda: delivery.sink.rows)
    assert ids_in(tmp_path / "out") == ["late"]


def test_job_that_rests_delivers_on_time(resting, deliveries, tmp_path):
    due_ms = int(time.time() * 1000) + 20_000
    delivery, _ = resting({"id": "soon", "key": "k", "due": due_ms})
    deliveries.tend(delivery, lambda: delivery.sink.rows)
    (file,) = (tmp_path / "out").glob("*.json")
    assert file.stat().st_mtime * 1000 >= due_ms


def test_job_that_rests_can_be_stopped_and_continues(resting, deliveries, tmp_path):
    delivery, batch = resting({"id": "far", "key": "k", "due": FAR_MS})
    delivery.stop()
    query = Directory(deliveries.spark, str(tmp_path / "state" / MESSAGES))
    assert rest.deadline_of_idle_batch(query, batch) is not None  # so hwheel move accepts the checkpoint
    put_lines(tmp_path / "in", "b.json", {"id": "late", "key": "k", "due": 1000})
    deliveries.run(lambda delivery: delivery.sink.rows)
    assert ids_in(tmp_path / "out") == ["late"]


def test_batch_with_input_does_not_rest(deliveries, tmp_path):
    put_lines(tmp_path / "in", "a.json", {"id": "far", "due": FAR_MS}, {"id": "late", "due": 1000})
    deliveries.run(lambda delivery: delivery.sink.rows)
    query = Directory(deliveries.spark, str(tmp_path / "state" / MESSAGES))
    offsets = query.read("offsets/0")
    for change, deadline in {("", ""): True, ('logOffset":0', 'logOffset":1'): False}.items():
        done = last_batch(query, "commits")
        query.child_directory("offsets").write(str(done + 1), offsets.replace(*change))
        assert (rest.deadline_of_idle_batch(query, done + 1) is not None) == deadline
