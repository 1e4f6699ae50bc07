"""The strict reader of JSON lines, and its fast path through Arrow."""

import json
import random

import pyarrow as pa
import pytest

from hwheel.spark.deliver import json_lines
from hwheel.spark.deliver.json_lines import JsonLines, read_lines, read_plain
from hwheel.spark.message import LAST_DUE_MS

GOOD = b'{"id": "m1", "key": "k", "due": 1795176000000, "payload": "p"}'
UNREADABLE = [
    (b'{"id": "a", "due": 1, "cancel": "true"}', 'cancel is neither true nor false: "true"'),
    (b'{"id": "a", "due": 1, "cancel": 1}', "cancel is neither true nor false: 1"),
    (b'{"id": "a", "due": 1, "cancel": []}', "cancel is neither true nor false: []"),
    (b'{"id": "a", "due": "1"}', 'due is no whole number of 64 bits: "1"'),
    (b'{"id": "a", "due": 1.0}', "due is no whole number of 64 bits: 1.0"),
    (b'{"id": "a", "due": true}', "due is no whole number of 64 bits: true"),
    (b'{"id": "a", "due": 9223372036854775808}', "due is no whole number of 64 bits: 9223372036854775808"),
    (b'{"id": "a", "due": ' + b"9" * 5000 + b"}", f"due is no whole number of 64 bits: {'9' * 60}..."),
    (b'{"id": {"a": 1}, "due": 1}', 'id is neither a string nor a number: {"a": 1}'),
    (b'{"id": "a", "key": false, "due": 1}', "key is neither a string nor a number: false"),
    (b'{"id": "a", "due": 1, "payload": "\xe4"}', "not UTF-8: byte 0xe4 at 34"),
    (b'{"id": "a", "due": 1, "unknown": "\xed\xa0\x80"}', "not UTF-8: byte 0xed at 34"),
    (b'{"id": "a", "due": 1, "payload": "\\ud800"}', "payload has half of a surrogate pair"),
    (b'{"id": "a", "due": 1}{"id": "b", "due": 2}', 'more behind the message: {"id": "b", "due": 2}'),
    (b'{"id": "a", "due": 1} # due', "more behind the message: # due"),
    (b'{"id": "a", "due": 1, "due": 2}', "due is there twice"),
    (b'{"id": "a", "due": 1, "\\u0069d": "b"}', "id is there twice"),
    (b'{"id": "a", "due": 1, "payload": {"x": 1}, "payload": null}', "payload is there twice"),
    (b"{'id': 'a', 'due': 1}", "not a JSON object"),
    (b'{"id": "a", "due": 1,}', "not a JSON object"),
    (b'{"id": "a", "due": 1', "not a JSON object"),
    (b'{"id": "a", "due": 01}', "not a JSON object"),
    (b'{"id": "tab\tin it", "due": 1}', "not a JSON object"),
    (b'"no message"', "not a JSON object"),
    (b"[1]", "not a JSON object"),
    (b"{", "not a JSON object"),
    (b'{"id"', "not a JSON object"),
    (b'{"id": "a", "unknown": ' + b"[" * 100_000 + b"]" * 100_000 + b', "payload": 1}', "nested too deeply"),
    (b'{"id": "a", "due": 1, "unknown": ' + b"[" * 500 + b"]" * 500 + b"}", "nested too deeply"),
    (b'{"id": "a", "due": 1, "payload": ' + b'{"[": [' * 300 + b"]}" * 300 + b"}", "nested too deeply"),
]
READABLE = [
    (b'{"id": 5, "key": 1.50, "due": 7}', {"id": "5", "key": "1.50", "due": 7}),
    (b' {"due" :7 , "id":"\\u00e4\\n" } ', {"id": "ä\n", "due": 7}),
    (b'{"id": "a", "due": -0, "key": null, "cancel": null, "payload": null}', {"id": "a", "due": 0}),
    (
        b'{"id": "a", "due": 7, "cancel": false, "x": [1, {"id": 2, "due": "x"}]}',
        {"id": "a", "due": 7, "cancel": False},
    ),
    (
        b'{"id": "a", "due": 7, "payload": {"z": 1.00, "a": ["\xc3\xa4",  1e2]}}',
        {"id": "a", "due": 7, "payload": '{"z": 1.00, "a": ["ä",  1e2]}'},
    ),
    (b'{"id": "a", "due": 7, "payload": 1.10}', {"id": "a", "due": 7, "payload": "1.10"}),
    (b'{"id": "a", "due": 7, "x": "}{", "x": 2}', {"id": "a", "due": 7}),
    (b'{"id": "a", "due": 7, "x": ' + b"[" * 499 + b"]" * 499 + b"}", {"id": "a", "due": 7}),
    (b'{"id": "a", "due": 7, "x": ' + b'[[], "[\\"", {}, ' * 400 + b"1" + b"]" * 400 + b"}", {"id": "a", "due": 7}),
    (b"{}", {}),
]


def read(*lines):
    rows = [row for part in read_lines(pa.array(lines, pa.binary())) for row in part.to_pylist()]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


@pytest.mark.parametrize(("line", "reason"), UNREADABLE, ids=range(len(UNREADABLE)))
def test_malformed_line_is_unreadable_as_a_whole(line, reason):
    assert read(GOOD, line, GOOD)[1] == {"unreadable": reason}
    assert read(line) == [{"unreadable": reason}]


@pytest.mark.parametrize(("line", "fields"), READABLE, ids=range(len(READABLE)))
def test_readable_line(line, fields):
    assert read(line) == [fields]
    assert read(GOOD, line, GOOD) == [read(GOOD)[0], fields, read(GOOD)[0]]


