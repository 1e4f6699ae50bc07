"""What a closed timer and one that was never set up say, and kinds of bool that are none of Python's."""

from array import array
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy
import pytest

from hwheel import DelayQueue, ExpiringDict, ManualTimer, SystemTimer, TimerClosed, TimerTask


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


@pytest.mark.parametrize("make", [lambda timer: ExpiringDict(1, timer=timer), lambda timer: DelayQueue(timer=timer)])
def test_what_waits_in_this_process_wants_a_timer_that_runs_here(make):
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        SystemTimer(executor=pool) as timer,
        pytest.raises(ValueError, match="an executor of processes"),
    ):
        make(timer)


def test_a_ctrl_c_while_on_error_is_at_work_is_raised():
    def interrupted(source, error):
        raise KeyboardInterrupt

    with SystemTimer(reaper=False, executor="inline", on_error=interrupted) as timer:
        timer.call_later(0, lambda: 1 / 0)
        with pytest.raises(KeyboardInterrupt):
            timer.advance_clock(0)


def test_a_numpy_bool_is_no_number_of_seconds():
    timer = ManualTimer()
    for call in (timer.call_later, timer.call_at, timer.call_every):
        with pytest.raises(TypeError, match="number of seconds"):
            call(numpy.bool_(True), print)
    assert len(timer) == 0


@pytest.mark.parametrize(
    "use",
    [
        lambda timer: timer.call_later(1, print),
        lambda timer: timer.call_at(1, print),
        lambda timer: timer.call_every(1, print),
        lambda timer: timer.call_many(array("q", [1]), print),
        lambda timer: timer.add(TimerTask(1)),
        lambda timer: timer.advance_clock(0),
        lambda timer: timer.drain(),
        lambda timer: timer.dump(),
        lambda timer: timer.load(b""),
        lambda timer: timer.group(),
        lambda timer: timer.stats(),
        lambda timer: timer.time(),
        lambda timer: timer.next_deadline(),
        len,
    ],
)
def test_a_timer_that_was_never_set_up_says_so(use):
    timer = SystemTimer.__new__(SystemTimer)
    with pytest.raises(RuntimeError, match="has not been set up|the timer is closed"):
        use(timer)
    assert repr(timer) == "<SystemTimer, not set up>"
    assert timer.close() == []
