"""Deliveries from directory to directory: output rows and files, restarts, kills."""

import json
import time
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from pyspark.sql import functions as F

import chaos
from deliveries import WHEEL, encoded, first_batches_done, ids_in, json_rows, put_lines, wait_until
from hwheel.cli.deliver.command import count_pending
from hwheel.cli.deliver.counts import Counts
from hwheel.cli.main import main
from hwheel.spark.deliver.checkpoint import MESSAGES
from hwheel.spark.deliver.delivery import STARTS, Delivery, QueryRun
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.failures import WORKER_KILLED, WORKER_LATE, WORKERS_KILLED
from hwheel.spark.deliver.pending import EDGES_MS, LATER, histogram, matching_rows, rows_held
from hwheel.spark.deliver.settings import DeliverySettings, Places
from hwheel.spark.deliver.sink import BatchNotWrittenError, DirectorySink
from hwheel.spark.deliver.source import SCHEMA, Source
from local_spark import needs_java, run_hwheel

FAR_MS = 4 * 10**12


@pytest.fixture
def files_of_100_rows(spark):
    spark.conf.set("spark.sql.files.maxRecordsPerFile", 100)
    yield
    spark.conf.unset("spark.sql.files.maxRecordsPerFile")


@pytest.mark.slow
@needs_java
def test_kills_lose_and_duplicate_nothing(tmp_path):
    # Spark's workers must not import modules from the current directory.
    (tmp_path / "hwheel_core.py").write_text("raise ImportError")
    sender = chaos.run(tmp_path, kills=2, by_id=True)
    assert len(sender.expected()) > 500 and sender.bursts and sender.bad_files
    visible = [path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith(".")]
    assert all(name.endswith(".json") for name in visible), "files of interrupted batches are hidden"

    ended = run_hwheel("pending", "--checkpoint", "state", "--json", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["pending"] == 0


def test_parquet_delivery_and_its_counts(spark, deliveries, tmp_path, capsys):
    now_ms = int(time.time() * 1000)
    rows = [(f"m{i}", "k", now_ms - 1000 + i, None, "p") for i in range(10)]
    rows += [(f"far{i}", "k", now_ms + 3_000_000 + i, None, f"payload {i}") for i in range(20)] * 2
    rows += [("far7", "k", now_ms + 3_000_007, True, None), ("year", "k", now_ms + 10**12, None, "p")]
    rows += [(None, "k", 1, None, "p")]
    spark.createDataFrame(rows, SCHEMA).coalesce(1).write.parquet(str(tmp_path / "in"))
    delivery = deliveries.start(format="parquet")
    staging = tmp_path / "out" / ".staging"
    deliveries.tend(delivery, lambda: first_batches_done(tmp_path / "state") and not staging.exists())

    # All of this is read while the delivery runs.
    checkpoint = str(tmp_path / "state" / MESSAGES)
    assert rows_held(spark, checkpoint) == 42
    counts = Counts(delivery, lambda: count_pending(Directory(spark, str(tmp_path / "state"))))

    def look():
        counts.next_look_s = 0
        counts.look()
        return counts.last_batch >= 0

    wait_until(look)
    assert (counts.rows_in, counts.rows_out, counts.pending, counts.dead_letters) == (len(rows), 10, 42, 1)
    assert sum(counts.batch_times.counts) == counts.last_batch + 1 and counts.batch_times.sum_s > 0
    assert counts.state_bytes.keys() == {"disk", "memory"} and counts.state_bytes["memory"] > 0
    assert main(["pending", "--checkpoint", str(tmp_path / "state"), "--last", "--json"]) == 0
    last = json.loads(capsys.readouterr().out)
    assert last["rows"] == 42
    assert last["by_due"] == dict.fromkeys([*EDGES_MS, LATER], 0) | {"within an hour": 41, "later": 1}
    by_due = histogram(spark, checkpoint, now_ms)
    assert {name: count for name, count in by_due.items() if count} == {"within an hour": 19, "later": 1}
    far3 = {"id": "far3", "key": "k", "due": now_ms + 3_000_003, "payload": ["payload 3"], "cancelled": False}
    far3["tick"] = -(-far3["due"] // 1000) * 1000
    assert matching_rows(spark, checkpoint, "far3") == [far3] * 2
    assert [row["cancelled"] for row in matching_rows(spark, checkpoint, "far7")] == [False, False, True]
    assert matching_rows(spark, checkpoint, "unknown") == []
    assert delivery.error() is None
    delivery.stop()

    assert delivery.error() is not None
    out = spark.read.parquet(str(tmp_path / "out"))
    assert out.columns == ["id", "key", "due", "payload"]
    assert sorted(row.id for row in out.collect()) == [f"m{i}" for i in range(10)]
    assert [row.reason for row in spark.read.parquet(str(tmp_path / "dead")).collect()] == ["id is null"]
    assert delivery.sink.late_arrivals == 10 and delivery.sink.lag_ms is None


def test_lateness_of_delivery_leaves_out_messages_that_arrive_late(deliveries, tmp_path):
    """One message that is due in 1970 says nothing about the job."""
    put_lines(tmp_path / "in", "a.json", {"id": "in 1970", "due": 1})
    delivery = deliveries.start()
    deliveries.tend(delivery, lambda: delivery.sink.rows == 1)
    assert (delivery.sink.late_arrivals, delivery.sink.lag_ms) == (1, None)
    for attempt in range(100):  # until the message arrives before it is due
        due_ms = int(time.time() * 1000) + 3000 * (attempt + 1)
        put_lines(
            tmp_path / "in",
            f"b{attempt}.json",
            {"id": f"held{attempt}", "due": due_ms},
            {"id": "x", "due": 1 + attempt},
        )
        rows = delivery.sink.rows
        deliveries.tend(delivery, lambda rows=rows: delivery.sink.rows == rows + 2)
        if delivery.sink.lag_ms is not None:
            break
    assert delivery.sink.late_arrivals == delivery.sink.rows - 1
    assert 0 <= delivery.sink.lag_ms <= time.time() * 1000 - due_ms


def test_dropped_messages_and_lateness_are_counted(deliveries, spark, tmp_path):
    """One message in three has a duplicate, and one in three a cancel, also with a duplicate."""
    due_ms = int(time.time() * 1000) + 10_000
    rows = [{"id": f"m{i}", "key": "k", "due": due_ms} for i in range(30)]
    cancels = [{**row, "cancel": True} for row in rows[20:]]
    put_lines(tmp_path / "in", "a.json", *rows, *rows[10:20], *rows[25:], *cancels)
    delivery = deliveries.start()
    deliveries.tend(delivery, lambda: delivery.sink.rows == 20)
    deliveries.tend(delivery, lambda: deliveries.is_committed(tmp_path / "state"))
    held = count_pending(Directory(spark, str(tmp_path / "state")))
    assert (held.rows, held.duplicates, held.cancelled) == (0, 10, 15)
    sink = delivery.sink
    if not sink.late_arrivals:
        assert sink.lateness[-1] == 20 and sink.lateness == sorted(sink.lateness)
        assert 0 <= sink.lateness_sum_s <= 20 * sink.lag_ms / 1000


def test_malformed_lines_become_dead_letters(deliveries, files_of_100_rows, tmp_path):
    """The input has a BOM, blank lines, and more rows than fit into one output file."""
    malformed = {
        b'{"id": "x1", "due": 1000, "cancel": "true"}': 'cancel is neither true nor false: "true"',
        b'{"id": "x2", "due": 1000, "payload": "\xe4"}': "not UTF-8: byte 0xe4 at 38",
        b'{"id": "x3", "due": 1000}{"id": "x4", "due": 1000}': 'more behind the message: {"id": "x4", "due": 1000}',
        b'{"id": "x5", "due": 1000, "due": 2000}': "due is there twice",
        b'{"key": "k", "due": 1, "unknown": "kept"}': "id is null",
        b'{"id": "x6", "due": 1e99}': "due is no whole number of 64 bits: 1e99",
    }
    lines = [{"id": f"m{i}", "key": f"k{i % 7}", "due": 1000} for i in range(1000)]
    lines[500:500] = [*malformed, b"", b" \t ", b'{"id": "o", "due": 1000, "payload": {"a": [1.00]}}']
    lines.append({"id": "due in seconds", "due": int(time.time())})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "\u00e4 %.json").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(map(encoded, lines)))
    (notice,) = deliveries.run(lambda delivery: first_batches_done(tmp_path / "state") and delivery.notices)
    assert notice.endswith("\nsend milliseconds, or use --due-unit s with a new checkpoint and output")
    rows = json_rows(tmp_path / "out")
    payloads = {row["id"]: row.get("payload") for row in rows}
    expected = {**{f"m{i}": None for i in range(1000)}, "o": '{"a": [1.00]}', "due in seconds": None}
    assert payloads == expected and len(rows) == len(expected)
    assert len([*(tmp_path / "out").glob("*.json")]) > 10
    dead = {row["line"]: row["reason"] for row in json_rows(tmp_path / "dead")}
    assert dead == {line.decode(errors="replace"): reason for line, reason in malformed.items()}
    (file,) = {row["file"] for row in json_rows(tmp_path / "dead")}
    assert unquote(file) == f"file:{tmp_path}/in/\u00e4 %.json"


