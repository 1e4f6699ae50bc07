"""Dead letters: where each row was, the code of its reason, and `hwheel letters`, which plays lines again."""

import json
import time
from contextlib import nullcontext

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos_sender import BAD_LINES
from deliveries import ids_in, json_rows, put_lines
from hwheel.cli import letters as command
from hwheel.cli.main import main
from hwheel.spark.deliver.json_lines import numbered
from hwheel.spark.deliver.letters import CODES, COLUMNS, OTHER, WHOLE_FILE, code_of, resubmit

SMALL_BLOCKS = "spark.sql.files.maxPartitionBytes"


@pytest.fixture
def letters(spark, tmp_path, monkeypatch, capsys):
    """letters(*options): run `hwheel letters` on `dead` in the session of the tests; return the status and output."""
    monkeypatch.setattr(command, "spark_session", lambda *_: nullcontext(spark))

    def run(*options):
        status = main(["letters", "--from", str(tmp_path / "dead"), *options])
        return status, capsys.readouterr()

    return run


def test_each_reason_has_a_code(spark):
    reasons = [*BAD_LINES.values(), "due is null", "id is null", "cancel and replace are both true"]
    reasons += ["the file cannot be read: x", "larger than --largest-message: 5 bytes", "not UTF-8"]
    reasons += ["later than --max-lateness: 1000 ms"]
    reasons += ["topic is none of --to-topics: x", "topic is no string: 5", "key has half of a surrogate pair"]
    frame = spark.createDataFrame([(reason,) for reason in reasons], "reason string")
    found = {row.reason: row.code for row in frame.withColumn("code", code_of(frame.reason)).collect()}
    assert {*found.values()} == {*CODES} - {OTHER} and len(found) == len({*reasons})
    assert (found["topic is no string: 5"], found["due is null"]) == ("wrong-type", "no-due")


def test_lines_are_numbered_across_batches():
    """Spark divides the lines of a task into batches anywhere."""
    parts = [("a", 0, 5), ("a", 100, 3), ("b", 0, 1), ("c", 0, 4)]
    rows = [{"file": file, "block": block, "blank": i == 1} for file, block, count in parts for i in range(count)]
    expected = [i + 1 for _, _, count in parts for i in range(count) if i != 1]
    whole = pa.RecordBatch.from_pylist(rows)
    for size in range(1, len(rows) + 1):
        batches = [whole.slice(start, size) for start in range(0, len(rows), size)]
        found = [*numbered([whole.slice(0, 0), *batches])]
        assert [number for batch in found[1:] for number in batch.column("number").to_pylist()] == expected, size


def test_letters_say_where_their_lines_are(spark, deliveries, tmp_path):
    """The files are divided into blocks, with blank lines, carriage returns, and lines that are too large."""
    lines = [b'{"id": "m%d", "due": 1000}' % i for i in range(2000)]
    malformed = [0, 7, 500, 1234, 1999]
    for at in malformed:
        lines[at] = b"no message %d" % at
    lines[1300] = b"y" * 3000
    lines[3] = lines[501] = b" \t"
    (tmp_path / "in").mkdir()
    contents = {"a.json": b"\r\n".join(lines) + b"\r\n", "b.json": b"\n\nfirst\nsecond"}
    for name, content in contents.items():
        (tmp_path / "in" / name).write_bytes(content)
    before_ms = int(time.time() * 1000)
    before = spark.conf.get(SMALL_BLOCKS)
    spark.conf.set(SMALL_BLOCKS, "20000")
    try:
        deliveries.run(lambda one: one.dead_sink.rows == 8 and one.sink.rows == 1992, largest_message=2000)
    finally:
        spark.conf.set(SMALL_BLOCKS, before)
    rows = json_rows(tmp_path / "dead")
    assert len(rows) == 8
    for row in rows:
        content = contents[row["file"].rpartition("/")[2]]
        behind = content[row["block"] :].partition(b"\n")[2] if row["block"] else content
        line = behind.split(b"\n")[row["number"] - 1].strip().decode()
        assert line == row["line"] or (row["code"] == "too-large" and line.startswith(row["line"].removesuffix("...")))
        assert before_ms - 1000 <= row["time"] <= time.time() * 1000
    assert len({row["block"] for row in rows}) > 2, "several blocks"
    (delivery,) = deliveries.running
    assert {code: count for code, count in delivery.dead_sink.codes.items() if count} == {"not-json": 7, "too-large": 1}


