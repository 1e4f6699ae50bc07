"""Input files that cannot be read: a delivery leaves them out, reports each once, and goes on."""

import gzip
import json
import os
import re
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from deliveries import file_letters, first_batches_done, ids_in, put_lines
from hwheel.spark.deliver.delivery import STARTS, Delivery, QueryRun
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.failures import Failure
from hwheel.spark.deliver.source import SCHEMA
from hwheel.spark.deliver.unreadable_files import ListDamagedError, UnreadableFiles, why_unreadable
from hwheel.spark.session.conf import FILES_BY_A_JOB, set_up_local_input

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
    assert len(notices) == 3
    pattern = r"file:.*cannot be read and is left out: .*\nrepair it and move it in"
    assert all(re.match(pattern, notice) for notice in notices)

    put_lines(source, "more.json", {"id": "more", "due": 1000})
    assert deliveries.run(lambda delivery: delivery.sink.rows) == [], "a restart does not repeat the reports"
    assert ids_in(tmp_path / "out") == ["good", "more", "one"]
    assert file_letters(tmp_path / "dead") == letters


def test_interrupted_delivery_reports_the_rest_of_the_unreadable_files(deliveries, tmp_path):
    for i in range(5):
        put_lines(tmp_path / "in", f"plain \u00e4{i}.json.gz", BAD)
        put_lines(tmp_path / "in", f"good{i}.json", {"id": f"good{i}", "due": 1000})
    first = deliveries.run(lambda delivery: len(delivery.notices) >= 2)
    second = deliveries.run()
    assert len({*first, *second}) == 5
    letters = file_letters(tmp_path / "dead")
    assert len(letters) == 5 and all("the file cannot be read" in reason for reason in letters.values())
    assert ids_in(tmp_path / "out") == [f"good{i}" for i in range(5)]


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
