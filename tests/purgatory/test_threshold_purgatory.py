"""What Kafka's ThresholdPurgatoryTest asks, in its numbers, and what Python's futures add."""

import itertools
import threading
from concurrent.futures import CancelledError, wait
from decimal import Decimal

import numpy
import pytest

from hwheel import ManualTimer, TimerClosed, TimerFull
from hwheel.purgatory import ThresholdPurgatory
from sampling import seeded_random


class NotLeader(Exception):
    pass


@pytest.fixture
def thresholds(timer):
    with ThresholdPurgatory("thresholds", timer) as purgatory:
        yield purgatory


def done(*futures):
    return [future.done() for future in futures]


def test_each_completes_when_its_threshold_is_reached(thresholds):
    three, one, five = thresholds.await_(3, 500), thresholds.await_(1, 500), thresholds.await_(5, 500)
    assert thresholds.num_waiting == 3 and "3 waiting" in repr(thresholds)
    thresholds.maybe_complete(1, 1000)
    assert done(one, three, five) == [True, False, False]
    assert one.result() == 1000
    assert thresholds.num_waiting == 2
    thresholds.maybe_complete(2, 1100)
    assert done(three, five) == [False, False]
    thresholds.maybe_complete(3, 1200)
    assert done(three, five) == [True, False]
    assert three.result() == 1200
    assert thresholds.num_waiting == 1
    thresholds.maybe_complete(4, 1300)
    assert not five.done()
    thresholds.maybe_complete(5, 1400)
    assert five.result() == 1400
    assert thresholds.num_waiting == len(thresholds.timer) == 0


def test_expiration(thresholds, timer):
    first, second = thresholds.await_(1, 200), thresholds.await_(1, 200)
    assert thresholds.num_waiting == 2
    timer.advance(0.1)
    third, fourth, fifth = thresholds.await_(5, 50), thresholds.await_(5, 200), thresholds.await_(5, 100)
    assert thresholds.num_waiting == 5
    timer.advance(0.05)
    assert done(first, second, third, fourth, fifth) == [False, False, True, False, False]
    with pytest.raises(TimeoutError, match="not reached in 50 ms"):
        third.result()
    assert thresholds.num_waiting == 4
    timer.advance(0.05)
    assert done(first, second, fourth, fifth) == [True, True, False, True]
    for future in (first, second, fifth):
        assert isinstance(future.exception(), TimeoutError)
    assert thresholds.num_waiting == 1
    timer.advance(0.05)
    assert not fourth.done()
    timer.advance(0.05)
    assert isinstance(fourth.exception(), TimeoutError)
    assert thresholds.num_waiting == 0


def test_complete_all(thresholds):
    futures = [thresholds.await_(threshold, 500) for threshold in (3, 1, 5)]
    thresholds.complete_all(1000)
    assert [future.result() for future in futures] == [1000] * 3
    assert thresholds.num_waiting == len(thresholds.timer) == 0


def test_complete_all_exceptionally(thresholds):
    futures = [thresholds.await_(threshold, 500) for threshold in (3, 1, 5)]
    error = NotLeader()
    thresholds.complete_all_exceptionally(error)
    assert [future.exception() for future in futures] == [error] * 3
    assert thresholds.num_waiting == len(thresholds.timer) == 0
    with pytest.raises(TypeError):
        thresholds.complete_all_exceptionally("not leader")


def test_several_with_the_same_threshold(thresholds):
    futures = [thresholds.await_(3, 500) for _ in range(3)]
    thresholds.maybe_complete(3, 1000)
    assert [future.result() for future in futures] == [1000] * 3
    assert thresholds.num_waiting == 0


def test_a_higher_value_completes_all_below_it_lowest_first(thresholds):
    order = []
    for threshold in (5, 1, 3, 1):
        future = thresholds.await_(threshold, 500)
        future.add_done_callback(lambda _, threshold=threshold: order.append(threshold))
    thresholds.maybe_complete(10, 1000)
    assert order == [1, 1, 3, 5]
    assert thresholds.num_waiting == 0


def test_num_waiting_through_all_kinds_of_completion(thresholds):
    for threshold in (1, 2, 3, 4):
        thresholds.await_(threshold, 500)
    thresholds.maybe_complete(1)
    assert thresholds.num_waiting == 3
    thresholds.maybe_complete(3)
    assert thresholds.num_waiting == 1
    thresholds.complete_all()
    assert thresholds.num_waiting == 0


def test_the_time_is_the_timers_if_none_is_given(thresholds, timer):
    timer.advance(1.234)
    first, second = thresholds.await_(1, 500), thresholds.await_(9, 500)
    thresholds.maybe_complete(1)
    thresholds.complete_all()
    assert (first.result(), second.result()) == (1234, 1234)


