"""The account finds what is lost, doubled or early."""

from hwheel.cli.demo.account import account


def test_a_clean_run_is_clean():
    found = account([1.0, 2.0, 3.0], [(0, 1.0), (2, 3.5)], [1])
    assert found == (3, 2, 1, 0, 0, 0)
    assert found.is_clean


def test_a_timer_that_neither_ran_nor_was_cancelled_is_lost():
    found = account([1.0, 2.0, 3.0], [(0, 1.5)], [2])
    assert (found.lost, found.doubled, found.early) == (1, 0, 0)
    assert not found.is_clean


def test_a_timer_that_ran_twice_is_doubled_once():
    found = account([1.0, 2.0], [(0, 1.5), (0, 1.6), (0, 1.7), (1, 2.5)], [])
    assert (found.ran, found.lost, found.doubled, found.early) == (2, 0, 1, 0)
    assert not found.is_clean


def test_a_timer_that_ran_although_its_cancel_came_in_time_is_doubled():
    found = account([1.0], [(0, 1.5)], [0])
    assert (found.lost, found.doubled, found.early) == (0, 1, 0)


def test_a_timer_that_was_cancelled_twice_is_doubled():
    assert account([1.0], [], [0, 0]).doubled == 1


def test_a_timer_that_ran_before_its_deadline_is_early_and_on_its_deadline_is_not():
    found = account([1.0, 2.0], [(0, 0.999999), (1, 2.0)], [])
    assert (found.lost, found.doubled, found.early) == (0, 0, 1)
    assert not found.is_clean


def test_no_timers_are_a_clean_run():
    assert account([], [], []).is_clean
