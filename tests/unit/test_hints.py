"""A hint names the entry that a cascade, which walks a bucket from its end, reaches 16 steps later. A debug build shows
it."""

import pytest

import hwheel_core
from hwheel import TimerTask, TimingWheel

pytestmark = pytest.mark.skipif(not hwheel_core.DEBUG, reason="a debug build shows hints")

AHEAD = 16


def added(wheel, expiration_ms, count=50):
    tasks = [TimerTask(0) for _ in range(count)]
    for task in tasks:
        assert wheel.add(task, expiration_ms)
    return tasks


def named(task):
    return hwheel_core.debug_hint(task)[1]


def places(tasks):
    return [hwheel_core.debug_hint(task)[0] for task in tasks]


def hints(tasks):
    return [named(task) for task in tasks]


def test_an_added_task_names_the_one_added_so_many_before():
    wheel = TimingWheel(1, 20, 0)
    fine, coarse = [], []
    for _ in range(5):  # into two buckets by turns
        fine += added(wheel, 7, 9)
        coarse += added(wheel, 47, 10)
    assert hints(fine[AHEAD:]) == places(fine[:-AHEAD])
    assert hints(coarse[AHEAD:]) == places(coarse[:-AHEAD])


def test_a_cascade_has_each_name_the_one_that_it_moves_so_many_later():
    wheel = TimingWheel(1, 20, 0)
    one, other = [], []
    for _ in range(5):  # of one bucket, for two ticks by turns
        one += added(wheel, 45, 9)
        other += added(wheel, 46, 10)
    assert wheel.poll(40) == []
    for tasks in one, other:
        assert hints(tasks[AHEAD:]) == places(tasks[:-AHEAD])
        assert hints(tasks[:AHEAD]) == places(tasks[:AHEAD]), "what is moved last names none but itself"


def test_what_is_moved_before_others_and_what_is_added_behind_them_has_each_its_hints():
    wheel = TimingWheel(1, 20, 0)
    oldest = added(wheel, 425)  # on level 3
    wheel.advance_clock(40)
    middle = added(wheel, 425)  # on level 2
    assert wheel.poll(400) == []  # the oldest are pushed in front of the middle
    wheel.advance_clock(419)
    (level,) = [level for level in wheel.snapshot().levels if level.tick_ms == 20]
    assert [bucket.tasks for bucket in level.buckets] == [(*oldest, *middle)]
    assert hints(middle[AHEAD:]) == places(middle[:-AHEAD])
    assert hints(oldest[AHEAD:]) == places(oldest[:-AHEAD])
    assert hints(oldest[:AHEAD]) == places(oldest[:AHEAD])


def test_a_bucket_that_was_taken_remembers_nobody():
    """Its next turn begins anew, though nothing was taken out of the wheel."""
    wheel = TimingWheel(1, 4, 0)
    first = added(wheel, 23)  # level 3: 16..31; then level 2: 20..23; then level 1
    assert wheel.poll(16) == []
    first_moved = hints(first)
    later = added(wheel, 39)  # level 3: 32..47; then level 2: 36..39, the same bucket as 20..23
    assert wheel.poll(20) == []
    assert hints(first[AHEAD:]) == places(first[:-AHEAD]) == first_moved[AHEAD:]
    assert wheel.poll(23) == first
    before = hints(first)
    assert wheel.poll(32) == []
    assert hints(first) == before
    assert hints(later[AHEAD:]) == places(later[:-AHEAD])
    assert hints(later[:AHEAD]) == places(later[:AHEAD])


def test_nor_where_what_it_held_is_due_and_nobody_has_taken_it():
    """Then nothing was taken out of the wheel since, which would make the bucket forget, too."""
    wheel = TimingWheel(1, 4, 0)
    first = added(wheel, 23)  # level 3: 16..31; then level 2: 20..23; then level 1
    wheel.advance_clock(16)
    later = added(wheel, 39)  # level 3: 32..47; then level 2: 36..39, the same bucket as 20..23
    wheel.advance_clock(23)
    before = hints(first)
    wheel.advance_clock(32)
    assert hints(first) == before
    assert hints(later[AHEAD:]) == places(later[:-AHEAD])
    assert hints(later[:AHEAD]) == places(later[:AHEAD])
    assert wheel.poll(39) == first + later


@pytest.mark.parametrize("cancelled_before", [0, 1, 2])
def test_after_a_cancel_no_hint_is_written_where_an_entry_was(cancelled_before):
    wheel = TimingWheel(1, 20, 0)
    for task in added(wheel, 7, cancelled_before):
        assert task.cancel()
    cancelled = added(wheel, 425)
    assert wheel.poll(400) == []  # now in the bucket 420..439 of level 2, which remembers one of them
    before = hints(cancelled)
    for task in cancelled:
        assert task.cancel()
    pending = added(wheel, 825)
    assert wheel.poll(800) == []  # into the same bucket, a turn later
    assert hints(cancelled) == before
    assert hints(pending[AHEAD:]) == places(pending[:-AHEAD])
    assert hints(pending[:AHEAD]) == places(pending[:AHEAD])


def test_entries_from_two_levels_are_one_row_to_a_cascade():
    wheel = TimingWheel(1, 20, 0)
    oldest = added(wheel, 8025, 60)  # on level 4
    wheel.advance_clock(100)
    older = added(wheel, 8025, 60)  # on level 3
    assert wheel.poll(8000) == []  # both go to level 2, the oldest last
    tasks = oldest + older
    assert hints(tasks[AHEAD:]) == places(tasks[:-AHEAD])
    assert hints(tasks[:AHEAD]) == places(tasks[:AHEAD])
