"""The query in docs/spark.md is run as it stands."""

import json
import re
import time
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
PATIENCE_S = 300


def test_the_query_of_the_page(spark, tmp_path):
    (code,) = re.findall(r"```python\n((?s:.*?))```", PAGE.read_text())
    (tmp_path / "in").mkdir()
    rows = [
        {"id": "m1", "user": "u", "send_at": "2026-01-01T00:00:00Z", "text": "now"},
        {"id": "m2", "user": "u", "send_at": "2999-01-01T00:00:00Z", "text": "later"},
        {"user": "nobody"},
        {"id": "m3", "user": "u", "send_at": "2026-01-01T00:00:00Z", "cancelled": "true"},
    ]
    (tmp_path / "in" / "a.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    # Spark keeps the directory in which it was started.
    code = re.sub(r'"(in|out|malformed|state/\w+)"', lambda path: repr(str(tmp_path / path[1])), code)
    names = {}
    exec(compile(code, str(PAGE), "exec"), names)
    try:
        give_up = time.monotonic() + PATIENCE_S
        while not all((tmp_path / name / "_spark_metadata" / "0").exists() for name in ("out", "malformed")):
            assert time.monotonic() < give_up
            time.sleep(0.1)
    finally:
        names["sending"].stop()
        names["reporting"].stop()
    assert [(row.id, row.text) for row in spark.read.parquet(str(tmp_path / "out")).collect()] == [("m1", "now")]
    reasons = {row.id: row.reason for row in spark.read.json(str(tmp_path / "malformed")).collect()}
    assert reasons == {None: "id is null", "m3": "not readable"}


def test_the_messages_of_the_page_are_json():
    (lines,) = re.findall(r"```json\n((?s:.*?))```", PAGE.read_text())
    assert [json.loads(line)["id"] for line in lines.splitlines()] == ["m1", "m1"]
