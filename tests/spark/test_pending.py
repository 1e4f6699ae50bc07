"""`hwheel pending`, and the counts that a running delivery keeps."""

import json
import os
import re
import shutil
import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from deliveries import WHEEL, put_lines, rows_read, wait_until
from hwheel.cli import pending as pending_command
from hwheel.cli.deliver.counts import Counts, Held
from hwheel.cli.main import main
from hwheel.cli.pending import due_before_ms, show_histogram, show_messages, watch
from hwheel.spark import hold_until_due
from hwheel.spark.deliver.pending import histogram, matching_rows, rows_held
from hwheel.spark.deliver.source import SCHEMA
from hwheel.spark.session import local
from hwheel.spark.shard import state
from reports import batch, reported

NOON_MS = 1_795_176_000_000  # 2026-11-20 12:00 UTC
YEAR_9999_MS = 253_402_300_799_000


def hold_one_batch(spark, directory, rows, schema, **columns):
    """Run a query that holds rows for one batch; return its checkpoint."""
    frame = spark.createDataFrame(rows, schema)
    frame.coalesce(1).write.parquet(str(directory / "in"))
    held = spark.readStream.schema(frame.schema).parquet(str(directory / "in")).transform(hold_until_due, **columns)
    query = held.writeStream.format("noop").option("checkpointLocation", str(directory / "state")).start()
    try:
        wait_until((directory / "state" / "commits" / "0").exists)
    finally:
        query.stop()
    return str(directory / "state")


@pytest.fixture(scope="module")
def held_directory(spark, tmp_path_factory):
    """The checkpoint of one message, due in 9999. Its path is one that Spark's state reader would misread as a URL."""
    directory = tmp_path_factory.mktemp("pending") / "held 100% \u00e4 #1"
    rows = [("m1", "k", YEAR_9999_MS, None, "p")]
    hold_one_batch(spark, directory, rows, SCHEMA, id="id", key="key", due="due", cancel="cancel")
    return directory / "state"


def test_checkpoint_path_with_special_characters(spark, held_directory):
    assert rows_held(spark, str(held_directory)) == 1
    assert [row["id"] for row in matching_rows(spark, str(held_directory), "m1")] == ["m1"]
    assert sum(histogram(spark, str(held_directory), 0).values()) == 1


@pytest.mark.parametrize("key", ["name", "due"])
def test_one_column_as_both_key_and_id_or_due(spark, tmp_path, key):
    far_ms = int(time.time() * 1000) + 3_000_000
    rows = [("a", far_ms, "p", "q"), ("b", far_ms + 1, "p", "q")]
    schema = "name string, due bigint, x string, y string"
    checkpoint = hold_one_batch(spark, tmp_path, rows, schema, id="name", key=key, due="due")
    counts = histogram(spark, checkpoint, far_ms)
    assert {name: count for name, count in counts.items() if count} == {"due already": 1, "within a minute": 1}
    (row,) = matching_rows(spark, checkpoint, "b")
    shown = {"id": "b", "key": "b" if key == "name" else str(far_ms + 1), "due": far_ms + 1, "payload": ["p", "q"]}
    assert {name: row[name] for name in shown} == shown and not row["cancelled"]


@pytest.fixture(scope="module")
def binary_ids(spark, tmp_path_factory):
    """A checkpoint with binary ids and keys: (checkpoint, due time)."""
    far_ms = (int(time.time()) + 3000) * 1000
    rows = [(b"x", key, far_ms, False) for key in (b"al", b"bob", None)]
    rows += [(b"x", key, far_ms, key == b"bob") for key in (b"al", b"bob", None)]
    # Bytes that are not UTF-8, and text that equals their displayed form.
    rows += [(b"\xff", b"\xfe", far_ms, False), (b"\\xff", b"\xfe", far_ms, False)]
    # A cancel may name another millisecond of the message's tick.
    rows += [(b"gone", b"\xfe", far_ms, False), (b"gone", b"\xfe", far_ms - 1, True)]
    schema = "name binary, who binary, due bigint, cancel boolean"
    directory = tmp_path_factory.mktemp("binary")
    columns = {"id": "name", "key": "who", "due": "due", "cancel": "cancel"}
    return hold_one_batch(spark, directory, rows, schema, **columns), far_ms


