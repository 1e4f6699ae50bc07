"""DelayedFuturePurgatory: all futures done, or the time over."""

import gc
import threading
import weakref
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait

import pytest

from hwheel import ManualTimer, TimerClosed
from hwheel.purgatory import DelayedFuturePurgatory


@pytest.fixture
def futures_purgatory(timer):
    with DelayedFuturePurgatory("futures", timer) as purgatory:
        yield purgatory


def test_what_is_done_already_is_called_back_at_once(futures_purgatory):
    done = Future()
    done.set_result(1)
    failed = Future()
    failed.set_exception(ZeroDivisionError())
    called = []
    for futures in ([], [done], [done, failed], (future for future in (failed, done))):
        operation = futures_purgatory.try_complete_else_watch(
            100, futures, lambda: called.append(threading.get_ident())
        )
        assert operation.is_completed
    assert called == [threading.get_ident()] * 4
    assert futures_purgatory.purgatory.stats() == (0, 0, 4, 0, 0)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_it_calls_back_once_when_the_last_future_is_done(futures_purgatory, timer, order):
    futures = [Future() for _ in range(3)]
    called = []
    operation = futures_purgatory.try_complete_else_watch(100, futures, lambda: called.append(1))
    for number in order[:2]:
        futures[number].set_result(number)
        assert not operation.is_completed
    timer.advance(0.099)
    assert called == []
    futures[order[2]].cancel()
    assert called == [1]
    assert operation.is_completed
    assert (len(timer), futures_purgatory.purgatory.watched) == (0, 0)
    timer.advance(0.1)
    assert called == [1]


def test_the_same_future_twice_is_one(futures_purgatory):
    future = Future()
    called = []
    futures_purgatory.try_complete_else_watch(100, [future, future], lambda: called.append(1))
    future.set_result(1)
    assert called == [1]


def test_a_timeout_cancels_what_has_not_begun_and_leaves_what_runs(timer):
    """An executor goes on working afterwards: its thread has not met a future that somebody else has finished."""
    go_on = threading.Event()
    begun = threading.Event()

    def slow():
        begun.set()
        assert go_on.wait(60)
        return "slow"

    with ThreadPoolExecutor(1) as pool, DelayedFuturePurgatory("futures", timer) as purgatory:
        running = pool.submit(slow)
        assert begun.wait(60)
        queued = pool.submit(print, "never")
        seen = []
        operation = purgatory.try_complete_else_watch(
            100, [running, queued], lambda: seen.append((running.done(), queued.cancelled()))
        )
        timer.advance(0.1)
        assert seen == [(False, True)]
        assert operation.is_completed
        assert purgatory.purgatory.stats().expired == 1
        after = pool.submit(lambda: "after")
        go_on.set()
        assert running.result(60) == "slow"
        assert after.result(60) == "after"
        with pytest.raises(CancelledError):
            queued.result(60)
        assert seen == [(False, True)]


def test_a_timeout_fails_what_is_not_done_if_that_is_wanted(timer):
    with DelayedFuturePurgatory("futures", timer, fail_pending=True) as purgatory:
        done, pending, running = Future(), Future(), Future()
        running.set_running_or_notify_cancel()
        seen = []
        purgatory.try_complete_else_watch(
            100, [done, pending, running], lambda: seen.append([type(f.exception()) for f in (pending, running)])
        )
        done.set_result(5)
        timer.advance(0.1)
        assert seen == [[TimeoutError, TimeoutError]]
        assert done.result() == 5
        with pytest.raises(TimeoutError, match="not done after 100 ms"):
            pending.result()


def test_a_future_that_is_done_while_the_others_are_failed_stays_as_it_is(timer, errors):
    with DelayedFuturePurgatory("futures", timer, fail_pending=True) as purgatory:
        first, second = Future(), Future()
        first.add_done_callback(lambda _: second.set_result("answer"))
        called = []
        purgatory.try_complete_else_watch(100, [first, second], lambda: called.append(second.result()))
        timer.advance(0.1)
    assert called == ["answer"] and errors == []


def test_a_future_that_is_never_done_keeps_no_expired_operation_alive(futures_purgatory, timer):
    future = Future()
    future.set_running_or_notify_cancel()
    operation = futures_purgatory.try_complete_else_watch(100, [future], lambda: None)
    gone = weakref.ref(operation)
    del operation
    gc.disable()
    try:
        timer.advance(0.1)
        assert gone() is None
    finally:
        gc.enable()


def test_an_error_in_the_callback_is_reported(futures_purgatory, errors):
    future = Future()
    operation = futures_purgatory.try_complete_else_watch(100, [future], lambda: 1 / 0)
    future.set_result(1)
    assert [(source, type(error)) for source, error in errors] == [(operation, ZeroDivisionError)]


def test_futures_that_threads_finish_at_the_same_time(many_switches):
    with DelayedFuturePurgatory() as purgatory, ThreadPoolExecutor(4) as pool:
        called = [[] for _ in range(200)]
        submitted = []
        for number in range(200):
            futures = [pool.submit(int) for _ in range(8)]
            submitted += futures
            purgatory.try_complete_else_watch(600_000, futures, lambda number=number: called[number].append(1))
        wait(submitted)
    assert called == [[1]] * 200


def test_close_returns_what_waits(timer):
    purgatory = DelayedFuturePurgatory("futures", timer)
    future = Future()
    called = []
    operation = purgatory.try_complete_else_watch(100, [future], lambda: called.append(1))
    assert not purgatory.closed
    assert purgatory.close() == [operation]
    assert purgatory.closed
    assert purgatory.close() == []
    future.set_result(1)
    timer.advance(1)
    assert called == []
    with pytest.raises(TimerClosed):
        purgatory.try_complete_else_watch(100, [Future()], print)
    assert not timer.closed


@pytest.mark.parametrize(
    "arguments", [(100, [1], print), (100, [Future()], None), (None, [Future()], print), (1, 2, print)]
)
def test_bad_arguments_are_refused(futures_purgatory, arguments):
    with pytest.raises(TypeError):
        futures_purgatory.try_complete_else_watch(*arguments)
    assert futures_purgatory.purgatory.stats() == (0, 0, 0, 0, 0)


def test_its_own_timer_is_closed_with_it():
    purgatory = DelayedFuturePurgatory("own", reaper=False)
    purgatory.try_complete_else_watch(0, [Future()], lambda: called.append(1))
    called = []
    assert purgatory.purgatory.advance_clock(60_000)
    assert called == [1]
    purgatory.close()
    assert purgatory.purgatory.timer.closed
    with pytest.raises(TypeError):
        DelayedFuturePurgatory(ManualTimer())