def test_a_future_that_is_cancelled_or_completed_by_a_stranger_is_forgotten(thresholds, timer):
    cancelled, strange, waiting = (thresholds.await_(1, 500) for _ in range(3))
    assert cancelled.cancel()
    strange.set_result("strange")
    assert thresholds.num_waiting == len(timer) == 1
    assert wait([cancelled, strange], timeout=0).not_done == set()
    thresholds.maybe_complete(1, 1000)
    assert strange.result() == "strange"
    with pytest.raises(CancelledError):
        cancelled.result()
    assert waiting.result() == 1000


def test_thresholds_are_anything_with_an_order(thresholds):
    first, second = thresholds.await_((1, "b"), 500), thresholds.await_((1, "c"), 500)
    thresholds.maybe_complete((1, "b"))
    assert done(first, second) == [True, False]
    with pytest.raises(TypeError):
        thresholds.await_(5, 500)
    assert (thresholds.num_waiting, len(thresholds.timer)) == (1, 1)
    thresholds.maybe_complete((2, ""))
    assert second.done()


def test_what_is_gone_does_not_pile_up(thresholds, timer):
    first = thresholds.await_(0, 10**9)
    for threshold in range(1, 10_000):
        thresholds.await_(threshold, 10**9).cancel()
        thresholds.await_(threshold, 1)
        timer.advance(0.001)
    assert thresholds.num_waiting == 1
    assert len(thresholds._take_heap()[0]) < 100
    thresholds.maybe_complete(0, 7)
    assert first.result() == 7


def test_against_a_sorted_list(thresholds):
    dice = seeded_random(5)
    waiting = []
    for _ in range(3000):
        action = dice.random()
        if action < 0.6:
            threshold = dice.randrange(100)
            waiting.append((threshold, thresholds.await_(threshold, 10**9)))
        elif action < 0.8 and waiting:
            waiting.pop(dice.randrange(len(waiting)))[1].cancel()
        else:
            value = dice.randrange(-1, 100) if dice.random() < 0.1 else dice.randrange(5)
            thresholds.maybe_complete(value, 1)
            assert all(future.done() for threshold, future in waiting if threshold <= value)
            waiting = [(threshold, future) for threshold, future in waiting if threshold > value]
            assert not any(future.done() for _, future in waiting)
        assert thresholds.num_waiting == len(thresholds.timer) == len(waiting)


def test_threads(run_threads, many_switches):
    futures = []
    with ThresholdPurgatory("threads") as thresholds:

        def wait_for(numbers):
            for number in numbers:
                futures.append(thresholds.await_(number, 600_000 if number % 3 else 1))

        run_threads(
            [lambda: wait_for(range(0, 3000, 2)), lambda: wait_for(range(1, 3000, 2))]
            + [lambda: [thresholds.maybe_complete(value) for value in range(3000)]] * 2
        )
        thresholds.maybe_complete(3000)
        not_done = wait(futures, timeout=60).not_done
        assert not not_done
        assert thresholds.num_waiting == len(thresholds.timer) == 0
    errors = {type(future.exception()) for future in futures}
    assert errors <= {type(None), TimeoutError}


def test_close_fails_what_waits_and_leaves_a_given_timer_open(timer):
    thresholds = ThresholdPurgatory("thresholds", timer)
    future = thresholds.await_(1, 500)
    assert not thresholds.closed
    thresholds.close()
    thresholds.close()
    assert thresholds.closed
    assert isinstance(future.exception(), TimerClosed)
    with pytest.raises(TimerClosed):
        thresholds.await_(1, 500)
    assert not timer.closed
    assert len(timer) == 0


def test_its_own_timer_expires_in_a_thread_and_is_closed_with_it():
    with ThresholdPurgatory() as thresholds:
        with pytest.raises(TimeoutError):
            thresholds.await_(1, 20).result(60)
        assert threading.active_count() > 1
    assert thresholds.timer.closed


def test_bad_arguments_are_refused_and_change_nothing():
    with ManualTimer(max_pending=1) as timer, ThresholdPurgatory("full", timer) as thresholds:
        for delay_ms in (None, "1", float("nan"), float("inf")):
            with pytest.raises((TypeError, ValueError)):
                thresholds.await_(1, delay_ms)
        thresholds.await_(1, 500)
        with pytest.raises(TimerFull):
            thresholds.await_(2, 500)
        assert thresholds.num_waiting == len(thresholds._take_heap()[0]) == 1
    for arguments in [(1,), ("name", 5)]:
        with pytest.raises(TypeError):
            ThresholdPurgatory(*arguments)


# --- what has no order, and what comes in between ------------------------------------------------------------------

NO_NUMBERS = [float("nan"), Decimal("nan"), numpy.float64("nan"), (1, float("nan")), (1, (2, Decimal("nan")))]


