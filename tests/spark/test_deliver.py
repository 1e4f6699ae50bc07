"""`hwheel deliver` and `hwheel pending`: kills, Parquet, what they refuse."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import chaos
from hwheel.cli.common import CommandError, spark_errors
from hwheel.cli.deliver.command import count_pending
from hwheel.cli.deliver.counts import Counts
from hwheel.cli.main import main
from hwheel.cli.pending import due_before_ms, show_histogram, show_messages, watch
from hwheel.spark import hold_until_due
from hwheel.spark.deliver import delivery as delivery_module
from hwheel.spark.deliver import trial_reading, unreadable_files
from hwheel.spark.deliver.checkpoint import MESSAGES, OUTPUTS, CheckpointInUseError, check_logs, keep_outputs, only_job
from hwheel.spark.deliver.delivery import STARTS, Delivery, start_delivery
from hwheel.spark.deliver.directory import Directory, DirectoryError
from hwheel.spark.deliver.failures import Failure
from hwheel.spark.deliver.pending import EDGES_MS, LATER, histogram, messages, rows_held
from hwheel.spark.deliver.settings import CheckpointOptionsError, WheelOptions, kept_options
from hwheel.spark.deliver.sink import BatchNotWrittenError, DirectorySink
from hwheel.spark.deliver.source import SCHEMA, Source
from hwheel.spark.deliver.trial_reading import unreadable_among, why_unreadable
from hwheel.spark.deliver.unreadable_files import ListDamagedError, UnreadableFiles
from hwheel.spark.session import local
from hwheel.spark.session.conf import FILES_BY_A_JOB, set_up_local_input
from hwheel.spark.shard import state
from java_here import java_is_missing
from reports import batch, reported

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
    sender = chaos.run(tmp_path, kills=3, by_id=True)
    assert len(sender.expected()) > 500 and sender.bursts and sender.bad_files
    # What a batch leaves behind that was cut off is hidden from readers.
    assert [path.name for path in (tmp_path / "out").iterdir() if path.suffix != ".json" and path.name[0] != "."] == []

    told = hwheel("pending", "--checkpoint", "state", "--json", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["pending"] == 0


def test_parquet_and_what_is_pending(spark, tmp_path, capsys):
    now_ms = int(time.time() * 1000)
    rows = [(f"m{i}", "k", now_ms - 1000 + i, None, "p") for i in range(10)]
    rows += [(f"far{i}", "k", now_ms + 3_000_000 + i, None, f"payload {i}") for i in range(20)] * 2
    rows += [("far7", "k", now_ms + 3_000_007, True, None), ("year", "k", now_ms + 10**12, None, "p")]
    rows += [(None, "k", 1, None, "p")]
    source = str(tmp_path / "in")
    frame = spark.createDataFrame(rows, "id string, key string, due bigint, cancel boolean, payload string")
    frame.coalesce(1).write.parquet(source)
    delivery = start_delivery(
        Source(spark, source, "parquet"),
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
        counts = Counts(delivery, lambda: count_pending(Directory(spark, str(tmp_path / "state"))))
        while counts.last_batch < 0:
            assert time.monotonic() < give_up
            counts.look_at = 0
            counts.look()
        assert (counts.rows_in, counts.rows_out, counts.pending, counts.dead_letters) == (len(rows), 10, 42, 1)
        assert sum(counts.batch_times.counts) == counts.last_batch + 1 and counts.batch_times.sum_s > 0
        assert main(["pending", "--checkpoint", str(tmp_path / "state"), "--last", "--json"]) == 0
        last = json.loads(capsys.readouterr().out)
        assert last["rows"] == 42
        assert last["by_due"] == dict.fromkeys([*EDGES_MS, LATER], 0) | {"within an hour": 41, "later": 1}
        assert counts.state_bytes.keys() == {"disk", "memory"} and counts.state_bytes["memory"] > 0
        counts = histogram(spark, checkpoint, now_ms)
        assert {name: count for name, count in counts.items() if count} == {"within an hour": 19, "later": 1}
        assert (
            messages(spark, checkpoint, "far3")
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
        assert [row["cancelled"] for row in messages(spark, checkpoint, "far7")] == [False, False, True]
        assert messages(spark, checkpoint, "nobody") == []
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


def rows_of(directory):
    return [json.loads(line) for file in directory.glob("*.json") for line in file.read_bytes().splitlines()]


@pytest.fixture
def deliver(spark, tmp_path):
    """deliver(until, ...): runs a delivery from `in` to `out` until something is so; its error, if it has one."""

    def run(until, checkpoint="state", format="json", due_unit="ms"):
        delivery = start_delivery(
            Source(spark, str(tmp_path / "in"), format, due_unit=due_unit),
            str(tmp_path / "out"),
            str(tmp_path / "dead"),
            format,
            str(tmp_path / checkpoint),
            DEFAULTS,
            "200 milliseconds",
        )
        try:
            give_up, failure = time.monotonic() + chaos.PATIENCE_S, None
            while not until(delivery) and failure is None:
                assert time.monotonic() < give_up
                time.sleep(0.05)
                failure = delivery.tend()
            told.extend(delivery.notices)
            return failure and str(failure)
        finally:
            delivery.stop()

    told = run.told = []
    return run


def test_odd_lines_and_tasks_that_write_several_files(spark, deliver, tmp_path):
    """What is no message goes to the dead letters whole, and of what is one, nothing is lost among many files."""
    unreadable = {
        b'{"id": "x1", "due": 1000, "cancel": "true"}': 'cancel is neither true nor false: "true"',
        b'{"id": "x2", "due": 1000, "payload": "\xe4"}': "not UTF-8: byte 0xe4 at 38",
        b'{"id": "x3", "due": 1000}{"id": "x4", "due": 1000}': 'more behind the message: {"id": "x4", "due": 1000}',
        b'{"id": "x5", "due": 1000, "due": 2000}': "due is there twice",
        b'{"key": "k", "due": 1, "unknown": "kept"}': "id is null",
        b'{"id": "x6", "due": 1e99}': "due is no whole number of 64 bits: 1e99",
    }
    lines = [json.dumps({"id": f"m{i}", "key": f"k{i % 7}", "due": 1000}).encode() for i in range(1000)]
    lines[500:500] = [*unreadable, b"", b" \t ", b'{"id": "o", "due": 1000, "payload": {"a": [1.00]}}']
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "\u00e4 %.json").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines))
    spark.conf.set("spark.sql.files.maxRecordsPerFile", 100)
    try:
        assert deliver(lambda delivery: delivery.sink.rows and delivery.dead_sink.rows) is None
    finally:
        spark.conf.unset("spark.sql.files.maxRecordsPerFile")
    out = {row["id"]: row.get("payload") for row in rows_of(tmp_path / "out")}
    assert out == {f"m{i}": None for i in range(1000)} | {"o": '{"a": [1.00]}'}
    assert len(rows_of(tmp_path / "out")) == 1001 and len([*(tmp_path / "out").glob("*.json")]) > 10
    dead = {row["line"]: row["reason"] for row in rows_of(tmp_path / "dead")}
    assert dead == {line.decode(errors="replace"): reason for line, reason in unreadable.items()}
    (file,) = {row["file"] for row in rows_of(tmp_path / "dead")}
    assert unquote(file) == f"file:{tmp_path}/in/\u00e4 %.json"


def test_what_tells_the_files_of_a_batch_apart(spark, tmp_path):
    sink = DirectorySink(str(tmp_path), "json")
    kind = "17a2-c000.json"
    assert sink.final_names(["_SUCCESS", f"part-00000-{kind}", f"part-00012-{kind}"], 7) == {
        f"part-00000-{kind}": "000000007-00000.json",
        f"part-00012-{kind}": "000000007-00012.json",
    }
    assert sink.final_names(["part-00003-c-a1-c001.zstd.json"], 7) == {
        "part-00003-c-a1-c001.zstd.json": "000000007-00003-001.json"
    }
    with pytest.raises(BatchNotWrittenError, match="same name"):
        sink.final_names(["part-00000-a-c000.json", "part-00000-b-c000.json"], 7)
    with pytest.raises(BatchNotWrittenError, match="is not called"):
        sink.final_names(["part-00000"], 7)


def test_a_file_that_cannot_be_renamed_stops_the_batch(spark, tmp_path, monkeypatch):
    sink, batch = DirectorySink(str(tmp_path), "json"), SimpleNamespace(sparkSession=spark)
    staged = tmp_path / ".staging" / "3" / "part-00000-a-c000.json"
    staged.parent.mkdir(parents=True)
    staged.write_text("rows")
    with monkeypatch.context() as patch:
        patch.setattr(Directory, "move", lambda *_: False)
        with pytest.raises(BatchNotWrittenError, match="could not be renamed to 000000003-00000.json"):
            sink.finish(batch, 3, True)
    assert staged.exists(), "nothing is thrown away that is nowhere else"
    sink.finish(batch, 3, True)
    assert (tmp_path / "000000003-00000.json").read_text() == "rows" and not (tmp_path / ".staging").exists()
    # The batch again, after a crash before Spark wrote down that it was done.
    staged.parent.mkdir(parents=True)
    staged.write_text("the same rows")
    sink.finish(batch, 3, True)
    assert (tmp_path / "000000003-00000.json").read_text() == "rows" and not (tmp_path / ".staging").exists()


def test_an_attempt_that_was_cut_off_among_its_renames_is_finished(spark, tmp_path):
    """Its rows came in another order than the next attempt's: with other cores Spark divides the input otherwise."""
    out = tmp_path / "out"

    def attempt(order):
        sink = DirectorySink(str(out), "json", claimed=True)
        batch = spark.range(250).orderBy(F.col("id") * order).coalesce(1)
        sink.write(batch, 3)
        sink.finish(batch, 3, True)

    class CutOffError(Exception):
        pass

    def cut_off(directory, old, new):
        if new.endswith("-001.json"):
            raise CutOffError
        return move(directory, old, new)

    move = Directory.move
    spark.conf.set("spark.sql.files.maxRecordsPerFile", 100)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Directory, "move", cut_off)
            with pytest.raises(CutOffError):
                attempt(1)
        assert [file.name for file in out.glob("*.json")] == ["000000003-00000.json"]
        attempt(-1)
    finally:
        spark.conf.unset("spark.sql.files.maxRecordsPerFile")
    assert sorted(row["id"] for row in rows_of(out)) == [*range(250)]
    assert not (out / ".staging").exists()