def test_histogram_counts_messages_that_will_go_out(spark, binary_ids):
    checkpoint, far_ms = binary_ids
    counts = histogram(spark, checkpoint, far_ms)
    assert {name: count for name, count in counts.items() if count} == {"due already": 4}
    assert sum(histogram(spark, checkpoint, far_ms, far_ms + 1).values()) == 4
    assert sum(histogram(spark, checkpoint, far_ms, far_ms).values()) == 0


def test_messages_by_binary_id_and_key(spark, binary_ids):
    checkpoint, far_ms = binary_ids
    found = [(row["key"], row["cancelled"]) for row in matching_rows(spark, checkpoint, "x")]
    expected = [("al", False)] * 2 + [("bob", False), ("bob", True)] + [(None, False)] * 2
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert [row["key"] for row in matching_rows(spark, checkpoint, "\\xff")] == ["\\xfe"] * 2
    # As the command line passes the byte.
    assert [row["key"] for row in matching_rows(spark, checkpoint, os.fsdecode(b"\xff"))] == ["\\xfe"]
    of_bob = matching_rows(spark, checkpoint, key="bob")
    assert [(row["id"], row["cancelled"]) for row in of_bob] == [("x", False), ("x", True)]
    # A message and its cancel are shown together, wherever in the tick they are due.
    before = matching_rows(spark, checkpoint, key="\\xfe", before_ms=far_ms)
    assert [(row["id"], row["due"] - far_ms, row["cancelled"]) for row in before] == [
        ("gone", 0, False),
        ("gone", -1, True),
    ]
    every = matching_rows(spark, checkpoint, key="\\xfe")
    assert every[:2] == before and len(every) == 4
    assert matching_rows(spark, checkpoint, key="\\xfe", most=3) == every[:3]
    assert matching_rows(spark, checkpoint, "x", "\\xfe") == matching_rows(spark, checkpoint, key="unknown") == []


def test_status_is_1_if_no_message_will_go_out(spark, binary_ids, capsys):
    checkpoint, _ = binary_ids
    options = SimpleNamespace(id="?", key=None, json=False, most=100, prog="hwheel pending")
    of_x = matching_rows(spark, checkpoint, "x")
    assert show_messages(of_x, options) == 0
    assert show_messages([row for row in of_x if row["key"] == "bob"], options) == 1
    assert show_messages(matching_rows(spark, checkpoint, "gone"), options) == 1
    assert capsys.readouterr().out.count("cancel x  key bob") == 2
    options.most = 3
    assert show_messages(matching_rows(spark, checkpoint, key="\\xfe", most=4), options) == 0
    shown = capsys.readouterr()
    assert shown.out.count("\n") == 3 and shown.err == "hwheel pending: there are more; --most N shows more\n"


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ("1795176000000", NOON_MS),
        ("2026-11-20T12:00:00Z", NOON_MS),
        ("2026-11-20 12:00", NOON_MS),
        ("2026-11-20T13:00:00.500+01:00", NOON_MS + 500),
        ("1h", NOON_MS + 3_600_000),
        ("9" * 5000, 2**62),
        ("9999999999999999 weeks", 2**62),
        (None, None),
    ],
)
def test_due_before(given, ms):
    assert due_before_ms(given, NOON_MS) == ms


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--due-before", "soon"], "--due-before must be a time like .* not 'soon'"),
        (["--watch", "banana"], "--watch must be a number and a unit"),
        (["--watch", "1ms"], "--watch must be from 100ms"),
        (["--watch", "1s", "--id", "m1"], "--watch counts: leave out --id and --key"),
        (["--most", "0"], "--most: must be at least 1"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message, capsys):
    with suppress(SystemExit):  # argparse exits by itself
        assert main(["pending", "--checkpoint", "state", *arguments]) == 2
    written = capsys.readouterr()
    assert re.search(message, written.err) and written.err.count("\n") == 1 and not written.out


