"""The queries in docs/spark.md and docs/spark_by_id.md are run as they stand."""

import json
import re
import time
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
BY_ID = PAGE.with_name("spark_by_id.md")
PATIENCE_S = 300


def run_the_query(page, directory, rows):
    """Runs what the page has, on these rows, until both of its queries have done their first batch."""
    (code,) = re.findall(r"```python\n((?s:.*?))```", page.read_text())
    (directory / "in").mkdir()
    (directory / "in" / "a.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    # Spark keeps the directory in which it was started.
    code = re.sub(r'"(in|out|malformed|state/\w+)"', lambda path: repr(str(directory / path[1])), code)
    names = {}
    exec(compile(code, str(page), "exec"), names)
    try:
        give_up = time.monotonic() + PATIENCE_S
        while not all((directory / name / "_spark_metadata" / "0").exists() for name in ("out", "malformed")):
            assert time.monotonic() < give_up
            time.sleep(0.1)
    finally:
        names["sending"].stop()
        names["reporting"].stop()


def test_the_query_of_the_page(spark, tmp_path):
    rows = [
        {"id": "m1", "user": "u", "send_at": "2026-01-01T00:00:00Z", "text": "now"},
        {"id": "m2", "user": "u", "send_at": "2999-01-01T00:00:00Z", "text": "later"},
        {"user": "nobody"},
        {"id": "m3", "user": "u", "send_at": "2026-01-01T00:00:00Z", "cancelled": "true"},
    ]
    run_the_query(PAGE, tmp_path, rows)
    assert [(row.id, row.text) for row in spark.read.parquet(str(tmp_path / "out")).collect()] == [("m1", "now")]
    reasons = {row.id: row.reason for row in spark.read.json(str(tmp_path / "malformed")).collect()}
    assert reasons == {None: "id is null", "m3": "not readable"}


def test_the_query_of_the_page_about_ids(spark, tmp_path):
    now, later = "2026-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
    rows = [
        *({"id": id, "user": "u", "send_at": now, "text": "now"} for id in ("m1", "m2", "m3")),
        {"id": "m2", "user": "u", "cancelled": True},
        {"id": "m3", "user": "u", "send_at": later, "moved": True},
        {"id": "m4", "user": "u", "send_at": later},
        {"id": "m4", "user": "u", "send_at": now, "moved": True, "text": "moved"},
        {"id": "m5", "user": "u", "moved": True},
    ]
    run_the_query(BY_ID, tmp_path, rows)
    out = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.id, row.text) for row in out) == [("m1", "now"), ("m4", "moved")]
    reasons = {row.id: row.reason for row in spark.read.json(str(tmp_path / "malformed")).collect()}
    assert reasons == {"m5": "due is null"}


def test_the_messages_of_the_pages_are_json():
    for page, ids in ((PAGE, ["m1", "m1"]), (BY_ID, ["m1", "m1", "m1"])):
        (lines,) = re.findall(r"```json\n((?s:.*?))```", page.read_text())
        assert [json.loads(line)["id"] for line in lines.splitlines()] == ids
