"""`hwheel move`: a job with other settings gets all messages that a checkpoint holds, and delivers each once."""

import json
import shutil
import time
from contextlib import nullcontext
from dataclasses import replace

import pytest

from deliveries import WHEEL, ids_in, json_rows, put_lines, rows_read
from hwheel.cli import move as command
from hwheel.cli.main import main
from hwheel.spark.deliver.checkpoint import MESSAGES
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.kept_input import kept_input
from hwheel.spark.deliver.owner import OWNER, TimesDifferError
from hwheel.spark.deliver.pending import matching_rows
from hwheel.spark.deliver.settings import MOVED, CheckpointOptionsError, WheelOptions, check_not_moved

FAR_MS = 4 * 10**12
NEW_WHEEL = WheelOptions("100 milliseconds", 32, 5, 3, "1 hour")


@pytest.fixture
def move(spark, tmp_path, monkeypatch, capsys):
    """move(): run `hwheel move` from `state` to `in2` in the session of the tests; return the status and output."""
    monkeypatch.setattr(command, "spark_session", lambda *_: nullcontext(spark))

    def run(checkpoint="state"):
        return main(["move", "--checkpoint", str(tmp_path / checkpoint), "--to", str(tmp_path / "in2")]), (
            capsys.readouterr()
        )

    return run


def run_old(deliveries, until, wheel=WHEEL):
    """Run the old job, with the files that the command keeps in the checkpoint."""
    state = deliveries.directory / "state"
    state.mkdir(exist_ok=True)
    (state / "hwheel.json").write_text(wheel.to_json())
    commits = state / MESSAGES / "commits"
    deliveries.run(lambda one: until(one) and [*commits.glob("[0-9]*")], wheel=wheel)
    complete_batch(state)
    kept_input(Directory(deliveries.spark, str(state)), str(deliveries.directory / "in"))


def complete_batch(state):
    """Remove the record of a batch that began when the job was stopped. It has no input, and nothing was due."""
    query = state / MESSAGES
    done = max(int(file.name) for file in (query / "commits").glob("[0-9]*"))
    for log in (query / "offsets").glob("[0-9]*"):
        if int(log.name) > done:
            log.unlink()
            (log.parent / f".{log.name}.crc").unlink(missing_ok=True)


def run_new(deliveries, until, wheel=NEW_WHEEL):
    directory = deliveries.directory
    for name in ("out", "dead"):
        (directory / name).rename(directory / f"old-{name}")
    deliveries.run(until, wheel=wheel, checkpoint="state2", source="in2")


@pytest.mark.parametrize("by_id", [pytest.param(False, marks=pytest.mark.slow), True])
def test_all_messages_are_delivered_once_by_a_job_with_other_settings(move, deliveries, spark, tmp_path, by_id):
    due_ms = (int(time.time()) + 30) * 1000
    held = [{"id": f"m{i}", "key": f"k{i % 5}", "due": due_ms + i % 3, "payload": f'{{"n": {i}}}'} for i in range(40)]
    far = {"id": "far \u00e4", "due": FAR_MS, "payload": "p"}
    cancels = [{**row, "cancel": True} for row in held[:5]]
    early = {"id": "before its message", "key": "k", "due": due_ms, "cancel": True}
    delivered = {"id": "delivered", "key": "k", "due": 1000}
    rows = [*held, far, *held[3:20], *cancels, early, delivered]
    replaced = {**held[30], "due": due_ms + 7, "payload": "replaced", "replace": True}
    if by_id:
        rows.append(replaced)
    put_lines(tmp_path / "in", "a.json", *rows)
    run_old(deliveries, lambda one: one.sink.rows == 1, replace(WHEEL, by_id=by_id))
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    status, shown = move()
    with pytest.raises(TimesDifferError, match="/out is newer than the checkpoint"):
        deliveries.start(checkpoint="copy", wheel=replace(WHEEL, by_id=by_id))
    lines = [
        json.loads(line) for file in (tmp_path / "in2").glob("moved-*.json") for line in file.read_text().splitlines()
    ]
    assert status == 0 and shown.out == f"{len(lines)} lines are in {tmp_path}/in2\n"
    assert len(lines) == len(held) + 3 + by_id
    with pytest.raises(CheckpointOptionsError, match="were moved to file:.*/in2\nstart a job on the files there"):
        check_not_moved(Directory(spark, str(tmp_path / "state")))

    put_lines(tmp_path / "in2", "b.json", delivered, {**early, "cancel": False}, held[7], {**held[6], "cancel": True})
    expected = {row["id"]: row for row in held[5:] if row["id"] != "m6"}
    if by_id:
        expected["m30"] = {name: value for name, value in replaced.items() if name != "replace"}
    run_new(deliveries, lambda one: one.sink.rows >= len(expected), replace(NEW_WHEEL, by_id=by_id))
    out = json_rows(tmp_path / "out")
    assert len(out) == len(expected) and {row["id"]: row for row in out} == expected
    (left,) = matching_rows(spark, str(tmp_path / "state2" / MESSAGES), before_ms=FAR_MS + 1)
    assert (left["id"], left["due"], left["payload"]) == ("far \u00e4", FAR_MS, ["p"])


