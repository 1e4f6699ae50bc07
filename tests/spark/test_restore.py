"""A checkpoint, an output, or an input that is restored from an older copy than the others: a start refuses it."""

import re
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from deliveries import ids_in, json_rows, put_lines, write_log
from hwheel.spark.deliver.checkpoint import MESSAGES
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.input_files import check_removed
from hwheel.spark.deliver.owner import CLEANED, OWNER, TimesDifferError, check_output
from hwheel.spark.deliver.pending import matching_rows

FAR_MS = 4 * 10**12


def messages(name, due_ms=1000):
    return [{"id": f"{name}{i}", "key": "k", "due": due_ms} for i in range(10)]


def copy(directory, name):
    shutil.copytree(directory / name, directory / f"{name}-copy")


def restore(directory, name):
    shutil.rmtree(directory / name)
    shutil.copytree(directory / f"{name}-copy", directory / name)


def deliver(deliveries, name):
    """Deliver ten messages and a dead letter of one file."""
    directory = deliveries.directory
    put_lines(directory / "in", f"{name}.json", *messages(name), f"no message {name}".encode())

    def until(delivery):
        letters = {row["line"] for row in json_rows(directory / "dead")}
        return f"{name}9" in ids_in(directory / "out") and f"no message {name}" in letters

    deliveries.run(until)


@pytest.fixture
def delivered(deliveries, tmp_path):
    """Two deliveries, and copies of all places from between them."""
    deliver(deliveries, "a")
    for name in ("state", "out", "dead"):
        copy(tmp_path, name)
    deliver(deliveries, "b")
    return deliveries


def test_older_checkpoint_is_refused_and_loses_nothing(delivered, tmp_path):
    restore(tmp_path, "state")
    message = "/out is newer than the checkpoint: .*\n.* put the newer checkpoint back; or give a new directory to --to"
    for _ in range(2):
        with pytest.raises(TimesDifferError, match=message):
            delivered.start()
    # The remedies: a new output, copies of one time, and the newer checkpoint.
    restore(tmp_path, "dead")
    (tmp_path / "out").rename(tmp_path / "other")
    delivered.run(lambda _: len(ids_in(tmp_path / "out")) == 10)
    assert ids_in(tmp_path / "out") == [f"b{i}" for i in range(10)]
    for name in ("state", "out", "dead"):
        restore(tmp_path, name)
    deliver(delivered, "c")
    assert len(ids_in(tmp_path / "out")) == 30
    restore(tmp_path, "state")
    restore(tmp_path, "out")
    with pytest.raises(TimesDifferError, match="/dead is newer .*\n.*--dead-letters"):
        delivered.start()


@pytest.mark.parametrize("name", ["out", "dead"])
def test_older_output_is_refused(delivered, tmp_path, name):
    restore(tmp_path, name)
    message = f"/{name} is older than the checkpoint: it ends at batch .*\n.*delete .*/{name}/{OWNER} to continue"
    with pytest.raises(TimesDifferError, match=message):
        delivered.start()
    (tmp_path / name / OWNER).unlink()
    deliver(delivered, "c")
    assert [id for id in ids_in(tmp_path / "out") if id[0] == "c"] == [f"c{i}" for i in range(10)]


def test_older_output_under_another_name_is_refused(delivered, spark, tmp_path):
    query = Directory(spark, str(tmp_path / "state" / MESSAGES))
    older, moved = (Directory(spark, str(tmp_path / name)) for name in ("out-copy", "moved"))
    check_output(query, older, "--to")  # `out` has the batches since then
    (tmp_path / "out").rename(moved.path)
    check_output(query, moved, "--to")
    with pytest.raises(TimesDifferError, match="/out-copy is older than the checkpoint"):
        check_output(query, older, "--to")


def test_files_of_a_batch_that_was_never_published_stop_it(delivered, tmp_path):
    """A copy without the hidden file does not have the number."""
    restore(tmp_path, "state")
    restore(tmp_path, "dead")
    (tmp_path / "out" / OWNER).unlink()
    failure = delivered.failure_of(delivered.start())
    assert "which this checkpoint has not written" in failure.what and "of one time" in failure.advice
    assert len(ids_in(tmp_path / "out")) == 20


