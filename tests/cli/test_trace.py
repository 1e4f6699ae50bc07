"""`hwheel trace`: its steps, compared with worked examples from the literature, and its output."""

import json
import re

import pytest

from hwheel.cli.common import CommandError
from hwheel.cli.main import main
from hwheel.cli.trace.clock_time import clock_time
from hwheel.cli.trace.command import (
    CLASSIC_DELAYS_MS,
    CLASSIC_START_MS,
    CLASSIC_TICK_MS,
    CLASSIC_UTC_OFFSET,
    CLASSIC_WHEEL_SIZE,
)
from hwheel.cli.trace.steps import Move, Place, trace


@pytest.fixture(scope="module")
def classic():
    return trace(CLASSIC_TICK_MS, CLASSIC_WHEEL_SIZE, CLASSIC_START_MS, CLASSIC_DELAYS_MS)


def clock(time_ms):
    return clock_time(time_ms, CLASSIC_UTC_OFFSET)


def polls(traced):
    return [step for step in traced.steps if step.kind == "poll"]


def places(step):
    return {task: (level, index) for (level, index, _), tasks in step.snapshot.queue for task in tasks}


def test_times_outside_the_calendar_are_far_off():
    assert clock_time(-1, CLASSIC_UTC_OFFSET) == clock_time(2**62, CLASSIC_UTC_OFFSET) == "far off"


def test_a_trace_has_a_start_one_add_per_delay_and_the_polls(classic):
    assert [step.kind for step in classic.steps] == ["start"] + ["add"] * 7 + ["poll"] * 7
    assert [step.task for step in classic.steps if step.kind == "add"] == [1, 2, 3, 4, 5, 6, 7]


def test_tasks_3_and_7_create_levels_2_and_3_with_the_clocks_of_the_classic_example(classic):
    assert [len(step.snapshot.levels) for step in classic.steps[:8]] == [1, 1, 1, 2, 2, 2, 2, 3]
    levels = classic.steps[7].snapshot.levels
    assert [clock(level.current_time_ms) for level in levels] == ["14:40:20", "14:40:18", "14:40:12"]
    assert [level.tick_ms for level in levels] == [1000, 3000, 9000]
    assert [level.interval_ms for level in levels] == [3000, 9000, 27000]


def test_the_first_advance_expires_task_1_and_cascades_tasks_3_and_7(classic):
    first = polls(classic)[0]
    assert clock(first.time_ms) == "14:40:21"
    assert first.due == (1,)
    assert places(first)[3] == (1, 2)
    assert places(first)[7] == (2, 2)
    assert [(move.task, move.origin.level, move.target.level) for move in first.moved] == [(3, 2, 1), (7, 3, 2)]
    assert [clock(place.expiration_ms)[-2:] for place, _ in first.snapshot.queue] == ["22", "23", "24", "27"]


def test_only_cascades_move_tasks(classic):
    moved = [[(move.task, move.origin.level, move.target.level) for move in step.moved] for step in polls(classic)]
    assert moved == [[(3, 2, 1), (7, 3, 2)], [], [], [(5, 2, 1), (6, 2, 1)], [], [], []]


def test_seven_advances_expire_one_task_each_and_keep_all_levels(classic):
    assert [step.due for step in polls(classic)] == [(1,), (2,), (3,), (4,), (5,), (6,), (7,)]
    assert all(len(step.snapshot.levels) == 3 for step in polls(classic))
    assert polls(classic)[-1].snapshot.queue == ()


