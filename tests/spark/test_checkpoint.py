"""The checkpoint of a delivery: the options and outputs kept in it, its logs, and a start on an existing one."""

import json
import shutil
import time
from datetime import timedelta

import pytest

from deliveries import WHEEL, ids_in, put_lines
from hwheel.cli.common import CommandError, spark_errors
from hwheel.spark.deliver.checkpoint import (
    MESSAGES,
    OUTPUTS,
    CheckpointBrokenError,
    CheckpointInUseError,
    begin_next_batch,
    check_and_store_outputs,
    check_logs,
    last_batch,
    only_job,
    stored_outputs,
)
from hwheel.spark.deliver.directory import Directory, DirectoryError
from hwheel.spark.deliver.settings import CheckpointOptionsError, WheelOptions, kept_options

GIVEN = {"tick": None, "wheel_size": 64, "shards": None, "partitions": 4, "dedup": None}
MADE = WheelOptions("1 second", 64, 4, 4, "10 minutes")
STORED = json.loads(MADE.to_json())


@pytest.fixture
def state(spark, tmp_path):
    return Directory(spark, str(tmp_path / "state"))


@pytest.fixture
def options_file(tmp_path):
    return tmp_path / "state" / "hwheel.json"


def test_options_are_kept(state, options_file):
    assert kept_options(state, GIVEN, WHEEL) == MADE
    assert kept_options(state, dict.fromkeys(GIVEN), WHEEL) == MADE
    for same in ("1s", "1000ms", "1 second", timedelta(seconds=1)):
        assert kept_options(state, {**GIVEN, "tick": same}, WHEEL) == MADE
    kept = json.loads(options_file.read_text())
    assert (kept["version"], kept["tick_ms"], kept["dedup_ms"]) == (2, 1000, 600_000)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"wheel_size": 65}, "--wheel-size 64, not 65"),
        ({"tick": "2s"}, "--tick 1000ms, not 2000ms"),
        ({"due_unit": "s"}, "--due-unit ms, not s"),
        ({"by_id": True}, "created without --by-id: this must"),
        ({"source": "a topic with JSON"}, "^--from: the checkpoint was created for files, not for a topic with JSON$"),
    ],
)
def test_other_options_are_refused(state, other, message):
    kept_options(state, {**GIVEN, "by_id": None, "source": "files"}, WHEEL)
    with pytest.raises(CheckpointOptionsError, match=message):
        kept_options(state, {**GIVEN, **other}, WHEEL)


def test_by_id_stays_on_for_a_checkpoint_created_with_it(state):
    for given in (True, None):
        assert kept_options(state, {"by_id": given}, WHEEL).by_id is True
    with pytest.raises(CheckpointOptionsError, match="created with --by-id: this must"):
        kept_options(state, {"by_id": False}, WHEEL)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"tick": "banana"}, ValueError, "tick must be a number and a unit"),
        ({"tick": "0s"}, ValueError, "tick_ms must be at least 1"),
        ({"tick": "9999999999999 weeks"}, ValueError, "tick must be at most"),
        ({"dedup": "a while"}, ValueError, "dedup must be a number and a unit"),
        ({"wheel_size": 1}, ValueError, "wheel_size"),
        ({"shards": 0}, ValueError, "shards must be from 1 to 4096"),
        ({"due_unit": "minutes"}, ValueError, "due_unit must be one of ms, s"),
        ({"by_id": 1}, TypeError, "by_id must be true or false, not 1"),
    ],
)
def test_invalid_options_are_not_saved(state, options_file, wrong, error, message):
    with pytest.raises(error, match=message):
        kept_options(state, {**GIVEN, **wrong}, WHEEL)
    assert not state.exists()
    kept_options(state, GIVEN, WHEEL)
    before = options_file.read_bytes()
    with pytest.raises(error, match=message):
        kept_options(state, {**GIVEN, **wrong}, WHEEL)
    assert options_file.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"tick": "1 sec', "not JSON"),
        ("", "not JSON"),
        ("[]", "not a JSON object"),
        ("\xe4", "not JSON"),
        (json.dumps({**STORED, "tock": 1}), "with other fields than it should have: tock"),
        (json.dumps({name: value for name, value in STORED.items() if name != "shards"}), "should have: shards"),
        (json.dumps({**STORED, "due_unit": "min"}), "due_unit must be one of ms, s, not 'min'"),
        (json.dumps({**STORED, "shards": "2"}), "shards must be a whole number, not '2'"),
        (json.dumps({**STORED, "version": 3}), "of version 3, but this hwheel reads version 2"),
        (json.dumps({"tick": "1 second"}), "of version None"),
        (json.dumps({**STORED, "tick_ms": None}), "without a whole number for tick_ms"),
        (None, "missing"),
    ],
)
def test_damaged_options_are_refused_once_a_query_has_begun(state, options_file, text, message):
    def damage():
        if text is None:
            options_file.unlink()
        else:
            options_file.write_text(text, encoding="latin-1")

    kept_options(state, GIVEN, WHEEL)
    damage()
    offsets = options_file.parent / "messages" / "offsets"
    offsets.mkdir(parents=True)
    with pytest.raises(CheckpointOptionsError, match="hwheel.json is .*" + message) as caught:
        kept_options(state, GIVEN, WHEEL)
    _, advice = str(caught.value).split("\n")
    options_file.write_text(advice.partition("has this form: ")[2])
    assert kept_options(state, GIVEN, WHEEL) == MADE, "the content that the error shows is valid"
    # Before a query has begun, the file is replaced.
    damage()
    offsets.rmdir()
    assert kept_options(state, GIVEN, WHEEL) == MADE
    assert json.loads(options_file.read_text())["tick_ms"] == 1000


