"""TimingWheel.advance_clock moves clocks and takes no bucket: what it passes over is late, but not lost."""

import pytest

from hwheel import TimerTask, TimingWheel


def added(wheel, expiration_ms):
    task = TimerTask(0)
    assert wheel.add(task, expiration_ms)
    return task


def test_it_sets_the_clocks_of_all_levels_and_none_goes_back():
    wheel = TimingWheel(tick_ms=10, wheel_size=5, start_ms=1000)
    added(wheel, 9000)
    clocks = [level.current_time_ms for level in wheel.snapshot().levels]
    assert clocks == [1000, 1000, 1000, 0, 0]
    wheel.advance_clock(1509)
    clocks = [level.current_time_ms for level in wheel.snapshot().levels]
    assert clocks == [1500, 1500, 1500, 1250, 0]
    for back_ms in (1499, 0, -1, -(2**63)):
        wheel.advance_clock(back_ms)
        assert [level.current_time_ms for level in wheel.snapshot().levels] == clocks


def test_it_takes_no_bucket():
    wheel = TimingWheel()
    task = added(wheel, 5)
    wheel.advance_clock(7)
    assert task.pending
    assert len(wheel) == 1
    assert wheel.next_expiration_ms == 5
    assert wheel.poll(7) == [task]


def test_a_bucket_that_was_passed_over_can_take_its_next_turn_and_nothing_is_lost():
    wheel = TimingWheel(tick_ms=1, wheel_size=20)
    passed = added(wheel, 5)
    wheel.advance_clock(10)
    reused = added(wheel, 25)           # the same bucket, one turn later
    assert (passed.pending, reused.pending) == (True, True)
    assert len(wheel) == 2
    assert wheel.next_expiration_ms <= 10
    assert wheel.poll(24) == [passed]
    assert wheel.poll(25) == [reused]


def test_a_task_can_be_rescheduled_out_of_a_bucket_that_was_passed_over(where):
    wheel = TimingWheel(tick_ms=1, wheel_size=20)
    task = added(wheel, 5)
    wheel.advance_clock(10)
    assert task.reschedule(15)
    assert where(wheel, task) == (1, 5, 25)
    assert wheel.poll(24) == []
    assert wheel.poll(25) == [task]


def test_a_bucket_emptied_by_cancels_and_passed_over_takes_its_next_turn(where):
    wheel = TimingWheel(tick_ms=1, wheel_size=20)
    assert added(wheel, 5).cancel()
    wheel.advance_clock(10)
    task = added(wheel, 25)
    assert where(wheel, task) == (1, 5, 25)
    assert wheel.next_expiration_ms == 25
    assert wheel.poll(24) == []
    assert wheel.poll(25) == [task]


@pytest.mark.parametrize("wheel_size", [2, 3, 20])
def test_whatever_is_passed_over_comes_out_once_and_never_early(wheel_size):
    wheel = TimingWheel(1, wheel_size)
    tasks = {}
    for clock_ms in range(0, 600, 37):
        wheel.advance_clock(clock_ms)
        for ahead_ms in (1, 2, 30, 31, 400):
            tasks[added(wheel, clock_ms + ahead_ms)] = clock_ms + ahead_ms
    came_out = []
    for now_ms in range(600, 1100, 7):
        due = wheel.poll(now_ms)
        assert all(tasks[task] <= now_ms for task in due)
        came_out += due
    assert len(came_out) == len(tasks)
    assert {*came_out} == {*tasks}
