"""Reading logs: what is well-formed, and where it says what is not."""

import pytest

from hwheel.cli.common import CommandError
from hwheel.cli.demo.request_log import read_log


@pytest.fixture
def log(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_json_lines_are_read_with_null_and_missing_ends_and_blank_lines(log):
    path = log(
        "a.jsonl",
        '{"start": 1, "timeout": 2.5, "end": 3}\n\n'
        '{"start": 4, "timeout": 5, "end": null, "url": "/"}\n'
        '{"timeout": 7, "start": 6}',
    )
    assert read_log(path) == [(1, 2.5, 3), (4, 5, None), (6, 7, None)]


def test_csv_is_read_with_columns_in_any_order_and_empty_ends(log):
    path = log("a.csv", "timeout, start,url,end\r\n2.5,1,/,3\r\n5,4,/,\r\n")
    assert read_log(path) == [(1, 2.5, 3), (4, 5, None)]


def test_the_format_may_be_said(log):
    assert read_log(log("a.log", "start,timeout,end\n1,2,\n"), "csv") == [(1, 2, None)]
    assert read_log(log("b.csv", '{"start": 1, "timeout": 2}\n'), "jsonl") == [(1, 2, None)]


GOOD_JSON = '{"start": 1, "timeout": 2, "end": 3}\n'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[1, 2, 3]", "not an object"),
        ("[" * 100_000, "not JSON"),
        ('{"timeout": 2}', "start is missing"),
        ('{"start": 1, "end": 3}', "timeout is missing"),
        ('{"start": null, "timeout": 2}', "start is missing"),
        ('{"start": "1", "timeout": 2}', "start must be a number of ms, not '1'"),
        ('{"start": true, "timeout": 2}', "start must be a number of ms, not True"),
        ('{"start": 1, "timeout": 0}', "timeout must be above 0, not 0"),
        ('{"start": 1, "timeout": -2}', "timeout must be above 0, not -2"),
        ('{"start": 1, "timeout": NaN}', "timeout is out of range: nan"),
        ('{"start": 1, "timeout": Infinity}', "timeout is out of range: inf"),
        ('{"start": 1, "timeout": 1e300}', "timeout is out of range"),
        ('{"start": ' + "9" * 400 + ', "timeout": 1}', "start is out of range"),
        ('{"start": 10, "timeout": 2, "end": 9}', "it ends before it starts: 9 < 10"),
        ('{"start": 10, "timeout": 2, "end": ""}', "end must be a number of ms, not ''"),
    ],
)
def test_a_malformed_line_of_json_is_named(log, line, said):
    path = log("a.jsonl", GOOD_JSON * 2 + line + "\n" + GOOD_JSON)
    with pytest.raises(CommandError) as refused:
        read_log(path)
    assert f"{path}, line 3: " in str(refused.value)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("1,2", "not as many fields as the first line names"),
        ("1,2,3,4", "not as many fields as the first line names"),
        ("one,2,3", "start must be a number of ms, not 'one'"),
        (",2,3", "start is missing"),
        ("1,,3", "timeout is missing"),
        ("1,nan,3", "timeout is out of range"),
        ("5,2,3", "it ends before it starts"),
        ('"1,2,3', "not CSV"),
    ],
)
def test_a_malformed_record_of_csv_is_named(log, record, said):
    path = log("a.csv", f"start,timeout,end\n1,2,3\n{record}\n")
    with pytest.raises(CommandError) as refused:
        read_log(path)
    assert ", line 3: " in str(refused.value)
    assert said in str(refused.value)


def test_csv_without_names_in_its_first_line_is_refused(log):
    with pytest.raises(CommandError, match=r"line 1: the first line must name the columns"):
        read_log(log("a.csv", "1,2,3\n4,5,6\n"))


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_a_log_with_nothing_in_it_is_refused(log, name):
    with pytest.raises(CommandError, match="no requests in it"):
        read_log(log(name, ""))


def test_what_is_no_text_is_refused(log):
    with pytest.raises(CommandError, match="not text in UTF-8"):
        read_log(log("a.jsonl", b"\xff\xfe\x00"))


def test_a_directory_is_refused(tmp_path):
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(CommandError, match="Is a directory"):
        read_log(tmp_path / "a.csv")
