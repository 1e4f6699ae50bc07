"""A batch's one call comes where the first of its timers that are still there stands among what is due."""

import random
from array import array

import pytest

import hwheel_core
from hwheel import ManualTimer


def batch_of(timer, ran, *delays_ms):
    return timer.call_many(array("q", delays_ms), lambda indices: ran.append(list(indices)))


def check(timer):
    if hwheel_core.DEBUG:
        hwheel_core.debug_check(timer)


def test_all_moved_to_now_one_by_one_come_behind_what_was_added_meanwhile(ran):
    timer = ManualTimer()
    batch = batch_of(timer, ran, 0, 0, 0)
    timer.call_later(0, ran.append, "task")
    for index in (1, 2, 0):
        assert batch.reschedule(array("q", [index]), 0) == 1
        check(timer)
    timer.advance(0)
    assert ran == ["task", [1, 2, 0]]


def test_all_moved_to_now_in_one_call_come_behind_what_was_added_meanwhile(ran):
    timer = ManualTimer()
    batch = batch_of(timer, ran, 0, 0, 0)
    timer.call_later(0, ran.append, "task")
    assert batch.reschedule(None, 0) == 3
    timer.advance(0)
    assert ran == ["task", [0, 1, 2]]


def test_the_place_of_the_first_is_lost_with_it(ran):
    timer = ManualTimer()
    batch = batch_of(timer, ran, 0, 1000)
    timer.call_later(0, ran.append, "task")
    batch.reschedule(array("q", [1]), 0)  # behind the task
    batch.cancel(array("q", [0]))
    check(timer)
    timer.advance(0)
    assert ran == ["task", [1]]


def test_the_next_of_a_run_takes_the_place_of_the_first(ran):
    timer = ManualTimer()
    batch = batch_of(timer, ran, 0, 0, 0)
    timer.call_later(0, ran.append, "task")
    batch.cancel(array("q", [1]))
    batch.cancel(array("q", [0]))
    check(timer)
    timer.advance(0)
    assert ran == [[2], "task"]


def test_two_batches_change_places(ran):
    timer = ManualTimer()
    first, second = batch_of(timer, ran, 0, 0), batch_of(timer, ran, 0, 0, 0)
    first.reschedule(None, 0)
    check(timer)
    timer.advance(0)
    assert ran == [[0, 1, 2], [0, 1]]
    assert len(second) == 3


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_moved_and_cancelled_at_one_tick_the_order_is_that_of_coming(ran, seed):
    timer = ManualTimer()
    dice = random.Random(seed)
    batches = [batch_of(timer, ran, *[0] * 6) for _ in range(2)]
    standing = [(batch, index) for batch in batches for index in range(6)]
    for step in range(60):
        what = dice.randrange(4)
        if what == 0 or not standing:
            timer.call_later(0, ran.append, step)
            standing.append((None, step))
        else:
            batch, index = dice.choice(standing)
            if batch is None:
                continue
            standing.remove((batch, index))
            if what == 1:
                assert batch.cancel(array("q", [index])) == 1
            else:
                assert batch.reschedule(array("q", [index]), 0) == 1
                standing.append((batch, index))
        check(timer)
    expected, calls = [], {}
    for batch, index in standing:
        if batch is None:
            expected.append(index)
        elif batch in calls:
            calls[batch].append(index)
        else:
            calls[batch] = [index]
            expected.append(calls[batch])
    timer.advance(0)
    assert ran == expected