def test_second_job_on_a_checkpoint_is_refused(spark, state, tmp_path):
    with only_job(state):
        with (
            pytest.raises(CheckpointInUseError, match="^another job runs on this checkpoint, .*\nstop one"),
            only_job(Directory(spark, (tmp_path / "state").as_uri())),
        ):
            pass
    with only_job(state):
        pass


def test_crash_while_outputs_are_stored_keeps_the_stored_outputs(state, tmp_path, monkeypatch):
    def crash(*_):
        raise SystemExit

    check_and_store_outputs(state, {MESSAGES: str(tmp_path / "old")}, {MESSAGES: "--to"})
    stored = stored_outputs(state)
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(Directory, "write", crash)
        check_and_store_outputs(state, {MESSAGES: str(tmp_path / "new")}, {MESSAGES: "--to"})
    assert stored_outputs(state) == stored != {}


def test_interrupted_batch_is_not_repeated_into_another_output(state, tmp_path):
    old, new, offsets = (tmp_path / name for name in ("old", "new", f"state/{MESSAGES}/offsets"))

    def start_at(output):
        check_and_store_outputs(state, {MESSAGES: str(output)}, {MESSAGES: "--to"})

    for directory in (old, offsets, offsets.parent / "commits"):
        directory.mkdir(parents=True)
    start_at(old)
    (offsets / "0").touch()
    start_at(new)  # the batch has no file in the output yet
    start_at(old)
    (old / "000000000-00001.json").touch()
    start_at(old)
    message = rf"batch 0 was interrupted and has files in file:{old}; (.|\n)* in {new}\n(.|\n)*--to file:{old}"
    with pytest.raises(ValueError, match=message):
        start_at(new)
    old.rename(new)  # with its files
    start_at(new)
    with pytest.raises(ValueError, match="its messages would appear again"):
        start_at("kafka://127.0.0.1:9092/anywhere")
    new.rename(old)
    start_at(old)
    (offsets.parent / "commits" / "0").touch()
    start_at(new)
    (tmp_path / "state" / OUTPUTS).write_text("{")
    start_at(old)


def test_committed_batch_without_its_offsets_is_refused(state, tmp_path):
    query = tmp_path / "state" / "dead-letters"
    check_logs(state)
    for log, names in {"offsets": ["9", "10", ".11.crc"], "commits": ["9", "10", ".10.crc", ".11.tmp"]}.items():
        (query / log).mkdir(parents=True)
        for name in names:
            (query / log / name).write_text("v1")
    check_logs(state)
    (query / "offsets" / "10").unlink()
    message = "^the checkpoint is incomplete .*/offsets/10 does not exist\nrestore"
    with pytest.raises(CommandError, match=message), spark_errors():
        check_logs(state)
    (query / "commits" / "10").unlink()
    check_logs(state)
    shutil.rmtree(query / "offsets")
    with pytest.raises(CommandError, match="/offsets/9 does not exist"), spark_errors():
        check_logs(state)


def test_missing_log_of_the_input_files_is_refused(state, tmp_path):
    """Spark would read all files again."""
    query = tmp_path / "state" / MESSAGES
    (query / "sources" / "0").mkdir(parents=True)
    write_log(query, "offsets", 7, 'v1\n{"batchTimestampMs":1}\n{"logOffset":4}')
    for name in ("4", "4.compact"):
        (query / "sources" / "0" / name).touch()
        check_logs(state)
        (query / "sources" / "0" / name).unlink()
        with pytest.raises(
            CheckpointBrokenError, match="^the checkpoint is incomplete .*/sources/0/4 does not exist\nrest"
        ):
            check_logs(state)
    for offset in ("-", '{"t":{"0":5}}'):
        write_log(query, "offsets", 7, f'v1\n{{"batchTimestampMs":1}}\n{offset}')
        check_logs(state)


