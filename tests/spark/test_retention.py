"""What may be taken away when: input files by `--clean-source`, files of the output by a rule."""

import bz2
import gzip
import json
import os
import time
from urllib.parse import unquote

import pytest

import chaos
from hwheel.spark.deliver.checkpoint import MESSAGES
from hwheel.spark.deliver.delivery import DoneFiles, start_delivery
from hwheel.spark.deliver.directory import Directory, steps_of
from hwheel.spark.deliver.input_files import SourceCleaner, SourceLog
from hwheel.spark.deliver.settings import WheelOptions
from hwheel.spark.deliver.source import Source

NO_BZIP2 = "the file cannot be read: it is no bzip2 file, as its name says"
NOT_HADOOPS = (
    "the file cannot be read: it is no file of Hadoop's format of this name, which is another than that of the "
    "commands lz4 and snzip"
)
OPTIONS = WheelOptions("1 second", 16, 2, 2, "10 minutes")


def ids_of(directory):
    return sorted(json.loads(line)["id"] for file in directory.glob("*.json") for line in file.read_text().splitlines())


def names_in(directory):
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith("."))


@pytest.fixture
def started(spark, tmp_path):
    """started(done_files): a delivery from `in` to `out`; what still runs at the end is stopped."""
    running = []

    def start(done_files=None, trigger="200 milliseconds"):
        one = start_delivery(
            Source(spark, str(tmp_path / "in")),
            str(tmp_path / "out"),
            str(tmp_path / "dead"),
            "json",
            str(tmp_path / "state"),
            OPTIONS,
            trigger,
            dead_letters_every="300 milliseconds",
            done_files=done_files,
        )
        running.append(one)
        return one

    yield start
    for one in running:
        one.stop()


def until(delivery, condition):
    """Tends a delivery until something is so; its failure, if it has one."""
    give_up = time.monotonic() + chaos.PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)
        if (failure := delivery.tend()) is not None:
            return failure
    return None


def messages(*ids):
    return "".join(json.dumps({"id": id, "key": id, "due": 1000}) + "\n" for id in ids)


def test_files_that_are_not_what_they_are_called_are_not_lost(started, tmp_path):
    """Spark reads them without an error, and finds nothing in them."""
    source = tmp_path / "in"
    source.mkdir()
    packed = bz2.compress(messages("packed").encode())
    silent = {
        "line.json.bz2": messages("bad").encode(),
        "gz [1] \u00e4%.bz2": gzip.compress(messages("bad").encode()),
        "cut.bz2": packed[:6],
        "line.lz4": messages("bad").encode(),
        "line.snappy": messages("bad").encode(),
    }
    good = {
        "packed.bz2": packed,
        "two.bz2": packed + bz2.compress(messages("two").encode()),
        "empty.bz2": bz2.compress(b""),
        "nothing.bz2": b"",
    }
    for name, text in (silent | good).items():
        (source / name).write_bytes(text)
    delivery = started(DoneFiles(None))
    assert until(delivery, lambda: names_in(source) == sorted(silent)) is None
    assert until(delivery, lambda: len(delivery.notices) == len(silent)) is None
    assert ids_of(tmp_path / "out") == ["packed", "two"]
    assert letters(tmp_path) == {
        "line.json.bz2": NO_BZIP2,
        "gz [1] \u00e4%.bz2": NO_BZIP2,
        "cut.bz2": NO_BZIP2,
        "line.lz4": NOT_HADOOPS,
        "line.snappy": NOT_HADOOPS,
    }
    delivery.stop()
    (source / "b.json").write_text(messages("b"))
    delivery = started(DoneFiles(None))
    assert until(delivery, lambda: names_in(source) == sorted(silent)) is None
    assert not delivery.notices and len(letters(tmp_path)) == len(silent)


def letters(directory):
    """The reasons of the dead letters of whole files, by their names. Of each file there is one."""
    rows = [json.loads(line) for file in (directory / "dead").glob("*.json") for line in file.read_text().splitlines()]
    found = {unquote(row["file"]).rpartition("/")[2]: row["reason"] for row in rows}
    assert len(found) == len(rows)
    return found


def test_input_files_go_into_the_archive_when_both_queries_are_through(started, tmp_path):
    source, archive = tmp_path / "in", tmp_path / "archive"
    source.mkdir()
    (source / "\u00e4 %.json").write_text(messages("a"))
    (source / "b.json").write_text(messages("b") + "no message\n")
    (source / "cut.json.gz").write_bytes(gzip.compress(os.urandom(100_000))[:50_000])
    (source / ".being written").write_text(messages("hidden"))
    delivery = started(DoneFiles(str(archive)))
    assert until(delivery, lambda: archive.exists() and len(names_in(archive)) == 2) is None
    (source / "c.json").write_text(messages("c"))
    assert until(delivery, lambda: names_in(archive) == ["b.json", "c.json", "\u00e4 %.json"]) is None
    assert names_in(source) == ["cut.json.gz"] and (source / ".being written").exists()
    assert until(delivery, lambda: len(names_in(tmp_path / "dead")) == 2) is None
    delivery.stop()

    # Another start reads the logs from the beginning, and nothing that is there twice.
    (source / "d.json").write_text(messages("d"))
    (archive / "d.json").write_text("of an earlier file")
    delivery = started(DoneFiles(str(archive)))
    assert until(delivery, lambda: any("d.json is in the archive already" in one for one in delivery.notices)) is None
    assert names_in(source) == ["cut.json.gz", "d.json"]
    delivery.stop()

    delivery = started(DoneFiles(None))
    assert until(delivery, lambda: names_in(source) == ["cut.json.gz"]) is None
    assert ids_of(tmp_path / "out") == ["a", "b", "c", "d"]


