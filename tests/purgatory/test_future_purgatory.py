"""DelayedFuturePurgatory: a callback when all futures are done, or at the timeout."""

import gc
import threading
import weakref
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait

import pytest

from hwheel import ManualTimer, TimerClosed
from hwheel.purgatory import DelayedFuturePurgatory


@pytest.fixture
def future_purgatory(timer):
    with DelayedFuturePurgatory("futures", timer) as purgatory:
        yield purgatory


def test_callback_runs_at_once_if_all_futures_are_done(future_purgatory):
    done = Future()
    done.set_result(1)
    failed = Future()
    failed.set_exception(ZeroDivisionError())
    called = []
    for futures in ([], [done], [done, failed], (future for future in (failed, done))):
        operation = future_purgatory.try_complete_else_watch(100, futures, lambda: called.append(threading.get_ident()))
        assert operation.is_completed
    assert called == [threading.get_ident()] * 4
    assert future_purgatory.purgatory.stats() == (0, 0, 4, 0, 0)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_callback_runs_once_when_the_last_future_is_done(future_purgatory, timer, order):
    futures = [Future() for _ in range(3)]
    called = []
    operation = future_purgatory.try_complete_else_watch(100, futures * 2, lambda: called.append(1))
    for number in order[:2]:
        futures[number].set_result(number)
        assert not operation.is_completed
    timer.advance(0.099)
    assert called == []
    futures[order[2]].cancel()
    assert called == [1]
    assert operation.is_completed
    assert (len(timer), future_purgatory.purgatory.watched) == (0, 0)
    timer.advance(0.1)
    assert called == [1]


def test_timeout_cancels_queued_futures_and_leaves_running_ones(timer):
    """The executor keeps working, because the timeout does not finish a future that is running."""
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


def test_timeout_fails_pending_futures_with_fail_pending(timer):
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


def test_future_finished_during_the_timeout_keeps_its_result(timer, errors):
    with DelayedFuturePurgatory("futures", timer, fail_pending=True) as purgatory:
        first, second = Future(), Future()
        first.add_done_callback(lambda _: second.set_result("answer"))
        called = []
        purgatory.try_complete_else_watch(100, [first, second], lambda: called.append(second.result()))
        timer.advance(0.1)
    assert called == ["answer"] and errors == []


def test_unfinished_future_does_not_keep_an_expired_operation_alive(future_purgatory, timer):
    future = Future()
    future.set_running_or_notify_cancel()
    operation = future_purgatory.try_complete_else_watch(100, [future], lambda: None)
    gone = weakref.ref(operation)
    del operation
    gc.disable()
    try:
        timer.advance(0.1)
        assert gone() is None
    finally:
        gc.enable()


def test_error_in_the_callback_is_reported(future_purgatory, errors):
    future = Future()
    operation = future_purgatory.try_complete_else_watch(100, [future], lambda: 1 / 0)
    future.set_result(1)
    assert [(source, type(error)) for source, error in errors] == [(operation, ZeroDivisionError)]


def test_futures_finished_concurrently(many_switches):
    with DelayedFuturePurgatory() as purgatory, ThreadPoolExecutor(4) as pool:
        called = [[] for _ in range(200)]
        submitted = []
        for number in range(200):
            futures = [pool.submit(int) for _ in range(8)]
            submitted += futures
            purgatory.try_complete_else_watch(600_000, futures, lambda number=number: called[number].append(1))
        wait(submitted)
    assert called == [[1]] * 200


def test_close_returns_waiting_operations(timer):
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
def test_future_purgatory_refuses_bad_arguments(future_purgatory, arguments):
    with pytest.raises(TypeError):
        future_purgatory.try_complete_else_watch(*arguments)
    assert future_purgatory.purgatory.stats() == (0, 0, 0, 0, 0)


def test_owned_timer_is_closed_with_the_future_purgatory():
    purgatory = DelayedFuturePurgatory("own", reaper=False)
    purgatory.try_complete_else_watch(0, [Future()], lambda: called.append(1))
    called = []
    assert purgatory.purgatory.advance_clock(60_000)
    assert called == [1]
    purgatory.close()
    assert purgatory.purgatory.timer.closed
    with pytest.raises(TypeError):
        DelayedFuturePurgatory(ManualTimer())
