"""Callbacks may use their own timer, because no lock is held while they run. Their exceptions are reported."""

import sys
import threading
from array import array
from concurrent.futures import ThreadPoolExecutor

import pytest

from hwheel import TimerClosed, TimerTask

PATIENCE_S = 60


def test_callback_adds_to_its_own_timer(make_timer, executor):
    timer = make_timer(executor=executor)
    done = threading.Event()

    def count_down(left):
        if left:
            timer.call_later(0.001 * (left % 3), count_down, left - 1)
        else:
            done.set()

    timer.call_later(0, count_down, 50)
    assert done.wait(PATIENCE_S)


def test_callback_adds_a_batch_to_its_own_timer(make_timer, executor):
    timer = make_timer(executor=executor)
    done = threading.Event()
    seen = []

    def note(indices):
        seen.extend(indices)
        if len(seen) == 10_000:
            done.set()

    timer.call_later(0, lambda: timer.call_many(array("q", [0, 1] * 5_000), note))
    assert done.wait(PATIENCE_S)
    assert sorted(seen) == list(range(10_000))


def test_callback_cancels_another_task(make_timer, executor):
    timer = make_timer(executor=executor)
    victim = timer.call_later(3600, pytest.fail, "it was cancelled")
    answers = []
    done = threading.Event()

    def cancel_it():
        answers.extend([victim.cancel(), victim.cancel()])
        done.set()

    timer.call_later(0.001, cancel_it)
    assert done.wait(PATIENCE_S)
    assert answers == [True, False]
    assert victim.cancelled


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


def test_callback_reschedules_another_task(make_timer, executor):
    timer = make_timer(executor=executor)
    done = threading.Event()
    far_off = timer.call_later(3600, done.set)
    answers = []
    timer.call_later(0.001, lambda: answers.append(far_off.reschedule(0.001)))
    assert done.wait(PATIENCE_S)
    assert answers == [True]


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


def test_subclass_adds_itself_again_in_run(make_timer, executor):
    timer = make_timer(executor=executor)
    done = threading.Event()

    class Again(TimerTask):
        runs = 0

        def run(self):
            self.runs += 1
            if self.runs < 20:
                timer.add(self)
            else:
                done.set()

    task = timer.add(Again(1))
    assert done.wait(PATIENCE_S)
    assert task.runs == 20


def test_failing_callbacks_do_not_stop_later_ones(make_timer, executor, eventually):
    reported = []
    timer = make_timer(executor=executor, on_error=lambda task, error: reported.append((task, error)))
    ran = []

    def fail(number):
        ran.append(number)
        raise ValueError(number)

    tasks = [timer.call_later(0.001 * (i % 7), fail, i) for i in range(100)]
    eventually(lambda: len(reported) == 100, "a report of each error")
    assert sorted(ran) == list(range(100))
    assert {task for task, _ in reported} == set(tasks)
    assert all(isinstance(error, ValueError) and tasks[error.args[0]] is task for task, error in reported)


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


def test_on_error_adds_to_the_timer(make_timer, executor):
    done = threading.Event()
    timer = make_timer(executor=executor, on_error=lambda task, error: timer.call_later(0, done.set))
    timer.call_later(0, lambda: 1 / 0)
    assert done.wait(PATIENCE_S)


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
    """An exception that does not derive from Exception."""


def fail(error):
    raise error


@pytest.mark.parametrize("kind", [ValueError, Unusual, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_on_error_receives_the_task_and_the_exception(make_timer, executor, kind):
    error = kind("on purpose")
    reported = []
    timer = make_timer(executor=executor, on_error=lambda *args: reported.append(args))
    done = threading.Event()
    task = timer.call_later(0.001, fail, error)
    timer.call_later(0.005, done.set)
    assert done.wait(PATIENCE_S)
    timer.close()
    assert reported == [(task, error)]


def test_on_error_receives_the_batch_and_the_exception(make_timer, executor, eventually):
    reported = []
    timer = make_timer(executor=executor, on_error=lambda *args: reported.append(args))
    error = ValueError("x")
    batch = timer.call_many(array("q", [1]), lambda indices: fail(error))
    eventually(lambda: reported)
    assert reported == [(batch, error)]
    done = threading.Event()
    timer.call_later(0, done.set)
    assert done.wait(PATIENCE_S)


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


def test_exception_in_on_error_goes_to_excepthook(make_timer, executor, monkeypatch, eventually):
    reported = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    first, second = ValueError("first"), Unusual("second")
    timer = make_timer(executor=executor, on_error=lambda task, error: fail(second))
    done = threading.Event()
    timer.call_later(0.001, fail, first)
    timer.call_later(0.002, done.set)
    assert done.wait(PATIENCE_S)
    eventually(lambda: reported)
    assert reported[0].exc_value is second


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


def test_refused_submit_is_reported_for_each_task(make_timer, eventually):
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
