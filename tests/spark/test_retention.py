"""When files may be deleted: input files by `--clean-source`, output files by the rule in the docs."""

import bz2
import gzip
import json
import os
import time

import pytest

from deliveries import file_letters, ids_in, json_rows, put_lines, write_log
from hwheel.spark.deliver.checkpoint import MESSAGES
from hwheel.spark.deliver.directory import Directory, steps_of
from hwheel.spark.deliver.input_files import SourceCleaner, SourceLog

NO_BZIP2 = "the file cannot be read: its name says bzip2, but its content is not"
NOT_HADOOPS = (
    "the file cannot be read: it is not in Hadoop's format of this name, which differs from the format of the "
    "commands lz4 and snzip"
)
DELETE = {"clean_source": "delete"}
OFTEN = {"dead_letters_every": "300 milliseconds"}


def names_in(directory):
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith("."))


def message(id):
    return {"id": id, "key": id, "due": 1000}


def message_bytes(id):
    return json.dumps(message(id)).encode() + b"\n"


def test_files_of_a_wrong_format_are_kept_and_reported(deliveries, tmp_path):
    """Spark reads such files without an error, and finds no rows in them."""
    source = tmp_path / "in"
    packed = bz2.compress(message_bytes("packed"))
    unreadable = {
        "line.json.bz2": message_bytes("bad"),
        "gz [1] \u00e4%.bz2": gzip.compress(message_bytes("bad")),
        "cut.bz2": packed[:6],
        "line.lz4": message_bytes("bad"),
        "line.snappy": message_bytes("bad"),
    }
    readable = {
        "packed.bz2": packed,
        "two.bz2": packed + bz2.compress(message_bytes("two")),
        "empty.bz2": bz2.compress(b""),
        "nothing.bz2": b"",
    }
    for name, content in (unreadable | readable).items():
        put_lines(source, name, content)
    delivery = deliveries.start(**DELETE, **OFTEN)
    deliveries.tend(delivery, lambda: names_in(source) == sorted(unreadable))
    deliveries.tend(delivery, lambda: len(delivery.notices) == len(unreadable))
    delivery.stop()
    assert ids_in(tmp_path / "out") == ["packed", "two"]
    reasons = {name: NO_BZIP2 if name.endswith(".bz2") else NOT_HADOOPS for name in unreadable}
    assert file_letters(tmp_path / "dead") == reasons

    put_lines(source, "b.json", message("b"))
    assert deliveries.run(lambda _: names_in(source) == sorted(unreadable), **DELETE, **OFTEN) == []
    assert file_letters(tmp_path / "dead") == reasons


def test_files_are_archived_after_both_queries_have_read_them(deliveries, tmp_path):
    source, archive = tmp_path / "in", tmp_path / "archive"
    put_lines(source, "\u00e4 %.json", message("a"))
    put_lines(source, "b.json", message("b"), b"no message")
    put_lines(source, "cut.json.gz", gzip.compress(os.urandom(100_000))[:50_000])
    put_lines(source, ".being written", message("hidden"))
    to_archive = {"clean_source": "archive", "archive": str(archive)}
    delivery = deliveries.start(**to_archive, **OFTEN)
    deliveries.tend(delivery, lambda: archive.exists() and len(names_in(archive)) == 2)
    put_lines(source, "c.json", message("c"))
    deliveries.tend(delivery, lambda: names_in(archive) == ["b.json", "c.json", "\u00e4 %.json"])
    deliveries.tend(delivery, lambda: len(names_in(tmp_path / "dead")) == 2)
    delivery.stop()
    assert names_in(source) == ["cut.json.gz"] and (source / ".being written").exists()

    # A restart reads the logs from the beginning. It does not replace a file in the archive.
    put_lines(source, "d.json", message("d"))
    put_lines(archive, "d.json", b"of an earlier file")
    delivery = deliveries.start(**to_archive, **OFTEN)
    deliveries.tend(delivery, lambda: any("d.json exists in the archive already" in one for one in delivery.notices))
    delivery.stop()
    assert names_in(source) == ["cut.json.gz", "d.json"]

    deliveries.run(lambda _: names_in(source) == ["cut.json.gz"], **DELETE, **OFTEN)
    assert ids_in(tmp_path / "out") == ["a", "b", "c", "d"]


@pytest.mark.parametrize("archive", [None, pytest.param("archive", marks=pytest.mark.slow)])
def test_second_file_with_the_same_name_is_reported(deliveries, tmp_path, archive):
    """Spark reads only the first file of a name."""
    clean = DELETE if archive is None else {"clean_source": "archive", "archive": str(tmp_path / archive)}
    source = tmp_path / "in"
    put_lines(source, "day.json", message("first"))
    delivery = deliveries.start(**clean, **OFTEN)
    for number in (1, 2):
        deliveries.tend(delivery, lambda: names_in(source) == [])
        put_lines(source, "day.json", message(f"again{number}"))
        deliveries.tend(delivery, lambda number=number: len(file_letters_of(tmp_path / "dead", "day.json")) == number)
        (source / "day.json").unlink()
    delivery.stop()
    assert sum("day.json is not read: a file of this name was read before" in one for one in delivery.notices) == 2
    put_lines(source, "day.json", message("after a restart"))
    delivery = deliveries.start(**clean, **OFTEN)
    deliveries.tend(delivery, lambda: len(file_letters_of(tmp_path / "dead", "day.json")) == 3)
    delivery.stop()
    put_lines(source, "day.json")
    (source / "day.json").unlink()
    put_lines(source, "another.json", message("again"))
    deliveries.run(lambda _: ids_in(tmp_path / "out") == ["again", "first"], **clean, **OFTEN)