def test_delivery_by_id(deliveries, tmp_path):
    good = [
        {"id": "moved", "key": "k", "due": FAR_MS},
        {"id": "moved", "key": "k", "due": 1000, "replace": True, "payload": "now"},
        {"id": "gone", "key": "k", "due": 1000},
        {"id": "gone", "key": "k", "cancel": True, "due": None},
        {"id": "gone", "key": "another", "due": 1000, "replace": False},
        {"id": "plain", "due": 1000, "replace": None},
        {"id": "postponed", "key": "k", "due": 1000},
        {"id": "postponed", "key": "k", "due": FAR_MS, "replace": True},
    ]
    malformed = {
        '{"id": "x1", "due": 1000, "replace": "true"}': 'replace is neither true nor false: "true"',
        '{"id": "x2", "due": 1000, "replace": 1}': "replace is neither true nor false: 1",
        '{"id": "x3", "due": 1000, "replace": true, "replace": true}': "replace is there twice",
        '{"id": "x4", "due": 1000, "replace": true, "cancel": true}': "cancel and replace are both true",
        '{"id": "x5", "replace": true}': "due is null",
        '{"id": "x6"}': "due is null",
        '{"id": "x7", "due": "now", "cancel": true}': 'due is no whole number of 64 bits: "now"',
        '{"id": "", "cancel": true}': "id is empty",
    }
    put_lines(tmp_path / "in", "a.json", *good, *(line.encode() for line in malformed))
    deliveries.run(wheel=replace(WHEEL, by_id=True))
    out = sorted((row["id"], row.get("key"), row["due"], row.get("payload")) for row in json_rows(tmp_path / "out"))
    assert out == [("gone", "another", 1000, None), ("moved", "k", 1000, "now"), ("plain", None, 1000, None)]
    assert {row["line"]: row["reason"] for row in json_rows(tmp_path / "dead")} == malformed


