"""Arguments and extreme times of a replay, and its histograms of lateness."""

import itertools
from array import array

import numpy as np
import pyarrow as pa
import pytest

from hwheel.replay import NEVER, Log
from hwheel_core import lateness_of, replay
from programs import output_of

LAST = 2**63 - 1


def columns(*values):
    return [array("q", column) for column in values]


def test_arrow_nulls_mean_never_cancelled():
    log = Log(pa.array([0, 0]), pa.array([5, 5]), pa.array([3, None]))
    assert log.replay().at_ms.tolist() == [3, 5]


@pytest.mark.parametrize(
    ("starts", "timeouts", "ends", "error", "text"),
    [
        ([0], [1, 2], [3], ValueError, "the same length"),
        ([5, -1], [1, 1], [NEVER] * 2, ValueError, r"starts_ms\[1\] is negative"),
        ([0.5], [1], [NEVER], TypeError, "integers"),
        ([[0]], [1], [NEVER], TypeError, "one column"),
        (pa.array([None, 1]), [1, 1], [NEVER] * 2, ValueError, "starts_ms has nulls"),
    ],
)
def test_log_with_invalid_columns(starts, timeouts, ends, error, text):
    with pytest.raises(error, match=text):
        Log(starts, timeouts, ends)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"tick_ms": 0}, ValueError, "tick_ms must be at least 1"),
        ({"wheel_size": 1}, ValueError, "wheel_size must be from 2"),
        ({"tick_ms": True}, TypeError, "tick_ms must be an int"),
        ({"timeout_ms": 2**63 - 1}, OverflowError, "row 1 do not fit"),
    ],
)
def test_log_with_invalid_settings(arguments, error, text):
    with pytest.raises(error, match=text):
        Log([0, 1], [1, 1], [NEVER] * 2).replay(**arguments)


def test_replay_terminates_if_an_end_is_at_the_last_time():
    # In a subprocess: an endless loop without the GIL could not be interrupted here.
    assert (
        output_of(
            "-c",
            f"""
from array import array
from hwheel_core import replay
ends_ms = array("q", [{LAST}, {LAST}])
outcomes, at_ms, _ = replay(array("q", [0, 0]), array("q", [5, 70]), ends_ms, array("q", [0, 1]), 1, 4)
print(list(outcomes), list(at_ms))
""",
        )
        == "[0, 0] [5, 70]\n"
    )


@pytest.mark.parametrize("tick_ms", [1, 7])
def test_timer_that_fires_at_the_last_time(tick_ms):
    outcomes, at_ms, costs = replay(*columns([3], [LAST - 3], [-(2**63)], []), tick_ms, 64)
    assert (list(outcomes), list(at_ms)) == ([0], [LAST])
    assert LAST % tick_ms == 0
    fired = costs[0]
    assert fired == 1


EXTREMES = [-(2**63), 1 - 2**63, -1, 0, 1, 2**31, 2**62, LAST - 1, LAST]


@pytest.mark.parametrize(("tick_ms", "wheel_size"), [(1, 2), (3, 64), (2**40, 2**12), (2**61, 3), (LAST // 2, 2)])
def test_extreme_times_terminate(tick_ms, wheel_size):
    for start_ms, timeout_ms, end_ms in itertools.product(EXTREMES, repeat=3):
        for order in ([], [0]):
            try:
                log = columns([start_ms], [timeout_ms], [end_ms], order)
                outcomes, at_ms, costs = replay(*log, tick_ms, wheel_size, 7)
            except (OverflowError, ValueError):
                assert start_ms < 0 or timeout_ms > 0
                continue
            fired = costs[0]
            assert outcomes[0] == (0 if fired else 1)
            assert at_ms[0] >= start_ms
            assert all(number >= 0 for number in lateness_of(costs[-1]))


def test_invalid_histograms():
    _, _, costs = replay(*columns([0], [5], [9], []), 10, 4)
    for place, value in ((0, -1), (-1, -1), (3, LAST)):
        counts = array("q", costs[-1])
        counts[4] = 1
        counts[place] = value
        with pytest.raises(ValueError, match="histogram"):
            lateness_of(counts)


def test_lateness_up_to_64_bits():
    for exponent in range(4, 63):
        counts = array("q", [0] * 977)
        step = (exponent - 3) * 16  # the first of 16 steps from 2**exponent us on
        counts[step] = 1
        counts[-1] = LAST
        p50, _, worst = lateness_of(counts)
        assert p50 == pytest.approx(2**exponent * 17 / 16 / 1000, rel=0.01 if exponent > 10 else 0.2)
        assert worst == LAST / 1000


@pytest.mark.parametrize("log", [([0], [2**63], [NEVER]), ([0], [5], [2**63]), ([2**64 - 1], [5], [NEVER])])
def test_numbers_beyond_64_bits(log):
    with pytest.raises(OverflowError, match="64 bits"):
        Log(*log)


def test_unsigned_columns():
    log = Log(np.array([0], np.uint64), np.array([2**62], np.uint64), [NEVER])
    assert log.replay().at_ms.tolist() == [2**62]


@pytest.mark.parametrize("timeout_ms", [True, np.True_, 2.7, "5", np.array([1, 2]), [3]])
def test_timeout_ms_must_be_an_int(timeout_ms):
    with pytest.raises(TypeError):
        Log([0, 0], [5, 5], [NEVER, NEVER]).replay(timeout_ms=timeout_ms)


def test_timeout_ms_beyond_64_bits():
    with pytest.raises(OverflowError):
        Log([0], [5], [NEVER]).replay(timeout_ms=2**63)


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
def test_invalid_columns(starts, timeouts, ends, order, error, text):
    log = columns(starts, timeouts, ends, order)
    if error is None:
        assert list(replay(*log, 1, 20)[0]) == [1, 1]
    else:
        with pytest.raises(error, match=text):
            replay(*log, 1, 20)


def test_histogram_of_another_length():
    with pytest.raises(ValueError, match="a histogram of lateness must have [0-9]+ items, got 3"):
        lateness_of(array("q", [1, 2, 3]))
