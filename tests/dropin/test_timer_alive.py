"""A timer is alive from its start() on until it is over, however soon its function runs; and a start() that fails."""

import sys
import threading

import pytest

import hwheel.threading
from hwheel import Timer


def test_it_is_alive_inside_its_own_function_even_before_start_has_returned(many_switches):
    answers = []

    def look(box):
        timer = box[0]
        answers.append((timer.is_alive(), "started" in repr(timer)))

    for _ in range(3000):
        box = []
        timer = Timer(0, look, [box])
        box.append(timer)
        timer.start()
        timer.join()
    assert answers == [(True, True)] * 3000


@pytest.fixture
def slow_add(monkeypatch):
    """slow_add(function): the function is called when the timer has been added and start() does not know it yet."""
    engine = hwheel.threading.timer._create_engine()
    call_later = engine.timer.call_later

    def patch(function):
        def add(*args):
            task = call_later(*args)
            function()
            return task

        class Clock:
            pending = engine.timer.pending

        Clock.call_later = staticmethod(add)
        monkeypatch.setattr(engine, "timer", Clock)

    return patch


def test_a_function_that_runs_before_start_has_returned_finds_its_timer_started(slow_add):
    over = threading.Event()
    seen = []

    def look():
        try:
            timer.join()
        except RuntimeError as error:
            seen.append((timer.is_alive(), str(error)))
        over.set()

    timer = Timer(0, look)
    slow_add(lambda: over.wait(60))
    timer.start()
    timer.join(60)
    assert seen == [(True, "cannot join current thread")]
    assert not timer.is_alive() and timer.finished.is_set()


def test_a_cancel_and_a_join_that_come_before_start_has_returned(slow_add, eventually):
    joiners = []

    def meanwhile():
        joiners.append(threading.Thread(target=timer.join, daemon=True))
        joiners[0].start()
        eventually(lambda: timer._over_event is not None)
        timer.cancel()

    ran = []
    timer = Timer(3600, ran.append, [1])
    slow_add(meanwhile)
    timer.start()
    joiners[0].join(60)
    assert not joiners[0].is_alive() and not timer.is_alive() and not ran


def test_a_start_that_is_interrupted_has_not_started_it(slow_add, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    ran = []
    timer = Timer(0.3, ran.append, [1])
    with monkeypatch.context():
        slow_add(interrupt)
        with pytest.raises(KeyboardInterrupt):
            timer.start()
    monkeypatch.undo()
    assert not timer.is_alive()
    timer.interval = 0.6
    timer.start()
    with pytest.raises(RuntimeError):
        timer.start()
    timer.join(60)
    assert ran == [1]


def test_a_name_that_fails_is_reported_and_the_timer_is_over(hook):
    class Nameless(Timer):
        @property
        def name(self):
            raise LookupError("no name")

    timer = Nameless(0, int)
    timer.start()
    timer.join(60)
    assert not timer.is_alive()
    assert [given.exc_type for given in hook] == [LookupError]
    fine = Timer(0, int)
    fine.start()
    fine.join(60)
    assert fine.finished.is_set()


def test_a_start_with_a_bad_interval_can_be_repeated_with_a_good_one():
    timer = Timer(float("nan"), sys.intern, ["x"])
    for _ in range(2):
        with pytest.raises(ValueError):
            timer.start()
        assert not timer.is_alive() and "initial" in repr(timer)
    timer.interval = 0
    timer.start()
    timer.join(60)
    assert timer.finished.is_set()


@pytest.mark.parametrize(("look", "name"), [("is_alive", "_task"), ("ident", "_runner"), ("native_id", "_runner")])
def test_who_looks_while_a_start_fails_sees_what_was_or_what_is(look, name):
    """What start() has set may be gone, when another thread looks at it for the second time."""
    looks = []

    class TakenBack(Timer):
        pass

    def gone_at_the_second_look(timer):
        looks.append(name)
        return (threading.current_thread() if name == "_runner" else Started) if len(looks) == 1 else None

    class Started:
        cancelled = False

    timer = TakenBack(1, int)
    timer._task = Started
    setattr(TakenBack, name, property(gone_at_the_second_look))
    seen = getattr(timer, look)
    assert (seen() if look == "is_alive" else seen) and len(looks) == 1
