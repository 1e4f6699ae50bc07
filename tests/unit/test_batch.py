"""TimerBatch: calls, cancels, indices, and release."""

import weakref
from array import array

import pytest

from hwheel import ManualTimer


def test_zero_and_negative_delays_run_at_the_next_dispatch(ran):
    timer = ManualTimer(tick_ms=20, start_ms=30)
    timer.call_many(array("q", [0, -5, 1, -(2**63)]), lambda indices: ran.append((timer.time(), list(indices))))
    assert ran == []
    timer.advance(0)
    assert ran == [(0.03, [0, 1, 3])]
    timer.advance(0.1)
    assert ran[1:] == [(0.04, [2])]


def test_large_batch_keeps_order_across_levels(ran):
    timer = ManualTimer(wheel_size=4)
    delays_ms = array("q", [i * 7919 % 1000 for i in range(20_000)])
    timer.call_many(delays_ms, ran.append)
    timer.advance(1)
    assert len(ran) == len({*delays_ms})
    in_order = [index for indices in ran for index in indices]
    assert in_order == sorted(range(20_000), key=lambda index: (delays_ms[index], index))


@pytest.mark.parametrize("start_ms", [0, 1, 999_999, 2**62 + 1])
@pytest.mark.parametrize("last_ms", [1, 3, 4, 5, 15, 16, 17, 63, 64, 65, 4095, 4096, 10**6])
def test_batch_creates_the_levels_of_its_last_timer(ran, start_ms, last_ms):
    timer, other = (ManualTimer(wheel_size=4, start_ms=start_ms) for _ in range(2))
    batch = timer.call_many(array("q", [1, last_ms]), ran.extend)
    other.call_later(last_ms / 1000, int)
    assert timer.stats().levels == other.stats().levels
    timer.advance((last_ms - 1) / 1000)
    assert batch.pending == (2 if last_ms == 1 else 1)
    timer.advance(0.001)
    assert ran == [0, 1]


@pytest.mark.parametrize("make", [list, tuple, set, lambda values: array("q", values), iter])
def test_cancel_ignores_duplicates_and_ended_timers(make, ran):
    timer = ManualTimer()
    batch = timer.call_many(array("q", [1, 2, 3, 4, 5]), ran.extend)
    timer.advance(0.001)
    assert batch.cancel(make([3, 0, 3, 2, 2])) == 2
    assert batch.cancel(make([3])) == 0
    assert batch.pending == 2
    timer.advance(0.01)
    assert ran == [0, 1, 4]
    assert timer.stats()[:3] == (5, 3, 2)


@pytest.mark.parametrize("bad", [-1, 5, 2**62, -(2**63), 2**63, 10**30])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_index_out_of_range_cancels_nothing(bad, place):
    timer = ManualTimer()
    batch = timer.call_many(array("q", [1, 2, 3, 4, 5]), print)
    indices = [1, 2]
    indices.insert(place, bad)
    before = timer.stats()
    with pytest.raises(IndexError, match="index"):
        batch.cancel(indices)
    assert timer.stats() == before
    assert list(batch.indices()) == [0, 1, 2, 3, 4]


def test_index_out_of_range_without_pending_timers():
    timer = ManualTimer()
    batch = timer.call_many(array("q", [1]), lambda indices: None)
    timer.advance(0.001)
    with pytest.raises(IndexError):
        batch.cancel([1])
    assert batch.cancel([0]) == 0
    with pytest.raises(IndexError):
        timer.call_many(array("q"), print).cancel([0])


@pytest.mark.parametrize(
    "bad", [5, 1.5, "01", b"01", [1.5], [True], [None], object(), array("i", [1]), array("d", [1])]
)
def test_indices_of_a_wrong_type_cancel_nothing(bad):
    timer = ManualTimer()
    batch = timer.call_many(array("q", [1, 2, 3]), print)
    with pytest.raises(TypeError, match="indices"):
        batch.cancel(bad)
    assert (batch.pending, len(timer), timer.stats().cancelled) == (3, 3, 0)


def test_error_names_the_type_of_a_wrong_index():
    batch = ManualTimer().call_many(array("q", [1, 2, 3]), print)
    with pytest.raises(TypeError, match="indices must be int: .*float"):
        batch.cancel([0, 1.5])


@pytest.mark.parametrize("error", [TypeError, OverflowError, KeyError])
def test_exception_of_an_iterable_of_indices_is_raised(error):
    def indices():
        yield 0
        raise error("of the caller's own code")

    timer = ManualTimer()
    batch = timer.call_many(array("q", [1, 2, 3]), print)
    with pytest.raises(error, match="caller's own"):
        batch.cancel(indices())
    assert batch.pending == 3


def test_batch_callback_can_cancel_its_batch(ran):
    timer = ManualTimer()
    batch = timer.call_many(array("q", [1, 2, 1, 3]), lambda indices: ran.append((list(indices), batch.cancel())))
    timer.advance(0.01)
    assert ran == [([0, 2], 2)]


class Callback:
    def __call__(self, indices):
        pass


@pytest.mark.parametrize("end", ["run", "cancel all", "cancel one by one", "close"])
def test_callback_is_released_when_no_timer_is_pending(end):
    timer = ManualTimer()
    callback = Callback()
    gone = weakref.ref(callback)
    batch = timer.call_many(array("q", [5, 6]), callback)
    assert batch.callback is callback
    del callback
    timer.advance(0.005)
    assert gone() is not None
    if end == "run":
        timer.advance(0.001)
    elif end == "cancel all":
        batch.cancel()
    elif end == "cancel one by one":
        batch.cancel([1])
    else:
        assert timer.close() == [batch]
        assert batch.callback is gone()
        del batch
    assert gone() is None
    if end != "close":
        assert batch.callback is None


def test_cancelled_timer_keeps_no_place_for_its_batch():
    timer = ManualTimer()
    first = timer.call_many(array("q", [0, 1]), print)
    second = timer.call_many(array("q", [0]), print)
    assert first.cancel([0]) == 1
    assert timer.close() == [second, first]


def test_batch_on_time_is_not_late():
    timer = ManualTimer(tick_ms=1000)
    timer.call_many(array("q", [0, 1000]), lambda indices: None)
    timer.advance(1)
    assert timer.stats().lateness.max == 0
