"""TimerBatch.extend(): new timers get the next indices and run after older ones."""

import gc
import threading
from array import array

import numpy as np
import pytest

from hwheel import ManualTimer, SystemTimer, TimerClosed, TimerFull
from invariants import check_invariants


def int64s(*values):
    return array("q", values)


class Callback:
    def __init__(self):
        self.ran = []

    def __call__(self, indices):
        self.ran.extend(indices)


@pytest.mark.parametrize("make", [lambda values: array("q", values), np.array])
def test_new_indices_start_at_the_length_of_the_batch(ran, make):
    timer = ManualTimer()
    batch = timer.call_many(int64s(10, 20), lambda due: ran.append((timer.time(), list(due))))
    timer.advance(0.005)
    assert batch.extend(make([5, 15, 0])) == range(2, 5)
    assert (len(batch), batch.pending, list(batch.indices())) == (5, 5, [0, 1, 2, 3, 4])
    assert batch.extend(make([3])) == range(5, 6)
    timer.advance(1)
    assert ran == [(0.005, [4]), (0.008, [5]), (0.01, [0, 2]), (0.02, [1, 3])]
    assert timer.stats()[:3] == (6, 6, 0)


def test_expired_old_and_new_timers_share_one_call(ran, hand_clock, make_timer):
    timer = make_timer(executor="inline", clock=hand_clock, reaper=False)
    batch = timer.call_many(int64s(30, 10), ran.append)
    batch.extend(int64s(20, 40, 10))
    hand_clock.ms += 35
    timer.advance_clock(0)
    assert ran == [int64s(1, 4, 2, 0)]


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("steps", [[1] * 200, [64, 64, 1, 63], [5000], [10, 5000, 1, 70_000]])
def test_each_index_of_a_grown_batch_is_a_timer(length, steps):
    timer = ManualTimer()
    callback = Callback()
    batch = timer.call_many(array("q", range(1, length + 1)), callback)
    for count in steps:
        first = len(batch)
        assert batch.extend(array("q", range(first + 1, first + count + 1)), callback) == range(first, first + count)
    check_invariants(timer)
    length += sum(steps)
    every_third = array("q", range(0, length, 3))
    assert batch.cancel(every_third) == len(every_third)
    assert batch.reschedule(array("q", range(length)), length + 5) == length - len(every_third)
    check_invariants(timer)
    assert list(batch.indices()) == [i for i in range(length) if i % 3]
    timer.advance((length + 5) / 1000)
    assert callback.ran == [i for i in range(length) if i % 3]
    assert (batch.pending, len(batch), batch.callback) == (0, length, None)


def test_ended_timers_stay_ended_after_their_memory_is_released(ran):
    timer = ManualTimer()
    batch = timer.call_many(int64s(*[5] * 100), ran.extend)
    batch.extend(array("q", [1000] * 3))
    timer.advance(0.01)
    assert ran == list(range(100))
    assert batch.cancel([0, 50, 99]) == 0
    assert batch.reschedule(range(100), 5) == 0
    assert list(batch.indices()) == [100, 101, 102]
    batch.extend(array("q", [10] * 200))
    timer.advance(0.01)
    assert ran == [*range(100), *range(103, 303)]
    assert batch.reschedule(None, 1) == 3
    assert batch.cancel() == 3


def test_extending_an_ended_batch_needs_the_callback(ran):
    timer = ManualTimer()
    assert timer.call_many(int64s(), ran.extend).extend(int64s(), ran.extend) == range(0)
    batch = timer.call_many(int64s(1, 2), ran.extend)
    timer.advance(0.01)
    assert batch.callback is None
    with pytest.raises(ValueError, match="released its callback"):
        batch.extend(int64s(1))
    assert (len(batch), batch.pending, timer.stats().added) == (2, 0, 2)
    assert batch.extend(int64s(1, 1), ran.extend) == range(2, 4)
    assert batch.extend(int64s(5)) == range(4, 5)
    timer.advance(0.01)
    assert ran == [0, 1, 2, 3, 4]
    assert batch.callback is None
    assert batch.extend(int64s()) == range(5, 5)


