"""The behaviours that Kafka's own tests of its timer ask for."""

import time
from array import array

import pytest

from hwheel import ManualTimer, SystemTimer, TimerTask, TimingWheel

DELAYS_MS = [*range(5), *(delay for delay in range(10, 100) for _ in range(2)), *range(100, 500)]


def test_the_list_of_delays_has_585_tasks():
    assert len(DELAYS_MS) == 585


def test_tasks_with_delays_from_minus_5_to_minus_1_all_run_at_once_in_virtual_time(ran):
    timer = ManualTimer(tick_ms=1, wheel_size=3)
    for delay_ms in range(-5, 0):
        timer.add(TimerTask(delay_ms, ran.append, delay_ms))
    timer.advance(0)
    assert ran == [-5, -4, -3, -2, -1]
    assert len(timer) == 0


def test_tasks_with_delays_from_minus_5_to_minus_1_all_run_at_once_on_a_real_clock(ran):
    with SystemTimer(tick_ms=1, wheel_size=3, executor="inline", reaper=False) as timer:
        for delay_ms in range(-5, 0):
            timer.add(TimerTask(delay_ms, ran.append, delay_ms))
        assert ran == []  # never in the caller of add
        assert timer.advance_clock(0)
        assert ran == [-5, -4, -3, -2, -1]
        assert not timer.advance_clock(0)


@pytest.mark.parametrize("executor", ["inline", None])
def test_585_tasks_each_run_exactly_once_in_order_of_their_time_on_a_real_clock(executor, ran):
    timer = SystemTimer("kafka", tick_ms=1, wheel_size=3, executor=executor, reaper=False)
    tasks = [timer.add(TimerTask(delay_ms, ran.append, place)) for place, delay_ms in enumerate(DELAYS_MS)]
    give_up = time.monotonic() + 60
    while len(timer) and time.monotonic() < give_up:
        timer.advance_clock(200)
    assert timer.close() == []
    assert ran == list(range(585))
    assert all(task.expired for task in tasks)
    assert timer.stats()[:3] == (585, 585, 0)


def test_585_tasks_each_run_exactly_once_on_their_very_tick_in_virtual_time(ran):
    timer = ManualTimer(tick_ms=1, wheel_size=3)
    for place, delay_ms in enumerate(DELAYS_MS):
        timer.add(TimerTask(delay_ms, lambda place: ran.append((place, round(timer.time() * 1000))), place))
    timer.advance(0.499)
    assert ran == list(enumerate(DELAYS_MS))
    assert timer.stats()[:3] == (585, 585, 0)


def test_585_timers_of_a_batch_each_run_exactly_once_in_virtual_time(ran):
    timer = ManualTimer(tick_ms=1, wheel_size=3)
    timer.call_many(array("q", DELAYS_MS), ran.extend)
    timer.advance(0.499)
    assert ran == list(range(585))


# --- a wheel of tick 10, 5 buckets, from 1000 ----------------------------------------------------------------------


def wheel_from_1000():
    return TimingWheel(tick_ms=10, wheel_size=5, start_ms=1000)


def test_a_wheel_at_1000_takes_1020_and_refuses_999_and_1005():
    wheel = wheel_from_1000()
    accepted, past, current = TimerTask(20), TimerTask(-1), TimerTask(5)
    assert wheel.add(accepted, 1020)
    assert not wheel.add(past, 999)
    assert not wheel.add(current, 1005)
    assert (accepted.pending, past.expired, current.expired) == (True, True, True)
    assert len(wheel) == 1


def test_a_cancelled_task_is_refused():
    wheel = wheel_from_1000()
    task = TimerTask(20)
    assert task.cancel()
    assert not wheel.add(task, 1020)
    assert task.cancelled
    assert len(wheel) == 0


def test_the_clock_stays_at_1000_for_1005_and_moves_to_1010_for_1010():
    wheel = wheel_from_1000()
    wheel.advance_clock(1005)
    assert wheel.current_time_ms == 1000
    wheel.advance_clock(1010)
    assert wheel.current_time_ms == 1010
    wheel.advance_clock(1000)
    assert wheel.current_time_ms == 1010


def test_the_overflow_wheel_is_made_for_1060_and_serves_1061_too():
    wheel = wheel_from_1000()
    wheel.advance_clock(1010)
    assert wheel.overflow_wheel is None
    assert wheel.add(TimerTask(50), 1059)
    assert wheel.overflow_wheel is None
    assert wheel.add(TimerTask(50), 1060)
    overflow_wheel = wheel.overflow_wheel
    assert (overflow_wheel.tick_ms, overflow_wheel.interval_ms, overflow_wheel.current_time_ms) == (50, 250, 1000)
    assert wheel.add(TimerTask(51), 1061)
    assert wheel.overflow_wheel is overflow_wheel
    assert overflow_wheel.overflow_wheel is None
    assert len(overflow_wheel) == 2


def test_after_advance_clock_to_1060_the_clocks_read_1060_and_1050():
    wheel = wheel_from_1000()
    wheel.add(TimerTask(60), 1060)
    wheel.advance_clock(1060)
    assert (wheel.current_time_ms, wheel.overflow_wheel.current_time_ms) == (1060, 1050)
