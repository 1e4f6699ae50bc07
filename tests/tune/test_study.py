"""Studies of whole logs and of parts."""

import numpy as np
import pytest

from hwheel.logs.columns import LogError
from hwheel.replay import NEVER, Log
from hwheel.replay.costs import ReplayCosts
from hwheel.tune.study import Grid, Study, study

GRID = Grid((1, 7), (20, 512), (None, 50))


def random_log(count, seed):
    chance = np.random.default_rng(seed)
    starts = chance.integers(0, 10_000, count)
    ends = np.where(chance.random(count) < 0.3, NEVER, starts + chance.integers(0, 2000, count))
    return Log(starts, chance.integers(1, 1000, count), ends)


def test_each_point_equals_a_replay():
    log = random_log(500, 1)
    points = []
    found = study(log, GRID, on_point=lambda: points.append(None))
    assert len(points) == len(GRID) == len(found.costs) == 8
    for tick_ms, wheel_size, timeout_ms in GRID:
        wanted = log.replay(tick_ms=tick_ms, wheel_size=wheel_size, timeout_ms=timeout_ms).costs
        assert found.at(tick_ms, wheel_size, timeout_ms) == wanted
    with pytest.raises(KeyError, match="tick 3 ms"):
        found.at(3, 20)


def test_parts_add_up():
    logs = [random_log(count, count) for count in (300, 200, 0)]
    parts = [study(log, GRID, curves=True, dropped=2) for log in logs]
    found = Study.merged(parts)
    assert (found.timers, found.wheels, found.dropped) == (500, 2, 6)
    for whole, first, second in zip(found.costs, parts[0].costs, parts[1].costs, strict=True):
        for name in ("fired", "cancelled", "wakeups", "cascaded", "peak_pending", "memory_bytes"):
            assert getattr(whole, name) == getattr(first, name) + getattr(second, name)
        assert whole.largest_peak == max(first.largest_peak, second.largest_peak)
        assert whole.levels == max(first.levels, second.levels)


def test_the_merged_lateness_covers_all_timers():
    logs = [random_log(300, 1), random_log(700, 2)]
    merged = ReplayCosts.merged([log.replay(tick_ms=100).costs for log in logs])
    late = []
    for log in logs:
        fired = log.replay(tick_ms=100)
        deadlines = log.starts_ms + log.timeouts_ms
        fires = -(-deadlines // 100) * 100
        late += (fires - deadlines)[(log.ends_ms == NEVER) | (log.ends_ms >= fires)].tolist()
        assert fired.costs.fired
    assert len(late) == merged.fired
    assert merged.lateness.max == max(late)
    assert merged.lateness.p50 == pytest.approx(np.quantile(late, 0.5, method="inverted_cdf"), rel=0.07)
    assert merged.lateness.p99 == pytest.approx(np.quantile(late, 0.99, method="inverted_cdf"), rel=0.07)


def test_parts_that_cannot_be_merged():
    log = random_log(10, 1)
    with pytest.raises(ValueError, match="the same tick, wheel size, and timeout"):
        ReplayCosts.merged([log.replay(tick_ms=1).costs, log.replay(tick_ms=2).costs])
    with pytest.raises(LogError, match="no timers"):
        Study.merged([study(Log([], [], []), GRID)])


@pytest.mark.parametrize(
    ("grid", "error", "text"),
    [
        (([], [20], [None]), ValueError, "ticks must have at least one"),
        (([0], [20], [None]), ValueError, "tick_ms must be at least 1"),
        (([1], [1], [None]), ValueError, "wheel_size must be from 2"),
        (([1.5], [20], [None]), TypeError, "tick_ms must be an int"),
        (([1], [20], [True]), TypeError, "a timeout must be an int"),
        (([1], [20], []), ValueError, "timeouts must have at least one"),
    ],
)
def test_invalid_grids(grid, error, text):
    with pytest.raises(error, match=text):
        Grid.checked(*grid)


def test_a_valid_grid():
    assert Grid.checked([1, 10], [20], [None, 5]) == Grid((1, 10), (20,), (None, 5))
