"""Callbacks may use their own timer, because no lock is held while they run. Their exceptions are reported."""

import sys
import threading
import time
from array import array

import pytest

from hwheel import TimerClosed

PATIENCE_S = 60


def test_callback_uses_its_own_timer(make_timer, executor, eventually):
    timer = make_timer(executor=executor)
    victim, moved = timer.call_later(3600, pytest.fail, "it was cancelled"), timer.call_later(3600, int)
    answers, indices = [], []

    def count_down(left):
        if left:
            timer.call_later(0.001 * (left % 3), count_down, left - 1)
        else:
            timer.call_many(array("q", [0, 1] * 5_000), indices.extend)
            answers.extend([victim.cancel(), victim.cancel(), moved.reschedule(0.001)])

    timer.call_later(0, count_down, 50)
    eventually(lambda: len(answers) == 3 and len(indices) == 10_000 and moved.expired)
    assert (answers, victim.cancelled) == ([True, False, True], True)
    assert sorted(indices) == list(range(10_000))


def test_callback_cancels_tasks_of_its_own_tick(make_timer, ordered_executor, hand_clock, eventually):
    if hasattr(ordered_executor, "submit"):
        pytest.skip("the timer cannot cancel calls that it has submitted to another executor")
    timer = make_timer(executor=ordered_executor, clock=hand_clock, reaper=False)
    ran = []
    tasks = []
    timer.call_later(0.01, lambda: ran.append([task.cancel() for task in tasks]))
    tasks += [timer.call_later(0.01, pytest.fail, "it was cancelled") for _ in range(3)]
    timer.call_later(0.01, ran.append, "the last one")
    hand_clock.ms += 20
    assert timer.advance_clock(0) is True
    eventually(lambda: len(ran) == 2)
    assert ran == [[True, True, True], "the last one"]


def test_running_task_cannot_cancel_or_reschedule_itself(make_timer, executor):
    timer = make_timer(executor=executor)
    done = threading.Event()
    answers = []
    tasks = []

    def try_it():
        answers.extend([tasks[0].expired, tasks[0].cancel(), tasks[0].reschedule(0.001)])
        done.set()

    tasks.append(timer.call_later(0.05, try_it))
    assert done.wait(PATIENCE_S)
    assert answers == [True, False, False]


def test_callback_closes_its_own_timer(make_timer, executor, eventually):
    timer = make_timer(executor=executor)
    pending = [timer.call_later(3600 + i, pytest.fail, "it was closed") for i in range(3)]
    returned = []
    done = threading.Event()

    def close_it():
        returned.append(timer.close())
        returned.append(timer.close())
        with pytest.raises(TimerClosed):
            timer.call_later(1, print)
        done.set()

    timer.call_later(0.001, close_it)
    assert done.wait(PATIENCE_S)
    assert returned == [pending, []]
    assert timer.closed
    eventually(lambda: not any(thread.name.endswith(f"-{timer.name}") for thread in threading.enumerate()))


def test_callback_closes_its_own_timer_with_run_pending(make_timer, executor, eventually):
    timer = make_timer(executor=executor)
    ran = []
    for i in range(5):
        timer.call_later(3600 + i, ran.append, i)
    timer.call_later(0.001, lambda: ran.append(timer.close(run_pending=True)))
    eventually(lambda: len(ran) == 6, "the run of the five pending tasks and the return of close()")
    assert [] in ran
    assert sorted(one for one in ran if one != []) == list(range(5))


def test_periodic_task_closes_its_own_timer_without_an_error(make_timer, executor, eventually):
    reported = []
    real = make_timer("real", executor=executor, on_error=lambda *args: reported.append(args))
    callable_clock = make_timer(
        "own clock", executor=executor, clock=lambda: real.time() * 1000, on_error=lambda *args: reported.append(args)
    )
    for timer in (callable_clock, real):
        closed = threading.Event()
        timer.call_every(0.001, lambda: (timer.close(), closed.set()))
        assert closed.wait(PATIENCE_S)
        eventually(lambda: not any(thread.name.endswith(f"-{timer.name}") for thread in threading.enumerate()))
    assert reported == []


class Unusual(BaseException):
    """An exception that is not an Exception and cannot be printed."""

    def __str__(self):
        raise RuntimeError("no str")

    __repr__ = __str__


def fail(error):
    raise error


@pytest.mark.parametrize("kind", [ValueError, Unusual, KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration])
@pytest.mark.parametrize("has_on_error", [True, False])
def test_errors_of_all_callbacks_are_reported(make_timer, executor, monkeypatch, eventually, kind, has_on_error):
    """Later tasks run, and the periodic task goes on."""
    reported, ran = [], []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append((None, args.exc_value)))
    on_error = (lambda source, error: reported.append((source, error))) if has_on_error else None
    timer = make_timer(executor=executor, on_error=on_error)
    errors = [kind(name) for name in ("task", "every", "batch")]
    task = timer.call_later(0.005, fail, errors[0])
    every = timer.call_every(0.01, fail, errors[1])
    batch = timer.call_many(array("q", [5, 5]), lambda indices: fail(errors[2]))
    timer.call_later(0.005, ran.append, 1)
    eventually(lambda: len({id(error) for _, error in reported}) == 3 and len(reported) >= 5 and ran)
    every.cancel()
    timer.close()
    sources = [task, every, batch] if has_on_error else [None] * 3
    assert {(id(one), id(error)) for one, error in reported} == {*zip(map(id, sources), map(id, errors), strict=True)}
    assert [id(error) for _, error in reported].count(id(errors[0])) == 1


