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