def test_due_in_seconds(deliveries, tmp_path):
    soon, far = int(time.time()) - 5, int(time.time()) + 10**6
    lines = [{"id": "soon", "due": soon}, {"id": "far", "due": far}, {"id": "absurd", "due": 10**18}]
    put_lines(tmp_path / "in", "a.json", *lines)
    state = tmp_path / "state"
    in_seconds = replace(WHEEL, due_unit="s")
    assert deliveries.run(lambda one: first_batches_done(state) and one.tend() is None, wheel=in_seconds) == []
    assert json_rows(tmp_path / "out") == [{"id": "soon", "due": soon * 1000}]
    (row,) = json_rows(tmp_path / "dead")
    assert row["reason"] == f"due is not between 1970 and 9999: {2**63 - 1} ms" and json.loads(row["line"]) == lines[2]


def test_source_directory_in_any_spelling(spark, tmp_path):
    """Subdirectories are not read, even if a path through one of them names the source."""
    put_lines(tmp_path / "in", "a b%.json", {"id": "own", "due": 1000})
    put_lines(tmp_path / "in" / "due=5", "a.json", {"id": "in a subdirectory", "due": 1000})
    (tmp_path / "link").symlink_to("in")
    found = []
    for number, name in enumerate(["link/", "in/due=5/../../in", "/in/."]):
        place = f"{'file://' * (number == 2)}{tmp_path}/{name}"
        source = Source(spark, DeliverySettings(Places(place, "out", "dead", "state"), WHEEL)).messages()
        writer = source.writeStream.foreachBatch(lambda batch, _: found.extend(row.id for row in batch.collect()))
        query = writer.option("checkpointLocation", str(tmp_path / f"{number}")).trigger(availableNow=True).start()
        query.awaitTermination()
    assert found == ["own"] * 3