@pytest.mark.parametrize("arguments", [[], ["--id", "m1"]])
def test_state_of_another_version_is_refused(spark, held_directory, monkeypatch, capsys, arguments):
    monkeypatch.setattr(local, "make_session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr(state, "FORMAT", 99)
    assert main(["pending", "--checkpoint", str(held_directory), *arguments]) == 2
    error = capsys.readouterr().err
    assert "the checkpoint was written by another version of hwheel" in error and "not foreseen" not in error


def test_watch_counts_until_stopped_and_ignores_transient_errors(capsys):
    answers = iter([None, PySparkException("the job deletes old files"), None])
    stopped = iter([False, False, False, True])
    waits = []

    def count():
        if (answer := next(answers)) is not None:
            raise answer
        show_histogram({"later": 1}, SimpleNamespace(json=False, watch="2s"), NOON_MS)

    watch(count, 2.0, SimpleNamespace(wait=lambda seconds: waits.append(seconds) or next(stopped)))
    assert waits == [2.0] * 4
    assert capsys.readouterr().out.count("1 pending at 2026-11-20 12:00:00 UTC\n") == 2


def test_counts_survive_a_state_that_cannot_be_read(spark, held_directory, tmp_path):
    """The job deletes old state files while a count reads them; and before the first input there is no state."""
    checkpoint = tmp_path / "state"
    shutil.copytree(held_directory, checkpoint)
    for part in range(2):
        for file in (checkpoint / "state" / "0" / str(part)).rglob("*"):
            if file.suffix in (".changelog", ".zip"):
                file.unlink()
    with pytest.raises(Py4JJavaError):
        rows_held(spark, str(checkpoint))
    for log in ("offsets", "commits"):
        (tmp_path / "empty" / log).mkdir(parents=True)
    for unreadable in (checkpoint, tmp_path / "empty"):
        counts = Counts(reported([batch(0, 0)]), lambda place=unreadable: Held(rows_held(spark, str(place))))
        counts.look()
        assert (counts.last_batch, counts.pending) == (0, None)
    stopped = iter([False, True])
    watch(lambda: rows_held(spark, str(checkpoint)), 2.0, SimpleNamespace(wait=lambda _: next(stopped)))


def test_cancel_all_messages_of_some_keys(deliveries, spark, tmp_path, monkeypatch, capsys):
    """Covers a message that is already cancelled, duplicates, due times in seconds, and a key without messages."""
    far_s = int(time.time()) + 10**6
    keys = ["k1", "k2", "\u00e4 b", None]
    rows = [{"id": f"m{i}", "key": keys[i % 4], "due": far_s + i // 4} for i in range(40)]
    gone = {**rows[0], "cancel": True}
    wheel = replace(WHEEL, due_unit="s")
    put_lines(tmp_path / "in", "a.json", *rows, *rows[:8], gone)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "hwheel.json").write_text(wheel.to_json())
    deliveries.run(wheel=wheel)
    (tmp_path / "keys").write_text("k1\n\u00e4 b\nunknown\n")
    monkeypatch.setattr(pending_command, "spark_session", lambda *_: nullcontext(spark))
    command = ["pending", "--checkpoint", str(tmp_path / "state"), "--cancel-to", str(tmp_path / "in")]
    assert main([*command, "--key", "unknown"]) == 1 and capsys.readouterr().out == "nothing pending\n"
    assert main([*command, "--keys", str(tmp_path / "keys")]) == 0
    assert capsys.readouterr().out == f"19 cancels are in {tmp_path}/in\n"
    (file,) = (tmp_path / "in").glob("cancels-*.json")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    expected = {json.dumps({**row, "cancel": True}) for row in rows if row["key"] in ("k1", "\u00e4 b")}
    assert {json.dumps(line) for line in lines} == expected - {json.dumps(gone)} and len(lines) == 19
    deliveries.run(lambda one: rows_read(one) == 19, wheel=wheel)
    left = matching_rows(spark, str(tmp_path / "state" / "messages"))
    cancelled = {row["id"] for row in left if row["cancelled"]}
    assert {row["id"] for row in left} - cancelled == {row["id"] for row in rows if row["key"] in ("k2", None)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--keys", "f"], "--keys needs --cancel-to"),
        (["--cancel-to", "in"], "--cancel-to needs --key or --keys"),
        (["--cancel-to", "in", "--key", "k", "--id", "i"], "leave out --id"),
        (["--cancel-to", "in", "--keys", "missing"], "--keys: missing cannot be read"),
    ],
)
def test_options_of_cancels_that_do_not_fit(capsys, options, message):
    assert main(["pending", "--checkpoint", "state", *options]) == 2
    assert message in capsys.readouterr().err
