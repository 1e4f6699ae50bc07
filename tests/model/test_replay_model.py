"""Replays compared with a ManualTimer that runs the same log."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hwheel.replay import CANCELLED, FIRED, NEVER, Log
from replay_model import log_rows, outcomes_by_timer
from sampling import search_settings

MODEL = search_settings(400)


def columns(log):
    starts_ms, timeouts_ms, ends_ms = zip(*log, strict=True) if log else ((), (), ())
    return list(starts_ms), list(timeouts_ms), [NEVER if end is None else end for end in ends_ms]


@MODEL
@given(log=st.lists(log_rows(), max_size=40), tick_ms=st.integers(1, 50), wheel_size=st.integers(2, 40))
def test_outcomes_agree_with_a_manual_timer(log, tick_ms, wheel_size):
    replayed = Log(*columns(log)).replay(tick_ms=tick_ms, wheel_size=wheel_size)
    assert list(zip(replayed.outcomes, replayed.at_ms, strict=True)) == outcomes_by_timer(log, tick_ms, wheel_size)
    assert replayed.costs.fired == [*replayed.outcomes].count(FIRED)
    assert replayed.costs.fired + replayed.costs.cancelled == replayed.costs.timers == len(log)


@MODEL
@given(log=st.lists(log_rows(), min_size=1, max_size=30), tick_ms=st.integers(1, 50))
def test_peak_is_the_most_pending_timers(log, tick_ms):
    log = [(start, max(timeout, 1), None) for start, timeout, _ in log]
    starts_ms, timeouts_ms, ends_ms = columns(log)
    replayed = Log(starts_ms, timeouts_ms, ends_ms).replay(tick_ms=tick_ms)
    pending = [
        sum(start <= at < over for start, over in zip(starts_ms, replayed.at_ms, strict=True)) for at in starts_ms
    ]
    assert replayed.costs.peak_pending == max(pending)
    assert replayed.costs.memory_bytes > 0


def test_costs_of_a_small_log():
    # Tick 1, size 4: 3 is on level 1, 9 on level 2 (bucket 8), 20 on level 3 (bucket 16).
    costs = Log([0, 0, 0], [3, 9, 20], [NEVER] * 3).replay(wheel_size=4).costs
    assert (costs.levels, costs.fired, costs.peak_pending) == (3, 3, 3)
    # Wake-ups: 3 fires; 8 cascades; 9 fires; 16 cascades to level 2, into the bucket of 20; 20 fires.
    assert (costs.wakeups, costs.cascaded) == (5, 3)


def test_cancelled_timer_does_not_cascade():
    # 9 is on level 2. Its cancel leaves an empty wake-up at 8.
    # 29 is on level 3. It cascades at 16; its cancel leaves an empty wake-up at 28, and none at 29.
    costs = Log([0, 0], [9, 29], [7, 20]).replay(wheel_size=4).costs
    assert (costs.cancelled, costs.wakeups, costs.cascaded) == (2, 3, 1)


def test_one_timeout_for_all_timers():
    log = Log([0, 10], [1000, 1000], [500, 600])
    assert log.replay().outcomes.tolist() == [CANCELLED, CANCELLED]
    shorter = log.replay(timeout_ms=400)
    assert (shorter.outcomes.tolist(), shorter.at_ms.tolist()) == ([FIRED, FIRED], [400, 410])


def test_many_rows_in_any_order():
    chance = np.random.default_rng(7)
    starts = chance.integers(0, 10**5, 20_000)
    timeouts = chance.integers(1, 10**5, 20_000)
    ends = np.where(chance.random(20_000) < 0.1, NEVER, starts + chance.integers(0, 10**5, 20_000))
    replayed = Log(starts, timeouts, ends).replay(tick_ms=7, wheel_size=20)
    fires = -(-(starts + timeouts) // 7) * 7
    fired = (ends == NEVER) | (ends >= fires)
    assert (replayed.outcomes == np.where(fired, FIRED, CANCELLED)).all()
    assert (replayed.at_ms == np.where(fired, fires, ends)).all()
