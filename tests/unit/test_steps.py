"""A cascade goes on by steps, each of so many entries and buckets at most, so that others come to the lock in between.
A debug build shows them."""

import pytest

import hwheel_core
from hwheel import TimerTask, TimingWheel

pytestmark = pytest.mark.skipif(not hwheel_core.DEBUG, reason="a debug build goes on by steps")


def added(wheel, *times_ms):
    tasks = [TimerTask(0) for _ in times_ms]
    for task, expiration_ms in zip(tasks, times_ms, strict=True):
        assert wheel.add(task, expiration_ms)
    return tasks


def step(wheel, now_ms, budget):
    return hwheel_core.debug_step(wheel, now_ms, budget)


def test_a_bucket_is_placed_in_as_many_steps_as_its_budget_allows():
    wheel = TimingWheel(1, 20, 0)
    tasks = added(wheel, *[45] * 25)
    assert step(wheel, 39, 10) == ("done", 10, 0, 40, True)
    # The bucket costs one, and so does each entry.
    assert step(wheel, 45, 10) == ("more", 0, 9, 40, False)
    assert step(wheel, 45, 10) == ("more", 0, 10, 40, False)
    # What is left of it, and then the bucket of the tick.
    assert step(wheel, 44, 10) == ("done", 4, 6, 45, True)
    assert step(wheel, 45, 0) == ("more", 0, 0, 45, True)
    assert step(wheel, 45, 1) == ("tick", 0, 0, 45, False)
    assert wheel.poll(45) == tasks
    hwheel_core.debug_check(wheel)


def test_a_budget_that_is_used_up_with_the_last_entry_of_a_bucket():
    wheel = TimingWheel(1, 20, 0)
    tasks = added(wheel, *[45] * 25)
    assert step(wheel, 44, 26) == ("done", 0, 25, 45, True)
    assert wheel.poll(45) == tasks
    hwheel_core.debug_check(wheel)


def test_a_step_that_ends_within_a_bucket_says_so_where_nothing_else_is_due():
    wheel = TimingWheel(1, 20, 0)
    later, tasks = added(wheel, *[45] * 5), added(wheel, *[40] * 5)
    # What was added last is placed first: the whole tick of 40 is due before the bucket is empty, and is no tick yet.
    assert step(wheel, 40, 4) == ("more", 0, 3, 40, False)
    assert step(wheel, 40, 4) == ("more", 0, 4, 40, False)
    assert step(wheel, 40, 4) == ("tick", 1, 3, 40, False)
    assert wheel.poll(40) == tasks
    far = added(wheel, *[65] * 5)
    assert wheel.poll(45) == later
    assert step(wheel, 60, 4) == ("more", 0, 3, 60, False)
    assert step(wheel, 60, 4) == ("done", 2, 2, 65, True)
    assert wheel.poll(65) == far
    hwheel_core.debug_check(wheel)


def test_each_tick_is_handed_out_by_itself():
    wheel = TimingWheel(1, 20, 0)
    tasks = added(wheel, 3, 4, 5)
    assert step(wheel, 5, 10) == ("tick", 9, 0, 3, False)
    assert step(wheel, 5, 10) == ("tick", 10, 0, 3, False)  # it is still there
    assert wheel.poll(4) == tasks[:2]
    assert step(wheel, 5, 1) == ("tick", 0, 0, 5, False)
    assert wheel.poll(5) == tasks[2:]
    assert step(wheel, 5, 10) == ("done", 10, 0, None, True)
    hwheel_core.debug_check(wheel)


def test_an_emptied_bucket_costs_nothing():
    wheel = TimingWheel(1, 20, 0)
    (emptied, task) = added(wheel, 3, 4)
    emptied.cancel()
    assert step(wheel, 5, 1) == ("tick", 0, 0, 4, False)
    assert wheel.poll(5) == [task]
    hwheel_core.debug_check(wheel)


def test_a_tick_is_whole_only_when_coarser_buckets_for_it_are_placed():
    wheel = TimingWheel(1, 20, 0)
    early = added(wheel, 400)  # on level 3
    wheel.advance_clock(20)
    middle = added(wheel, 400)  # on level 2
    wheel.advance_clock(390)
    late = added(wheel, 400)  # on level 1
    # Three buckets; the entries of two of them go through placement and are due.
    assert step(wheel, 400, 3) == ("more", 0, 1, 400, False)
    assert step(wheel, 400, 3) == ("tick", 1, 1, 400, False)
    assert wheel.poll(400) == early + middle + late
    hwheel_core.debug_check(wheel)


def test_nothing_pending_is_done_with_the_whole_budget():
    wheel = TimingWheel(1, 20, 0)
    assert step(wheel, 1000, 7) == ("done", 7, 0, None, True)
    assert step(wheel, 1000, 0) == ("done", 0, 0, None, True)
    hwheel_core.debug_check(wheel)


def test_a_tick_of_which_all_that_fell_due_was_cancelled_is_not_over_while_a_coarser_bucket_holds_more():
    """Whoever is added at this tick now goes behind what that bucket holds."""
    wheel = TimingWheel(1, 20, 0)
    early = added(wheel, 400)  # on level 3
    wheel.advance_clock(390)
    (late,) = added(wheel, 400)  # on level 1
    assert step(wheel, 400, 1) == ("more", 0, 0, 400, False)
    assert late.cancel()
    assert step(wheel, 400, 0) == ("more", 0, 0, 400, False)
    assert wheel.poll(400) == early
    hwheel_core.debug_check(wheel)
