"""Internals that only a debug build shows: cascades in steps, bookmarks of counts, and prefetch hints."""

import threading

import pytest

import hwheel_core
from hwheel import TimerTask, TimingWheel

# --- a cascade proceeds in steps of limited size and releases the lock between them -----------------------------------

pytestmark = pytest.mark.skipif(not hwheel_core.DEBUG, reason="needs a debug build")


def added_at(wheel, *times_ms):
    tasks = [TimerTask(0) for _ in times_ms]
    for task, expiration_ms in zip(tasks, times_ms, strict=True):
        assert wheel.add(task, expiration_ms)
    return tasks


def step(wheel, now_ms, budget):
    return hwheel_core.debug_step(wheel, now_ms, budget)


def test_bucket_larger_than_the_budget_takes_several_steps():
    wheel = TimingWheel(1, 20, 0)
    tasks = added_at(wheel, *[45] * 25)
    assert step(wheel, 39, 10) == ("done", 10, 0, 40, True)
    # The bucket costs one unit, and so does each entry.
    assert step(wheel, 45, 10) == ("more", 0, 9, 40, False)
    assert step(wheel, 45, 10) == ("more", 0, 10, 40, False)
    # The rest of the bucket, and then the bucket of the tick.
    assert step(wheel, 44, 10) == ("done", 4, 6, 45, True)
    assert step(wheel, 45, 0) == ("more", 0, 0, 45, True)
    assert step(wheel, 45, 1) == ("tick", 0, 0, 45, False)
    assert wheel.poll(45) == tasks
    hwheel_core.debug_check(wheel)


def test_budget_that_ends_with_the_last_entry_of_a_bucket():
    wheel = TimingWheel(1, 20, 0)
    tasks = added_at(wheel, *[45] * 25)
    assert step(wheel, 44, 26) == ("done", 0, 25, 45, True)
    assert wheel.poll(45) == tasks
    hwheel_core.debug_check(wheel)


def test_step_that_ends_within_a_bucket_asks_for_another():
    wheel = TimingWheel(1, 20, 0)
    later, tasks = added_at(wheel, *[45] * 5), added_at(wheel, *[40] * 5)
    # The last entries are placed first. All entries of tick 40 are due before the bucket is empty.
    assert step(wheel, 40, 4) == ("more", 0, 3, 40, False)
    assert step(wheel, 40, 4) == ("more", 0, 4, 40, False)
    assert step(wheel, 40, 4) == ("tick", 1, 3, 40, False)
    assert wheel.poll(40) == tasks
    far = added_at(wheel, *[65] * 5)
    assert wheel.poll(45) == later
    assert step(wheel, 60, 4) == ("more", 0, 3, 60, False)
    assert step(wheel, 60, 4) == ("done", 2, 2, 65, True)
    assert wheel.poll(65) == far
    hwheel_core.debug_check(wheel)


def test_each_tick_is_dispatched_separately():
    wheel = TimingWheel(1, 20, 0)
    tasks = added_at(wheel, 3, 4, 5)
    assert step(wheel, 5, 10) == ("tick", 9, 0, 3, False)
    assert step(wheel, 5, 10) == ("tick", 10, 0, 3, False)  # not polled yet
    assert wheel.poll(4) == tasks[:2]
    assert step(wheel, 5, 1) == ("tick", 0, 0, 5, False)
    assert wheel.poll(5) == tasks[2:]
    assert step(wheel, 5, 10) == ("done", 10, 0, None, True)
    hwheel_core.debug_check(wheel)


def test_emptied_bucket_costs_nothing():
    wheel = TimingWheel(1, 20, 0)
    (emptied, task) = added_at(wheel, 3, 4)
    emptied.cancel()
    assert step(wheel, 5, 1) == ("tick", 0, 0, 4, False)
    assert wheel.poll(5) == [task]
    hwheel_core.debug_check(wheel)


def test_tick_is_complete_after_coarser_buckets_are_placed():
    wheel = TimingWheel(1, 20, 0)
    early = added_at(wheel, 400)  # on level 3
    wheel.advance_clock(20)
    middle = added_at(wheel, 400)  # on level 2
    wheel.advance_clock(390)
    late = added_at(wheel, 400)  # on level 1
    # Three buckets; the entries of two of them are placed and due.
    assert step(wheel, 400, 3) == ("more", 0, 1, 400, False)
    assert step(wheel, 400, 3) == ("tick", 1, 1, 400, False)
    assert wheel.poll(400) == early + middle + late
    hwheel_core.debug_check(wheel)


