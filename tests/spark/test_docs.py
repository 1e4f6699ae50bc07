"""The example queries in docs/spark.md and docs/spark_by_id.md run unchanged."""

import json
import re
from pathlib import Path

from deliveries import put_lines, wait_until

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
BY_ID = PAGE.with_name("spark_by_id.md")


def run_example(page, directory, rows):
    """Run the code of a page on rows until both of its queries have completed their first batch."""
    (code,) = re.findall(r"```python\n((?s:.*?))```", page.read_text())
    put_lines(directory / "in", "a.json", *rows)
    # Absolute paths, because Spark's current directory is fixed at its start.
    code = re.sub(r'"(in|out|malformed|state/\w+)"', lambda path: repr(str(directory / path[1])), code)
    names = {}
    exec(compile(code, str(page), "exec"), names)
    try:
        first_batches = [directory / name / "_spark_metadata" / "0" for name in ("out", "malformed")]
        wait_until(lambda: all(batch.exists() for batch in first_batches))
    finally:
        names["sending"].stop()
        names["reporting"].stop()


def test_example_of_the_spark_page(spark, tmp_path):
    rows = [
        {"id": "m1", "user": "u", "send_at": "2026-01-01T00:00:00Z", "text": "now"},
        {"id": "m2", "user": "u", "send_at": "2999-01-01T00:00:00Z", "text": "later"},
        {"user": "nobody"},
        {"id": "m3", "user": "u", "send_at": "2026-01-01T00:00:00Z", "cancelled": "true"},
    ]
    run_example(PAGE, tmp_path, rows)
    assert [(row.id, row.text) for row in spark.read.parquet(str(tmp_path / "out")).collect()] == [("m1", "now")]
    reasons = {row.id: row.reason for row in spark.read.json(str(tmp_path / "malformed")).collect()}
    assert reasons == {None: "id is null", "m3": "not readable"}


def test_example_of_the_by_id_page(spark, tmp_path):
    now, later = "2026-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
    rows = [
        *({"id": id, "user": "u", "send_at": now, "text": "now"} for id in ("m1", "m2", "m3")),
        {"id": "m2", "user": "u", "cancelled": True},
        {"id": "m3", "user": "u", "send_at": later, "moved": True},
        {"id": "m4", "user": "u", "send_at": later},
        {"id": "m4", "user": "u", "send_at": now, "moved": True, "text": "moved"},
        {"id": "m5", "user": "u", "moved": True},
    ]
    run_example(BY_ID, tmp_path, rows)
    out = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.id, row.text) for row in out) == [("m1", "now"), ("m4", "moved")]
    reasons = {row.id: row.reason for row in spark.read.json(str(tmp_path / "malformed")).collect()}
    assert reasons == {"m5": "due is null"}


def test_example_messages_are_json():
    for page, ids in ((PAGE, ["m1", "m1"]), (BY_ID, ["m1", "m1", "m1"])):
        (lines,) = re.findall(r"```json\n((?s:.*?))```", page.read_text())
        assert [json.loads(line)["id"] for line in lines.splitlines()] == ids
