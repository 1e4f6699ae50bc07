"""What a closed ManualTimer says to advance, and kinds of bool that are none of Python's."""

import numpy
import pytest

from hwheel import ManualTimer, TimerClosed


def test_a_closed_manual_timer_cannot_be_advanced():
    timer = ManualTimer(start_ms=5)
    timer.close()
    with pytest.raises(TimerClosed):
        timer.advance(0.001)
    assert timer.time() == 0.005


def test_a_callback_that_closes_its_timer_ends_the_advance():
    timer = ManualTimer()
    timer.call_later(0.001, timer.close)
    later = timer.call_later(0.002, pytest.fail, "it was closed")
    timer.advance(0.01)
    assert timer.closed and later.cancelled


def test_a_numpy_bool_is_no_number_of_seconds():
    timer = ManualTimer()
    for call in (timer.call_later, timer.call_at, timer.call_every):
        with pytest.raises(TypeError, match="number of seconds"):
            call(numpy.bool_(True), print)
    assert len(timer) == 0