def sent(tmp_path, name):
    """Whether a delivery has written down its first batch, of both kinds."""
    return all((tmp_path / name / query / "commits" / "0").exists() for query in ("messages", "dead-letters"))


def test_files_that_cannot_be_read_are_left_out(deliver, tmp_path):
    """The job goes on without them, whole, and tells; so it does after a restart. Directories it does not look into,
    and what is called like a pattern stands for itself alone."""
    lines = [json.dumps({"id": f"t{i}", "due": 1000, "x": os.urandom(8).hex()}).encode() for i in range(5000)]
    packed = gzip.compress(b"\n".join(lines))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "cut \u00e4%.json.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "in" / "plain.json.gz").write_bytes(lines[0])
    (tmp_path / "in" / "good.json").write_text('{"id": "good", "due": 1000}')
    (tmp_path / "in" / "2026-11-22T10:30.json").write_text('{"id": "colon", "due": 1000}')
    for directory in ("sub", "value=1"):
        (tmp_path / "in" / directory).mkdir()
        (tmp_path / "in" / directory / "a.json").write_text('{"id": "not looked at", "due": 1000}')
    (tmp_path / "in" / "*o[n]{e,}.json").write_text('{"id": "one", "due": 1000}')
    (tmp_path / "in" / "none.json").write_text("{}")
    with open(os.fsencode(tmp_path / "in") + b"/\xff.json", "w") as file:
        file.write('{"id": "not text", "due": 1000}')
    assert deliver(lambda delivery: sent(tmp_path, "state")) is None
    out = sorted(row["id"] for row in rows_of(tmp_path / "out"))
    assert out == ["good", "one"], "nothing of the half that can be read"
    letters = {unquote(row["file"]).rpartition("/")[2]: row["reason"] for row in rows_of(tmp_path / "dead")}
    assert letters == {
        "2026-11-22T10:30.json": "the file cannot be read: there is a colon in its name, which Hadoop's local file "
        "system does not take",
        "none.json": "id is null",
        "cut \u00e4%.json.gz": "the file cannot be read: Unexpected end of input stream",
        "plain.json.gz": "the file cannot be read: not a gzip file",
    }
    assert len(rows_of(tmp_path / "dead")) == 4 and len(deliver.told) == 4
    (unseen,) = (told for told in deliver.told if told.startswith("\\xff.json is not read: its name is no text"))
    assert all(
        told == unseen or re.match(r"file:.*cannot be read and is left out: .*\nmend it and move it in", told)
        for told in deliver.told
    )
    (tmp_path / "in" / "more.json").write_text('{"id": "more", "due": 1000}')
    assert deliver(lambda delivery: delivery.sink.rows) is None
    assert sorted(row["id"] for row in rows_of(tmp_path / "out")) == ["good", "more", "one"]
    assert len(rows_of(tmp_path / "dead")) == 4 and deliver.told[4:] == [unseen]


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_many_files_that_cannot_be_read_are_left_out_at_once(spark, deliver, tmp_path, monkeypatch, format):
    """Not a batch for each, which would read all the others anew."""
    starts = []
    started = delivery_module.started
    monkeypatch.setattr(delivery_module, "started", lambda *given: starts.append(given) or started(*given))
    source = tmp_path / "in"
    if format == "json":
        source.mkdir()
        for i in range(20):
            (source / f"plain \u00e4{i}.json.gz").write_bytes(b'{"id": "bad", "due": 1000}')
            (source / f"10:{i}.json").write_text('{"id": "bad", "due": 1000}')
            (source / f"good{i}.json").write_text(f'{{"id": "good{i}", "due": 1000}}')
    else:
        good = spark.createDataFrame([(f"good{i}", "k", 1000, None, "p") for i in range(20)], SCHEMA)
        good.repartition(20).write.parquet(str(source))
        good.withColumn("due", F.lit("soon")).repartition(20).write.mode("append").parquet(str(source))
    assert deliver(lambda delivery: sent(tmp_path, "state"), format=format) is None
    assert len(starts) < 10
    out = rows_of(tmp_path / "out") if format == "json" else spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row["id"] for row in out) == sorted(f"good{i}" for i in range(20))
    dead = rows_of(tmp_path / "dead") if format == "json" else spark.read.parquet(str(tmp_path / "dead")).collect()
    files = [row["file"] for row in dead]
    assert len(files) == len({*files}) > 10 and all("the file cannot be read" in row["reason"] for row in dead)
    if format == "json":
        assert len(files) == 40