@pytest.mark.parametrize("type", [pa.int64(), pa.uint64()])
def test_letters_about_rows_of_parquet_have_their_numbers(spark, deliveries, tmp_path, type):
    (tmp_path / "in").mkdir()
    rows = [{"id": None if i in (3, 70) else f"m{i}", "key": "k", "due": 1000} for i in range(100)]
    schema = pa.schema([("id", pa.string()), ("key", pa.string()), ("due", type)])
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "in" / "a.parquet", row_group_size=10)
    deliveries.run(lambda one: one.dead_sink.rows == 2 and one.sink.rows == 98, format="parquet")
    found = spark.read.parquet(str(tmp_path / "dead")).collect()
    assert sorted((row.number, row.code, row.id) for row in found) == [(4, "no-id", None), (71, "no-id", None)]


def test_letters_are_shown_and_played_again_once(letters, deliveries, tmp_path):
    put_lines(
        tmp_path / "in", "a.json", {"id": "m1", "due": 1000}, {"id": "m2"}, {"id": "m3"}, b"broken", b'{"id": "\xff"}'
    )
    (tmp_path / "in" / "b.json.gz").write_bytes(b"no gzip")
    deliveries.run(lambda one: one.dead_sink.rows == 5 and one.sink.rows == 1)
    counts = {"no-due": 2, "not-json": 1, "not-utf8": 1, WHOLE_FILE: 1}
    assert json.loads(letters("--json")[1].out) == counts
    assert letters()[1].out.splitlines()[0] == "5 dead letters"
    status, shown = letters("--code", "no-due", "--code", WHOLE_FILE, "--most", "2")
    assert status == 0 and "there are more" in shown.err and "a.json line 2: due is null" in shown.out

    fixed = tmp_path / "fixed"
    for _ in range(2):
        status, shown = letters("--to", str(fixed))
        assert (status, shown.out) == (0, f"3 lines are in {fixed}\n") and "2 letters have no whole line" in shown.err
    files = {file.name.rpartition("0-")[2]: file for file in fixed.glob("*.json")}
    assert {name: file.read_text() for name, file in files.items()} == {
        "no-due.json": '{"id": "m2"}\n{"id": "m3"}\n',
        "not-json.json": "broken\n",
    }
    for file in files.values():
        file.write_text(file.read_text().replace("}", ', "due": 1000}'))
        file.rename(tmp_path / "in" / file.name)
    # A line that is played again twice is read only once, with or without --code.
    letters("--to", str(tmp_path / "in"), "--code", "no-due")

    def broken_again():
        return [row["line"] for row in json_rows(tmp_path / "dead") if row["file"].endswith("-not-json.json")]

    deliveries.run(lambda _: ids_in(tmp_path / "out") == ["m1", "m2", "m3"] and broken_again())
    assert broken_again() == ["broken"]


def test_late_letters_of_each_batch_are_played_again_in_a_file_of_their_own(spark, tmp_path):
    for batch in (1, 2):
        put_lines(tmp_path / "dead", f"late-{batch:09d}.json", {"code": "too-late", "line": f"line {batch}"})
    letters = spark.read.schema(COLUMNS).json(str(tmp_path / "dead"))
    assert resubmit(letters, "0abc", str(tmp_path / "in")) == 2
    assert len([*(tmp_path / "in").glob("again-0abc-late-00000000[12]-too-late*")]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--code", "x"], "--code must be one of unreadable-file, "), ([], "dead does not exist")],
)
def test_mistakes_are_reported(letters, options, message):
    status, shown = letters(*options)
    assert status == 2 and message in shown.err


def test_letters_in_parquet_are_refused(letters, tmp_path):
    (tmp_path / "dead").mkdir()
    pq.write_table(pa.table({"id": ["m"]}), tmp_path / "dead" / "a.parquet")
    status, shown = letters("--to", str(tmp_path / "in"))
    assert status == 2 and "has rows of Parquet" in shown.err and not (tmp_path / "in").exists()