def test_record_without_a_value_has_no_fields():
    assert read(None) == [{}]


def test_lines_are_read_independently():
    """Two lines form one object, and one line has two: the numbers of lines and objects agree, but no line is valid."""
    lines = [b'{"id": "a",', b'"due": 1}', b'{"id": "b", "due": 1}{"id": "c", "due": 1}']
    assert [[*row] for row in read(*lines)] == [["unreadable"]] * 3
    for begin in (b'{"id": "a", "x": [{}', b'{"id": "a", "x": {}', b'{"id": "}'):
        assert [[*row] for row in read(begin, b'{"id": "b"}]}{"id": "c"}', b'{"id":"d"}')][:2] == [["unreadable"]] * 2


def test_only_lines_near_a_malformed_one_are_read_one_by_one(monkeypatch):
    one_by_one = []
    read_line = json_lines.read_line
    monkeypatch.setattr(json_lines, "read_line", lambda line, names: one_by_one.append(line) or read_line(line, names))
    lines = [json.dumps({"id": f"m{i}", "due": i, "payload": "ä" * (i % 9)}).encode() for i in range(10_000)]
    lines[3] = lines[9000] = b"no message"
    found = read(*lines)
    assert [i for i, row in enumerate(found) if "unreadable" in row] == [3, 9000]
    assert [row["id"] for row in found if "id" in row] == [f"m{i}" for i in range(10_000) if i not in (3, 9000)]
    assert 2 <= len(one_by_one) < 500


def test_fast_path_agrees_with_the_strict_reader():
    """Tried on lines that are damaged at random."""
    chance = random.Random(14)
    seeds = [GOOD, *(line for line, _ in UNREADABLE if len(line) < 100), *(line for line, _ in READABLE)]
    taken = refused = 0
    for _ in range(8_000):
        lines = [bytearray(chance.choice(seeds)) for _ in range(chance.choice([1, 1, 2, 3]))]
        for line in lines:
            for _ in range(chance.choice([0, 0, 1, 2])):
                at = chance.randrange(len(line))
                pick = chance.random()
                if pick < 0.4:
                    line[at : at + 1] = bytes([chance.choice(b'{}[]":,0179.e-+\\u n\xc3\xa4\x00')])
                elif pick < 0.7:
                    del line[at : at + chance.randint(1, 4)]
                else:
                    line[at:at] = line[chance.randrange(len(line)) :][: chance.randint(1, 9)]
                if not line:
                    line += b"{}"
        array = pa.array([bytes(line) for line in lines], pa.binary())
        plain = read_plain(array)
        if plain is None:
            refused += 1
        else:
            taken += 1
            assert plain.to_pylist() == json_lines.read_one_by_one(array).to_pylist(), lines
    assert min(taken, refused) > 300


@pytest.mark.parametrize("unit_ms", [1, 1000])
def test_malformed_rows_keep_their_line_and_all_rows_their_other_columns(unit_ms):
    rows = [
        (GOOD if unit_ms == 1 else b'{"id": "m1", "due": 1795176000}', False),
        (b'{"due": 1, "unknown": "kept"}', True),
        (b'{"id": "", "due": 1}', True),
        (b'{"id": "a"}', True),
        (b'{"id": "a", "due": -1}', True),
        (b'{"id": "a", "due": %d}' % (LAST_DUE_MS // unit_ms), False),
        (b'{"id": "a", "due": %d}' % (LAST_DUE_MS // unit_ms + 1), True),
        (b"\xe4", True),
        (None, False),
    ] * 40
    lines = [line for line, _ in rows]
    batch = pa.RecordBatch.from_arrays([pa.array(lines, pa.binary()), pa.array(range(len(rows)))], names=["value", "n"])
    found = [row for part in JsonLines(unit_ms)([batch.slice(0, 100), batch.slice(100)]) for row in part.to_pylist()]
    assert [row["n"] for row in found] == [*range(len(rows))]
    for row, (line, kept) in zip(found, rows, strict=True):
        assert row["line"] == (line.decode(errors="replace") if kept else None)


def test_topic_named_in_a_message():
    lines = [
        b'{"id": "a", "due": 1, "topic": "one"}',
        b'{"id": "b", "due": 1, "topic": "other"}',
        b'{"id": "c", "due": 1}',
        b'{"id": "d", "due": 1, "topic": 5}',
        b'{"id": "e", "due": 1, "topic": "one", "topic": "two"}',
        b'{"id": "f", "due": 1, "topic": null}',
        b'{"id": "g", "due": 1, "topic": "two"}',
    ]
    batch = pa.RecordBatch.from_arrays([pa.array(lines, pa.binary()), pa.array(range(7))], names=["value", "offset"])
    rows = [row for part in JsonLines(1, ("one", "two"))([batch]) for row in part.to_pylist()]
    assert [row["id"] for row in rows] == ["a", None, "c", None, None, "f", "g"]
    assert [row["target"] for row in rows] == ["one", None, None, None, None, None, "two"]
    assert [row["offset"] for row in rows] == [*range(7)]
    assert [row["unreadable"] for row in rows if row["unreadable"]] == [
        'topic is none of --to-topics: "other"',
        "topic is no string: 5",
        "topic is there twice",
    ]
    assert [row["line"] for row in rows if row["line"]] == [lines[i].decode() for i in (1, 3, 4)]
    plain = [row for part in JsonLines(1)([batch]) for row in part.to_pylist()]
    assert [row["id"] for row in plain] == [*"abcdefg"] and "target" not in plain[0], (
        "without topics the field is ignored"
    )
