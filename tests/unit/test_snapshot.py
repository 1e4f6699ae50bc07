"""snapshot(), the views of the levels, and the bucket counts of a live page."""

import random
from array import array

import pytest

from hwheel import ManualTimer, TimerTask, TimingWheel


def test_empty_wheel_has_one_empty_level():
    snapshot = TimingWheel(tick_ms=20, wheel_size=10, start_ms=1005).snapshot()
    (level,) = snapshot.levels
    assert level == (20, 200, 1000, ())
    assert snapshot.queue == ()


def test_snapshot_is_immutable():
    wheel = TimingWheel()
    task = TimerTask(5)
    wheel.add(task, 5)
    snapshot = wheel.snapshot()
    with pytest.raises(AttributeError):
        snapshot.levels = ()
    with pytest.raises(AttributeError):
        snapshot.levels[0].buckets = ()
    with pytest.raises(AttributeError):
        snapshot.queue[0].tasks = ()
    wheel.poll(5)
    assert snapshot.queue[0].tasks == (task,)
    assert wheel.snapshot().queue == ()


def test_overflow_wheel_is_a_view_from_its_level_up():
    wheel = TimingWheel(tick_ms=1, wheel_size=20, start_ms=30)
    assert wheel.overflow_wheel is None
    for expiration_ms in (35, 60, 61, 5000):
        wheel.add(TimerTask(0), expiration_ms)
    second = wheel.overflow_wheel
    third = second.overflow_wheel
    assert isinstance(second, TimingWheel)
    assert (second.tick_ms, second.wheel_size, second.interval_ms, second.current_time_ms) == (20, 20, 400, 20)
    assert (third.tick_ms, third.wheel_size, third.interval_ms, third.current_time_ms) == (400, 20, 8000, 0)
    assert third.overflow_wheel is None
    assert (len(wheel), len(second), len(third)) == (4, 3, 1)
    assert second.snapshot().levels == wheel.snapshot().levels[1:]
    assert third.snapshot().levels == wheel.snapshot().levels[2:]
    assert wheel.overflow_wheel is second


def test_view_is_read_only():
    wheel = TimingWheel()
    wheel.add(TimerTask(0), 60)
    before = wheel.snapshot()
    view = wheel.overflow_wheel
    for call in (lambda: view.add(TimerTask(0), 70), lambda: view.advance_clock(40), lambda: view.poll(60)):
        with pytest.raises(TypeError, match="view"):
            call()
    assert wheel.snapshot() == before


def test_view_outlives_its_wheel():
    wheel = TimingWheel()
    wheel.add(TimerTask(0), 60)
    view = wheel.overflow_wheel
    del wheel
    assert view.tick_ms == 20
    assert view.snapshot().queue == ()


# --- bucket counts of a timer -----------------------------------------------------------------------------------------

COLUMNS = 60


def bars_of(wheel):
    """Return {level: {bucket's offset from the clock of its level: number of tasks}} of a wheel."""
    return {
        number: {(one.expiration_ms - level.current_time_ms) // level.tick_ms: len(one.tasks) for one in level.buckets}
        for number, level in enumerate(wheel.snapshot().levels, 1)
    }


@pytest.mark.parametrize("wheel_size", [2, 20, 59, 60, 61, 512, 1000])
@pytest.mark.parametrize("tick_ms", [1, 7])
def test_bars_agree_with_the_snapshot(tick_ms, wheel_size):
    chance = random.Random(wheel_size)
    timer, wheel = ManualTimer(tick_ms=tick_ms, wheel_size=wheel_size), TimingWheel(tick_ms, wheel_size)
    now_ms = 0
    for _ in range(4):
        for _ in range(300):
            delay_ms = int(2 ** chance.uniform(0, 22))
            timer.add(TimerTask(delay_ms, int))
            # A timer rounds deadlines up to its tick.
            wheel.add(TimerTask(delay_ms), now_ms + delay_ms + tick_ms - 1)
        counters, ready, ready_is_more, _, levels = timer._occupancy(COLUMNS)
        expected_bars = bars_of(wheel)
        assert len(levels) == len(expected_bars) == counters[6]
        for number, (level_tick_ms, interval_ms, filled, width, bars) in enumerate(levels, 1):
            assert (level_tick_ms, interval_ms) == (tick_ms * wheel_size ** (number - 1), tick_ms * wheel_size**number)
            assert filled == len(expected_bars[number])
            assert len(bars) == min(COLUMNS, -(-wheel_size // width)) and width & (width - 1) == 0
            expected = [0] * len(bars)
            for offset, held in expected_bars[number].items():
                expected[offset // width] += held
            assert bars == expected
            # The finest width that fits.
            assert width == 1 or max(expected_bars[number]) // (width // 2) >= COLUMNS
        assert sum(sum(bars) for *_, bars in levels) == counters[5] == len(timer)
        assert (ready, ready_is_more) == (0, False)
        now_ms += int(2 ** chance.uniform(0, 18))
        wheel.poll(now_ms)
        timer.advance_to(now_ms / 1000)


def test_bars_count_each_timer_of_a_batch():
    timer = ManualTimer()
    timer.call_many(array("q", [5, 5, 700, 100_000]), len)
    levels = timer._occupancy(COLUMNS)[4]
    assert [sum(bars) for *_, bars in levels] == [2, 2]
    assert levels[0][4][5 // levels[0][3]] == 2


def test_lateness_steps_agree_with_the_counters(make_timer, hand_clock):
    timer = make_timer(executor="inline", clock=hand_clock, reaper=False)
    for i in range(1, 101):
        timer.call_later(i / 1000, int)
    hand_clock.ms += 100
    timer.advance_clock(0)
    (_, expired, *_, p50, p99, worst), _, _, steps, _ = timer._occupancy(COLUMNS)
    assert sum(count for _, count in steps) == expired == 100
    assert steps == sorted(steps)
    assert steps[0][0] == 0 and worst == 99.0 <= steps[-1][0] / 1000 < worst * 1.07
    ranked = [upper for upper, count in steps for _ in range(count)]
    assert (p50, p99) == (ranked[49] / 1000, min(ranked[98] / 1000, worst))


def test_bars_of_a_new_timer():
    assert ManualTimer()._occupancy(2) == (
        (0, 0, 0, 0, 0, 0, 1, 0, 0.0, 0.0, 0.0),
        0,
        False,
        [],
        [(1, 512, 0, 1, [0, 0])],
    )


@pytest.mark.parametrize("columns", [0, 1, 61, -2, 4098])
def test_columns_must_be_even(columns):
    with pytest.raises(ValueError, match="columns must be an even number from 2 to 4096"):
        ManualTimer()._occupancy(columns)


def test_bars_of_a_closed_timer():
    timer = ManualTimer()
    timer.call_later(1, int)
    timer.close()
    counters, _, _, _, levels = timer._occupancy(COLUMNS)
    assert counters[5] == 0 and sum(levels[0][4]) == 0