def test_the_search_for_many_files_that_cannot_be_read_can_be_stopped(deliver, tmp_path, monkeypatch):
    """Who runs the job hears of each file as it is found, and does not wait for all of them to stop it."""
    monkeypatch.setattr(unreadable_files, "SEARCH_S", 0.0, raising=False)
    (tmp_path / "in").mkdir()
    for i in range(20):
        (tmp_path / "in" / f"plain{i}.json.gz").write_bytes(b'{"id": "bad", "due": 1000}')
    (tmp_path / "in" / "good.json").write_text('{"id": "good", "due": 1000}')
    assert deliver(lambda delivery: len(delivery.notices) >= 5) is None
    assert len(deliver.told) == 5 and len(rows_of(tmp_path / "dead")) == 5
    assert deliver(lambda delivery: sent(tmp_path, "state")) is None
    assert len(deliver.told) == len({*deliver.told}) == 20, "of each once"
    files = [row["file"] for row in rows_of(tmp_path / "dead")]
    assert len(files) == len({*files}) == 20
    assert [row["id"] for row in rows_of(tmp_path / "out")] == ["good"]


def test_files_are_tried_until_each_that_cannot_be_read_is_found(spark, tmp_path, monkeypatch):
    names = [f"{i}.json" for i in range(100)]
    for name in names:
        (tmp_path / name).write_text("{}")
    for bad in (0, 1, 50, 98, 99):
        names[bad] += ".gz"
        (tmp_path / names[bad]).write_text("{}")
    names[40:40] = ["10:30.json", "gone.json"]
    urls = [f"file://{tmp_path}/{name}" for name in names]
    tried = []
    reading_fails = trial_reading.reading_fails
    monkeypatch.setattr(
        trial_reading,
        "reading_fails",
        lambda spark, files, *how: tried.append(len(files)) or reading_fails(spark, files, *how),
    )
    found = [url for url, failure in unreadable_among(spark, urls, "text", SCHEMA)]
    assert sorted(found) == sorted(url for url in urls if re.search("gz|:30|gone", url))
    assert len(tried) < 45, "two for each that is named, and some halvings for the two that are not"
    tried.clear()
    assert [*unreadable_among(spark, [url for url in urls if url not in found], "text", SCHEMA)] == [] and tried == [95]
    assert [*unreadable_among(spark, [], "text", SCHEMA)] == []


