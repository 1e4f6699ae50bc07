"""`hwheel deliver` and `hwheel pending`: kills, Parquet, what they refuse."""

import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

import chaos
from hwheel.cli.deliver import progress as deliver_progress
from hwheel.cli.pending import show_message
from hwheel.spark import hold_until_due
from hwheel.spark.deliver.delivery import MESSAGES, start_delivery
from hwheel.spark.deliver.files import Directory
from hwheel.spark.deliver.options import CheckpointOptionsError, WheelOptions, kept_options
from hwheel.spark.deliver.pending import histogram, message, rows_held
from hwheel.spark.deliver.source import SCHEMA, messages_in
from hwheel.spark.session import java
from java_here import java_is_missing

DEFAULTS = WheelOptions("1 second", 16, 2, 2, "10 minutes")


def hwheel(*arguments, cwd, **env):
    return subprocess.run(
        [sys.executable, "-P", "-m", "hwheel", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=chaos.PATIENCE_S,
        env={**os.environ, **env},
    )


@pytest.mark.slow
@pytest.mark.skipif(java_is_missing() is not None, reason=str(java_is_missing()))
def test_three_kills_lose_and_double_nothing(tmp_path):
    # What lies where the command is started is no module of its workers.
    (tmp_path / "hwheel_core.py").write_text("raise ImportError")
    assert chaos.run(tmp_path, kills=3) > 500
    # What a batch leaves behind that was cut off is hidden from readers.
    assert [path.name for path in (tmp_path / "out").iterdir() if path.suffix != ".json" and path.name[0] != "."] == []
    dead = [
        json.loads(line)
        for file in (tmp_path / "out-dead-letters").glob("*.json")
        for line in file.read_text().splitlines()
    ]
    assert dead and {(row["line"], row["reason"]) for row in dead} == {('"no message"', "id is null")}

    told = hwheel("pending", "--checkpoint", "state", "--json", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["pending"] == 0


def test_parquet_and_what_is_pending(spark, tmp_path):
    now_ms = int(time.time() * 1000)
    rows = [(f"m{i}", "k", now_ms - 1000 + i, None, "p") for i in range(10)]
    rows += [(f"far{i}", "k", now_ms + 3_000_000 + i, None, f"payload {i}") for i in range(20)] * 2
    rows += [("far7", "k", now_ms + 3_000_007, True, None), ("year", "k", now_ms + 10**12, None, "p")]
    rows += [(None, "k", 1, None, "p")]
    source = str(tmp_path / "in")
    frame = spark.createDataFrame(rows, "id string, key string, due bigint, cancel boolean, payload string")
    frame.coalesce(1).write.parquet(source)
    delivery = start_delivery(
        messages_in(spark, source, "parquet", None),
        str(tmp_path / "out"),
        str(tmp_path / "dead"),
        "parquet",
        str(tmp_path / "state"),
        DEFAULTS,
        "200 milliseconds",
    )
    try:
        give_up = time.monotonic() + chaos.PATIENCE_S
        while delivery.sink.rows < 10 or delivery.dead_sink.rows < 1:
            assert delivery.error() is None and time.monotonic() < give_up
            time.sleep(0.1)
        checkpoint = str(tmp_path / "state" / MESSAGES)
        while not (tmp_path / "state" / MESSAGES / "commits" / "0").exists():
            time.sleep(0.1)
        while (tmp_path / "out" / ".staging").exists():
            assert time.monotonic() < give_up, "between two batches there is nothing hidden"
            time.sleep(0.001)
        # While the job runs:
        assert rows_held(spark, checkpoint) == 42
        counts = histogram(spark, checkpoint, now_ms)
        assert {name: count for name, count in counts.items() if count} == {"within an hour": 19, "later": 1}
        assert (
            message(spark, checkpoint, "far3")
            == [
                {
                    "id": "far3",
                    "key": "k",
                    "due": now_ms + 3_000_003,
                    "tick": -(-(now_ms + 3_000_003) // 1000) * 1000,
                    "payload": ["payload 3"],
                    "cancelled": False,
                }
            ]
            * 2
        )
        assert [row["cancelled"] for row in message(spark, checkpoint, "far7")] == [False, False, True]
        assert message(spark, checkpoint, "nobody") == []
        assert delivery.error() is None
    finally:
        delivery.stop()
    assert delivery.error() is not None
    out = spark.read.parquet(str(tmp_path / "out"))
    assert out.columns == ["id", "key", "due", "payload"]
    assert sorted(row.id for row in out.collect()) == [f"m{i}" for i in range(10)]
    assert [row.reason for row in spark.read.parquet(str(tmp_path / "dead")).collect()] == ["id is null"]
    assert delivery.sink.lag_ms > 0


def held_until_started(spark, directory, rows, schema, **names):
    """A query that holds rows, after its first batch; and its checkpoint."""
    frame = spark.createDataFrame(rows, schema)
    frame.coalesce(1).write.parquet(str(directory / "in"))
    source = spark.readStream.schema(frame.schema).parquet(str(directory / "in"))
    held = source.transform(hold_until_due, **names)
    query = held.writeStream.format("noop").option("checkpointLocation", str(directory / "state")).start()
    give_up = time.monotonic() + chaos.PATIENCE_S
    while not (directory / "state" / "commits" / "0").exists():
        assert query.isActive and time.monotonic() < give_up
        time.sleep(0.1)
    return query, str(directory / "state")


@pytest.mark.parametrize("key", ["name", "due"])
def test_what_is_pending_where_one_column_stands_for_two_things(spark, tmp_path, key):
    far_ms = int(time.time() * 1000) + 3_000_000
    rows = [("a", far_ms, "p", "q"), ("b", far_ms + 1, "p", "q")]
    schema = "name string, due bigint, x string, y string"
    query, checkpoint = held_until_started(spark, tmp_path, rows, schema, id="name", key=key, due="due")
    try:
        counts = histogram(spark, checkpoint, far_ms)
        assert {name: count for name, count in counts.items() if count} == {"due already": 1, "within a minute": 1}
        (row,) = message(spark, checkpoint, "b")
        shown = {"id": "b", "key": "b" if key == "name" else str(far_ms + 1), "due": far_ms + 1, "payload": ["p", "q"]}
        assert {name: row[name] for name in shown} == shown and not row["cancelled"]
    finally:
        query.stop()


def test_what_is_pending_of_ids_that_are_bytes_and_of_keys_that_share_an_id(spark, tmp_path, capsys):
    far_ms = (int(time.time()) + 3000) * 1000
    shared = [
        (b"x", key, far_ms, key == b"bob" and when == "later")
        for when in ("", "later")
        for key in (b"al", b"bob", None)
    ]
    # Bytes that are no text, and text that looks as they are shown.
    rows = [*shared, (b"\xff", b"\xfe", far_ms, False), (b"\\xff", b"\xfe", far_ms, False)]
    # A cancel in another millisecond of the message's tick takes it back as well.
    rows += [(b"gone", b"\xfe", far_ms, False), (b"gone", b"\xfe", far_ms - 1, True)]
    schema = "name binary, who binary, due bigint, cancel boolean"
    query, checkpoint = held_until_started(
        spark, tmp_path, rows, schema, id="name", key="who", due="due", cancel="cancel"
    )
    try:
        counts = histogram(spark, checkpoint, far_ms)
        assert {name: count for name, count in counts.items() if count} == {"due already": 4}
        found = message(spark, checkpoint, "x")
        assert sorted(str((row["key"], row["cancelled"])) for row in found) == sorted(
            ["('al', False)"] * 2 + ["('bob', False)", "('bob', True)"] + ["(None, False)"] * 2
        )
        assert [row["key"] for row in message(spark, checkpoint, "\\xff")] == ["\\xfe"] * 2
        asked = SimpleNamespace(id="?", json=False)
        assert show_message(found, asked) == 0
        assert show_message([row for row in found if row["key"] == "bob"], asked) == 1
        assert show_message(message(spark, checkpoint, "gone"), asked) == 1
        assert capsys.readouterr().out.count("cancel x  key bob") == 2
    finally:
        query.stop()


def test_the_output_of_another_checkpoint_is_left_alone(spark, tmp_path):
    frame = spark.createDataFrame([("a", "k", 1000, None, "p")], SCHEMA)
    frame.coalesce(1).write.parquet(str(tmp_path / "in"))

    def run(checkpoint, until):
        delivery = start_delivery(
            messages_in(spark, str(tmp_path / "in"), "parquet", None),
            str(tmp_path / "out"),
            str(tmp_path / "dead"),
            "parquet",
            str(tmp_path / checkpoint),
            DEFAULTS,
            "200 milliseconds",
        )
        try:
            give_up = time.monotonic() + chaos.PATIENCE_S
            while not until(delivery):
                assert time.monotonic() < give_up
                time.sleep(0.1)
            return delivery.error()
        finally:
            delivery.stop()

    commits = tmp_path / "first" / MESSAGES / "commits"
    assert run("first", lambda delivery: (commits / "0").exists()) is None
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir() if file.is_file()}
    assert "has the files of another checkpoint" in run("second", lambda delivery: delivery.error())
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir() if file.is_file()} == before
    # The first one goes on.
    frame.withColumn("id", F.lit("b")).write.mode("append").parquet(str(tmp_path / "in"))
    assert run("first", lambda delivery: delivery.sink.rows or delivery.error()) is None
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()) == ["a", "b"]