def write_log(state, log, batch, text):
    (state / log).mkdir(parents=True, exist_ok=True)
    (state / log / str(batch)).write_text(text)


def test_next_batch_repeats_the_offsets_of_the_last_committed_one(spark, tmp_path):
    query = Directory(spark, str(tmp_path))
    about = {"batchWatermarkMs": 0, "batchTimestampMs": 1000, "conf": {"spark.sql.shuffle.partitions": "2"}}
    assert not begin_next_batch(query), "new checkpoint"
    write_log(tmp_path, "offsets", 9, "v1\n{}\n-")
    write_log(tmp_path, "offsets", 10, f'v1\n{json.dumps(about)}\n{{"logOffset":3}}')
    write_log(tmp_path, "commits", 9, "v1\n{}")
    assert not begin_next_batch(query), "Spark repeats an uncommitted batch"
    write_log(tmp_path, "commits", 10, "v1\n{}")
    assert begin_next_batch(query) and not begin_next_batch(query)
    assert (tmp_path / "offsets" / "11").read_text() == (tmp_path / "offsets" / "10").read_text()


@pytest.mark.parametrize("text", ['v2\n{"batchTimestampMs": 1}\n-', "v1\ncut", 'v1\n{"batchTimestampMs": 1}', ""])
def test_log_of_an_unknown_format_is_left_alone(spark, tmp_path, text):
    query = Directory(spark, str(tmp_path))
    write_log(tmp_path, "offsets", 0, text)
    write_log(tmp_path, "commits", 0, "v1\n{}")
    assert not begin_next_batch(query)
    assert last_batch(query, "offsets") == 0


def test_restarted_job_sends_expired_messages_without_new_input(spark, deliveries, tmp_path):
    wheel = WheelOptions("100 ms", 16, 2, 2, "10 minutes")
    for lead_s in (8, 40, 200):  # until the first batch ends before the deadline
        directory = deliveries.directory = tmp_path / str(lead_s)
        directory.mkdir()
        query = Directory(spark, str(directory / "state" / MESSAGES))
        due_ms = int(time.time() * 1000) + lead_s * 1000
        held = {id: {"id": id, "key": "k", "due": due_ms + 10**9 * (id == "far")} for id in ("far", "due", "cancelled")}
        put_lines(directory / "in", "a.json", *held.values())
        deliveries.run(lambda _, query=query: last_batch(query, "commits") >= 0, wheel=wheel, trigger="10000 days")
        if time.time() * 1000 < due_ms:
            break
    assert last_batch(query, "offsets") == last_batch(query, "commits") == 0, "stopped between two batches"
    # Both messages expire while no job runs. Then one is cancelled, which the next batch must take into account.
    time.sleep(max(0, due_ms / 1000 + 0.2 - time.time()))
    put_lines(directory / "in", "b.json", held["cancelled"] | {"cancel": True})
    deliveries.run(lambda _: last_batch(query, "commits") >= 3, wheel=wheel)
    assert ids_in(directory / "out") == ["due"]


def test_directory(spark, tmp_path):
    directory = Directory(spark, str(tmp_path / "d"))
    assert not directory.exists()
    directory.make()
    directory.write("a", "text ä")
    assert directory.exists() and directory.read("a") == "text ä"
    assert directory.move("a", "b") and directory.read("b") == "text ä"
    directory.write("a", "later")
    assert not directory.move("a", "b"), "a move replaces nothing"
    assert directory.read("b") == "text ä"
    assert directory.names(".") == ["a", "b"]
    directory.delete("b")
    assert not directory.exists("b")


def test_small_file_is_replaced_on_file_systems_whose_rename_does_not_replace(spark, tmp_path, monkeypatch):
    """HDFS and object stores are of this kind."""

    class Strict:
        def __init__(self, files):
            self.files = files

        def __getattr__(self, name):
            return getattr(self.files, name)

        def rename(self, old, new):
            return not self.files.exists(new) and self.files.rename(old, new)

    directory = Directory(spark, str(tmp_path))
    monkeypatch.setattr(directory, "_small_files", Strict(directory._small_files))
    for text in ("first", "second"):
        directory.write("a", text)
        assert directory.read("a") == text and directory.names(".") == ["a"]
    monkeypatch.setattr(directory._small_files, "rename", lambda old, new: False, raising=False)
    with pytest.raises(DirectoryError, match="/a cannot be written"):
        directory.write("a", "third")