def test_output_that_was_moved_away_with_files_of_an_interrupted_batch_is_missed(deliveries, tmp_path, monkeypatch):
    """The next attempt would write their messages again."""
    move, moved = Directory.move, []

    def second_move_fails(directory, old, new):
        if directory.path.endswith("out") and moved:
            raise OSError("the machine is gone")
        moved.append(new)
        return move(directory, old, new)

    put_lines(tmp_path / "in", "a.json", *({**one, "key": one["id"]} for one in messages("a")))
    with monkeypatch.context() as patch:
        patch.setattr(Directory, "move", second_move_fails)
        deliveries.failure_of(deliveries.start())
    first = ids_in(tmp_path / "out")
    assert 0 < len(first) < 10
    (tmp_path / "out").rename(tmp_path / "day1")
    message = "batch 0 was interrupted, and .*/out no longer has its files, .*\nput .*; or delete (.*) to write all"
    with pytest.raises(TimesDifferError, match=message) as caught:
        deliveries.start()
    copy(tmp_path, "state")
    (tmp_path / "day1").rename(tmp_path / "out")
    deliveries.run()
    assert ids_in(tmp_path / "out") == [f"a{i}" for i in range(10)]
    restore(tmp_path, "state")
    shutil.rmtree(tmp_path / "out")
    Path(re.search(message, str(caught.value))[1]).unlink()
    deliveries.run()
    assert ids_in(tmp_path / "out") == [f"a{i}" for i in range(10)]


def test_older_checkpoint_is_refused_if_late_messages_became_dead_letters_since(deliveries, tmp_path):
    """Those of other messages in a batch of the same number would be taken for written."""
    put_lines(tmp_path / "in", "a.json", *messages("a", FAR_MS))
    deliveries.run()
    for name in ("state", "out"):
        copy(tmp_path, name)
    put_lines(tmp_path / "in", "b.json", *messages("b"))
    deliveries.run(lambda one: one.dead_sink.rows == 10, max_lateness="1 day")
    for name in ("state", "out"):
        restore(tmp_path, name)
    with pytest.raises(TimesDifferError, match="/dead is newer than the checkpoint: .*\n.*--dead-letters"):
        deliveries.start(max_lateness="1 day")


def test_offsets_of_the_two_queries_are_compared_each_with_its_own(spark, tmp_path):
    """The queries divide the files into batches of their own."""
    queries = [Directory(spark, str(tmp_path / name)) for name in ("messages", "dead-letters")]
    source = Directory(spark, str(tmp_path / "in"))
    write_log(tmp_path / "messages", 5, 50, {})
    write_log(tmp_path / "dead-letters", 5, 10, {})
    (tmp_path / "messages" / "metadata").write_text('{"id": "x"}')
    source.make()
    for mark, is_newer in {"50 10": False, "49 9": False, "51 10": True, "50 11": True}.items():
        source.write(CLEANED.format(id="x"), mark)
        with pytest.raises(TimesDifferError) if is_newer else nullcontext():
            check_removed(source, queries)


@pytest.mark.parametrize("archive", [None, pytest.param("archive", marks=pytest.mark.slow)])
def test_older_checkpoint_whose_input_was_removed_is_refused(spark, deliveries, tmp_path, archive):
    """No message was delivered since the copy, so the output is not newer."""
    clean = {"clean_source": "delete", "dead_letters_every": "300 milliseconds"}
    if archive is not None:
        clean |= {"clean_source": "archive", "archive": str(tmp_path / archive)}

    def read(name):
        put_lines(tmp_path / "in", f"{name}.json", *messages(name, FAR_MS))
        deliveries.run(lambda _: not [*(tmp_path / "in").glob("*.json")], **clean)

    read("a")
    copy(tmp_path, "state")
    read("b")
    restore(tmp_path, "state")
    with pytest.raises(
        TimesDifferError, match="files that the checkpoint has not read were removed.*\n.*and delete (.*)$"
    ) as caught:
        deliveries.start(**clean)
    put_lines(tmp_path / "in", "b.json", *messages("b", FAR_MS))
    (tmp_path / "in" / str(caught.value).rpartition("/")[2]).unlink()
    checkpoint = str(tmp_path / "state" / MESSAGES)
    deliveries.run(lambda _: matching_rows(spark, checkpoint, "b9"))
    assert len(matching_rows(spark, checkpoint, key="k")) == 20
