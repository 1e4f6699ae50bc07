"""Order within a tick: by the time of adding, across all levels of the wheel."""

import random
from array import array

import pytest

import hwheel_core
from hwheel import ManualTimer, TimerTask, TimingWheel
from sampling import seeded_random


def added(wheel, expiration_ms):
    task = TimerTask(0)
    assert wheel.add(task, expiration_ms)
    return task


def test_tasks_of_one_tick_expire_in_order_of_adding():
    wheel = TimingWheel()
    tasks = [added(wheel, 5) for _ in range(50)]
    assert wheel.poll(5) == tasks


def test_deadlines_within_one_tick_do_not_matter():
    wheel = TimingWheel(tick_ms=20, wheel_size=10)
    tasks = [added(wheel, expiration_ms) for expiration_ms in (239, 220, 230, 221)]
    assert wheel.poll(220) == tasks


@pytest.mark.parametrize("jump", [True, False])
def test_order_holds_for_one_tick_across_levels(jump, where):
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


def test_order_holds_for_buckets_that_expire_together(where):
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


def test_order_holds_across_levels_with_coarse_ticks():
    wheel = TimingWheel(tick_ms=20, wheel_size=4)
    tasks = [added(wheel, 20 * 410 + 19)]
    for clock_ms, rest_ms in [(20 * 100, 0), (20 * 391, 7), (20 * 400, 13), (20 * 409, 1)]:
        assert wheel.poll(clock_ms) == []
        wheel.advance_clock(clock_ms)
        tasks.append(added(wheel, 20 * 410 + rest_ms))
    assert wheel.poll(20 * 410 - 1) == []
    assert wheel.poll(20 * 410) == tasks


@pytest.mark.parametrize("seed", range(10))
def test_order_is_by_tick_then_by_adding_after_any_jump(seed):
    dice = seeded_random(seed)
    tick_ms, wheel_size = dice.choice([1, 7, 20]), dice.choice([2, 3, 20])
    wheel = TimingWheel(tick_ms, wheel_size, start_ms=dice.choice([0, 1675752020558]))
    start_ms = now_ms = wheel.current_time_ms
    pending, expired, expected = [], [], []
    for number in range(2000):
        ticks_ahead = dice.choice([dice.randint(1, 10), 64 - number % 64, dice.randint(1, 5000)])
        expiration_ms = wheel.current_time_ms + ticks_ahead * tick_ms + dice.randrange(tick_ms)
        task = added(wheel, expiration_ms)
        pending.append(((expiration_ms - start_ms) // tick_ms, number, task))
        if dice.random() < 0.05:
            now_ms += dice.choice([1, 10, 3000]) * tick_ms
            due = [one for one in pending if start_ms // tick_ms + one[0] <= now_ms // tick_ms]
            pending = [one for one in pending if start_ms // tick_ms + one[0] > now_ms // tick_ms]
            expected += [task for _, _, task in sorted(due, key=lambda one: one[:2])]
            expired += wheel.poll(now_ms)
    expected += [task for _, _, task in sorted(pending, key=lambda one: one[:2])]
    expired += wheel.poll(2**62)
    assert expired == expected


# --- batches: the call runs at the place of the batch's first expired timer -------------------------------------------


def batch_of(timer, ran, *delays_ms):
    return timer.call_many(array("q", delays_ms), lambda indices: ran.append(list(indices)))


def check(timer):
    if hwheel_core.DEBUG:
        hwheel_core.debug_check(timer)


def test_rescheduled_batch_runs_after_another(ran):
    timer = ManualTimer()
    first, second = batch_of(timer, ran, 0, 0), batch_of(timer, ran, 0, 0, 0)
    first.reschedule(None, 0)
    check(timer)
    timer.advance(0)
    assert ran == [[0, 1, 2], [0, 1]]
    assert len(second) == 3


@pytest.mark.parametrize("seed", range(40))
def test_batch_order_agrees_with_a_list(ran, seed):
    timer = ManualTimer()
    dice = random.Random(seed)
    batches = [batch_of(timer, ran, *[0] * 6) for _ in range(2)]
    pending = [(batch, index) for batch in batches for index in range(6)]
    for step in range(60):
        choice = dice.randrange(4)
        if choice == 0 or not pending:
            timer.call_later(0, ran.append, step)
            pending.append((None, step))
        else:
            batch, index = dice.choice(pending)
            if batch is None:
                continue
            pending.remove((batch, index))
            if choice == 1:
                assert batch.cancel(array("q", [index])) == 1
            else:
                assert batch.reschedule(array("q", [index]), 0) == 1
                pending.append((batch, index))
        check(timer)
    expected, calls = [], {}
    for batch, index in pending:
        if batch is None:
            expected.append(index)
        elif batch in calls:
            calls[batch].append(index)
        else:
            calls[batch] = [index]
            expected.append(calls[batch])
    timer.advance(0)
    assert ran == expected