def test_many_local_files_are_asked_for_without_a_job(spark, deliver, tmp_path):
    """Spark's own has a task for each."""
    (tmp_path / "in").mkdir()
    for i in range(200):
        (tmp_path / "in" / f"{i}.json").write_text(f'{{"id": "{i}", "due": 1000}}')
    tasks = []

    def until(delivery):
        tracker = spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(str(delivery.messages.runId))]
        stages = {stage for job in jobs if job for stage in job.stageIds}
        tasks[:] = [info.numTasks for info in map(tracker.getStageInfo, stages) if info]
        return sent(tmp_path, "state")

    spark.conf.unset(FILES_BY_A_JOB)
    try:
        assert deliver(until) is None
        assert tasks and 200 not in tasks
        spark.conf.set(FILES_BY_A_JOB, "5")
        set_up_local_input(spark)
        assert spark.conf.get(FILES_BY_A_JOB) == "5", "what somebody chose stays"
    finally:
        spark.conf.unset(FILES_BY_A_JOB)


def test_parquet_of_other_types_is_left_out(spark, deliver, tmp_path):
    good = spark.createDataFrame([("good", "k", 1000, None, "p")], SCHEMA).coalesce(1)
    good.write.parquet(str(tmp_path / "in"))
    good.withColumn("due", F.lit("soon")).write.mode("append").parquet(str(tmp_path / "in"))
    latin = good.withColumn("id", F.lit("latin")).withColumn("payload", F.unhex(F.lit("e4")).cast("string"))
    latin.write.mode("append").parquet(str(tmp_path / "in"))
    aside = good.withColumn("id", F.lit("not looked at"))
    aside.write.parquet(str(tmp_path / "in" / "due=5"))  # which is no column
    assert deliver(lambda delivery: sent(tmp_path, "state"), format="parquet") is None
    out = spark.read.parquet(str(tmp_path / "out")).collect()
    assert [(row.id, row.due) for row in out] == [("good", 1000)]
    letters = {row.reason: row for row in spark.read.parquet(str(tmp_path / "dead")).collect()}
    other, text = sorted(letters)
    assert "the file cannot be read" in text and "due" in text and letters[text].file.endswith(".parquet")
    assert other == "not UTF-8" and letters[other].id == "latin"


