"""Who counts a bucket remembers how far it has come while others take entries out. A debug build shows how."""

import threading

import pytest

import hwheel_core
from hwheel import TimerTask, TimingWheel

pytestmark = pytest.mark.skipif(not hwheel_core.DEBUG, reason="a debug build lets count by steps")

LEVEL, BUCKET = 1, 7


def tally(wheel, most, between=int, index=BUCKET):
    return hwheel_core.debug_tally(wheel, LEVEL, index, most, between)


def full():
    wheel = TimingWheel(1, 20, 0)
    return wheel, added(wheel, BUCKET)


def added(wheel, expiration_ms):
    tasks = [TimerTask(0) for _ in range(10)]
    for task in tasks:
        wheel.add(task, expiration_ms)
    return tasks


def once(function):
    """A function that does this the first time that it is called."""
    left = [function]
    return lambda: left and left.pop()()


@pytest.mark.parametrize(("most", "stops"), [(1, 10), (3, 3), (9, 1), (10, 1), (11, 0)])
def test_all_are_counted_a_few_at_a_time(most, stops):
    wheel, tasks = full()
    seen = []
    assert tally(wheel, most, lambda: seen.append(1)) == 10
    assert len(seen) == stops
    assert tally(wheel, most, index=8) == 0


@pytest.mark.parametrize("cancelled", range(10))
def test_a_cancel_of_any_leaves_the_count_of_the_others_right(cancelled):
    """The way is from the end, and three are counted before the cancel."""
    wheel, tasks = full()
    assert tally(wheel, 3, once(tasks[cancelled].cancel)) == (10 if cancelled >= 7 else 9)
    hwheel_core.debug_check(wheel)


def test_what_is_cancelled_around_the_place_is_stepped_over():
    wheel, tasks = full()

    def cancel():
        for number in (6, 5, 8, 4, 0):
            tasks[number].cancel()

    assert tally(wheel, 3, once(cancel)) == 6
    assert tally(wheel, 3, once(lambda: [task.cancel() for task in tasks])) == 3
    assert tally(wheel, 1) == 0


def test_a_bucket_that_is_taken_holds_no_more():
    wheel, tasks = full()

    def next_turn():
        assert len(wheel.poll(BUCKET + 20)) == 10
        wheel.advance_clock(BUCKET + 21)
        added(wheel, BUCKET + 40)

    assert tally(wheel, 3, once(lambda: wheel.poll(BUCKET))) == 3
    wheel.advance_clock(BUCKET + 1)
    added(wheel, BUCKET + 20)  # the same bucket, a turn later
    assert tally(wheel, 3, once(next_turn)) == 3
    assert tally(wheel, 3) == 10


def test_a_bucket_that_others_are_taken_beside_is_counted_on():
    wheel, tasks = full()
    before = added(wheel, BUCKET - 1)
    assert tally(wheel, 3, once(lambda: wheel.poll(BUCKET - 1))) == 10
    assert all(task.expired for task in before)


def test_two_count_at_once_the_same_bucket_and_another():
    wheel, tasks = full()
    other = added(wheel, 8)
    found = []

    def count_too():
        found.append(tally(wheel, 2, once(cancel)))
        found.append(tally(wheel, 2, index=8))

    def cancel():
        tasks[6].cancel()  # where the outer stands, three from the end
        tasks[7].cancel()  # where the inner stands
        other[9].cancel()

    assert tally(wheel, 3, once(count_too)) == 9
    assert found == [8, 9]
    hwheel_core.debug_check(wheel)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0), (2, 0, 1)])
def test_those_who_count_end_in_any_order(order):
    wheel, tasks = full()
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
        tasks[6 - cancelled].cancel()  # where those stand who have not gone on
        cancelled += 1
    hwheel_core.debug_check(wheel)


def test_who_has_gone_away_leaves_no_bookmark():
    wheel, tasks = full()
    with pytest.raises(ZeroDivisionError):
        tally(wheel, 3, lambda: 1 / 0)
    hwheel_core.debug_check(wheel)
    with pytest.raises(AssertionError, match="bookmark"):
        tally(wheel, 3, lambda: hwheel_core.debug_check(wheel))
    hwheel_core.debug_check(wheel)