def test_a_job_that_has_held_nothing_moves_no_line(move, deliveries, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("not JSON\n")
    run_old(deliveries, lambda _: [*(tmp_path / "dead").glob("*.json")])
    assert move() == (0, (f"0 lines are in {tmp_path}/in2\n", ""))


def test_an_older_checkpoint_than_its_output_cannot_be_moved(move, deliveries, tmp_path):
    put_lines(tmp_path / "in", "a.json", {"id": "far", "key": "k", "due": FAR_MS})
    run_old(deliveries, rows_read)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    put_lines(tmp_path / "in", "b.json", {"id": "m", "key": "k", "due": 1000})
    run_old(deliveries, lambda one: one.sink.rows == 1)
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "copy").rename(tmp_path / "state")
    (tmp_path / "in" / "b.json").unlink()
    owner = (tmp_path / "out" / OWNER).read_text()
    assert "/out is newer than the checkpoint" in move()[1].err
    assert (tmp_path / "out" / OWNER).read_text() == owner and not (tmp_path / "in2").exists()


def test_move_that_was_interrupted_is_completed(move, deliveries, tmp_path, monkeypatch):
    put_lines(tmp_path / "in", "a.json", *({"id": f"m{i}", "key": f"k{i}", "due": FAR_MS} for i in range(9)))
    run_old(deliveries, rows_read)
    with monkeypatch.context() as patched:
        patched.setattr(Directory, "move", lambda *_: 1 / 0)
        assert move()[0] == 2
    assert (tmp_path / "state" / MOVED).exists() and not [*(tmp_path / "in2").glob("*.json")]
    for _ in range(2):
        assert move()[0] == 0
    assert ids_in(tmp_path / "in2") == [f"m{i}" for i in range(9)]
    assert not (tmp_path / "in2" / ".hwheel-moved").exists()


def test_a_job_with_unread_files_or_an_interrupted_batch_cannot_be_moved(move, deliveries, tmp_path):
    assert "does not exist" in move("missing")[1].err
    put_lines(tmp_path / "in", "a.json", {"id": "m", "due": FAR_MS})
    run_old(deliveries, rows_read)
    put_lines(tmp_path / "in", "b.json", {"id": "unread", "due": FAR_MS})
    assert "1 files of file:" in (error := move()[1].err) and "are not read yet, such as b.json" in error
    (tmp_path / "in" / "b.json").unlink()
    query = tmp_path / "state" / MESSAGES
    last = max(int(file.name) for file in (query / "offsets").glob("[0-9]*"))
    offsets = (query / "offsets" / str(last)).read_text()
    (query / "offsets" / str(last + 1)).write_text(offsets.replace('{"logOffset":0}', '{"logOffset":1}'))
    assert "a batch was interrupted" in move()[1].err
    assert not (tmp_path / "in2").exists() and not (tmp_path / "state" / MOVED).exists()
