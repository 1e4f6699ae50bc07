"""Where an exception in a callback goes: to on_error, else to threading.excepthook; and nothing stops."""

import sys
import threading
from array import array
from concurrent.futures import ThreadPoolExecutor

import pytest

PATIENCE_S = 60


class Odd(BaseException):
    """Not even an Exception."""


def fail(error):
    raise error


@pytest.mark.parametrize("kind", [ValueError, Odd, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_on_error_gets_the_task_and_the_exception(make_timer, executor, kind):
    error = kind("on purpose")
    reported = []
    timer = make_timer(executor=executor, on_error=lambda *args: reported.append(args))
    done = threading.Event()
    task = timer.call_later(0.001, fail, error)
    timer.call_later(0.005, done.set)
    assert done.wait(PATIENCE_S)
    timer.close()
    assert reported == [(task, error)]


def test_on_error_gets_the_batch_and_the_exception(make_timer, executor, eventually):
    reported = []
    timer = make_timer(executor=executor, on_error=lambda *args: reported.append(args))
    error = ValueError("x")
    batch = timer.call_many(array("q", [1]), lambda indices: fail(error))
    eventually(lambda: reported)
    assert reported == [(batch, error)]
    done = threading.Event()
    timer.call_later(0, done.set)
    assert done.wait(PATIENCE_S)


def test_on_error_is_called_in_the_thread_that_ran_the_callback(make_timer, executor, eventually):
    threads = []
    timer = make_timer(executor=executor, on_error=lambda task, error: threads.append(threading.current_thread()))

    def raise_here():
        threads.append(threading.current_thread())
        raise ValueError

    timer.call_later(0, raise_here)
    eventually(lambda: len(threads) == 2)
    assert threads[0] is threads[1]


def test_without_on_error_it_goes_to_excepthook(make_timer, executor, monkeypatch, eventually):
    reported = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    timer = make_timer(executor=executor)
    error = ValueError("x")
    timer.call_later(0.001, fail, error)
    eventually(lambda: reported)
    [args] = reported
    assert (args.exc_type, args.exc_value) == (ValueError, error)
    assert args.exc_traceback is error.__traceback__
    assert isinstance(args.thread, threading.Thread)


def test_when_on_error_raises_its_exception_goes_to_excepthook_with_the_first_as_context(
    make_timer, executor, monkeypatch, eventually
):
    reported = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    first, second = ValueError("first"), Odd("second")
    timer = make_timer(executor=executor, on_error=lambda task, error: fail(second))
    done = threading.Event()
    timer.call_later(0.001, fail, first)
    timer.call_later(0.002, done.set)
    assert done.wait(PATIENCE_S)
    eventually(lambda: reported)
    assert reported[0].exc_value is second


@pytest.mark.parametrize("last_resort_raises", [False, True])
def test_when_excepthook_raises_too_it_goes_to_the_hook_of_the_interpreter_and_nothing_stops(
    make_timer, executor, monkeypatch, last_resort_raises
):
    reported = []

    def last_resort(kind, error, traceback):
        reported.append(error)
        if last_resort_raises:
            raise Odd("fourth")

    third = Odd("third")
    monkeypatch.setattr(threading, "excepthook", lambda args: fail(third))
    monkeypatch.setattr(sys, "excepthook", last_resort)
    timer = make_timer(executor=executor, on_error=lambda task, error: fail(ValueError("second")))
    done = threading.Event()
    timer.call_later(0.001, fail, ValueError("first"))
    timer.call_later(0.01, done.set)
    assert done.wait(PATIENCE_S)
    timer.close()
    assert reported == [third]


def test_an_executor_that_refuses_is_an_error_of_each_task_and_stops_nothing(make_timer, eventually):
    reported = []
    dead = ThreadPoolExecutor(1)
    dead.shutdown()
    timer = make_timer(executor=dead, on_error=lambda *args: reported.append(args))
    first = timer.call_later(0.001, print)
    eventually(lambda: len(reported) == 1)
    batch = timer.call_many(array("q", [1]), print)
    eventually(lambda: len(reported) == 2)
    last = timer.call_later(0.001, print)
    eventually(lambda: len(reported) == 3)
    assert [source for source, _ in reported] == [first, batch, last]
    assert all(isinstance(error, RuntimeError) for _, error in reported)


def test_nothing_is_logged_behind_the_users_back(make_timer, executor, caplog, eventually):
    # concurrent.futures logs what goes wrong in a future's callbacks.
    timer = make_timer(executor=executor, on_error=lambda task, error: None)
    seen = []
    timer.call_many(array("q", [1, 2]), seen.extend)
    timer.call_later(0.001, fail, ValueError("x"))
    timer.call_later(0.002, seen.append, 2)
    periodic = timer.call_every(0.001, lambda: seen.append(3))
    eventually(lambda: {0, 1, 2, 3} <= set(seen))
    periodic.cancel()
    timer.close()
    assert caplog.records == []


def test_a_clock_that_fails_once_is_reported_and_the_reaper_goes_on(make_timer, executor):
    real = make_timer("real")
    failures, reported = [], []

    def clock():
        if threading.current_thread().name == "reaper-fragile" and not failures:
            failures.append(True)
            raise OSError("no clock")
        return real.time() * 1000

    timer = make_timer("fragile", executor=executor, clock=clock, on_error=lambda *args: reported.append(args))
    done = threading.Event()
    timer.call_later(0.01, done.set)
    assert done.wait(PATIENCE_S)
    assert [(source, type(error)) for source, error in reported] == [(timer, OSError)]