def test_step_without_pending_tasks_keeps_its_budget():
    wheel = TimingWheel(1, 20, 0)
    assert step(wheel, 1000, 7) == ("done", 7, 0, None, True)
    assert step(wheel, 1000, 0) == ("done", 0, 0, None, True)
    hwheel_core.debug_check(wheel)


def test_tick_is_incomplete_while_a_coarser_bucket_holds_more():
    """A task added to this tick now runs after those in the coarser bucket."""
    wheel = TimingWheel(1, 20, 0)
    early = added_at(wheel, 400)  # on level 3
    wheel.advance_clock(390)
    (late,) = added_at(wheel, 400)  # on level 1
    assert step(wheel, 400, 1) == ("more", 0, 0, 400, False)
    assert late.cancel()
    assert step(wheel, 400, 0) == ("more", 0, 0, 400, False)
    assert wheel.poll(400) == early
    hwheel_core.debug_check(wheel)


# --- a count of a bucket keeps a bookmark while other threads remove entries ------------------------------------------

LEVEL, BUCKET = 1, 7


def tally(wheel, most, between=int, index=BUCKET):
    return hwheel_core.debug_tally(wheel, LEVEL, index, most, between)


def full_bucket():
    wheel = TimingWheel(1, 20, 0)
    return wheel, added(wheel, BUCKET)


def added(wheel, expiration_ms, count=10):
    tasks = [TimerTask(0) for _ in range(count)]
    for task in tasks:
        assert wheel.add(task, expiration_ms)
    return tasks


def once(function):
    """Return a function that calls this one the first time only."""
    left = [function]
    return lambda: left and left.pop()()


@pytest.mark.parametrize(("most", "stops"), [(1, 10), (3, 3), (9, 1), (10, 1), (11, 0)])
def test_count_in_portions(most, stops):
    wheel, tasks = full_bucket()
    seen = []
    assert tally(wheel, most, lambda: seen.append(1)) == 10
    assert len(seen) == stops
    assert tally(wheel, most, index=8) == 0


@pytest.mark.parametrize("cancelled", range(10))
def test_cancel_during_a_count_leaves_the_rest_counted(cancelled):
    # The count starts at the end; three entries are counted before the cancel.
    wheel, tasks = full_bucket()
    assert tally(wheel, 3, once(tasks[cancelled].cancel)) == (10 if cancelled >= 7 else 9)
    hwheel_core.debug_check(wheel)


def test_bookmark_skips_cancelled_neighbors():
    wheel, tasks = full_bucket()

    def cancel():
        for number in (6, 5, 8, 4, 0):
            tasks[number].cancel()

    assert tally(wheel, 3, once(cancel)) == 6
    assert tally(wheel, 3, once(lambda: [task.cancel() for task in tasks])) == 3
    assert tally(wheel, 1) == 0


def test_count_ends_when_the_bucket_expires():
    wheel, tasks = full_bucket()

    def next_turn():
        assert len(wheel.poll(BUCKET + 20)) == 10
        wheel.advance_clock(BUCKET + 21)
        added(wheel, BUCKET + 40)

    assert tally(wheel, 3, once(lambda: wheel.poll(BUCKET))) == 3
    wheel.advance_clock(BUCKET + 1)
    added(wheel, BUCKET + 20)  # the same bucket, a turn later
    assert tally(wheel, 3, once(next_turn)) == 3
    assert tally(wheel, 3) == 10


def test_count_continues_when_another_bucket_expires():
    wheel, tasks = full_bucket()
    before = added(wheel, BUCKET - 1)
    assert tally(wheel, 3, once(lambda: wheel.poll(BUCKET - 1))) == 10
    assert all(task.expired for task in before)


def test_nested_counts():
    wheel, tasks = full_bucket()
    other = added(wheel, 8)
    found = []

    def count_inside():
        found.append(tally(wheel, 2, once(cancel)))
        found.append(tally(wheel, 2, index=8))

    def cancel():
        tasks[6].cancel()  # bookmark of the outer count
        tasks[7].cancel()  # bookmark of the inner count
        other[9].cancel()

    assert tally(wheel, 3, once(count_inside)) == 9
    assert found == [8, 9]
    hwheel_core.debug_check(wheel)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0), (2, 0, 1)])