@pytest.mark.slow
@pytest.mark.skipif(java_is_missing() is not None, reason=str(java_is_missing()))
def test_a_file_that_asks_for_more_memory_than_there_is_is_left_out(tmp_path):
    """Hadoop's format .lz4 is not that of the command lz4, and its reader takes what stands there for a length."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "packed.json.lz4").write_bytes(bytes.fromhex("04224d186440a71a00000080") + b'{"id": "a"}' * 9)
    (tmp_path / "in" / "_hidden.lz4").write_bytes(bytes.fromhex("04224d186440a71a"))
    (tmp_path / "in" / "good.json").write_text('{"id": "good", "due": 1000}')
    job = chaos.Job(tmp_path)
    job.start()
    try:
        give_up = time.monotonic() + chaos.PATIENCE_S
        while not (rows_of(tmp_path / "out") and sent(tmp_path, "state")):
            assert job.process.poll() is None and time.monotonic() < give_up, (tmp_path / "log").read_text()
            time.sleep(0.1)
        assert job.stop(signal.SIGINT) == 0
    finally:
        if job.process.poll() is None:
            job.kill()
    assert [row["id"] for row in rows_of(tmp_path / "out")] == ["good"]
    (letter,) = rows_of(tmp_path / "out-dead-letters")
    assert letter["file"].endswith("/in/packed.json.lz4") and "another than that of the command" in letter["reason"]
    told = (tmp_path / "log").read_text()
    assert told.count("packed.json.lz4 cannot be read and is left out: ") == 1 and "hidden" not in told


def test_a_file_that_was_not_at_fault_is_read_again(spark, tmp_path):
    file = tmp_path / "now [1].json"
    file.write_text("{}")
    assert why_unreadable(spark, file.as_uri(), "text", SCHEMA) is None
    assert (
        why_unreadable(spark, (tmp_path / "gone.json").as_uri(), "text", SCHEMA)
        == "it was taken away before it was read"
    )
    assert why_unreadable(spark, (tmp_path / "no" / "disk.json").as_uri(), "text", SCHEMA) is None
    started = []
    passing = Failure("x cannot be read: a passing fault", "...", "...", "x")
    query = SimpleNamespace(isActive=False)
    sinks = SimpleNamespace(failure=passing, like_seconds=0, batches=0), SimpleNamespace(failure=None, batches=0)
    delivery = Delivery(query, SimpleNamespace(isActive=True), *sinks, {"messages": lambda: started.append(1) or query})
    while (failure := delivery.tend()) is None:
        pass
    assert failure is passing and len(started) == STARTS, "but not for ever"
    for _ in range(2 * STARTS):
        sinks[0].batches += 1
        assert delivery.tend() is None, "where it went on meanwhile, it is another fault"


def test_the_files_of_a_directory_are_its_own_however_it_is_called(spark, tmp_path):
    (tmp_path / "in" / "due=5").mkdir(parents=True)
    (tmp_path / "in" / "a b%.json").write_text('{"id": "own", "due": 1000}')
    (tmp_path / "in" / "due=5" / "a.json").write_text('{"id": "not looked at", "due": 1000}')
    (tmp_path / "link").symlink_to("in")
    found = []
    for number, name in enumerate(["link/", "in/due=5/../../in", "/in/."]):
        source = Source(spark, f"{'file://' * (number == 2)}{tmp_path}/{name}").messages()
        writer = source.writeStream.foreachBatch(lambda batch, _: found.extend(row.id for row in batch.collect()))
        query = writer.option("checkpointLocation", str(tmp_path / f"{number}")).trigger(availableNow=True).start()
        query.awaitTermination()
    assert found == ["own"] * 3


def test_due_in_seconds(deliver, tmp_path):
    (tmp_path / "in").mkdir()
    soon, far = int(time.time()) - 5, int(time.time()) + 10**6
    lines = [{"id": "soon", "due": soon}, {"id": "far", "due": far}, {"id": "absurd", "due": 10**18}]
    (tmp_path / "in" / "a.json").write_text("\n".join(map(json.dumps, lines)))
    assert deliver(lambda delivery: sent(tmp_path, "state") and delivery.dead_sink.rows, due_unit="s") is None
    assert rows_of(tmp_path / "out") == [{"id": "soon", "due": soon * 1000}] and deliver.told == []
    (row,) = rows_of(tmp_path / "dead")
    assert row["reason"] == f"due is not between 1970 and 9999: {2**63 - 1} ms" and json.loads(row["line"]) == lines[2]


def test_due_in_seconds_that_is_not_said(deliver, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(json.dumps({"id": "far", "due": int(time.time()) + 10**6}))
    assert deliver(lambda delivery: delivery.notices) is None
    assert [one.split("\n")[1] for one in deliver.told] == [
        "send milliseconds, or give --due-unit s to a new checkpoint and output"
    ]


def test_a_second_job_on_a_checkpoint_is_refused(spark, tmp_path):
    directory = Directory(spark, str(tmp_path / "state"))
    with only_job(directory):
        with (
            pytest.raises(CheckpointInUseError, match="^another job runs on this checkpoint, .*\nlet only one"),
            only_job(Directory(spark, (tmp_path / "state").as_uri())),
        ):
            pass
    with only_job(directory):
        pass


@pytest.mark.parametrize("key", ["name", "due"])
def test_what_is_pending_where_one_column_stands_for_two_things(spark, tmp_path, key):
    far_ms = int(time.time() * 1000) + 3_000_000
    rows = [("a", far_ms, "p", "q"), ("b", far_ms + 1, "p", "q")]
    schema = "name string, due bigint, x string, y string"
    query, checkpoint = held_until_started(spark, tmp_path, rows, schema, id="name", key=key, due="due")
    try:
        counts = histogram(spark, checkpoint, far_ms)
        assert {name: count for name, count in counts.items() if count} == {"due already": 1, "within a minute": 1}
        (row,) = messages(spark, checkpoint, "b")
        shown = {"id": "b", "key": "b" if key == "name" else str(far_ms + 1), "due": far_ms + 1, "payload": ["p", "q"]}
        assert {name: row[name] for name in shown} == shown and not row["cancelled"]
    finally:
        query.stop()


def test_what_is_pending_in_a_directory_of_any_name(spark, tmp_path):
    """Spark's reader of states takes a URL for a path."""
    directory = tmp_path / "held 100% \u00e4 #1"
    rows = [("m1", "k", 253402300799000, None, "p")]
    query, checkpoint = held_until_started(spark, directory, rows, SCHEMA, id="id", key="key", due="due")
    query.stop()
    assert rows_held(spark, checkpoint) == 1
    assert [row["id"] for row in messages(spark, checkpoint, "m1")] == ["m1"]
    assert sum(histogram(spark, checkpoint, 0).values()) == 1


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
        found = messages(spark, checkpoint, "x")
        assert sorted(str((row["key"], row["cancelled"])) for row in found) == sorted(
            ["('al', False)"] * 2 + ["('bob', False)", "('bob', True)"] + ["(None, False)"] * 2
        )
        assert [row["key"] for row in messages(spark, checkpoint, "\\xff")] == ["\\xfe"] * 2
        assert [row["key"] for row in messages(spark, checkpoint, os.fsdecode(b"\xff"))] == ["\\xfe"], (
            "of a command line"
        )
        assert [(row["id"], row["cancelled"]) for row in messages(spark, checkpoint, key="bob")] == [
            ("x", False),
            ("x", True),
        ]
        # A message and its cancel are shown together, wherever in the tick they are due.
        bytes_of = messages(spark, checkpoint, key="\\xfe", before_ms=far_ms)
        assert [(row["id"], row["due"] - far_ms, row["cancelled"]) for row in bytes_of] == [
            ("gone", 0, False),
            ("gone", -1, True),
        ]
        every = messages(spark, checkpoint, key="\\xfe")
        assert every[:2] == bytes_of and len(every) == 4
        assert messages(spark, checkpoint, key="\\xfe", most=3) == every[:3]
        assert messages(spark, checkpoint, "x", "\\xfe") == messages(spark, checkpoint, key="nobody") == []
        assert sum(histogram(spark, checkpoint, far_ms, far_ms + 1).values()) == 4
        assert sum(histogram(spark, checkpoint, far_ms, far_ms).values()) == 0
        asked = SimpleNamespace(id="?", key=None, json=False, most=100, prog="hwheel pending")
        assert show_messages(found, asked) == 0
        assert show_messages([row for row in found if row["key"] == "bob"], asked) == 1
        assert show_messages(messages(spark, checkpoint, "gone"), asked) == 1
        assert capsys.readouterr().out.count("cancel x  key bob") == 2
        asked.most = 3
        assert show_messages(messages(spark, checkpoint, key="\\xfe", most=asked.most + 1), asked) == 0
        told = capsys.readouterr()
        assert told.out.count("\n") == 3 and told.err == "hwheel pending: there are more; --most N shows more\n"
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ("1795176000000", 1795176000000),
        ("2026-11-20T12:00:00Z", 1795176000000),
        ("2026-11-20 12:00", 1795176000000),
        ("2026-11-20T13:00:00.500+01:00", 1795176000500),
        ("1h", 1795176000000 + 3_600_000),
        ("9" * 5000, 2**62),
        ("9999999999999999 weeks", 2**62),
        (None, None),
    ],
)
def test_times_that_what_is_asked_for_is_due_before(given, ms):
    assert due_before_ms(given, 1795176000000) == ms


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--due-before", "soon"], "--due-before must be a time like .* not 'soon'"),
        (["--watch", "banana"], "--watch must be a number and a unit"),
        (["--watch", "1ms"], "--watch must be from 100ms"),
        (["--watch", "1s", "--id", "m1"], "--watch counts: leave out --id and --key"),
        (["--most", "0"], "--most: must be at least 1"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(arguments, says, capsys):
    with suppress(SystemExit):  # argparse's way
        assert main(["pending", "--checkpoint", "state", *arguments]) == 2
    told = capsys.readouterr()
    assert re.search(says, told.err) and told.err.count("\n") == 1 and not told.out


def test_what_another_version_holds_is_not_shown(spark, tmp_path, monkeypatch, capsys):
    query, _ = held_until_started(
        spark, tmp_path, [("m1", "k", 253402300799000, None, "p")], SCHEMA, id="id", key="key", due="due"
    )
    query.stop()
    monkeypatch.setattr(local, "make_session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr(state, "FORMAT", 99)
    for asked in ([], ["--id", "m1"]):
        assert main(["pending", "--checkpoint", str(tmp_path / "state"), *asked]) == 2
        told = capsys.readouterr().err
        assert "the checkpoint was written by another version of hwheel" in told and "not foreseen" not in told


def test_counts_are_shown_again_and_again_until_it_is_told_to_stop(capsys):
    answers = iter([None, PySparkException("the job clears old files away"), None])
    waits = iter([False, False, False, True])
    waited = []

    def count():
        if (answer := next(answers)) is not None:
            raise answer
        show_histogram({"later": 1}, SimpleNamespace(json=False, watch="2s"), 1795176000000)

    watch(count, 2.0, SimpleNamespace(wait=lambda seconds: waited.append(seconds) or next(waits)))
    assert waited == [2.0] * 4
    assert capsys.readouterr().out.count("1 pending at 2026-11-20 12:00:00 UTC\n") == 2


def test_the_output_of_another_checkpoint_is_left_alone(spark, tmp_path):
    frame = spark.createDataFrame([("a", "k", 1000, None, "p")], SCHEMA)
    frame.coalesce(1).write.parquet(str(tmp_path / "in"))

    def run(checkpoint, until):
        delivery = start_delivery(
            Source(spark, str(tmp_path / "in"), "parquet"),
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
    assert "has the files of another checkpoint\ngive each" in run("second", lambda delivery: delivery.error())
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir() if file.is_file()} == before
    # The first one goes on.
    frame.withColumn("id", F.lit("b")).write.mode("append").parquet(str(tmp_path / "in"))
    assert run("first", lambda delivery: delivery.sink.rows or delivery.error()) is None
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()) == ["a", "b"]


def test_a_batch_that_was_cut_off_does_not_come_again_elsewhere(spark, tmp_path):
    """Its files are in one place, and it would be run again into another."""
    checkpoint = Directory(spark, str(tmp_path / "state"))
    old, new, offsets = (tmp_path / name for name in ("old", "new", f"state/{MESSAGES}/offsets"))

    def start_at(place):
        keep_outputs(checkpoint, {MESSAGES: str(place)}, {MESSAGES: "--to"})

    for place in (old, offsets, offsets.parent / "commits"):
        place.mkdir(parents=True)
    start_at(old)
    (offsets / "0").touch()
    start_at(new)  # nothing of it is out
    start_at(old)
    (old / "000000000-00001.json").touch()
    start_at(old)
    with pytest.raises(
        ValueError, match=rf"batch 0 was cut off and has files in file:{old}; in {new} (.|\n)*--to file:{old}"
    ):
        start_at(new)
    old.rename(new)  # with its files
    start_at(new)
    with pytest.raises(ValueError, match="its messages would come again"):
        start_at("kafka://127.0.0.1:9092/anywhere")
    new.rename(old)
    start_at(old)
    (offsets.parent / "commits" / "0").touch()
    start_at(new)
    (tmp_path / "state" / OUTPUTS).write_text("{")
    start_at(old)


GIVEN = {"tick": None, "wheel_size": 64, "shards": None, "partitions": 4, "dedup": None}


def test_the_settings_of_a_checkpoint_are_kept(spark, tmp_path):
    directory = Directory(spark, str(tmp_path / "state"))
    made = kept_options(directory, GIVEN, DEFAULTS)
    assert made == WheelOptions("1 second", 64, 4, 4, "10 minutes")
    assert kept_options(directory, dict.fromkeys(GIVEN), DEFAULTS) == made
    for same in ("1s", "1000ms", "1 second", timedelta(seconds=1)):
        assert kept_options(directory, {**GIVEN, "tick": same}, DEFAULTS) == made
    with pytest.raises(CheckpointOptionsError, match="--wheel-size 64, not 65"):
        kept_options(directory, {**GIVEN, "wheel_size": 65}, DEFAULTS)
    with pytest.raises(CheckpointOptionsError, match="--tick 1000ms, not 2000ms"):
        kept_options(directory, {**GIVEN, "tick": "2s"}, DEFAULTS)
    with pytest.raises(CheckpointOptionsError, match="--due-unit ms, not s"):
        kept_options(directory, {**GIVEN, "due_unit": "s"}, DEFAULTS)
    kept = json.loads((tmp_path / "state" / "hwheel.json").read_text())
    assert (kept["version"], kept["tick_ms"], kept["dedup_ms"]) == (2, 1000, 600_000)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"tick": "banana"}, "tick must be a number and a unit"),
        ({"tick": "0s"}, "tick_ms must be at least 1"),
        ({"tick": "9999999999999 weeks"}, "tick must be shorter"),
        ({"dedup": "a while"}, "dedup must be a number and a unit"),
        ({"wheel_size": 1}, "wheel_size"),
        ({"shards": 0}, "shards must be from 1 to 4096"),
        ({"due_unit": "minutes"}, "due_unit must be one of ms, s"),
    ],
)
def test_a_typo_is_not_saved(spark, tmp_path, wrong, says):
    directory = Directory(spark, str(tmp_path / "state"))
    with pytest.raises(ValueError, match=says):
        kept_options(directory, {**GIVEN, **wrong}, DEFAULTS)
    assert not directory.exists()
    kept_options(directory, GIVEN, DEFAULTS)
    before = (tmp_path / "state" / "hwheel.json").read_bytes()
    with pytest.raises(ValueError, match=says):
        kept_options(directory, {**GIVEN, **wrong}, DEFAULTS)
    assert (tmp_path / "state" / "hwheel.json").read_bytes() == before