def test_an_add_reports_its_bucket(classic):
    assert classic.steps[3].moved == (Move(3, None, Place(2, 0, CLASSIC_START_MS // 3000 * 3000 + 3000)),)


def test_tick_20_and_size_10_expire_5_at_once_and_230_at_220():
    traced = trace(20, 10, 0, [5, 23, 230])
    _, five, _, last = traced.steps[:4]
    assert five.due == (1,) and five.snapshot.queue == ()
    assert last.moved == (Move(3, None, Place(2, 1, 200)),)
    assert [(step.time_ms, step.due) for step in polls(traced)] == [(20, (2,)), (200, ()), (220, (3,))]
    assert polls(traced)[1].moved == (Move(3, Place(2, 1, 200), Place(1, 1, 220)),)


def test_tick_1_and_size_20_put_450_446_455_and_473_into_level_3_bucket_1():
    traced = trace(1, 20, 0, [450, 446, 455, 473])
    assert traced.steps[4].snapshot.queue == (((3, 1, 400), (1, 2, 3, 4)),)
    assert [task for step in polls(traced) for task in step.due] == [2, 1, 3, 4]


def test_tasks_of_one_bucket_expire_in_the_order_of_their_adds():
    traced = trace(10, 3, 0, [105, 101, 109])
    assert polls(traced)[-1].due == (1, 2, 3)


def test_a_deadline_in_the_past_expires_at_the_add():
    traced = trace(1, 20, 100, [-5, 0])
    assert [step.due for step in traced.steps] == [(), (1,), (2,)]


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
    """Return the part under the heading that begins with `title`."""
    (part,) = re.findall(rf"^{title}.*?(?=^\S[^\n]* ─|\Z)", text, re.DOTALL | re.MULTILINE)
    return part


def test_the_default_trace_shows_the_clocks_of_the_classic_example(drawn):
    after_adds = section(drawn(), "after 7 adds")
    assert re.search(r"^ +2 +3000 ms +9000 ms +14:40:18 1675752018000", after_adds, re.MULTILINE)
    assert re.search(r"^ +3 +9000 ms +27000 ms +14:40:12 1675752012000", after_adds, re.MULTILINE)


def test_the_first_advance_shows_expired_tasks_moves_and_the_queue(drawn):
    first = section(drawn(columns=120), "advance 1 of 7: 14:40:21")
    assert "task 1 is due" in first
    assert "task 3 moves from level 2 bucket 0 to level 1 bucket 2" in first
    assert "task 7 moves from level 3 bucket 2 to level 2 bucket 2" in first
    queue = first[first.index("delay queue:") :]
    assert re.findall(r"14:40:\d\d", queue) == ["14:40:22", "14:40:23", "14:40:24", "14:40:27"]


def test_every_advance_is_shown(drawn):
    assert len(re.findall(r"^advance \d of 7:", drawn(), re.MULTILINE)) == 7


@pytest.mark.parametrize("columns", [80, 120])
def test_the_trace_fits_the_terminal_without_truncation(drawn, columns):
    text = drawn(columns=columns)
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text
    for second in range(20, 28):
        assert f"16757520{second}000" in text


def test_at_120_columns_no_row_wraps(drawn):
    after_adds = section(drawn(columns=120), "after 7 adds")
    assert len([line for line in after_adds.splitlines() if "14:40" in line]) == 1 + 5 + 1


def test_a_small_start_is_shown_in_milliseconds_only(drawn):
    text = drawn("--tick", "20", "--wheel-size", "10", "--start", "0", "--delays", "5", "23", "230")
    assert not re.search(r"\d\d:\d\d", text)
    assert "due at once" in text
    assert "advance 3 of 3: 220 ms" in text


def test_the_utc_offset_changes_only_the_time_of_day(drawn):
    assert "06:40:18 1675752018000" in drawn("--utc-offset", "0")
    assert "01:10:18 1675752018000" in drawn("--utc-offset=-05:30")


def test_delays_are_separated_by_spaces_or_commas(printed):
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


def test_json_of_the_first_advance_matches_the_classic_example(printed):
    first = [step for step in printed()["steps"] if step["step"] == "poll"][0]
    assert first["time_ms"] == 1675752021000
    assert first["due"] == [1]
    assert first["moved"][0] == {
        "task": 3,
        "from": {"level": 2, "bucket": 0, "expiration_ms": 1675752021000},
        "to": {"level": 1, "bucket": 2, "expiration_ms": 1675752023000},
    }
    assert [bucket["expiration_ms"] % 100_000 // 1000 for bucket in first["queue"]] == [22, 23, 24, 27]
