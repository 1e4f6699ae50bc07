"""Input files that cannot be read: a delivery leaves them out, reports each once, and goes on."""

import gzip
import json
import os
import re
import signal
from datetime import date
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import chaos
from deliveries import file_letters, first_batches_done, ids_in, json_rows, put_lines, wait_until
from hwheel.spark.deliver import delivery as delivery_module
from hwheel.spark.deliver import trial_reading, unreadable_files
from hwheel.spark.deliver.checkpoint import MESSAGES
from hwheel.spark.deliver.delivery import STARTS, Delivery, QueryRun
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.failures import Failure
from hwheel.spark.deliver.pending import matching_rows, rows_held
from hwheel.spark.deliver.source import SCHEMA
from hwheel.spark.deliver.trial_reading import unreadable_among, why_unreadable
from hwheel.spark.deliver.unreadable_files import ListDamagedError, UnreadableFiles
from hwheel.spark.session.conf import FILES_BY_A_JOB, set_up_local_input
from local_spark import needs_java

BAD = b'{"id": "bad", "due": 1000}'


def test_each_unreadable_file_is_left_out_and_reported_once(deliveries, tmp_path):
    """Subdirectories are not read, and a file named like a pattern is one file."""
    source = tmp_path / "in"
    long = b"\n".join(json.dumps({"id": f"t{i}", "due": 1000, "x": os.urandom(8).hex()}).encode() for i in range(5000))
    packed = gzip.compress(long)
    put_lines(source, "cut \u00e4%.json.gz", packed[: len(packed) // 2])
    put_lines(source, "plain.json.gz", BAD)
    put_lines(source, "good.json", {"id": "good", "due": 1000})
    put_lines(source, "2026-11-22T10:30.json", {"id": "colon", "due": 1000})
    put_lines(source, "*o[n]{e,}.json", {"id": "one", "due": 1000})
    put_lines(source, "none.json", b"{}")
    for directory in ("sub", "value=1"):
        put_lines(source / directory, "a.json", {"id": "in a subdirectory", "due": 1000})
    with open(os.fsencode(source) + b"/\xff.json", "w") as file:
        file.write('{"id": "not text", "due": 1000}')

    notices = deliveries.run()
    assert ids_in(tmp_path / "out") == ["good", "one"], "the readable half of a file is not delivered"
    letters = {
        "2026-11-22T10:30.json": "the file cannot be read: its name has a colon, which Hadoop's local file system "
        "does not allow",
        "none.json": "id is null",
        "cut \u00e4%.json.gz": "the file cannot be read: Unexpected end of input stream",
        "plain.json.gz": "the file cannot be read: not a gzip file",
    }
    assert file_letters(tmp_path / "dead") == letters
    assert len(notices) == 4
    (no_text,) = (notice for notice in notices if notice.startswith("\\xff.json is not read: Java ignores it"))
    pattern = r"file:.*cannot be read and is left out: .*\nrepair it and move it in"
    assert all(notice == no_text or re.match(pattern, notice) for notice in notices)

    put_lines(source, "more.json", {"id": "more", "due": 1000})
    assert deliveries.run(lambda delivery: delivery.sink.rows) == [no_text], "a restart does not repeat the reports"
    assert ids_in(tmp_path / "out") == ["good", "more", "one"]
    assert file_letters(tmp_path / "dead") == letters


@pytest.fixture
def starts(monkeypatch):
    """A list that grows with each start of a query."""
    starts, started = [], delivery_module.started
    monkeypatch.setattr(delivery_module, "started", lambda *given: starts.append(given) or started(*given))
    return starts


def test_interrupted_search_is_completed_by_the_next_start_in_few_batches(deliveries, starts, tmp_path, monkeypatch):
    for i in range(10):
        put_lines(tmp_path / "in", f"plain \u00e4{i}.json.gz", BAD)
        put_lines(tmp_path / "in", f"10:{i}.json", BAD)
        put_lines(tmp_path / "in", f"good{i}.json", {"id": f"good{i}", "due": 1000})
    with monkeypatch.context() as patch:
        patch.setattr(unreadable_files, "SEARCH_S", 0.0)  # each call of tend() finds one file
        first = deliveries.run(lambda delivery: len(delivery.notices) >= 3)
    assert len(first) == len(file_letters(tmp_path / "dead")) == 3
    starts.clear()
    second = deliveries.run()
    assert len(starts) < 10
    assert len(first + second) == len({*first, *second}) == 20
    letters = file_letters(tmp_path / "dead")
    assert len(letters) == 20 and all("the file cannot be read" in reason for reason in letters.values())
    assert ids_in(tmp_path / "out") == [f"good{i}" for i in range(10)]


def test_many_unreadable_parquet_files_cost_few_batches(spark, deliveries, starts, tmp_path):
    good = spark.createDataFrame([(f"good{i}", "k", 1000, None, "p") for i in range(10)], SCHEMA)
    good.repartition(10).write.parquet(str(tmp_path / "in"))
    good.withColumn("due", F.lit("soon")).repartition(10).write.mode("append").parquet(str(tmp_path / "in"))
    deliveries.run(format="parquet")
    assert len(starts) < 10
    out, dead = (spark.read.parquet(str(tmp_path / name)).collect() for name in ("out", "dead"))
    assert sorted(row.id for row in out) == [f"good{i}" for i in range(10)]
    files = [row.file for row in dead]
    assert len(files) == len({*files}) > 5 and all("the file cannot be read" in row.reason for row in dead)


def test_search_by_halves_finds_every_unreadable_file(spark, tmp_path, monkeypatch):
    names = [f"{i}.json" for i in range(100)]
    for bad in (0, 1, 50, 98, 99):
        names[bad] += ".gz"
    for name in names:
        (tmp_path / name).write_text("{}")
    names[40:40] = ["10:30.json", "gone.json"]
    urls = [f"file://{tmp_path}/{name}" for name in names]
    tried = []
    reading_fails = trial_reading.reading_fails

    def counted(spark, files, *how):
        tried.append(len(files))
        return reading_fails(spark, files, *how)

    monkeypatch.setattr(trial_reading, "reading_fails", counted)
    found = [url for url, failure in unreadable_among(spark, urls, "text", SCHEMA)]
    assert sorted(found) == sorted(url for url in urls if re.search("gz|:30|gone", url))
    assert len(tried) < 45, "two readings for each file that Spark names, and halvings for the other two"
    tried.clear()
    assert [*unreadable_among(spark, [url for url in urls if url not in found], "text", SCHEMA)] == [] and tried == [95]
    assert [*unreadable_among(spark, [], "text", SCHEMA)] == []


def test_many_local_files_are_listed_without_a_spark_job(spark, deliveries, tmp_path):
    """Spark's own listing runs a task for each file."""
    for i in range(200):
        put_lines(tmp_path / "in", f"{i}.json", {"id": f"{i}", "due": 1000})
    task_counts = set()

    def until(delivery):
        tracker = spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(str(delivery.messages.runId))]
        stages = {stage for job in jobs if job for stage in job.stageIds}
        task_counts.update(info.numTasks for info in map(tracker.getStageInfo, stages) if info)
        return first_batches_done(tmp_path / "state")

    spark.conf.unset(FILES_BY_A_JOB)
    try:
        deliveries.run(until)
        assert task_counts and 200 not in task_counts
        spark.conf.set(FILES_BY_A_JOB, "5")
        set_up_local_input(spark)
        assert spark.conf.get(FILES_BY_A_JOB) == "5", "a setting of the user stays"
    finally:
        spark.conf.unset(FILES_BY_A_JOB)


def test_parquet_files_of_other_types_are_left_out(spark, deliveries, tmp_path):
    good = spark.createDataFrame([("good", "k", 1000, None, "p")], SCHEMA).coalesce(1)
    latin = good.withColumn("id", F.lit("latin")).withColumn("payload", F.unhex(F.lit("e4")).cast("string"))
    for frame in (good, good.withColumn("due", F.lit("soon")), latin):
        frame.write.mode("append").parquet(str(tmp_path / "in"))
    partition = good.withColumn("id", F.lit("in a subdirectory"))
    partition.write.parquet(str(tmp_path / "in" / "due=5"))  # not read, and not a partition column
    deliveries.run(format="parquet")
    out = spark.read.parquet(str(tmp_path / "out")).collect()
    assert [(row.id, row.due) for row in out] == [("good", 1000)]
    letters = {row.reason: row for row in spark.read.parquet(str(tmp_path / "dead")).collect()}
    not_utf8, unreadable = sorted(letters)
    assert not_utf8 == "not UTF-8" and letters[not_utf8].id == "latin"
    assert "the file cannot be read" in unreadable and "due" in unreadable
    assert letters[unreadable].file.endswith(".parquet")


DUE_MS = 4102444800123  # in 2100
ACCEPTED = {
    "int32": pa.array([5], pa.int32()),
    "uint8": pa.array([5], pa.uint8()),
    "uint32": pa.array([4 * 10**9], pa.uint32()),
    "uint64": pa.array([DUE_MS], pa.uint64()),
    "decimal": pa.array([Decimal(DUE_MS)], pa.decimal128(20, 0)),
    "ms": pa.array([DUE_MS], pa.timestamp("ms", "UTC")),
    "us": pa.array([DUE_MS * 1000 - 1], pa.timestamp("us", "Europe/Berlin")),
    "ns": pa.array([DUE_MS * 10**6 - 1], pa.timestamp("ns", "UTC")),
}
REFUSED = {
    "date": (pa.array([date(2026, 11, 20)]), "due is a date32[day]: write milliseconds as int64"),
    "time": (pa.array([5], pa.time64("us")), "due is a time64[us]"),
    "duration": (pa.array([5], pa.duration("ms")), "due is a duration[ms]"),
    "naive": (pa.array([DUE_MS * 1000], pa.timestamp("us")), "due is a timestamp[us] without a time zone"),
    "fraction": (pa.array([Decimal("1.5")]), "due is a decimal128(2, 1)"),
    "double": (pa.array([1000.0]), "due is a double"),
    "list": (pa.array([[1000]]), "due is a list<element: int64>"),
}


def put_due(source, name, due, **options):
    source.mkdir(exist_ok=True)
    table = pa.table({"id": [name], "key": ["k"], "due": due, "payload": ["p"]})
    pq.write_table(table, source / f"{name}.parquet", **options)


def test_type_of_due_in_parquet_decides_what_it_means(spark, deliveries, tmp_path):
    """Spark itself reads the days of a date as milliseconds, and fails on uint64 without naming a file."""
    source, state = tmp_path / "in", tmp_path / "state"
    put_due(source, "int64", pa.array([1000]))
    deliveries.run(format="parquet")
    for name, due in ACCEPTED.items():
        put_due(source, name, due)
    for name, (due, _) in REFUSED.items():
        put_due(source, name, due)
    put_due(source, "int96", pa.array([DUE_MS], pa.timestamp("ms", "UTC")), use_deprecated_int96_timestamps=True)
    put_due(source, "huge", pa.array([2**64 - 1], pa.uint64()))
    put_due(source, "beside", pa.array([2000]))

    def letters():
        files = [*(tmp_path / "dead").glob("*.parquet")]
        return [row for file in files for row in pq.read_table(file).to_pylist()]

    def until(delivery):
        names = {row["file"] for row in letters()}
        return len(names) == len(REFUSED) + 2 and delivery.sink.rows + rows_held(spark, str(state / MESSAGES)) == 9

    notices = deliveries.run(until, format="parquet")
    out = {row.id: row.due for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    held = {id: matching_rows(spark, str(state / MESSAGES), id) for id in ACCEPTED}
    found = out | {id: row["due"] for id, (row,) in ((id, rows) for id, rows in held.items() if rows)}
    small = {"int64": 1000, "beside": 2000, "int32": 5, "uint8": 5, "uint32": 4 * 10**9}
    assert found == dict.fromkeys(ACCEPTED, DUE_MS) | small
    reasons = {row["file"].rpartition("/")[2]: row["reason"] for row in letters()}
    assert reasons.pop("huge.parquet") == f"due is not between 1970 and 9999: {2**63 - 1} ms"
    assert "due is an INT96" in reasons.pop("int96.parquet")
    assert {*reasons} == {f"{name}.parquet" for name in REFUSED}
    for name, (_, reason) in REFUSED.items():
        assert reasons[f"{name}.parquet"].startswith(f"the file cannot be read: {reason}")
    assert sum("is left out" in notice for notice in notices) == len(REFUSED) + 1

    put_due(source, "later", ACCEPTED["uint64"])
    deliveries.run(lambda _: matching_rows(spark, str(state / MESSAGES), "later"), format="parquet")


@pytest.mark.slow
@needs_java
def test_file_that_needs_more_memory_than_java_has_is_left_out(tmp_path):
    """Hadoop's .lz4 format differs from that of the lz4 command, and its reader takes other bytes for a length."""
    put_lines(tmp_path / "in", "packed.json.lz4", bytes.fromhex("04224d186440a71a00000080") + b'{"id": "a"}' * 9)
    put_lines(tmp_path / "in", "_hidden.lz4", bytes.fromhex("04224d186440a71a"))
    put_lines(tmp_path / "in", "good.json", {"id": "good", "due": 1000})
    job = chaos.Job(tmp_path)
    job.start()
    try:

        def check():
            assert job.process.poll() is None, (tmp_path / "log").read_text()

        wait_until(lambda: json_rows(tmp_path / "out") and first_batches_done(tmp_path / "state"), check)
        assert job.stop(signal.SIGTERM) == 0
    finally:
        if job.process.poll() is None:
            job.kill()
    assert ids_in(tmp_path / "out") == ["good"]
    ((name, reason),) = file_letters(tmp_path / "out-dead-letters").items()
    assert name == "packed.json.lz4" and "differs from the format of the command" in reason
    log = (tmp_path / "log").read_text()
    assert log.count("packed.json.lz4 cannot be read and is left out: ") == 1 and "hidden" not in log


def test_readable_file_is_not_blamed(spark, tmp_path):
    file = tmp_path / "now [1].json"
    file.write_text("{}")

    def why(path):
        return why_unreadable(spark, path.as_uri(), "text", SCHEMA)

    assert why(file) is None
    assert why(tmp_path / "gone.json") == "it was taken away before it was read"
    assert why(tmp_path / "no" / "disk.json") is None


def test_query_is_restarted_after_a_passing_fault_up_to_a_limit():
    started = []
    fault = Failure("x cannot be read: a passing fault", "...", "...", "x")
    query = SimpleNamespace(isActive=False)
    sink = SimpleNamespace(failure=fault, like_seconds=0, batches=0)
    message_run = QueryRun("messages", lambda: started.append(1) or query, sink, query)
    letter_run = QueryRun("dead", None, SimpleNamespace(failure=None, batches=0), SimpleNamespace(isActive=True))
    delivery = Delivery(message_run, letter_run)
    while (failure := delivery.tend()) is None:
        pass
    assert failure is fault and len(started) == STARTS
    for _ in range(2 * STARTS):
        sink.batches += 1
        assert delivery.tend() is None, "a completed batch resets the limit"


@pytest.mark.parametrize("text", ["", '{"file:///in/a.gz": "not a gzi', "[]", '{"file:///in/a.gz": 1}', "[" * 100_000])
def test_damaged_list_of_unreadable_files_is_refused(spark, tmp_path, text):
    """Without the list, files that were never read would count as read and be deleted."""
    state = Directory(spark, str(tmp_path))
    UnreadableFiles(state).add("file:///in/a.gz", "not a gzip file")
    assert UnreadableFiles(state).reasons == {"file:///in/a.gz": "not a gzip file"}
    (tmp_path / "unreadable-files.json").write_text(text)
    with pytest.raises(ListDamagedError, match="unreadable-files.json is damaged: .*\nrestore it"):
        UnreadableFiles(state)
