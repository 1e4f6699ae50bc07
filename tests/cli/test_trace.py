"""`hwheel trace`: its steps, compared with worked examples from the literature, and its output."""

import json
import re

import pytest

from hwheel.cli.common import CommandError
from hwheel.cli.main import main
from hwheel.cli.trace.steps import trace

CLASSIC_START_MS = 1_675_752_020_558


@pytest.fixture(scope="module")
def classic():
    """Seven tasks on a wheel of three buckets, which is explained in many places."""
    return trace(1000, 3, CLASSIC_START_MS, [1000, 2000, 3000, 4000, 5000, 6000, 7000])


def polls(traced):
    return [step for step in traced["steps"] if step["step"] == "poll"]


def place(level, bucket, expiration_ms):
    return {"level": level, "bucket": bucket, "expiration_ms": expiration_ms}


def moved(step):
    return [(move["task"], move["from"]["level"], move["to"]["level"]) for move in step["moved"]]


def test_tasks_3_and_7_create_levels_2_and_3_with_the_clocks_of_the_classic_example(classic):
    steps = classic["steps"]
    assert [step["step"] for step in steps] == ["start"] + ["add"] * 7 + ["poll"] * 7
    assert [step["task"] for step in steps[:8]] == [None, 1, 2, 3, 4, 5, 6, 7]
    assert [len(step["levels"]) for step in steps[:8]] == [1, 1, 1, 2, 2, 2, 2, 3]
    assert steps[3]["moved"] == [{"task": 3, "from": None, "to": place(2, 0, 1675752021000)}]
    assert [
        (level["tick_ms"], level["interval_ms"], level["current_time_ms"] % 100_000) for level in steps[7]["levels"]
    ] == [(1000, 3000, 20_000), (3000, 9000, 18_000), (9000, 27_000, 12_000)]


def test_seven_advances_of_the_classic_example_expire_one_task_each_and_keep_all_levels(classic):
    first, *rest = polls(classic)
    assert (first["time_ms"], first["due"]) == (1675752021000, [1])
    assert first["moved"] == [
        {"task": 3, "from": place(2, 0, 1675752021000), "to": place(1, 2, 1675752023000)},
        {"task": 7, "from": place(3, 2, 1675752021000), "to": place(2, 2, 1675752027000)},
    ]
    assert [bucket["expiration_ms"] % 100_000 // 1000 for bucket in first["queue"]] == [22, 23, 24, 27]
    assert [step["due"] for step in rest] == [[2], [3], [4], [5], [6], [7]]
    assert [moved(step) for step in rest] == [[], [], [(5, 2, 1), (6, 2, 1)], [], [], []]
    assert all(len(step["levels"]) == 3 for step in rest) and rest[-1]["queue"] == []


def test_tick_20_and_size_10_expire_5_at_once_and_230_at_220():
    traced = trace(20, 10, 0, [5, 23, 230])
    _, five, _, last = traced["steps"][:4]
    assert five["due"] == [1] and five["queue"] == []
    assert last["moved"] == [{"task": 3, "from": None, "to": place(2, 1, 200)}]
    assert [(step["time_ms"], step["due"]) for step in polls(traced)] == [(20, [2]), (200, []), (220, [3])]
    assert moved(polls(traced)[1]) == [(3, 2, 1)]


def test_tick_1_and_size_20_put_450_446_455_and_473_into_level_3_bucket_1():
    traced = trace(1, 20, 0, [450, 446, 455, 473])
    assert traced["steps"][4]["queue"] == [{**place(3, 1, 400), "tasks": [1, 2, 3, 4]}]
    assert [task for step in polls(traced) for task in step["due"]] == [2, 1, 3, 4]


def test_a_deadline_in_the_past_expires_at_the_add():
    assert [step["due"] for step in trace(1, 20, 100, [-5, 0])["steps"]] == [[], [1], [2]]


@pytest.mark.parametrize(
    ("tick_ms", "wheel_size", "start_ms", "delay_ms"),
    [(2**62, 4, 0, 1), (1, 20, 2**63 - 1, 1), (1, 20, 2**63 - 1, 2**63 - 1)],
)
def test_a_time_beyond_64_bits_is_a_command_error(tick_ms, wheel_size, start_ms, delay_ms):
    with pytest.raises(CommandError, match="64 bits"):
        trace(tick_ms, wheel_size, start_ms, [delay_ms])


# --- output -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def drawn(capsys, monkeypatch):
    def draw(*options, columns=80):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(["trace", *options]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        assert max(map(len, captured.out.splitlines())) <= columns and "…" not in captured.out
        return captured.out

    return draw


def section(text, title):
    """Return the part under the heading that begins with `title`."""
    (part,) = re.findall(rf"^{title}.*?(?=^\S[^\n]* ─|\Z)", text, re.DOTALL | re.MULTILINE)
    return part


def test_the_default_trace_starts_at_0_and_shows_every_advance(drawn):
    text = drawn()
    after_adds = section(text, "after 7 adds: 0 ms")
    assert re.search(r"^ +2 +3000 ms +9000 ms +0 ms +1 +3000 ms +3, 4 +$", after_adds, re.MULTILINE)
    assert re.search(r"^ +3 +9000 ms +27000 ms +0 ms +1 +9000 ms +6 +$", after_adds, re.MULTILINE)
    third = section(text, "advance 3 of 11: 3000 ms")
    assert "task 3 is due  3000 ms" in third
    assert "task 4 moves from level 2 bucket 1 to level 1 bucket 2" in third
    queue = re.findall(r"(\d+)\s\(level", third[third.index("delay queue:") :])
    assert queue == ["5000", "6000", "9000", "18000"]
    assert len(re.findall(r"^advance \d+ of 11:", text, re.MULTILINE)) == 11


@pytest.mark.parametrize("columns", [80, 120])
def test_long_times_fit_the_terminal(drawn, columns):
    text = drawn("--start", str(CLASSIC_START_MS), columns=columns)
    for second in (20, 21, 22, 24, 27):
        assert f"16757520{second}000" in text
    assert "due at once" in drawn("--tick", "20", "--wheel-size", "10", "--delays", "5", "23", "230")


def test_json_has_the_documented_structure(capsys):
    def printed(*options):
        assert main(["trace", "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)

    document = printed()
    assert list(document) == ["version", "tick_ms", "wheel_size", "start_ms", "tasks", "steps"]
    assert [document[name] for name in ("version", "tick_ms", "wheel_size", "start_ms")] == [1, 1000, 3, 0]
    assert document["tasks"][6] == {"task": 7, "delay_ms": 21_000, "expiration_ms": 21_000}
    for step in document["steps"]:
        assert list(step) == ["step", "time_ms", "task", "due", "moved", "levels", "queue"]
        for number, level in enumerate(step["levels"], 1):
            assert list(level) == ["level", "tick_ms", "interval_ms", "current_time_ms", "buckets"]
            assert level["level"] == number
        in_levels = [bucket for level in step["levels"] for bucket in level["buckets"]]
        assert sorted(in_levels, key=str) == sorted(step["queue"], key=str)
        assert all(list(bucket) == ["level", "bucket", "expiration_ms", "tasks"] for bucket in step["queue"])
        expirations = [bucket["expiration_ms"] for bucket in step["queue"]]
        assert expirations == sorted(expirations)
    assert printed("--delays", "5,23", "230")["tasks"] == printed("--delays", "5", "23", "230")["tasks"]