def test_the_settings_of_a_checkpoint_are_kept(spark, tmp_path):
    directory = Directory(spark, str(tmp_path / "state"))
    given = {"tick": None, "wheel_size": 64, "shards": None, "partitions": 4, "dedup": None}
    made = kept_options(directory, given, DEFAULTS)
    assert made == WheelOptions("1 second", 64, 4, 4, "10 minutes")
    assert kept_options(directory, dict.fromkeys(given), DEFAULTS) == made
    assert kept_options(directory, given, DEFAULTS) == made
    with pytest.raises(CheckpointOptionsError, match="--wheel-size 64, not 65"):
        kept_options(directory, {**given, "wheel_size": 65}, DEFAULTS)


def test_a_directory(spark, tmp_path):
    directory = Directory(spark, str(tmp_path / "d"))
    assert not directory.exists()
    directory.make()
    directory.write("a", "text ä")
    assert directory.exists() and directory.read("a") == "text ä"
    assert directory.move("a", "b") and directory.read("b") == "text ä"
    directory.write("a", "later")
    assert not directory.move("a", "b"), "what is there stays"
    assert directory.read("b") == "text ä"
    assert directory.names(".") == ["a", "b"]
    directory.delete("b")
    assert not directory.exists("b")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--from", "in", "--to", "in/", "--checkpoint", "cp"], "must be four places"),
        (["--from", "kafka://b/t", "--to", "out", "--checkpoint", "cp"], "--from: a topic is kafka://HOST:PORT"),
        (["--from", "in", "--to", "out", "--checkpoint", "cp", "--conf", "x"], "--conf must be NAME=VALUE"),
        (["--from", "in", "--to", "out", "--checkpoint", "cp", "--shards", "0"], "--shards: must be from 1"),
    ],
)
def test_what_cannot_be_is_refused_at_once(arguments, says, tmp_path):
    told = hwheel("deliver", *arguments, cwd=tmp_path)
    assert (told.returncode, told.stdout) == (2, "")
    assert says in told.stderr and told.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [["deliver", "--from", "in", "--to", "out"], ["pending"]])