def test_extend_refuses_another_callback(ran):
    timer = ManualTimer()
    batch = timer.call_many(int64s(5), ran.append)
    with pytest.raises(ValueError, match="own callback"):
        batch.extend(int64s(5), ran.extend)
    assert (len(batch), batch.pending) == (1, 1)
    batch.extend(int64s(5), ran.append)  # equal, not identical
    timer.advance(1)
    assert ran == [int64s(0, 1)]


def test_full_timer_refuses_the_whole_extension(ran):
    timer = ManualTimer(max_pending=5)
    batch = timer.call_many(int64s(1, 1), ran.extend)
    with pytest.raises(TimerFull):
        batch.extend(int64s(1, 1, 1, 1))
    assert (len(batch), batch.pending, timer.stats().added) == (2, 2, 2)
    assert batch.extend(int64s(1, 1, 1)) == range(2, 5)
    with pytest.raises(TimerFull):
        batch.extend(int64s(1))
    timer.advance(1)
    assert ran == [0, 1, 2, 3, 4]


def test_extend_after_close_is_refused():
    for timer in (ManualTimer(), SystemTimer(clock=lambda: 5.0)):
        batch = timer.call_many(int64s(1000, 500), print)
        batch.extend(int64s(700))
        assert timer.close() == [batch]
        for arguments in [(int64s(5),), (int64s(5), print), (int64s(),)]:
            with pytest.raises(TimerClosed):
                batch.extend(*arguments)
        assert list(batch.indices()) == [1, 2, 0]
        assert (batch.pending, batch.callback, len(batch)) == (3, print, 3)


def test_extend_after_the_timer_is_collected_is_refused():
    batch = ManualTimer().call_many(int64s(5), print)
    gc.collect()
    with pytest.raises(TimerClosed):
        batch.extend(int64s(5), print)


def test_extend_wakes_the_reaper():
    done = threading.Event()
    with SystemTimer() as timer:
        batch = timer.call_many(int64s(3_600_000), lambda due: done.set())
        assert batch.extend(int64s(20)) == range(1, 2)
        assert done.wait(60)
        assert list(batch.indices()) == [0]


@pytest.mark.parametrize("length", [1, 70, 5000])
def test_repeated_extension_of_an_undispatched_batch(length):
    # Expired timers that wait for the dispatch must survive the growth of the batch.
    timer = ManualTimer()
    callback = Callback()
    batch = timer.call_many(array("q", [0] * length), callback)
    dice = np.random.default_rng(length)
    cancelled = set()
    for _ in range(30):
        batch.extend(array("q", [0] * (1 + length // 4)))
        chosen = dice.integers(0, len(batch), 1 + length // 20)
        batch.cancel(chosen)
        cancelled.update(chosen.tolist())
        check_invariants(timer)
    timer.advance(0)
    assert callback.ran == [index for index in range(len(batch)) if index not in cancelled]


def test_comparing_callbacks_can_change_the_batch():
    class Callback:
        compared = 0

        def __call__(self, indices):
            pass

        def __eq__(self, other):
            Callback.compared += 1
            batch.cancel()
            batch.extend(int64s(1), first)
            return True

        __hash__ = None

    timer, first = ManualTimer(), Callback()
    batch = timer.call_many(int64s(5), first)
    assert batch.extend(int64s(5), Callback()) == range(2, 3)
    check_invariants(timer)
    assert (Callback.compared, list(batch.indices())) == (1, [1, 2])
    assert batch.cancel() == 2


def test_finalizer_of_a_callback_can_extend_the_batch():
    class Callback:
        def __call__(self, indices):
            pass

        def __del__(self):
            added.append(batch.extend(int64s(5), print))

    timer, added = ManualTimer(), []
    batch = timer.call_many(int64s(1), Callback())
    batch.cancel()
    assert added == [range(1, 2)]
    assert (batch.pending, batch.callback) == (1, print)
    batch.cancel()
