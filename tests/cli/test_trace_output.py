"""What `hwheel trace` prints: drawn, and as JSON."""

import json
import re

import pytest

from hwheel.cli.main import main


@pytest.fixture
def drawn(capsys, monkeypatch):
    def draw(*options, columns=100):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(["trace", *options]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out

    return draw


@pytest.fixture
def printed(capsys):
    def json_of(*options):
        assert main(["trace", "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)

    return json_of


def section(text, title):
    """The part under the heading that begins with title."""
    (part,) = re.findall(rf"^{title}.*?(?=^\S[^\n]* ─|\Z)", text, re.DOTALL | re.MULTILINE)
    return part


def test_the_default_drawing_has_the_clocks_of_the_classic_text(drawn):
    after_adds = section(drawn(), "after 7 adds")
    assert re.search(r"^ +2 +3000 ms +9000 ms +14:40:18 1675752018000", after_adds, re.MULTILINE)
    assert re.search(r"^ +3 +9000 ms +27000 ms +14:40:12 1675752012000", after_adds, re.MULTILINE)


def test_the_first_advance_is_drawn_with_what_is_due_what_moved_and_the_queue(drawn):
    first = section(drawn(columns=120), "advance 1 of 7: 14:40:21")
    assert "task 1 is due" in first
    assert "task 3 moves from level 2 bucket 0 to level 1 bucket 2" in first
    assert "task 7 moves from level 3 bucket 2 to level 2 bucket 2" in first
    queue = first[first.index("delay queue:") :]
    assert re.findall(r"14:40:\d\d", queue) == ["14:40:22", "14:40:23", "14:40:24", "14:40:27"]


def test_every_advance_is_drawn(drawn):
    assert len(re.findall(r"^advance \d of 7:", drawn(), re.MULTILINE)) == 7


@pytest.mark.parametrize("columns", [80, 120])
def test_a_drawing_keeps_within_the_columns_and_cuts_nothing_off(drawn, columns):
    text = drawn(columns=columns)
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text
    for second in range(20, 28):
        assert f"16757520{second}000" in text


def test_at_120_columns_no_row_is_folded(drawn):
    after_adds = section(drawn(columns=120), "after 7 adds")
    assert len([line for line in after_adds.splitlines() if "14:40" in line]) == 1 + 5 + 1


def test_a_start_that_is_no_time_of_day_is_drawn_in_milliseconds_only(drawn):
    text = drawn("--tick", "20", "--wheel-size", "10", "--start", "0", "--delays", "5", "23", "230")
    assert not re.search(r"\d\d:\d\d", text)
    assert "due at once" in text
    assert "advance 3 of 3: 220 ms" in text


def test_the_utc_offset_moves_the_time_of_day_and_nothing_else(drawn):
    assert "06:40:18 1675752018000" in drawn("--utc-offset", "0")
    assert "01:10:18 1675752018000" in drawn("--utc-offset=-05:30")


def test_delays_may_be_given_by_spaces_and_by_commas(printed):
    assert printed("--delays", "5,23", "230")["tasks"] == printed("--delays", "5", "23", "230")["tasks"]


def test_json_has_the_documented_structure(printed):
    document = printed()
    assert list(document) == ["version", "tick_ms", "wheel_size", "start_ms", "tasks", "steps"]
    assert (document["version"], document["tick_ms"], document["wheel_size"]) == (1, 1000, 3)
    assert document["tasks"][6] == {"task": 7, "delay_ms": 7000, "expiration_ms": 1675752027558}
    for step in document["steps"]:
        assert list(step) == ["step", "time_ms", "task", "due", "moved", "levels", "queue"]
        assert step["step"] in ("start", "add", "poll")
        for move in step["moved"]:
            assert list(move) == ["task", "from", "to"]
            assert list(move["to"]) == ["level", "bucket", "expiration_ms"]
        for number, level in enumerate(step["levels"], 1):
            assert list(level) == ["level", "tick_ms", "interval_ms", "current_time_ms", "buckets"]
            assert level["level"] == number
        in_levels = [bucket for level in step["levels"] for bucket in level["buckets"]]
        assert sorted(in_levels, key=str) == sorted(step["queue"], key=str)
        for bucket in step["queue"]:
            assert list(bucket) == ["level", "bucket", "expiration_ms", "tasks"]
        assert [bucket["expiration_ms"] for bucket in step["queue"]] == sorted(
            bucket["expiration_ms"] for bucket in step["queue"]
        )


def test_json_of_the_first_advance_is_what_the_classic_text_says(printed):
    first = [step for step in printed()["steps"] if step["step"] == "poll"][0]
    assert first["time_ms"] == 1675752021000
    assert first["due"] == [1]
    assert first["moved"][0] == {
        "task": 3,
        "from": {"level": 2, "bucket": 0, "expiration_ms": 1675752021000},
        "to": {"level": 1, "bucket": 2, "expiration_ms": 1675752023000},
    }
    assert [bucket["expiration_ms"] % 100_000 // 1000 for bucket in first["queue"]] == [22, 23, 24, 27]
