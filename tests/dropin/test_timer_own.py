"""What hwheel.Timer does that threading.Timer cannot be asked for."""

import gc
import threading
import time
import weakref
from contextvars import ContextVar

import pytest

import hwheel
import hwheel.threading
from hwheel.threading.pool import IDLE_NAME
from systems import collect_if_free_threaded

PATIENCE_S = 60
FAR_OFF_S = 1000


@pytest.mark.parametrize(
    ("interval", "error"),
    [(None, TypeError), ("1", TypeError), (True, TypeError), (float("nan"), ValueError), (float("inf"), ValueError)],
)
def test_a_bad_interval_is_an_error_at_start_and_changes_nothing(interval, error):
    calls = []
    timer = hwheel.Timer(interval, calls.append, [1])
    with pytest.raises(error):
        timer.start()
    assert not timer.is_alive()
    timer.interval = 0
    timer.start()
    timer.join()
    assert calls == [1]


def test_context_variables_of_one_function_are_not_the_next_ones():
    variable = ContextVar("variable", default="as it was")
    seen = []

    def change():
        seen.append(variable.get())
        variable.set("changed")

    for _ in range(20):
        timer = hwheel.Timer(0, change)
        timer.start()
        timer.join()
    assert seen == ["as it was"] * 20


def test_a_cancel_counts_until_the_function_begins(monkeypatch):
    """Also while the timer, fallen due, waits for a thread."""
    jobs = []
    fallen_due = threading.Event()

    def hold(job, daemon):
        jobs.append(job)
        fallen_due.set()

    monkeypatch.setattr(hwheel.threading.timer._engine, "submit", hold)
    calls = []
    timer = hwheel.Timer(0, calls.append, [1])
    timer.start()
    assert fallen_due.wait(PATIENCE_S)
    timer.cancel()
    assert timer.is_alive()
    threading.Thread(target=jobs.pop()).start()
    timer.join(PATIENCE_S)
    assert not timer.is_alive()
    assert calls == []


def test_two_starts_at_once_run_it_once(monkeypatch, gate):
    """The second comes while the first is at work, which no lock forbids."""
    engine = hwheel.threading.timer._engine
    clock = engine.timer

    class Racing:
        def call_later(self, *args):
            monkeypatch.setattr(engine, "timer", clock)
            with pytest.raises(RuntimeError, match="once"):
                timer.start()
            return clock.call_later(*args)

    calls = []
    timer = hwheel.Timer(0.001, lambda: (calls.append("timer"), gate.wait(PATIENCE_S)))
    monkeypatch.setattr(engine, "timer", Racing())
    timer.start()
    later = hwheel.Timer(0.05, calls.append, ["later"])
    later.start()
    later.join(PATIENCE_S)
    gate.set()
    timer.join(PATIENCE_S)
    assert calls == ["timer", "later"]


@pytest.mark.parametrize("looks", ["_pending_or_done", "_take_back"])
def test_a_timer_that_comes_to_its_end_while_somebody_looks(looks, monkeypatch):
    """What it would have been called with is gone then, from one moment to the next."""
    engine = hwheel.threading.timer._engine
    timer = hwheel.Timer(FAR_OFF_S, int)

    class Ending:
        args_left = [(timer,)]

        @property
        def args(self):
            return self.args_left.pop() if self.args_left else None

        def cancel(self):
            return False

    class Clock:
        def pending(self):
            return [Ending()]

    monkeypatch.setattr(engine, "timer", Clock())
    monkeypatch.setattr(engine, "_keeping", engine._keeping)
    if looks == "_take_back":
        timer._take_back(engine)
    else:
        assert engine._pending_or_done() == [timer]
    assert not Ending.args_left


class WithItsOwnRun(hwheel.Timer):
    """Which has a thread of its own from its start on."""

    def run(self):
        self.function()


@pytest.mark.parametrize("kind", [hwheel.Timer, WithItsOwnRun])
def test_a_start_for_which_no_thread_can_be_had_is_an_error_that_changes_nothing(kind, monkeypatch):
    """One that is started while the interpreter exits wants a thread that keeps it."""
    calls = []
    timer = kind(0.01 if kind is WithItsOwnRun else FAR_OFF_S, lambda: calls.append(1))
    engine = hwheel.threading.timer._engine
    pending = len(engine.timer)

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(engine, "exiting", True)
        patch.setattr(engine, "_keeping", False)
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            timer.start()
    try:
        assert not timer.is_alive() and len(engine.timer) == pending
        with pytest.raises(RuntimeError, match="before it is started"):
            timer.join()
        timer.interval = 0.01
        timer.start()
        timer.join(PATIENCE_S)
        assert calls == [1]
    finally:
        timer.cancel()  # it would keep the interpreter


class Thing:
    """Something whose end can be seen."""


def test_a_timer_that_is_over_or_cancelled_is_held_by_nobody():
    gc.collect()
    gc.disable()
    try:
        for interval in (0, FAR_OFF_S):
            thing = Thing()
            timer = hwheel.Timer(interval, lambda it: None, [thing])
            seen = weakref.ref(thing)
            timer.start()
            if interval:
                timer.cancel()
            timer.join()
            del timer, thing
            give_up = time.monotonic() + PATIENCE_S
            while collect_if_free_threaded() or seen() is not None:  # its thread is about to let go of it
                assert time.monotonic() < give_up
                time.sleep(0.001)
    finally:
        gc.enable()


def test_starts_and_cancels_from_many_threads_run_each_at_most_once():
    calls = [0] * 200
    errors = []

    def count(i):
        calls[i] += 1

    timers = [hwheel.Timer(0.001 * (i % 7), count, [i]) for i in range(200)]

    def use(act):
        for timer in timers:
            try:
                act(timer)
            except RuntimeError as error:
                errors.append(error)

    threads = [threading.Thread(target=use, args=(act,)) for act in (hwheel.Timer.start, hwheel.Timer.start)]
    threads += [threading.Thread(target=use, args=(act,)) for act in (hwheel.Timer.cancel, repr)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for timer in timers:
        timer.join(PATIENCE_S)
        assert not timer.is_alive()
    assert max(calls) <= 1


def test_finished_that_is_first_asked_for_in_the_function_is_set_after_it():
    seen = []
    timer = hwheel.threading.Timer(0.001, lambda: seen.append((timer.finished, timer.finished.is_set())))
    timer.start()
    timer.join(60)
    ((finished, was_set),) = seen
    assert not was_set and finished.is_set()


def test_a_thread_has_the_timers_name_no_longer_than_the_function_runs(eventually):
    threads = []
    timer = hwheel.Timer(0, lambda: threads.append(threading.current_thread()))
    timer.name = "heartbeat"
    timer.start()
    timer.join()
    eventually(lambda: threads[0].name == IDLE_NAME)
    timer.name = "renamed"
    assert (timer.name, threads[0].name) == ("renamed", IDLE_NAME)