def test_file_dated_in_the_future_does_not_hide_later_files(deliveries, tmp_path):
    source, settings = tmp_path / "in", {**DELETE, **OFTEN, "forget_files": "1 hour"}
    put_lines(source, "future.json", message("future"))
    in_ten_days = time.time() + 864_000
    os.utime(source / "future.json", (in_ten_days, in_ten_days))
    delivery = deliveries.start(**settings)
    deliveries.tend(delivery, lambda: names_in(source) == [])
    put_lines(source, "now.json", message("now"))
    deliveries.tend(delivery, lambda: ids_in(tmp_path / "out") == ["future", "now"])
    deliveries.tend(delivery, lambda: names_in(source) == [])
    delivery.stop()
    (notice,) = delivery.notices
    assert "which is in the future\nfiles that are older are read nevertheless" in notice
    put_lines(source, "restarted.json", message("restarted"))
    deliveries.run(lambda _: ids_in(tmp_path / "out") == ["future", "now", "restarted"], **settings)


def file_letters_of(dead, name):
    return [row for row in json_rows(dead) if row["file"].endswith(f"/{name}")]


def test_source_log_lists_the_files_of_committed_batches(spark, tmp_path):
    query = tmp_path / "messages"
    present = {name: 100_000 + number for number, name in enumerate(["a", "b c", "d", "e", "f"])}

    def new_reader():
        log = SourceLog(Directory(spark, str(query)), steps_of(f"file:{tmp_path}/in"))
        return lambda: {*log.more(present)}

    more = new_reader()
    assert more() == set(), "before the first batch"
    write_log(query, 4, 1, {"0": [(0, "a"), (0, "gone")], "1": [(1, "b%20c"), (1, "sub/d")], "2": [(2, "d")]})
    assert more() == {"a", "b c"}, "without files of uncommitted batches and of subdirectories"
    assert more() == set()
    write_log(query, 9, 3, {"3.compact": [(0, "a"), (1, "b%20c"), (2, "d"), (3, "e")], "4": [(4, "f")]})
    (query / "sources" / "0" / "2").unlink()
    assert more() == {"d", "e"}
    write_log(query, 10, 4, {})
    assert (new_reader()(), more()) == ({*present}, {"f"})
    present["a"] += 1
    assert new_reader()() == {"b c", "d", "e", "f"}, "a later file of the same name is another file"


def test_files_that_one_query_has_not_read_are_kept(spark, tmp_path):
    queries = [tmp_path / "messages", tmp_path / "dead-letters"]
    for name, changed_ms in {"a": 100_000, "left out": 100_000, "b": 100_001, "old": 80_000}.items():
        put_lines(tmp_path / "in", name)
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
    assert notice.startswith("old is not read: it is older than the newest file")
    write_log(queries[1], 1, 1, files)
    cleaner.clean()
    assert names_in(tmp_path / "in") == ["left out", "old"]
    (queries[0] / "offsets" / "0").write_text("v1\n{}\n{cut")
    (notice,) = cleaner.clean()
    assert notice.startswith("input files cannot be removed: ") and "Traceback" not in notice
    assert names_in(tmp_path / "in") == ["left out", "old"]


def last_commit(checkpoint):
    commits = (checkpoint / MESSAGES / "commits").glob("[0-9]*")
    return max((int(commit.name) for commit in commits), default=-1)


def complete_files(out, checkpoint):
    """Return the output files that may be deleted by the rule in the docs.

    A file is complete if its batch is in the commit log, or if a later batch has a file.
    """
    files = sorted(out.glob("*.json"))
    last = max([last_commit(checkpoint), *(int(file.name[:9]) - 1 for file in files)])
    return [file for file in files if int(file.name[:9]) <= last]


def test_deleted_output_files_are_not_written_again(deliveries, tmp_path, monkeypatch):
    out, state = tmp_path / "out", tmp_path / "state"
    ids = [f"m{i}" for i in range(20)]
    put_lines(tmp_path / "in", "a.json", *map(message, ids))
    moved, move = [], Directory.move

    def second_move_fails(directory, old, new):
        if directory.path.endswith("out") and len(moved) == 1:
            raise OSError("the machine is gone")
        moved.append(new)
        return move(directory, old, new)

    with monkeypatch.context() as patch:
        patch.setattr(Directory, "move", second_move_fails)
        deliveries.failure_of(deliveries.start())
    (first,) = out.glob("*.json")
    assert complete_files(out, state) == []
    taken = [row["id"] for row in json_rows(out)]
    first.unlink()  # against the rule
    # A stop before the commit would repeat the batch, and write the deleted file again.
    delivery = deliveries.start()
    deliveries.tend(delivery, lambda: len(taken) + len(ids_in(out)) == 20)
    assert not first.exists(), "the other files of its attempt exist, so the attempt is not repeated"

    def take():
        for file in complete_files(out, state):
            taken.extend(json.loads(line)["id"] for line in file.read_text().splitlines())
            file.unlink()
        return len(taken) == 21

    put_lines(tmp_path / "in", "b.json", message("later"))
    deliveries.tend(delivery, take)
    delivery.stop()
    before = last_commit(state)
    deliveries.run(lambda _: last_commit(state) > before)
    assert sorted(taken) == sorted([*ids, "later"]) and ids_in(out) == []