FIRST_VERSION = {"tick": "1 second", "wheel_size": 64, "shards": 4, "partitions": 4, "dedup": "10 minutes"}


def test_what_an_older_version_kept_is_read(spark, tmp_path):
    directory = Directory(spark, str(tmp_path / "state"))
    directory.make()
    for older in (FIRST_VERSION, {**FIRST_VERSION, "source": "files"}):
        directory.write("hwheel.json", json.dumps(older))
        assert kept_options(directory, GIVEN, DEFAULTS) == WheelOptions("1 second", 64, 4, 4, "10 minutes")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"tick": "1 sec', "no JSON"),
        ("", "no JSON"),
        ("[]", "no JSON object"),
        ("\xe4", "no JSON"),
        (json.dumps({**FIRST_VERSION, "tock": 1}), "a field that this hwheel does not know, 'tock'"),
        (json.dumps({"tick": "1 second"}), "without 'dedup'"),
        (json.dumps({**FIRST_VERSION, "tick": "banana"}), "tick must be a number and a unit"),
        (json.dumps({**FIRST_VERSION, "shards": "2"}), "shards must be a whole number, not '2'"),
        (json.dumps({**FIRST_VERSION, "version": 3}), "of version 3, and this hwheel knows 2"),
        (json.dumps({**FIRST_VERSION, "version": "x"}), "of an unknown version, 'x'"),
        (json.dumps({**FIRST_VERSION, "version": 2}), "without a whole number of tick_ms"),
        (None, "not there"),
    ],
)
def test_what_is_kept_and_cannot_be_read(spark, tmp_path, text, says):

    def spoil():
        if text is None:
            (tmp_path / "state" / "hwheel.json").unlink()
        else:
            (tmp_path / "state" / "hwheel.json").write_text(text, encoding="latin-1")

    directory = Directory(spark, str(tmp_path / "state"))
    kept_options(directory, GIVEN, DEFAULTS)
    spoil()
    (tmp_path / "state" / "messages" / "offsets").mkdir(parents=True)
    with pytest.raises(CheckpointOptionsError, match="hwheel.json is .*" + says) as caught:
        kept_options(directory, GIVEN, DEFAULTS)
    first, second = str(caught.value).split("\n")
    (tmp_path / "state" / "hwheel.json").write_text(second.partition("looks like this: ")[2])
    assert kept_options(directory, GIVEN, DEFAULTS) == WheelOptions("1 second", 64, 4, 4, "10 minutes"), "as it says"
    # Where no query has begun, nothing hangs on it.
    spoil()
    (tmp_path / "state" / "messages" / "offsets").rmdir()
    assert kept_options(directory, GIVEN, DEFAULTS) == WheelOptions("1 second", 64, 4, 4, "10 minutes")
    assert json.loads((tmp_path / "state" / "hwheel.json").read_text())["tick_ms"] == 1000