@pytest.mark.parametrize("nan", NO_NUMBERS, ids=repr)
def test_what_is_not_equal_to_itself_is_refused_and_changes_nothing(thresholds, nan):
    like = (lambda number: (number, (number,))) if isinstance(nan, tuple) else (lambda number: number)
    waiting = [thresholds.await_(like(number), 500) for number in (3, 1, 2)]
    with pytest.raises(ValueError, match="not equal to itself"):
        thresholds.maybe_complete(nan)
    with pytest.raises(ValueError, match="not equal to itself"):
        thresholds.await_(nan, 500)
    assert not any(done(*waiting))
    assert thresholds.num_waiting == len(thresholds.timer) == 3
    thresholds.maybe_complete(like(2), 9)
    assert done(*waiting) == [False, True, True]


def test_a_value_that_has_no_order_with_a_threshold_completes_nothing(thresholds):
    low, other = thresholds.await_({1}, 500), thresholds.await_({1, 2}, 500)
    with pytest.raises(ValueError, match="neither below"):
        thresholds.maybe_complete({3})
    assert done(low, other) == [False, False]
    thresholds.maybe_complete({1})
    assert done(low, other) == [True, False]


class Meddling:
    """A threshold whose next comparison does something first."""

    meanwhile = None

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        meanwhile, Meddling.meanwhile = Meddling.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return self.value < other.value

    def __le__(self, other):
        return self.value <= other.value


def test_what_a_comparison_adds_and_completes_is_forgotten_by_nobody(thresholds):
    late = []
    others = [thresholds.await_(Meddling(value), 500) for value in (5, 7)]

    def add_and_complete():
        late.append(thresholds.await_(Meddling(3), 500))
        thresholds.maybe_complete(Meddling(1))

    Meddling.meanwhile = add_and_complete
    thresholds.maybe_complete(Meddling(2))
    assert done(*late, *others) == [False, False, False]
    thresholds.maybe_complete(Meddling(4))
    assert done(*late, *others) == [True, False, False]


class Picky:
    """A number that only says what is less, and calls `between` when it is asked."""

    between = None

    def __init__(self, number):
        self.number = number

    def __lt__(self, other):
        if Picky.between is not None:
            Picky.between()
        return self.number < other.number


@pytest.fixture
def between(monkeypatch):
    """between(function): is called inside each comparison from now on."""
    return lambda function: monkeypatch.setattr(Picky, "between", function and staticmethod(function))


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt])
def test_a_comparison_that_raises_at_any_moment_loses_no_future(thresholds, between, kind):
    for good_ones in range(60):
        waiting = [thresholds.await_(Picky(number), 500) for number in (5, 3, 8, 1, 9, 2, 7)]
        counted = itertools.count()

        def fail(counted=counted, good_ones=good_ones):
            if next(counted) == good_ones:
                raise kind

        between(fail)
        failed = False
        try:
            thresholds.maybe_complete(Picky(7), 1)
        except kind:
            failed = True
            assert not any(done(*waiting))
        try:
            waiting.append(thresholds.await_(Picky(4), 500))
        except kind:
            failed = True
        between(None)
        thresholds.maybe_complete(Picky(7), 1)
        assert [future.done() for future in waiting[:7]] == [True, True, False, True, False, True, True]
        thresholds.maybe_complete(Picky(100), 2)
        assert all(done(*waiting))
        assert thresholds.num_waiting == len(thresholds.timer) == 0
        if not failed:
            break
    else:
        raise AssertionError("it never came to its end")


def test_a_comparison_that_comes_back_to_the_purgatory(thresholds, between):
    dice = seeded_random(3)
    made = []
    depth, left = [0], [150]

    def come_back():
        if left[0] and depth[0] < 2 and dice.random() < 0.1:
            left[0] -= 1
            depth[0] += 1
            try:
                if dice.random() < 0.6:
                    number = dice.randrange(20)
                    made.append((number, thresholds.await_(Picky(number), 10**6)))
                else:
                    made[dice.randrange(len(made))][1].cancel()
            finally:
                depth[0] -= 1

    made += [(number, thresholds.await_(Picky(number), 10**6)) for number in (5, 3, 8)]
    between(come_back)
    for value in [0, 2, 5, 1, 9, 12]:
        for number in dice.sample(range(20), 8):
            made.append((number, thresholds.await_(Picky(number), 10**6)))
        before = [future for number, future in made if number <= value]
        thresholds.maybe_complete(Picky(value), 1)
        assert all(future.done() for future in before)
    between(None)
    thresholds.maybe_complete(Picky(12))
    assert all(future.done() == (number <= 12) or future.cancelled() for number, future in made)
    thresholds.maybe_complete(Picky(20))
    assert thresholds.num_waiting == len(thresholds.timer) == 0


