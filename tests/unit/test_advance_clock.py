"""TimingWheel.advance_clock moves clocks: what falls due on the way stays pending, and comes with the next poll, in
order."""

from random import Random

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


def test_it_takes_nothing_out():
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
    reused = added(wheel, 25)  # the same bucket, one turn later
    assert (passed.pending, reused.pending) == (True, True)
    assert len(wheel) == 2
    assert wheel.next_expiration_ms <= 10
    assert wheel.poll(24) == [passed]
    assert wheel.poll(25) == [reused]


def test_a_task_can_be_rescheduled_out_of_a_bucket_that_was_passed_over(where):
    wheel = TimingWheel(tick_ms=1, wheel_size=20)
    task = added(wheel, 5)
    wheel.advance_clock(10)
    assert task.reschedule(0.015)
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


def test_what_was_passed_over_comes_out_in_order_of_its_time_and_not_before_it():
    wheel = TimingWheel(tick_ms=1, wheel_size=4)
    late = added(wheel, 31)
    wheel.advance_clock(24)  # passes over the coarse bucket that `late` is in
    early = added(wheel, 27)
    wheel.advance_clock(28)
    assert wheel.poll(26) == []
    assert wheel.poll(28) == [early]
    assert wheel.poll(30) == []
    assert wheel.poll(31) == [late]


def test_what_fell_due_on_the_way_is_pending_and_its_time_is_the_next_expiration():
    wheel = TimingWheel(tick_ms=10, wheel_size=4)
    first, second = added(wheel, 35), added(wheel, 41)
    wheel.advance_clock(100)
    assert first.pending and second.pending and len(wheel) == 2
    assert wheel.next_expiration_ms == 30
    assert wheel.poll(29) == []
    assert wheel.poll(39) == [first]
    assert wheel.next_expiration_ms == 40
    assert second.cancel()
    assert wheel.next_expiration_ms is None


@pytest.mark.parametrize("wheel_size", [2, 3, 7])
@pytest.mark.parametrize("seed", range(20))
def test_with_a_clock_that_is_also_moved_by_itself_a_poll_returns_what_a_heap_would(wheel_size, seed):
    random = Random(seed)
    wheel = TimingWheel(1, wheel_size)
    pending, clock_ms, number = [], 0, 0
    for _ in range(300):
        what = random.random()
        if what < 0.5:
            expiration_ms = clock_ms + random.randrange(1, 200)
            number += 1
            pending.append((expiration_ms, number, added(wheel, expiration_ms)))
        elif what < 0.8:
            clock_ms += random.randrange(30)
            wheel.advance_clock(clock_ms)
        else:
            now_ms = clock_ms + random.randrange(-20, 20)
            pending.sort()
            due = [task for expiration_ms, _, task in pending if expiration_ms <= now_ms]
            assert wheel.poll(now_ms) == due
            pending = pending[len(due) :]
            clock_ms = max(clock_ms, wheel.current_time_ms)


def test_a_snapshot_shows_what_was_passed_over_and_waits_for_a_poll():
    wheel = TimingWheel(1, 4)
    first, second, later = added(wheel, 3), added(wheel, 9), added(wheel, 100)
    wheel.advance_clock(20)
    picture = wheel.snapshot()
    assert picture.due == (first, second)
    assert [bucket.tasks for bucket in picture.queue] == [(later,)]
    assert wheel.poll(20) == [first, second]
    assert wheel.snapshot().due == ()


def test_a_wheel_that_passes_over_very_many_keeps_them_in_order_for_the_next_poll():
    wheel = TimingWheel(1, 20)
    tasks = [TimerTask(0) for _ in range(20_000)]
    for number, task in enumerate(tasks):
        wheel.add(task, 1000 + number // 2)
    wheel.advance_clock(20_000)
    assert len(wheel) == 20_000
    assert wheel.poll(20_000) == tasks
