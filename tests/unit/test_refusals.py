"""What cannot be done is refused by a text that says why, and nothing changes."""

from array import array
from fractions import Fraction

import numpy as np
import pytest

from hwheel import ExpiringDict, ManualTimer, SystemTimer, TimerBatch, TimerTask, TimingWheel
from hwheel_core import lateness_of, replay


def int64s(*values):
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    "when", [1e16, 10**400, Fraction(10**400)], ids=["beyond 64 bits", "beyond a float", "a fraction beyond a float"]
)
def test_a_time_beyond_64_bits(when):
    timer = ManualTimer()
    with pytest.raises(OverflowError, match="when does not fit into 64 bits"):
        timer.call_at(when, int)
    with pytest.raises(OverflowError, match="does not fit into 64 bits"):
        timer.call_later(when, int)
    assert (len(timer), timer.stats().added) == (0, 0)


def test_a_clock_that_is_moved_by_hand_does_not_go_back():
    timer = ManualTimer(start_ms=5000)
    with pytest.raises(ValueError, match="the clock does not go back: it stands at 5.0 s"):
        timer.advance_to(4)
    assert timer.time() == 5


@pytest.mark.parametrize(
    ("reading", "error", "text"),
    [(-1, ValueError, "negative"), (2**63, OverflowError, "64 bits"), (1e19, OverflowError, "64 bits")],
)
def test_what_a_callable_clock_cannot_say(reading, error, text):
    readings = [1000]
    with SystemTimer(clock=lambda: readings[0], executor="inline", reaper=False) as timer:
        task = timer.call_later(1, int)
        readings[0] = reading
        with pytest.raises(error, match=text):
            timer.call_later(1, int)
        assert timer.pending() == [task]
        readings[0] = 2000
        timer.advance_clock(0)
        assert task.expired


def test_nothing_is_set_up_twice():
    timer, wheel = ManualTimer(), TimingWheel(1, 20, 0)
    task = timer.call_later(1, int)
    wheel.add(TimerTask(0), 5)
    for made in (timer, wheel):
        with pytest.raises(ValueError, match="has been set up already"):
            made.__init__()
    assert timer.pending() == [task] and len(wheel) == 1


def test_a_wheel_that_an_argument_of_its_own_sets_up():
    wheel = TimingWheel.__new__(TimingWheel)

    class SetsItUp:
        def __index__(self):
            wheel.__init__(7)
            return 5

    with pytest.raises(ValueError, match="has been set up already"):
        wheel.__init__(SetsItUp())
    assert wheel.snapshot().levels[0].tick_ms == 7


def test_a_batch_that_no_timer_has_made():
    with pytest.raises(TypeError, match=r"call_many\(\)"):
        TimerBatch.__new__(TimerBatch).extend(array("q", [1]))


def test_a_dict_gives_no_item_that_it_does_not_have():
    timer = ManualTimer()
    items = ExpiringDict(1, timer=timer)
    items["a"] = 1
    for key in ("b", "a"):
        timer.advance(0.5)
        assert key == "b" or items.pop(key, "lapsed") == "lapsed"
        with pytest.raises(KeyError, match=key):
            items.pop(key)


def test_a_batch_and_a_wheel_say_what_they_hold():
    timer, wheel = ManualTimer(), TimingWheel(1, 20, 0)
    batch = timer.call_many(array("q", [1, 2, 3]), len)
    timer.advance(0.001)
    assert repr(batch) == "<TimerBatch of 3, 2 pending>"
    wheel.add(TimerTask(0), 25)
    assert repr(wheel) == "<TimingWheel level 1, tick_ms=1, wheel_size=20, current_time_ms=0, 1 pending>"
    assert (
        repr(wheel.overflow_wheel) == "<TimingWheel level 2, tick_ms=20, wheel_size=20, current_time_ms=0, 1 pending>"
    )


@pytest.mark.parametrize(
    ("starts", "timeouts", "ends", "order", "error", "text"),
    [
        ([0, 1], [5], [9, 9], [], ValueError, "the columns must have the same length, got 2, 1, and 2"),
        ([5, 3], [5, 5], [9, 9], [0, 1], ValueError, "starts_ms is not ascending at row 1"),
        ([0, 0], [50, 50], [9, 8], [0, 1], ValueError, r"end_order\[\d\] is not a row, or not in order of ends_ms"),
        ([0, 0], [50, 50], [8, 9], [0, 7], ValueError, r"end_order\[\d\] is not a row"),
        ([0, 0], [50, 2**63 - 1], [8, 9], [0, 1], None, ""),
        ([1, 1], [50, 2**63 - 1], [8, 9], [0, 1], OverflowError, "the times of row 1 do not fit into 64 bits"),
    ],
)
def test_columns_that_cannot_be_replayed(starts, timeouts, ends, order, error, text):
    columns = [int64s(*column) for column in (starts, timeouts, ends, order)]
    if error is None:
        assert list(replay(*columns, 1, 20)[0]) == [1, 1]
    else:
        with pytest.raises(error, match=text):
            replay(*columns, 1, 20)


def test_a_histogram_of_another_length():
    with pytest.raises(ValueError, match="a histogram of lateness must have [0-9]+ items, not 3"):
        lateness_of(int64s(1, 2, 3))