@pytest.mark.parametrize("again", [False, True], ids=["not inside itself", "also inside itself"])
def test_a_comparison_that_always_adds_keeps_no_call_going(thresholds, between, again):
    made = []
    inside = []

    def add():
        if inside and not again:
            return
        assert len(made) < 5_000, "it goes on and on"
        inside.append(1)
        try:
            number = len(made) % 20
            made.append((number, thresholds.await_(Picky(number), 10**6)))
        finally:
            inside.pop()

    made += [(number, thresholds.await_(Picky(number), 10**6)) for number in (15, 3, 9, 1)]
    between(add)
    for value in (3, 8):
        made.append((value, thresholds.await_(Picky(value), 10**6)))
        before = [future for number, future in made if number <= value]
        thresholds.maybe_complete(Picky(value), 1)
        assert all(done(*before))
    between(None)
    assert thresholds.num_waiting == sum(not future.done() for _, future in made)
    thresholds.maybe_complete(Picky(12), 1)
    assert all(future.done() == (number <= 12) for number, future in made if not future.done() or number <= 12)
    thresholds.maybe_complete(Picky(20), 2)
    assert all(future.done() for _, future in made)
    assert thresholds.num_waiting == len(thresholds.timer) == 0


def test_a_comparison_that_completes_and_fails_in_between_keeps_no_future_waiting(thresholds, between):
    """Each comparison itself completes what is low, which fails halfway, and brings a threshold that is refused."""
    waiting = [thresholds.await_(Picky(number), 10**6) for number in (5, 3, 8, 1, 9, 2, 7)]
    inside = []

    def come_back():
        if len(inside) == 2:
            raise LookupError
        if inside:
            inside.append(1)
            return
        inside.append(1)
        try:
            with pytest.raises(LookupError):
                thresholds.maybe_complete(Picky(2), 1)
            with pytest.raises((AttributeError, TypeError)):
                thresholds.await_("of another kind", 10**6)
        finally:
            inside.clear()

    between(come_back)
    thresholds.maybe_complete(Picky(5), 1)
    assert [future.done() for future in waiting] == [True, True, False, True, False, True, False]
    between(None)
    thresholds.maybe_complete(Picky(8), 1)
    assert [future.done() for future in waiting] == [True, True, True, True, False, True, True]
    assert thresholds.num_waiting == len(thresholds.timer) == 1


@pytest.mark.parametrize("how", ["maybe_complete", "complete_all", "complete_all_exceptionally", "close"])
def test_a_callback_that_is_interrupted_keeps_no_other_future_waiting(thresholds, how):
    waiting = [thresholds.await_(number, 500) for number in range(5)]

    def interrupt(_):
        raise KeyboardInterrupt

    waiting[1].add_done_callback(interrupt)
    waiting[3].add_done_callback(interrupt)
    arguments = {"maybe_complete": (9, 1), "complete_all_exceptionally": (NotLeader(),)}.get(how, ())
    with pytest.raises(KeyboardInterrupt):
        getattr(thresholds, how)(*arguments)
    assert all(done(*waiting))
    assert thresholds.num_waiting == len(thresholds.timer) == 0


def test_a_clock_that_fails_leaves_the_futures_waiting(thresholds, timer, monkeypatch):
    waiting = [thresholds.await_(number, 500) for number in range(3)]

    def fail():
        raise OSError("no clock")

    with monkeypatch.context() as patch:
        patch.setattr(thresholds, "timer", type("Timer", (), {"time": staticmethod(fail)}))
        for complete in (lambda: thresholds.maybe_complete(1), thresholds.complete_all):
            with pytest.raises(OSError):
                complete()
    assert not any(done(*waiting))
    thresholds.maybe_complete(1, 4)
    assert done(*waiting) == [True, True, False]
    thresholds.complete_all()
    assert all(done(*waiting))


def test_what_is_completed_while_await_looks_whether_it_waits_is_not_awaited_anew(thresholds, monkeypatch):
    """Else nobody would complete what the caller gets: the value has been reached by then."""

    class Waiting(dict):
        def __contains__(self, number):
            thresholds.maybe_complete(5, 1000)
            return super().__contains__(number)

    monkeypatch.setattr(thresholds, "_waiting", Waiting())
    assert thresholds.await_(5, 500).result(0) == 1000


def test_only_who_has_the_lock_changes_the_heap(timer):
    """Also when a comparison has failed, because another thread may be at work on the heap."""
    locked = []

    class Watched(ThresholdPurgatory):
        def __setattr__(self, name, value):
            if name == "_heap":
                locked.append(self._lock._is_owned())
            super().__setattr__(name, value)

    with Watched("thresholds", timer) as thresholds:
        locked.clear()  # in __init__ nobody else has it
        thresholds.await_(1, 500)
        with pytest.raises(TypeError):
            thresholds.maybe_complete("one")
        assert locked and all(locked)