def test_on_error_closes_the_timer(make_timer, executor, eventually):
    ends, reported = [], []

    def on_error(source, error):
        reported.append(source)
        if len(reported) == 1:
            ends.extend(timer.close())

    timer = make_timer(executor=executor, on_error=on_error)
    timer.call_later(0.02, fail, ValueError("on purpose"))
    later = [timer.call_later(0.02, ends.append, number) for number in range(5)]
    far = timer.call_later(3600, print)
    every = timer.call_every(0.02, ends.append, "every")
    eventually(lambda: timer.closed and far in ends)
    if hasattr(executor, "shutdown"):
        executor.shutdown(wait=True)
    assert all(ends.count(number) + ends.count(task) == 1 for number, task in enumerate(later))
    assert ends.count(far) == 1 and not every.pending
    assert timer.close() == []


@pytest.mark.parametrize("act", ["add", "cancel the source"])
def test_on_error_uses_the_timer(make_timer, executor, eventually, act):
    ran, reported = [], []

    def on_error(source, error):
        reported.append(source)
        if act == "add":
            timer.call_later(0, ran.append, "added")
        else:
            source.cancel()
            timer.call_later(0.05, ran.append, "later")

    timer = make_timer(executor=executor, on_error=on_error)
    every = timer.call_every(0.005, fail, ValueError("on purpose"))
    eventually(lambda: len(ran) >= (3 if act == "add" else 1))
    if act == "add":
        assert every.cancel()
    else:
        assert every.cancelled and 1 <= len(reported) <= 2
    assert {*reported} == {every}


@pytest.mark.parametrize("kind", [Unusual, SystemExit])
def test_exception_in_on_error_goes_to_excepthook(make_timer, executor, monkeypatch, eventually, kind):
    reported, second = [], kind("second")
    monkeypatch.setattr(threading, "excepthook", reported.append)
    timer = make_timer(executor=executor, on_error=lambda task, error: fail(second))
    done = threading.Event()
    timer.call_later(0.001, fail, ValueError("first"))
    timer.call_later(0.002, done.set)
    assert done.wait(PATIENCE_S)
    eventually(lambda: reported)
    assert reported[0].exc_value is second


def test_on_error_runs_in_the_thread_of_the_callback(make_timer, executor, eventually):
    threads = []
    timer = make_timer(executor=executor, on_error=lambda task, error: threads.append(threading.current_thread()))

    def raise_here():
        threads.append(threading.current_thread())
        raise ValueError

    timer.call_later(0, raise_here)
    eventually(lambda: len(threads) == 2)
    assert threads[0] is threads[1]


def test_without_on_error_excepthook_receives_the_exception(make_timer, executor, monkeypatch, eventually):
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


@pytest.mark.parametrize("last_resort_raises", [False, True])
def test_exception_in_excepthook_goes_to_sys_excepthook(make_timer, executor, monkeypatch, last_resort_raises):
    reported = []

    def last_resort(kind, error, traceback):
        reported.append(error)
        if last_resort_raises:
            raise Unusual("fourth")

    third = Unusual("third")
    monkeypatch.setattr(threading, "excepthook", lambda args: fail(third))
    monkeypatch.setattr(sys, "excepthook", last_resort)
    timer = make_timer(executor=executor, on_error=lambda task, error: fail(ValueError("second")))
    done = threading.Event()
    timer.call_later(0.001, fail, ValueError("first"))
    timer.call_later(0.01, done.set)
    assert done.wait(PATIENCE_S)
    timer.close()
    assert reported == [third]


def test_nothing_is_logged(make_timer, executor, caplog, eventually):
    # concurrent.futures logs exceptions in callbacks of futures.
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


def test_reaper_survives_a_clock_that_fails_once(make_timer, executor):
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


def test_reaper_pauses_after_each_failure_of_the_clock(make_timer):
    times = array("d")

    def clock():
        if threading.current_thread().name == "reaper-fragile" and len(times) < 20:
            times.append(time.monotonic())
            raise OSError("no clock")
        return time.monotonic() * 1000

    timer = make_timer("fragile", clock=clock, on_error=lambda *args: None)
    done = threading.Event()
    timer.call_later(0.01, done.set)
    assert done.wait(PATIENCE_S)
    assert times[-1] - times[0] >= 0.19  # 19 pauses of 10 ms, which are never shorter