def test_a_batch_that_is_done_and_of_which_nothing_is_known(spark, tmp_path):
    directory = Directory(spark, str(tmp_path))
    check_logs(directory)
    for log, batches in {"offsets": ["9", "10", ".11.crc"], "commits": ["9", "10", ".10.crc", ".11.tmp"]}.items():
        (tmp_path / "dead-letters" / log).mkdir(parents=True)
        for number in batches:
            (tmp_path / "dead-letters" / log / number).write_text("v1")
    check_logs(directory)
    (tmp_path / "dead-letters" / "offsets" / "10").unlink()
    with (
        pytest.raises(CommandError, match="^the checkpoint lacks .*/offsets/10 is not there\nput back"),
        spark_errors(),
    ):
        check_logs(directory)
    (tmp_path / "dead-letters" / "commits" / "10").unlink()
    check_logs(directory)
    shutil.rmtree(tmp_path / "dead-letters" / "offsets")
    with pytest.raises(CommandError, match="/offsets/9 is not there"), spark_errors():
        check_logs(directory)


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


def test_a_small_file_is_written_anew_where_a_rename_replaces_nothing(spark, tmp_path, monkeypatch):
    """As on HDFS and in object stores."""

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


@pytest.mark.parametrize("text", ["", '{"file:///in/a.gz": "not a gzi', "[]", '{"file:///in/a.gz": 1}', "[" * 100_000])
def test_a_damaged_list_of_files_that_could_not_be_read(spark, tmp_path, text):
    """Without it files that nobody has read would count as read, and be cleared away."""
    state = Directory(spark, str(tmp_path))
    UnreadableFiles(state).add("file:///in/a.gz", "not a gzip file")
    assert UnreadableFiles(state).reasons == {"file:///in/a.gz": "not a gzip file"}
    (tmp_path / "unreadable-files.json").write_text(text)
    with pytest.raises(ListDamagedError, match="unreadable-files.json is damaged: .*\nput it back"):
        UnreadableFiles(state)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--from", "in", "--to", "in/", "--checkpoint", "cp"], "must be four places"),
        (["--from", "in", "--to", "out", "--checkpoint", "cp", "--tick", "banana"], "--tick must be a number and a"),
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
    with pytest.raises(local.JavaNotUsableError, match="is Java 11. Spark needs Java 17"):
        local.check_java()
    old.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(local.JavaNotUsableError, match="does not run"):
        local.check_java()


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