def test_names_of_output_files(tmp_path):
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
    with pytest.raises(BatchNotWrittenError, match="does not have the form"):
        sink.final_names(["part-00000"], 7)


def test_failed_rename_stops_the_batch_and_keeps_the_file(spark, tmp_path, monkeypatch):
    sink, batch = DirectorySink(str(tmp_path), "json"), SimpleNamespace(sparkSession=spark)
    staged, final = tmp_path / ".staging" / "3" / "part-00000-a-c000.json", tmp_path / "000000003-00000.json"
    staged.parent.mkdir(parents=True)
    staged.write_text("rows")
    with monkeypatch.context() as patch:
        patch.setattr(Directory, "move", lambda *_: False)
        with pytest.raises(BatchNotWrittenError, match="could not be renamed to 000000003-00000.json"):
            sink.finish(batch, 3, True)
    assert staged.exists()
    sink.finish(batch, 3, True)
    assert final.read_text() == "rows" and not (tmp_path / ".staging").exists()
    # The same batch again, after a crash before its commit.
    staged.parent.mkdir(parents=True)
    staged.write_text("the same rows")
    sink.finish(batch, 3, True)
    assert final.read_text() == "rows" and not (tmp_path / ".staging").exists()


def test_next_attempt_completes_interrupted_renames(spark, files_of_100_rows, tmp_path, monkeypatch):
    """The attempts have their rows in different orders: Spark divides the input by the number of cores."""
    out = tmp_path / "out"

    class InterruptedError(Exception):
        pass

    def attempt(order):
        sink = DirectorySink(str(out), "json", claimed=True)
        batch = spark.range(250).orderBy(F.col("id") * order).coalesce(1)
        sink.write(batch, 3)
        sink.finish(batch, 3, True)

    def interrupted_move(directory, old, new):
        if new.endswith("-001.json"):
            raise InterruptedError
        return move(directory, old, new)

    move = Directory.move
    with monkeypatch.context() as patch:
        patch.setattr(Directory, "move", interrupted_move)
        with pytest.raises(InterruptedError):
            attempt(1)
    assert [file.name for file in out.glob("*.json")] == ["000000003-00000.json"]
    attempt(-1)
    assert ids_in(out) == [*range(250)]
    assert not (out / ".staging").exists()


def test_output_of_another_checkpoint_is_refused(deliveries, tmp_path):
    def visible_files():
        return {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir() if file.is_file()}

    put_lines(tmp_path / "in", "a.json", {"id": "a", "due": 1000})
    deliveries.run(checkpoint="first")
    before = visible_files()
    failure = deliveries.failure_of(deliveries.start(checkpoint="second"))
    assert "has the files of another checkpoint\ngive each" in str(failure)
    assert visible_files() == before
    put_lines(tmp_path / "in", "b.json", {"id": "b", "due": 1000})
    deliveries.run(lambda delivery: delivery.sink.rows, checkpoint="first")
    assert ids_in(tmp_path / "out") == ["a", "b"]


@pytest.mark.parametrize("reason", [WORKER_LATE, WORKER_KILLED, WORKERS_KILLED])
def test_query_is_restarted_after_a_lost_worker_up_to_a_limit(reason):
    def query(error):
        return SimpleNamespace(isActive=error is None, exception=lambda: error)

    failing, restarts = RuntimeError(f"...{reason}..."), []
    sinks = [SimpleNamespace(failure=None, like_seconds=0, batches=0) for _ in range(2)]
    message_run = QueryRun("messages", lambda: restarts.append("messages") or query(failing), sinks[0], query(None))
    letter_run = QueryRun("dead", lambda: restarts.append("dead"), sinks[1], query(RuntimeError("that")))
    delivery = Delivery(message_run, letter_run)
    assert delivery.tend().what == "that"
    assert restarts == [] and delivery.error().startswith("that\nstart again to continue")
    letter_run.query, message_run.query = query(None), query(failing)
    delivery.tend()
    assert restarts == ["messages"]
    for _ in range(2 * STARTS):
        delivery.tend()
    assert restarts == ["messages"] * STARTS and reason in delivery.failure().details
