"""Tasks of one tick run in the order in which they were added, whichever levels they came over."""

import pytest

from hwheel import ManualTimer, TimerTask, TimingWheel
from sampling import seeded_random


def added(wheel, expiration_ms):
    task = TimerTask(0)
    assert wheel.add(task, expiration_ms)
    return task


def test_tasks_of_one_tick_come_out_in_order_of_adding():
    wheel = TimingWheel()
    tasks = [added(wheel, 5) for _ in range(50)]
    assert wheel.poll(5) == tasks


def test_inside_a_coarse_tick_the_deadline_does_not_matter():
    wheel = TimingWheel(tick_ms=20, wheel_size=10)
    tasks = [added(wheel, expiration_ms) for expiration_ms in (239, 220, 230, 221)]
    assert wheel.poll(220) == tasks


@pytest.mark.parametrize("jump", [True, False])
def test_tasks_of_one_tick_from_levels_3_2_and_1_come_out_in_order_of_adding(jump, where):
    wheel = TimingWheel(tick_ms=1, wheel_size=20)
    third = added(wheel, 410)
    wheel.advance_clock(100)
    second = added(wheel, 410)
    wheel.advance_clock(391)
    first = added(wheel, 410)
    assert [where(wheel, task)[0] for task in (third, second, first)] == [3, 2, 1]
    assert [bucket.expiration_ms for bucket in wheel.snapshot().queue] == [400, 400, 410]
    if not jump:
        assert wheel.poll(400) == []
        assert [where(wheel, task) for task in (third, second, first)] == [(1, 10, 410)] * 3
        last = added(wheel, 410)
        assert wheel.poll(409) == []
        assert wheel.poll(410) == [third, second, first, last]
    else:
        assert wheel.poll(10**6) == [third, second, first]


def test_buckets_of_all_levels_that_fall_due_at_one_time_are_taken_so_that_order_holds(where):
    wheel = TimingWheel(tick_ms=1, wheel_size=20)
    third = [added(wheel, expiration_ms) for expiration_ms in (400, 401, 400)]
    wheel.advance_clock(100)
    second = [added(wheel, expiration_ms) for expiration_ms in (400, 401, 400)]
    wheel.advance_clock(391)
    first = [added(wheel, expiration_ms) for expiration_ms in (400, 401, 400)]
    assert {where(wheel, task)[0] for task in third} == {3}
    assert {where(wheel, task)[0] for task in second} == {2}
    assert {where(wheel, task)[0] for task in first} == {1}
    assert wheel.snapshot().queue[0].expiration_ms == wheel.snapshot().queue[2].expiration_ms == 400
    assert wheel.poll(400) == [third[0], third[2], second[0], second[2], first[0], first[2]]
    assert wheel.poll(401) == [third[1], second[1], first[1]]


def test_order_holds_across_levels_also_with_coarse_ticks():
    wheel = TimingWheel(tick_ms=20, wheel_size=4)
    tasks = [added(wheel, 20 * 410 + 19)]
    for clock_ms, rest_ms in [(20 * 100, 0), (20 * 391, 7), (20 * 400, 13), (20 * 409, 1)]:
        assert wheel.poll(clock_ms) == []  # what has to move down first does
        wheel.advance_clock(clock_ms)
        tasks.append(added(wheel, 20 * 410 + rest_ms))
    assert wheel.poll(20 * 410 - 1) == []
    assert wheel.poll(20 * 410) == tasks


def test_a_timer_with_coarse_ticks_keeps_order_too(ran):
    timer = ManualTimer(tick_ms=20, wheel_size=4)
    for delay_ms in (8195, 8181, 8200, 8190):  # all rounded up to 8200
        timer.add(TimerTask(delay_ms, ran.append, delay_ms))
    timer.advance(8)
    for delay_ms in (199, 181, 200):
        timer.add(TimerTask(delay_ms, ran.append, delay_ms))
    timer.advance(0.2)
    assert ran == [8195, 8181, 8200, 8190, 199, 181, 200]


def test_cancels_and_new_tasks_in_between_leave_the_order_of_the_others():
    wheel = TimingWheel(tick_ms=1, wheel_size=3)
    tasks = []
    for clock_ms in range(0, 80):
        wheel.advance_clock(clock_ms)
        tasks += [added(wheel, 81), added(wheel, 81), added(wheel, 81)]
        assert tasks.pop(-2).cancel()
        if clock_ms % 5 == 0:
            assert tasks.pop(len(tasks) // 2).cancel()
    assert wheel.poll(1000) == tasks


@pytest.mark.parametrize("seed", range(10))
def test_however_far_the_clock_jumps_the_order_is_by_tick_then_by_adding(seed):
    dice = seeded_random(seed)
    tick_ms, wheel_size = dice.choice([1, 7, 20]), dice.choice([2, 3, 20])
    wheel = TimingWheel(tick_ms, wheel_size, start_ms=dice.choice([0, 1675752020558]))
    start_ms = now_ms = wheel.current_time_ms
    waiting, came_out, expected = [], [], []
    for number in range(2000):
        ticks_ahead = dice.choice([dice.randint(1, 10), 64 - number % 64, dice.randint(1, 5000)])
        expiration_ms = wheel.current_time_ms + ticks_ahead * tick_ms + dice.randrange(tick_ms)
        task = added(wheel, expiration_ms)
        waiting.append(((expiration_ms - start_ms) // tick_ms, number, task))
        if dice.random() < 0.05:
            now_ms += dice.choice([1, 10, 3000]) * tick_ms
            due = [one for one in waiting if start_ms // tick_ms + one[0] <= now_ms // tick_ms]
            waiting = [one for one in waiting if start_ms // tick_ms + one[0] > now_ms // tick_ms]
            expected += [task for _, _, task in sorted(due, key=lambda one: one[:2])]
            came_out += wheel.poll(now_ms)
    expected += [task for _, _, task in sorted(waiting, key=lambda one: one[:2])]
    came_out += wheel.poll(2**62)
    assert came_out == expected
