"""reschedule() of tasks and batches: moves pending timers to the end of their new tick."""

import threading
from array import array

import numpy as np
import pytest

from hwheel import ManualTimer, SystemTimer, TimerFull, TimerTask
from invariants import check_invariants


def test_reschedule_of_a_task_that_is_not_pending_returns_false():
    timer = ManualTimer()
    new, cancelled, expired = TimerTask(5), timer.add(TimerTask(5)), timer.add(TimerTask(5))
    cancelled.cancel()
    timer.advance(0.005)
    before = timer.stats()
    for task in (new, cancelled, expired):
        deadline_ms = task.deadline_ms
        assert not task.reschedule(0.009)
        assert (task.delay_ms, task.deadline_ms) == (5, deadline_ms)
    assert timer.stats() == before
    assert (new.pending, cancelled.cancelled, expired.expired) == (False, True, True)


# --- batches ----------------------------------------------------------------------------------------------------------


def int64s(*values):
    return array("q", values)


@pytest.mark.parametrize("make", [list, tuple, lambda values: array("q", values), np.array, iter])
def test_each_timer_moves_to_its_delay(ran, make):
    timer = ManualTimer()
    batch = timer.call_many(int64s(10, 20, 30, 40), lambda due: ran.append((timer.time(), list(due))))
    timer.advance(0.005)
    assert batch.reschedule(make([0, 3]), int64s(25, 1)) == 2
    timer.advance(1)
    assert ran == [(0.006, [3]), (0.02, [1]), (0.03, [2, 0])]
    assert timer.stats()[:3] == (4, 4, 0)


@pytest.mark.parametrize("indices", [None, [0, 1, 2]])
def test_single_delay_for_all_timers(ran, indices):
    timer = ManualTimer()
    batch = timer.call_many(int64s(10, 20, 30), ran.extend)
    timer.advance(0.009)
    assert batch.reschedule(indices, 5000) == 3
    timer.advance(4.999)
    assert ran == []
    timer.advance(0.001)
    assert ran == [0, 1, 2]


@pytest.mark.parametrize("length", [1, 7, 5000])
def test_repeated_moves_of_an_undispatched_batch(ran, length):
    # Each move leaves a gap among the expired timers and appends to them.
    timer = ManualTimer()
    batch = timer.call_many(array("q", [0] * length), ran.extend)
    dice = np.random.default_rng(length)
    for _ in range(50):
        chosen = dice.permutation(length)[: 1 + length // 2]
        assert batch.reschedule(chosen, 0) == len(chosen)
        check_invariants(timer)
    assert (batch.pending, list(batch.indices())) == (length, list(range(length)))
    timer.advance(0)
    assert sorted(ran) == list(range(length))
    assert timer.stats()[:3] == (length, length, 0)


def test_reschedule_wakes_the_reaper():
    done = threading.Event()
    with SystemTimer() as timer:
        batch = timer.call_many(int64s(3_600_000, 3_600_000), lambda due: done.set())
        assert batch.reschedule([1], 20) == 1
        assert done.wait(60)
        assert list(batch.indices()) == [0]


@pytest.mark.parametrize("bad", [-1, 3, 2**62, -(2**63), 10**30])
def test_index_out_of_range_moves_nothing(bad):
    timer = ManualTimer()
    batch = timer.call_many(int64s(10, 20, 30), print)
    with pytest.raises(IndexError, match="index"):
        batch.reschedule([0, bad], 1000)
    timer.advance(0.009)
    batch.cancel([0])
    assert batch.pending == 2


@pytest.mark.parametrize("delay_ms", [5, np.int64(5), np.uint8(5), np.array(5), True])
def test_single_delay_is_any_int_except_bool(ran, delay_ms):
    timer = ManualTimer()
    batch = timer.call_many(int64s(10, 20), ran.extend)
    if delay_ms is True:
        with pytest.raises(TypeError, match="delays_ms"):
            batch.reschedule(None, delay_ms)
    else:
        assert batch.reschedule([0, 1], delay_ms) == 2
        timer.advance(0.005)
        assert ran == [0, 1]


def test_bad_arguments_without_pending_timers():
    timer = ManualTimer()
    batch = timer.call_many(int64s(1), lambda due: None)
    batch.cancel()
    with pytest.raises(IndexError):
        batch.reschedule([1], 5)
    with pytest.raises(TypeError):
        batch.reschedule([0], "5")
    with pytest.raises(ValueError, match="for each"):
        batch.reschedule([0], int64s())
    assert batch.reschedule([0], 5) == 0
    assert timer.call_many(int64s(), print).reschedule(None, 5) == 0


def test_full_timer_can_move_its_timers(ran):
    timer = ManualTimer(max_pending=2)
    batch = timer.call_many(int64s(5, 5), ran.extend)
    with pytest.raises(TimerFull):
        timer.call_later(1, print)
    assert batch.reschedule(None, 10) == 2
    timer.advance(0.01)
    assert ran == [0, 1]


def test_reschedule_after_close_moves_nothing():
    for timer in (ManualTimer(), SystemTimer(clock=lambda: 5.0)):
        batch = timer.call_many(int64s(1000, 500), print)
        assert timer.close() == [batch]
        assert batch.reschedule(None, 5) == 0
        assert list(batch.indices()) == [1, 0]
