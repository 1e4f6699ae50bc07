"""The checkpoint keeps its input: other names of a directory, a moved directory, another directory or format."""

import gzip
import json
import os

import pytest

from deliveries import file_letters, ids_in, put_lines
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.kept_input import INPUT, is_same, kept_input
from hwheel.spark.deliver.settings import CheckpointOptionsError


def message(id):
    return {"id": id, "key": "k", "due": 1000}


@pytest.fixture
def run(spark, deliveries, tmp_path):
    """run(source, moved_from, until): deliver from a source as the command does."""

    def run(source, moved_from=None, until=None, format=None):
        state = Directory(spark, str(tmp_path / "state"))
        former = None if moved_from is None else str(tmp_path / moved_from)
        place, format = kept_input(state, str(tmp_path / source), format, former)
        return deliveries.run(until, source=place.removeprefix("file:"), format=format)

    return run


@pytest.fixture
def interrupted(run, deliveries, tmp_path, monkeypatch):
    """A batch of the messages a0 to a9 that is cut off after some of its files."""
    put_lines(tmp_path / "in", "a \u00e4%.json", *(message(f"a{i}") for i in range(10)))
    put_lines(tmp_path / "in", "bad.json.gz", gzip.compress(os.urandom(1000))[:500])

    move = Directory.move

    def fail(directory, *names):
        if directory.path.endswith("out"):
            raise OSError("the machine is gone")
        return move(directory, *names)

    with monkeypatch.context() as patch:
        patch.setattr(Directory, "move", fail)
        kept_input(Directory(deliveries.spark, str(tmp_path / "state")), str(tmp_path / "in"))
        deliveries.failure_of(deliveries.start())
    assert (tmp_path / "state/messages/offsets/0").exists() and ids_in(tmp_path / "out") == []


def test_input_through_a_link_to_the_same_directory_is_not_read_again(run, tmp_path):
    put_lines(tmp_path / "in", "a.json", message("a"))
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "up").symlink_to(".")
    run("link")
    for number, name in enumerate(["in", "up/in/", "link", "up/link"]):
        put_lines(tmp_path / "in", f"{number}.json", message(f"{number}"))
        run(name, until=lambda _, id=str(number): id in ids_in(tmp_path / "out"))
    logs = (tmp_path / "state/messages/sources/0").glob("[0-9]*")
    names = [json.loads(line)["path"] for log in logs for line in log.read_text().splitlines()[1:]]
    assert sorted(names) == sorted(f"file://{tmp_path}/in/{name}.json" for name in ["a", 0, 1, 2, 3])


@pytest.mark.parametrize("new", ["other \u00e4%", "in/deeper"])
def test_moved_directory_completes_an_interrupted_batch_and_rereads_no_file(interrupted, run, tmp_path, new):
    """With one more level, the files of the batch are not those of the directory."""
    (tmp_path / "in").rename(tmp_path / "moved")
    (tmp_path / new).parent.mkdir(exist_ok=True)
    (tmp_path / "moved").rename(tmp_path / new)
    with pytest.raises(
        CheckpointOptionsError, match=f"^--from: .* for file:{tmp_path}/in, .*\n.*--moved-from file:{tmp_path}/in;"
    ):
        run(new)
    with pytest.raises(CheckpointOptionsError, match="was created for"):
        run(new, moved_from="elsewhere")
    put_lines(tmp_path / new, "b.json", message("b"))
    run(new, moved_from="in", until=lambda _: "b" in ids_in(tmp_path / "out") and file_letters(tmp_path / "dead"))
    run(new, moved_from="in")  # as in the unit file of a service
    assert ids_in(tmp_path / "out") == sorted([*(f"a{i}" for i in range(10)), "b"])
    assert [*file_letters(tmp_path / "dead")] == ["bad.json.gz"]


def test_other_format_is_refused_and_the_stored_one_is_the_default(interrupted, run, tmp_path):
    with pytest.raises(CheckpointOptionsError, match="created with --format json, not parquet: this must not change"):
        run("in", format="parquet")
    run("in", until=lambda _: len(ids_in(tmp_path / "out")) == 10)


def test_input_of_a_checkpoint_that_has_not_begun_may_change(spark, tmp_path):
    state = Directory(spark, str(tmp_path / "state"))
    for format in ("json", "parquet", None):
        place = f"{tmp_path}/{format}"
        assert kept_input(state, place, format) == (f"file:{place}", format or "json")
    (tmp_path / "state/messages/offsets").mkdir(parents=True)
    (tmp_path / "state" / INPUT).write_text("{")
    with pytest.raises(CheckpointOptionsError, match=f"{INPUT} is damaged\n.*the first --from and --format"):
        kept_input(state, str(tmp_path))


def test_checkpoint_that_did_not_keep_its_input_keeps_the_given_name(spark, tmp_path):
    state = Directory(spark, str(tmp_path / "state"))
    (tmp_path / "state/messages/offsets").mkdir(parents=True)
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("in")
    for name in ("link", "in"):
        assert kept_input(state, str(tmp_path / name)) == (f"file:{tmp_path}/link", "json")


def test_topic_is_the_same_at_other_brokers(spark, tmp_path):
    state = Directory(spark, str(tmp_path / "state"))
    kept_input(state, "kafka://a:1/t")
    (tmp_path / "state/messages/offsets").mkdir(parents=True)
    assert kept_input(state, "kafka://b:2,c:3/t") == ("kafka://b:2,c:3/t", "json")
    with pytest.raises(CheckpointOptionsError, match="created for kafka://b:2,c:3/t, not for kafka://a:1/u\nuse a new"):
        kept_input(state, "kafka://a:1/u")
    assert is_same("hdfs://n/in", "hdfs://n/in/") and not is_same("hdfs://n/in", "kafka://a:1/t")