def test_a_count_that_fails_does_not_stop_the_delivery(spark, tmp_path):
    # As it is while there has been no input: Spark tells of an idle batch 0, and there is no state to read.
    delivery = reported([batch(0, 0)])
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    counts = Counts(delivery, lambda: rows_held(spark, str(tmp_path)))
    counts.look()
    assert (counts.last_batch, counts.pending) == (0, None)


def test_a_count_of_which_a_task_fails_does_not_stop_the_delivery(spark, tmp_path):
    """As where the job has cleared a file of the state away meanwhile: that is no error of PySpark's own kinds."""
    rows = [("m1", "k", 253402300799000, None, "p")]
    query, checkpoint = held_until_started(
        spark, tmp_path, rows, SCHEMA, id="id", key="key", due="due", cancel="cancel"
    )
    query.stop()
    query.awaitTermination()
    assert rows_held(spark, checkpoint) == 1
    for part in range(2):
        for file in (tmp_path / "state" / "state" / "0" / str(part)).rglob("*"):
            if file.suffix in (".changelog", ".zip"):
                file.unlink()
    with pytest.raises(Py4JJavaError):
        rows_held(spark, checkpoint)
    counts = Counts(reported([batch(0, 0)]), lambda: rows_held(spark, checkpoint))
    counts.look()
    assert (counts.last_batch, counts.pending) == (0, None)
    answers = iter([None, True])
    watch(lambda: rows_held(spark, checkpoint), 2.0, SimpleNamespace(wait=lambda _: next(answers)))


@pytest.mark.parametrize(
    ("told", "version"),
    [('openjdk version "17.0.15"', 17), ('java version "1.8.0_402"', 8), ('openjdk version "21"', 21), ("?", None)],
)
def test_versions_of_java(told, version):
    assert local.major_version(told) == version
