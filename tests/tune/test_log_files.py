"""The formats of logs, and the errors for invalid ones."""

import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hwheel.logs.columns import LogColumns, LogError
from hwheel.logs.files import files_of, read_file, read_files
from hwheel.replay import NEVER

COLUMNS = LogColumns()
UTC = datetime.UTC


def write(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"start": [0, 1], "timeout": [10, 10], "end": [5, None], **columns})
    pq.write_table(table, path, row_group_size=1)
    return str(path)


def test_integers_of_any_width_timestamps_and_durations(tmp_path):
    moment = datetime.datetime(2026, 1, 1, tzinfo=UTC)
    first_ms = int(moment.timestamp() * 1000)
    micros = datetime.timedelta(microseconds=1)
    path = write(
        tmp_path / "log.parquet",
        start=pa.array([moment + 1999 * micros, moment], pa.timestamp("us", "UTC")),
        timeout=pa.array([datetime.timedelta(seconds=2), 1001 * micros]),
        end=pa.array([moment + 2000 * micros, None], pa.timestamp("ns", "UTC")),
    )
    log, _ = read_file(path, COLUMNS)
    assert log.starts_ms.tolist() == [first_ms, first_ms + 1]  # times are rounded down
    assert log.timeouts_ms.tolist() == [2, 2000]  # timeouts are rounded up
    assert log.ends_ms.tolist() == [NEVER, first_ms + 2]
    for unit, counts in {"s": [1, 2], "ms": [1000, 2000], "us": [10**6, 1999001], "ns": [10**9, 1999000001]}.items():
        spans = write(tmp_path / f"{unit}.parquet", timeout=pa.array(counts, pa.duration(unit)))
        assert read_file(spans, COLUMNS)[0].timeouts_ms.tolist() == [1000, 2000]
    small, _ = read_file(write(tmp_path / "small.parquet", start=pa.array([1, 2], pa.uint8())), COLUMNS)
    assert small.starts_ms.tolist() == [1, 2]
    none_ended, _ = read_file(write(tmp_path / "none.parquet", end=pa.nulls(2)), COLUMNS)
    assert none_ended.ends_ms.tolist() == [NEVER, NEVER]


def test_column_names(tmp_path):
    path = write(tmp_path / "log.parquet", begun=[3, 4])
    assert read_file(path, LogColumns(start="begun"))[0].starts_ms.tolist() == [3, 4]


def test_several_files_are_one_log_without_hidden_files(tmp_path):
    for name in ("b/2.parquet", "a/1.parquet", "a/.unfinished.parquet", "_temporary/0.parquet"):
        write(tmp_path / name)
    (tmp_path / "a" / "notes.txt").write_text("no Parquet")
    files = files_of([tmp_path])
    assert files == [str(tmp_path / "a/1.parquet"), str(tmp_path / "b/2.parquet")]
    rows = []
    log, dropped = read_files(files, COLUMNS, rows.append)
    assert (log.starts_ms.tolist(), dropped, rows) == ([0, 0, 1, 1], 0, [1, 1, 1, 1])


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"start": ["a", "b"]}, "column 'start' must be a number of milliseconds or a timestamp, got string"),
        ({"timeout": [True, False]}, "column 'timeout' must be a number of milliseconds or a duration, got bool"),
        ({"timeout": [0.5, float("nan")]}, "row 1: 'timeout' is null"),
        ({"timeout": [0.5, float("inf")]}, "log.parquet: "),
        ({"start": [0.5, 1e300]}, "log.parquet: "),
        ({"start": [0.0, -0.5]}, "row 1: 'start' is negative"),
        ({"end": pa.array([1, 2], pa.duration("s"))}, "column 'end' must be a number of milliseconds or a timestamp"),
        ({"start": [1, None]}, "row 1: 'start' is null"),
        ({"timeout": [None, 1]}, "row 0: 'timeout' is null"),
        ({"start": [0, -1]}, "row 1: 'start' is negative"),
        ({"timeout": [5, -1]}, "row 1: 'timeout' is negative"),
        ({"start": [0, 9], "end": [0, 8]}, "row 1: 'end' is before 'start'"),
    ],
)
def test_the_error_for_a_bad_log_names_file_and_row(tmp_path, columns, text):
    path = write(tmp_path / "log.parquet", **columns)
    for read in (lambda: read_file(path, COLUMNS), lambda: read_files([path], COLUMNS)):
        with pytest.raises(LogError) as error:
            read()
        assert text in str(error.value) and path in str(error.value)


def test_the_error_for_a_missing_column_lists_the_columns(tmp_path):
    with pytest.raises(LogError, match="there is no column 'begun'; the columns are start, timeout, end"):
        read_file(write(tmp_path / "log.parquet"), LogColumns(start="begun"))


