"""A timer is alive from its start() until its function ends, and a start() that fails changes nothing."""

import threading

import pytest

import hwheel.threading
from hwheel import Timer

PATIENCE_S = 60


@pytest.fixture
def after_add(monkeypatch):
    """after_add(function): start() calls the function when the task is in the wheel and `_task` is not set yet."""
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


def test_a_function_that_runs_before_start_returns_finds_its_timer_started(after_add):
    over = threading.Event()
    seen = []

    def look():
        try:
            timer.join()
        except RuntimeError as error:
            seen.append((timer.is_alive(), "started" in repr(timer), str(error)))
        over.set()

    timer = Timer(0, look)
    after_add(lambda: over.wait(PATIENCE_S))
    timer.start()
    timer.join(PATIENCE_S)
    assert seen == [(True, True, "cannot join current thread")]
    assert not timer.is_alive() and timer.finished.is_set()


def test_cancel_and_join_before_start_returns(after_add, eventually):
    joiners = []

    def join_and_cancel():
        joiners.append(threading.Thread(target=timer.join, daemon=True))
        joiners[0].start()
        eventually(lambda: timer._over_event is not None)
        timer.cancel()

    ran = []
    timer = Timer(3600, ran.append, [1])
    after_add(join_and_cancel)
    timer.start()
    joiners[0].join(PATIENCE_S)
    assert not joiners[0].is_alive() and not timer.is_alive() and not ran


def test_an_interrupted_start_does_not_start_the_timer(after_add, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    ran = []
    timer = Timer(0.3, ran.append, [1])
    after_add(interrupt)
    with pytest.raises(KeyboardInterrupt):
        timer.start()
    monkeypatch.undo()
    assert not timer.is_alive()
    timer.interval = 0.6
    timer.start()
    with pytest.raises(RuntimeError):
        timer.start()
    timer.join(PATIENCE_S)
    assert ran == [1]


def test_an_error_of_an_overridden_name_is_reported_and_ends_the_timer(hook):
    class Nameless(Timer):
        @property
        def name(self):
            raise LookupError("no name")

    timer = Nameless(0, int)
    timer.start()
    timer.join(PATIENCE_S)
    assert not timer.is_alive()
    assert [args.exc_type for args in hook] == [LookupError]


@pytest.mark.parametrize(
    ("attribute", "field"), [("is_alive", "_task"), ("ident", "_runner"), ("native_id", "_runner")]
)
def test_fields_that_a_failing_start_resets_are_read_once(attribute, field):
    reads = []

    class Started:
        cancelled = False

    class Reset(Timer):
        pass

    def gone_at_the_second_read(timer):
        reads.append(field)
        return (threading.current_thread() if field == "_runner" else Started) if len(reads) == 1 else None

    timer = Reset(1, int)
    timer._task = Started
    setattr(Reset, field, property(gone_at_the_second_read))
    value = getattr(timer, attribute)
    assert value() if attribute == "is_alive" else value
    assert len(reads) == 1