def test_concurrent_counts_end_in_any_order(order):
    wheel, tasks = full_bucket()
    stops = [threading.Event() for _ in range(3)]
    starts = [threading.Event() for _ in range(3)]
    found = [None] * 3

    def count(number):
        def wait():
            starts[number].set()
            assert stops[number].wait(60)

        found[number] = tally(wheel, 3, once(wait))

    threads = [threading.Thread(target=count, args=(number,)) for number in range(3)]
    for thread, start in zip(threads, starts, strict=True):
        thread.start()
        assert start.wait(60)
    cancelled = 0
    for number in order:
        stops[number].set()
        threads[number].join(60)
        assert found[number] == 10 - cancelled
        tasks[6 - cancelled].cancel()  # bookmark of the counts that still wait
        cancelled += 1
    hwheel_core.debug_check(wheel)


def test_failed_count_leaves_no_bookmark():
    wheel, tasks = full_bucket()
    with pytest.raises(ZeroDivisionError):
        tally(wheel, 3, lambda: 1 / 0)
    hwheel_core.debug_check(wheel)
    with pytest.raises(AssertionError, match="bookmark"):
        tally(wheel, 3, lambda: hwheel_core.debug_check(wheel))
    hwheel_core.debug_check(wheel)


# --- a hint names the entry that a cascade reaches 16 steps later, walking from the end of the bucket -----------------

AHEAD = 16


def named(task):
    return hwheel_core.debug_hint(task)[1]


def places(tasks):
    return [hwheel_core.debug_hint(task)[0] for task in tasks]


def hints(tasks):
    return [named(task) for task in tasks]


def test_hint_of_an_added_task():
    wheel = TimingWheel(1, 20, 0)
    fine, coarse = [], []
    for _ in range(5):  # alternate between two buckets
        fine += added(wheel, 7, 9)
        coarse += added(wheel, 47, 10)
    assert hints(fine[AHEAD:]) == places(fine[:-AHEAD])
    assert hints(coarse[AHEAD:]) == places(coarse[:-AHEAD])


def test_hints_after_a_cascade():
    wheel = TimingWheel(1, 20, 0)
    one, other = [], []
    for _ in range(5):  # one bucket, alternating between two ticks
        one += added(wheel, 45, 9)
        other += added(wheel, 46, 10)
    assert wheel.poll(40) == []
    for tasks in one, other:
        assert hints(tasks[AHEAD:]) == places(tasks[:-AHEAD])
        assert hints(tasks[:AHEAD]) == places(tasks[:AHEAD]), "the last entries name themselves"


def test_hints_of_entries_placed_before_others():
    wheel = TimingWheel(1, 20, 0)
    oldest = added(wheel, 425, 50)  # on level 3
    wheel.advance_clock(40)
    middle = added(wheel, 425, 50)  # on level 2
    assert wheel.poll(400) == []  # the oldest are placed before the middle
    wheel.advance_clock(419)
    (level,) = [level for level in wheel.snapshot().levels if level.tick_ms == 20]
    assert [bucket.tasks for bucket in level.buckets] == [(*oldest, *middle)]
    assert hints(middle[AHEAD:]) == places(middle[:-AHEAD])
    assert hints(oldest[AHEAD:]) == places(oldest[:-AHEAD])
    assert hints(oldest[:AHEAD]) == places(oldest[:AHEAD])


def test_expired_bucket_starts_without_hints():
    wheel = TimingWheel(1, 4, 0)
    first = added(wheel, 23, 50)  # level 3: 16..31; then level 2: 20..23; then level 1
    assert wheel.poll(16) == []
    first_moved = hints(first)
    later = added(wheel, 39, 50)  # level 3: 32..47; then level 2: 36..39, the same bucket as 20..23
    assert wheel.poll(20) == []
    assert hints(first[AHEAD:]) == places(first[:-AHEAD]) == first_moved[AHEAD:]
    assert wheel.poll(23) == first
    before = hints(first)
    assert wheel.poll(32) == []
    assert hints(first) == before
    assert hints(later[AHEAD:]) == places(later[:-AHEAD])
    assert hints(later[:AHEAD]) == places(later[:AHEAD])


@pytest.mark.parametrize("cancelled_before", [0, 1, 2])
def test_no_hint_is_written_to_a_cancelled_entry(cancelled_before):
    wheel = TimingWheel(1, 20, 0)
    for task in added(wheel, 7, cancelled_before):
        assert task.cancel()
    cancelled = added(wheel, 425, 50)
    assert wheel.poll(400) == []  # now in bucket 420..439 of level 2, which remembers one entry
    before = hints(cancelled)
    for task in cancelled:
        assert task.cancel()
    pending = added(wheel, 825, 50)
    assert wheel.poll(800) == []  # into the same bucket, a turn later
    assert hints(cancelled) == before
    assert hints(pending[AHEAD:]) == places(pending[:-AHEAD])
    assert hints(pending[:AHEAD]) == places(pending[:AHEAD])