def test_missing_files_and_files_that_are_not_parquet(tmp_path):
    with pytest.raises(LogError, match="no such file or directory"):
        files_of([tmp_path / "nothing"])
    with pytest.raises(LogError, match=r"the directory has no \*.parquet"):
        files_of([tmp_path])
    (tmp_path / "text.parquet").write_text("not Parquet at all")
    with pytest.raises(LogError, match="text.parquet: "):
        read_file(str(tmp_path / "text.parquet"), COLUMNS)


def test_a_url_uses_the_filesystem_of_its_scheme():
    with pytest.raises(LogError, match="mock:///no/such.parquet: .*does not exist"):
        read_file("mock:///no/such.parquet", COLUMNS)


def test_column_names_must_be_utf_8(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"st\xfert,timeout,end\n1,2,3\n")
    with pytest.raises(LogError, match="log.csv: the column names are not UTF-8"):
        read_file(str(path), COLUMNS)


def columns_of(path):
    log, dropped = read_file(str(path), COLUMNS)
    assert dropped == 0
    return log.starts_ms.tolist(), log.timeouts_ms.tolist(), log.ends_ms.tolist()


def test_fractions_of_times_are_rounded_down_and_of_timeouts_up(tmp_path):
    path = write(tmp_path / "log.parquet", start=[0.9, 1.0], timeout=[0.2, 3.0], end=[5.7, float("nan")])
    assert columns_of(path) == ([0, 1], [1, 3], [5, NEVER])
    half = write(tmp_path / "half.parquet", timeout=pa.array([0.5, 7], pa.float16()))
    assert columns_of(half)[1] == [1, 7]


JSON_LINES = """\
{"start": 5, "timeout": 500, "end": 32.2, "path": "/a"}

{"start": 2.7, "timeout": 500.1, "end": null}
{"start": 5.3, "timeout": 500, "more": {"any": [1, 2]}}
"""
CSV = """\
start,timeout,path,end
5,500,"/a, b",32.2
2.7,500.1,,
5.3,500,/c,
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [("log.jsonl", JSON_LINES), ("log.NDJSON", JSON_LINES), ("log.json", JSON_LINES), ("log.csv", CSV)],
)
def test_json_lines_and_csv(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    expected = ([2, 5, 5], [501, 500, 500], [NEVER, 32, NEVER])  # in order of the starts
    assert columns_of(tmp_path / name) == expected
    (tmp_path / name).write_text(text.replace("\n", "\r\n"))
    assert columns_of(tmp_path / name) == expected
    assert files_of([tmp_path / name]) == [str(tmp_path / name)]


def test_the_type_of_a_column_depends_on_all_lines(tmp_path):
    lines = ['{"start": 1, "timeout": 2, "end": 3}\n'] * 100_000 + ['{"start": 1.5, "timeout": 2.5, "end": 3.5}\n']
    (tmp_path / "log.jsonl").write_text("".join(lines))
    (tmp_path / "log.csv").write_text("start,timeout,end\n" + "1,2,3\n" * 500_000 + "1.5,2.5,3.5\n")
    for name in ("log.jsonl", "log.csv"):
        starts, timeouts, ends = columns_of(tmp_path / name)
        assert (starts[-1], timeouts[-1], ends[-1]) == (1, 3, 3)


def test_iso_8601_times(tmp_path):
    (tmp_path / "log.jsonl").write_text(
        '{"start": "2026-01-01T00:00:01", "timeout": 5, "end": "2026-01-01T00:00:02"}\n'
    )
    second = int(datetime.datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC).timestamp())
    assert columns_of(tmp_path / "log.jsonl") == ([second * 1000], [5], [second * 1000 + 1000])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.jsonl", ""),
        ("log.jsonl", "start,timeout,end\n1,2,3\n"),
        ("log.jsonl", '{"start": 1, "timeout": 2, "end": 3'),
        ("log.jsonl", '{"start": 1, "timeout": 2}\n'),
        ("log.jsonl", '{"start": "soon", "timeout": 2, "end": 3}\n'),
        ("log.jsonl", '{"start": 1, "timeout": 2, "end": 3}\n[1, 2]\n'),
        ("log.csv", ""),
        ("log.csv", "1,2,3\n"),
        ("log.csv", "start,timeout,end\n1,2,3,4\n"),
        ("log.csv", "start,timeout,end\nsoon,2,3\n"),
        ("log.csv", "\x00\xff"),
    ],
)
def test_the_error_for_bad_text_names_the_file(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="latin-1")
    with pytest.raises(LogError, match=name):
        read_file(str(tmp_path / name), COLUMNS)


def test_text_and_parquet_in_one_log(tmp_path):
    (tmp_path / "log.csv").write_text("start,timeout,end\n7,8,9\n")
    paths = [write(tmp_path / "log.parquet"), str(tmp_path / "log.csv")]
    log, _ = read_files(paths, COLUMNS)
    assert (log.starts_ms.tolist(), log.timeouts_ms.tolist()) == ([0, 1, 7], [10, 10, 8])