def test_without_java_it_is_said_what_to_install(command, tmp_path):
    told = hwheel(*command, "--checkpoint", "cp", cwd=tmp_path, JAVA_HOME=str(tmp_path))
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.count("\n") == 1 and "Spark needs Java 17 or later: install it (Debian" in told.stderr


def test_an_old_java_is_refused(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    old = tmp_path / "bin" / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(java.JavaNotUsableError, match="is Java 11. Spark needs Java 17"):
        java.check_java()
    old.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(java.JavaNotUsableError, match="does not run"):
        java.check_java()


def test_a_java_that_does_not_start_spark(tmp_path):
    (tmp_path / "bin").mkdir()
    trimmed = tmp_path / "bin" / "java"
    trimmed.write_text("""#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "25.0.2"' >&2; exit 0; fi
echo "java.lang.module.FindException: Module jdk.incubator.vector not found" >&2
exit 1
""")
    trimmed.chmod(0o755)
    told = hwheel("pending", "--checkpoint", "cp", cwd=tmp_path, JAVA_HOME=str(tmp_path))
    assert (told.returncode, told.stdout) == (2, "")
    assert "Module jdk.incubator.vector not found\n" in told.stderr, "Java's own reason is kept"
    assert "Java did not start Spark" in told.stderr and "install it (Debian" in told.stderr
    assert "Traceback" not in told.stderr


def test_the_line_on_the_terminal(monkeypatch, capsys):
    batches = [SimpleNamespace(batchId=3, numInputRows=1000), SimpleNamespace(batchId=4, numInputRows=500)]
    delivery = SimpleNamespace(
        messages=SimpleNamespace(recentProgress=batches),
        sink=SimpleNamespace(rows=1200, lag_ms=1234),
        dead_sink=SimpleNamespace(rows=0),
    )
    counted = []
    progress = deliver_progress.Progress(delivery, lambda: counted.append(1) or 7)
    progress.show()
    assert capsys.readouterr().err == "", "it is not yet time"
    monkeypatch.setattr(deliver_progress, "LOG_EVERY_S", 0)
    progress.show()
    assert capsys.readouterr().err == "in 1,500  out 1,200  pending 7  lag 1.2 s\n"
    batches.append(SimpleNamespace(batchId=5, numInputRows=1))
    delivery.dead_sink.rows = 2
    progress.show()
    assert capsys.readouterr().err == "in 1,501  out 1,200  pending 7  lag 1.2 s  malformed 2\n"
    assert len(counted) == 1, "counting is dear"


def test_a_count_that_fails_does_not_stop_the_delivery(spark, tmp_path, monkeypatch, capsys):
    # As it is while there has been no input: Spark tells of an idle batch 0, and there is no state to read.
    monkeypatch.setattr(deliver_progress, "LOG_EVERY_S", 0)
    delivery = SimpleNamespace(
        messages=SimpleNamespace(recentProgress=[SimpleNamespace(batchId=0, numInputRows=0)]),
        sink=SimpleNamespace(rows=0, lag_ms=None),
        dead_sink=SimpleNamespace(rows=0),
    )
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    progress = deliver_progress.Progress(delivery, lambda: rows_held(spark, str(tmp_path)))
    progress.show()
    assert capsys.readouterr().err == "in 0  out 0  pending ?  lag ?\n"


@pytest.mark.parametrize(
    ("told", "version"),
    [('openjdk version "17.0.15"', 17), ('java version "1.8.0_402"', 8), ('openjdk version "21"', 21), ("?", None)],
)
def test_versions_of_java(told, version):
    assert java.major_version(told) == version
