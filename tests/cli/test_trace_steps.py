"""The steps of a trace, against the worked examples of the literature."""

import pytest

from hwheel.cli.common import CommandError
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
    return {task: (level, index) for (level, index, _), tasks in step.picture.queue for task in tasks}


def test_times_that_no_clock_shows_are_far_off():
    assert clock_time(-1, CLASSIC_UTC_OFFSET) == clock_time(2**62, CLASSIC_UTC_OFFSET) == "far off"


def test_a_trace_is_the_start_an_add_for_each_delay_and_the_polls(classic):
    assert [step.kind for step in classic.steps] == ["start"] + ["add"] * 7 + ["poll"] * 7
    assert [step.task for step in classic.steps if step.kind == "add"] == [1, 2, 3, 4, 5, 6, 7]


def test_levels_2_and_3_are_made_by_tasks_3_and_7_with_the_clocks_of_the_classic_text(classic):
    assert [len(step.picture.levels) for step in classic.steps[:8]] == [1, 1, 1, 2, 2, 2, 2, 3]
    levels = classic.steps[7].picture.levels
    assert [clock(level.current_time_ms) for level in levels] == ["14:40:20", "14:40:18", "14:40:12"]
    assert [level.tick_ms for level in levels] == [1000, 3000, 9000]
    assert [level.interval_ms for level in levels] == [3000, 9000, 27000]


def test_the_first_advance_finds_task_1_due_and_moves_tasks_3_and_7_down_a_level(classic):
    first = polls(classic)[0]
    assert clock(first.time_ms) == "14:40:21"
    assert first.due == (1,)
    assert places(first)[3] == (1, 2)
    assert places(first)[7] == (2, 2)
    assert [(move.task, move.origin.level, move.target.level) for move in first.moved] == [(3, 2, 1), (7, 3, 2)]
    assert [clock(place.expiration_ms)[-2:] for place, _ in first.picture.queue] == ["22", "23", "24", "27"]


def test_only_the_advances_that_cascade_move_anything(classic):
    moved = [[(move.task, move.origin.level, move.target.level) for move in step.moved] for step in polls(classic)]
    assert moved == [[(3, 2, 1), (7, 3, 2)], [], [], [(5, 2, 1), (6, 2, 1)], [], [], []]


def test_seven_advances_run_a_task_each_and_no_level_is_ever_destroyed(classic):
    assert [step.due for step in polls(classic)] == [(1,), (2,), (3,), (4,), (5,), (6,), (7,)]
    assert all(len(step.picture.levels) == 3 for step in polls(classic))
    assert polls(classic)[-1].picture.queue == ()


def test_an_add_says_which_bucket_was_chosen(classic):
    assert classic.steps[3].moved == (Move(3, None, Place(2, 0, CLASSIC_START_MS // 3000 * 3000 + 3000)),)


def test_tick_20_size_10_runs_5_at_once_and_takes_230_through_level_2_to_220():
    traced = trace(20, 10, 0, [5, 23, 230])
    _, five, _, last = traced.steps[:4]
    assert five.due == (1,) and five.picture.queue == ()
    assert last.moved == (Move(3, None, Place(2, 1, 200)),)
    assert [(step.time_ms, step.due) for step in polls(traced)] == [(20, (2,)), (200, ()), (220, (3,))]
    assert polls(traced)[1].moved == (Move(3, Place(2, 1, 200), Place(1, 1, 220)),)


def test_tick_1_size_20_has_450_446_455_and_473_in_level_3_bucket_1():
    traced = trace(1, 20, 0, [450, 446, 455, 473])
    assert traced.steps[4].picture.queue == (((3, 1, 400), (1, 2, 3, 4)),)
    assert [task for step in polls(traced) for task in step.due] == [2, 1, 3, 4]


def test_tasks_of_one_bucket_come_out_in_the_order_of_their_adds():
    traced = trace(10, 3, 0, [105, 101, 109])
    assert polls(traced)[-1].due == (1, 2, 3)


def test_a_delay_that_is_over_already_is_due_at_its_add():
    traced = trace(1, 20, 100, [-5, 0])
    assert [step.due for step in traced.steps] == [(), (1,), (2,)]


@pytest.mark.parametrize(
    ("tick_ms", "wheel_size", "start_ms", "delay_ms"),
    [(2**62, 4, 0, 1), (1, 20, 2**63 - 1, 1), (1, 20, 2**63 - 1, 2**63 - 1)],
)
def test_what_does_not_fit_into_64_bits_is_a_command_error(tick_ms, wheel_size, start_ms, delay_ms):
    with pytest.raises(CommandError, match="64 bits"):
        trace(tick_ms, wheel_size, start_ms, [delay_ms])
