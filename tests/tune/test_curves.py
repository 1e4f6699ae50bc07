"""The curves of a log, compared with slow counts, and the sums of curves."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hwheel.replay import NEVER, Log
from hwheel.tune.curves import EDGES_MS, STEPS, Curves, Lengths, PendingCurve
from sampling import search_settings

check = search_settings(100)
times = st.integers(0, 50) | st.integers(0, 10**5) | st.integers(0, 10**13)
logs = st.lists(st.tuples(times, st.integers(1, 10**6), st.none() | st.integers(0, 10**6)), min_size=1, max_size=30)


def log_of(rows):
    starts, timeouts, lengths = zip(*rows, strict=True)
    ends = [NEVER if length is None else start + length for start, length in zip(starts, lengths, strict=True)]
    return Log(list(starts), list(timeouts), ends)


@check
@given(rows=logs)
def test_pending_timers_at_the_end_of_each_step(rows):
    log = log_of(rows)
    ends = log.replay().at_ms
    curve = PendingCurve.of(log.starts_ms, ends)
    assert len(curve.times_ms) <= STEPS
    for at_ms, pending in zip(curve.times_ms, curve.pending, strict=True):
        assert pending == (log.starts_ms < at_ms).sum() - (ends < at_ms).sum()
    assert curve.pending[-1] == 0


@check
@given(parts=st.lists(logs, min_size=1, max_size=4))
def test_the_curves_of_parts_add_up(parts):
    found = [Curves.of(log, log.replay()) for log in map(log_of, parts)]
    merged = Curves.merged(found)
    whole = log_of([row for part in parts for row in part])
    wanted = Curves.of(whole, whole.replay())
    assert (merged.pending.shift, merged.pending.first) == (wanted.pending.shift, wanted.pending.first)
    assert (merged.pending.pending == wanted.pending.pending).all()
    assert (merged.lengths.timeouts == wanted.lengths.timeouts).all()
    assert (merged.lengths.would_expire == wanted.lengths.would_expire).all()


def test_distant_parts_are_merged_in_coarser_steps():
    parts = [PendingCurve.of(np.array([at]), np.array([at + 1])) for at in (0, 10 * STEPS)]
    merged = PendingCurve.merged(parts)
    assert {part.shift for part in parts} == {0} and merged.shift > 0
    assert len(merged.times_ms) <= STEPS and (merged.started.sum(), merged.ended.sum()) == (2, 2)


@check
@given(rows=logs, edge=st.integers(0, 500))
def test_the_share_that_would_expire_equals_the_share_in_a_replay(rows, edge):
    log = log_of(rows)
    share = Lengths.of(log).would_expire[edge]
    assert share == log.replay(timeout_ms=int(EDGES_MS[edge])).costs.fired / len(log)


def test_timeouts_with_two_significant_digits_are_exact():
    lengths = Lengths.of(Log([0] * 4, [30_000, 30_000, 5000, 86_400_000], [NEVER] * 4))
    found = [lengths.timeout_quantile_ms(quantile) for quantile in (0.25, 0.5, 0.75, 1)]
    assert found == [5000, 30_000, 30_000, 86_400_000]
    assert np.all(np.diff(EDGES_MS) > 0)