def write_log(query, batch, offset, files):
    """The checkpoint of a query whose last batch is done and had this offset. `files`: what its log has, by name."""
    for name in ("commits", "offsets", "sources/0"):
        (query / name).mkdir(parents=True, exist_ok=True)
    (query / "commits" / str(batch)).write_text("v1\n{}")
    (query / "offsets" / str(batch)).write_text(f'v1\n{{"conf": {{}}}}\n{{"logOffset":{offset}}}')
    for log, entries in files.items():
        lines = [
            json.dumps({"path": f"file://{query.parent}/in/{name}", "timestamp": 100_000 + number, "batchId": number})
            for number, name in entries
        ]
        (query / "sources" / "0" / log).write_text("\n".join(["v1", *lines]))


@pytest.fixture
def log(spark, tmp_path):
    """log(query): a reader of its log."""
    return lambda query: SourceLog(Directory(spark, str(query)), steps_of(f"file:{tmp_path}/in"))


def test_what_the_logs_say_of_files(log, tmp_path):
    query = tmp_path / "messages"
    reader = log(query)
    there = {name: 100_000 + number for number, name in enumerate(["a", "b c", "d", "e", "f"])}

    def more(reader):
        return {*reader.more(there)}

    assert more(reader) == set(), "before the first batch"
    write_log(query, 4, 1, {"0": [(0, "a"), (0, "gone")], "1": [(1, "b%20c"), (1, "sub/d")], "2": [(2, "d")]})
    assert more(reader) == {"a", "b c"}, "what is in no batch that is done, and what lies deeper, is not"
    assert more(reader) == set()
    write_log(query, 9, 3, {"3.compact": [(0, "a"), (1, "b%20c"), (2, "d"), (3, "e")], "4": [(4, "f")]})
    (query / "sources" / "0" / "2").unlink()
    assert more(reader) == {"d", "e"}
    write_log(query, 10, 4, {})
    assert (more(log(query)), more(reader)) == ({*there}, {"f"})
    there["a"] += 1
    assert more(log(query)) == {"b c", "d", "e", "f"}, "another file of the same name"


def test_files_that_one_query_has_not_read_stay(spark, tmp_path):
    queries = [tmp_path / "messages", tmp_path / "dead-letters"]
    (tmp_path / "in").mkdir()
    for name, changed_ms in {"a": 100_000, "left out": 100_000, "b": 100_001, "old": 80_000}.items():
        (tmp_path / "in" / name).write_text("")
        os.utime(tmp_path / "in" / name, ns=(changed_ms * 10**6, changed_ms * 10**6))
    files = {"0": [(0, "a"), (0, "left%20out")], "1": [(1, "b")]}
    write_log(queries[0], 0, 1, files)
    write_log(queries[1], 0, 0, files)
    cleaner = SourceCleaner(
        Directory(spark, str(tmp_path / "in")),
        None,
        [Directory(spark, str(query)) for query in queries],
        keep=lambda: {"left out"},
        every_s=0,
        forget_ms=10_000,
    )
    assert cleaner.clean() == [] and names_in(tmp_path / "in") == ["b", "left out", "old"]
    (notice,) = cleaner.clean()
    assert notice.startswith("old is not read: its time of change is further behind that of the newest file")
    write_log(queries[1], 1, 1, files)
    cleaner.clean()
    assert names_in(tmp_path / "in") == ["left out", "old"]
    (queries[0] / "offsets" / "0").write_text("v1\n{}\n{cut")
    (notice,) = cleaner.clean()
    assert notice.startswith("input files cannot be taken away: ") and "Traceback" not in notice
    assert names_in(tmp_path / "in") == ["left out", "old"]


def done_files(out, checkpoint):
    """The rule of the docs: files of batches in the commit log are done, and so are those before a later batch's."""
    commits = [int(one.name) for one in (checkpoint / MESSAGES / "commits").glob("[0-9]*")]
    files = sorted(out.glob("*.json"))
    last = max([*commits, *(int(file.name[:9]) - 1 for file in files)], default=-1)
    return [file for file in files if int(file.name[:9]) <= last]


def test_what_of_the_output_may_be_taken_away(started, tmp_path, monkeypatch):
    source, out, state = tmp_path / "in", tmp_path / "out", tmp_path / "state"
    source.mkdir()
    ids = [f"m{i}" for i in range(20)]
    (source / "a.json").write_text(messages(*ids))
    moved, move = [], Directory.move

    def fails_at_the_second(directory, old, new):
        if directory.path.endswith("out") and len(moved) == 1:
            raise OSError("the machine is gone")
        moved.append(new)
        return move(directory, old, new)

    with monkeypatch.context() as patch:
        patch.setattr(Directory, "move", fails_at_the_second)
        delivery = started()
        assert until(delivery, lambda: False) is not None
        delivery.stop()
    (first,) = out.glob("*.json")
    assert done_files(out, state) == [], "the batch is not done"
    taken = [json.loads(line)["id"] for line in first.read_text().splitlines()]  # too early
    first.unlink()
    delivery = started()
    assert until(delivery, lambda: len(taken) + len(ids_of(out)) == 20) is None
    assert not first.exists(), "the rest of the attempt that it is from is there, so it does not come again"

    def take():
        for file in done_files(out, state):
            taken.extend(json.loads(line)["id"] for line in file.read_text().splitlines())
            file.unlink()
        return len(taken) == 21

    (source / "b.json").write_text(messages("later"))
    assert until(delivery, take) is None
    delivery.stop()
    delivery = started()
    before = max(int(one.name) for one in (state / MESSAGES / "commits").glob("[0-9]*"))
    assert until(delivery, lambda: (state / MESSAGES / "commits" / str(before + 1)).exists()) is None
    assert sorted(taken) == sorted([*ids, "later"]) and ids_of(out) == []
