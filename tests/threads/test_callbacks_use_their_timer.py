"""No lock is held while your code runs: a callback may do anything to its own timer, on any thread, since no lock is
held while it runs."""

import threading
from array import array

import pytest

from hwheel import TimerClosed, TimerTask

PATIENCE_S = 60


def test_a_callback_adds_to_its_own_timer(make_timer, executor):
    timer = make_timer(executor=executor)
    done = threading.Event()

    def count_down(left):
        if left:
            timer.call_later(0.001 * (left % 3), count_down, left - 1)
        else:
            done.set()

    timer.call_later(0, count_down, 50)
    assert done.wait(PATIENCE_S)


def test_a_callback_adds_bulk_timers_to_its_own_timer(make_timer, executor):
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


def test_a_callback_cancels_another_task(make_timer, executor):
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


def test_a_callback_cancels_one_that_is_due_at_the_same_tick(make_timer, ordered_executor, hand_clock, eventually):
    if hasattr(ordered_executor, "submit"):
        pytest.skip("what a foreign executor has been given is out of the timer's hands")
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


def test_a_callback_reschedules_another_task(make_timer, executor):
    timer = make_timer(executor=executor)
    done = threading.Event()
    far_off = timer.call_later(3600, done.set)
    answers = []
    timer.call_later(0.001, lambda: answers.append(far_off.reschedule(0.001)))
    assert done.wait(PATIENCE_S)
    assert answers == [True]


def test_a_callback_cannot_cancel_or_reschedule_itself_because_it_is_running(make_timer, executor):
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


def test_a_subclass_adds_itself_again_in_its_own_run(make_timer, executor):
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


def test_callbacks_that_raise_stop_nothing(make_timer, executor, eventually):
    reported = []
    timer = make_timer(executor=executor, on_error=lambda task, error: reported.append((task, error)))
    ran = []

    def fail(number):
        ran.append(number)
        raise ValueError(number)

    tasks = [timer.call_later(0.001 * (i % 7), fail, i) for i in range(100)]
    eventually(lambda: len(reported) == 100, "a report of each")
    assert sorted(ran) == list(range(100))
    assert {task for task, _ in reported} == set(tasks)
    assert all(isinstance(error, ValueError) and tasks[error.args[0]] is task for task, error in reported)


def test_a_callback_closes_its_own_timer(make_timer, executor, eventually):
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


def test_a_callback_closes_its_own_timer_and_runs_what_was_pending(make_timer, executor, eventually):
    timer = make_timer(executor=executor)
    ran = []
    for i in range(5):
        timer.call_later(3600 + i, ran.append, i)
    timer.call_later(0.001, lambda: ran.append(timer.close(run_pending=True)))
    eventually(lambda: len(ran) == 6, "the five that were pending, and the answer of close()")
    assert [] in ran
    assert sorted(one for one in ran if one != []) == list(range(5))


def test_on_error_may_use_the_timer_too(make_timer, executor):
    done = threading.Event()
    timer = make_timer(executor=executor, on_error=lambda task, error: timer.call_later(0, done.set))
    timer.call_later(0, lambda: 1 / 0)
    assert done.wait(PATIENCE_S)


def test_a_periodic_task_that_closes_its_own_timer_is_no_error(make_timer, executor, eventually):
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
