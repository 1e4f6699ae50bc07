"""A look at how full the buckets are, for a live page: it counts what is there, and where."""

import random
from array import array

import pytest

from hwheel import ManualTimer, TimerTask, TimingWheel

COLUMNS = 60


def bars_of(wheel):
    """{level: {offset of a bucket from its level's clock: how many it holds}}, of a bare wheel, by its snapshot."""
    return {
        number: {(one.expiration_ms - level.current_time_ms) // level.tick_ms: len(one.tasks) for one in level.buckets}
        for number, level in enumerate(wheel.snapshot().levels, 1)
    }


@pytest.mark.parametrize("wheel_size", [2, 20, 59, 60, 61, 512, 1000])
@pytest.mark.parametrize("tick_ms", [1, 7])
def test_the_bars_are_those_of_the_snapshot(tick_ms, wheel_size):
    chance = random.Random(wheel_size)
    timer, wheel = ManualTimer(tick_ms=tick_ms, wheel_size=wheel_size), TimingWheel(tick_ms, wheel_size)
    now_ms = 0
    for _ in range(4):
        for _ in range(300):
            delay_ms = int(2 ** chance.uniform(0, 22))
            timer.add(TimerTask(delay_ms, int))
            # A timer that is never early rounds up to its tick.
            wheel.add(TimerTask(delay_ms), now_ms + delay_ms + tick_ms - 1)
        counters, ready, ready_is_more, _, levels = timer._look(COLUMNS)
        wanted = bars_of(wheel)
        assert len(levels) == len(wanted) == counters[6]
        for number, (level_tick_ms, interval_ms, filled, width, bars) in enumerate(levels, 1):
            assert (level_tick_ms, interval_ms) == (tick_ms * wheel_size ** (number - 1), tick_ms * wheel_size**number)
            assert filled == len(wanted[number])
            assert len(bars) == min(COLUMNS, -(-wheel_size // width)) and width & (width - 1) == 0
            expected = [0] * len(bars)
            for offset, held in wanted[number].items():
                expected[offset // width] += held
            assert bars == expected
            # No coarser than it has to be.
            assert width == 1 or max(wanted[number]) // (width // 2) >= COLUMNS
        assert sum(sum(bars) for *_, bars in levels) == counters[5] == len(timer)
        assert (ready, ready_is_more) == (0, False)
        now_ms += int(2 ** chance.uniform(0, 18))
        wheel.poll(now_ms)
        timer.advance_to(now_ms / 1000)


def test_a_batch_counts_as_its_timers():
    timer = ManualTimer()
    timer.call_many(array("q", [5, 5, 700, 100_000]), len)
    levels = timer._look(COLUMNS)[4]
    assert [sum(bars) for *_, bars in levels] == [2, 2]
    assert levels[0][4][5 // levels[0][3]] == 2


def test_the_lateness_is_that_of_the_counters(make_timer, hand_clock):
    timer = make_timer(executor="inline", clock=hand_clock, reaper=False)
    for i in range(1, 101):
        timer.call_later(i / 1000, int)
    hand_clock.ms += 100
    timer.advance_clock(0)
    (_, expired, *_, p50, p99, worst), _, _, steps, _ = timer._look(COLUMNS)
    assert sum(count for _, count in steps) == expired == 100
    assert steps == sorted(steps)
    assert steps[0][0] == 0 and worst == 99.0 <= steps[-1][0] / 1000 < worst * 1.07
    ranked = [upper for upper, count in steps for _ in range(count)]
    assert (p50, p99) == (ranked[49] / 1000, min(ranked[98] / 1000, worst))


def test_nothing_was_late_and_nothing_is_there():
    assert ManualTimer()._look(2) == ((0, 0, 0, 0, 0, 0, 1, 0, 0.0, 0.0, 0.0), 0, False, [], [(1, 512, 0, 1, [0, 0])])


@pytest.mark.parametrize("columns", [0, 1, 61, -2, 4098])
def test_columns_are_put_together_by_two(columns):
    with pytest.raises(ValueError, match="columns must be even, from 2 to 4096"):
        ManualTimer()._look(columns)


def test_a_timer_that_was_closed_can_be_looked_at():
    timer = ManualTimer()
    timer.call_later(1, int)
    timer.close()
    counters, _, _, _, levels = timer._look(COLUMNS)
    assert counters[5] == 0 and sum(levels[0][4]) == 0
