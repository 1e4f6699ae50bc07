"""next_deadline: when a timer has something to do next."""

import pytest

from hwheel import ManualTimer, SystemTimer


def test_it_is_the_tick_of_the_first_task_where_that_is_near():
    timer = ManualTimer()
    assert timer.next_deadline is None
    first = timer.call_later(0.25, int)
    timer.call_later(0.3, int)
    assert timer.next_deadline == 0.25
    first.cancel()
    assert timer.next_deadline == 0.3
    timer.advance(0.3)
    assert timer.next_deadline is None


def test_it_is_not_after_the_first_task_where_that_is_far():
    timer = ManualTimer(wheel_size=20)
    timer.call_later(7.777, int)
    while len(timer):
        assert timer.time() <= timer.next_deadline <= 7.777
        timer.advance_to(timer.next_deadline)
    assert timer.time() == 7.777


def test_what_waits_for_its_run_has_been_due():
    timer = ManualTimer()
    timer.advance(5)
    timer.call_later(0, int)
    assert timer.next_deadline == 5
    timer.call_many(memoryview(b"\0" * 16).cast("q"), print)
    assert timer.next_deadline == 5


def test_of_a_timer_that_is_closed_or_was_never_set_up(hand_clock):
    with SystemTimer(clock=hand_clock) as timer:
        timer.call_later(100, int)
    assert timer.next_deadline is None
    with pytest.raises(RuntimeError, match="not been set up"):
        print(SystemTimer.__new__(SystemTimer).next_deadline)
