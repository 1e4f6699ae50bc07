"""Exceptions from outside (PyThreadState_SetAsyncExc, as stopit and func_timeout use it) lose no hwheel.Timer.

They strike inside a timer's function, whose timer then reports them, or somewhere that loses nothing.
"""

import os
import sys
import threading
from unittest import mock

import pytest

import hwheel
from hwheel.threading.engine import TimerEngine
from hwheel_core import IDLE_NAME, ThreadPool
from strikes import Strike, Striker, strike, take_back_strike

PATIENCE_S = 60
PYTHON_CODE = f"{os.sep}hwheel{os.sep}"
pytestmark = pytest.mark.usefixtures("no_gc_callbacks")


class HasOwnRun(hwheel.Timer):
    """A timer with a thread of its own."""

    def run(self):
        super().run()


@pytest.fixture
def new_engine():
    """Return new_engine(), which makes an engine with threads of its own. It is closed at the end of the test."""
    made = []

    def make():
        close()
        with mock.patch("threading._register_atexit"):
            made.append(TimerEngine())
        made.append(mock.patch("hwheel.threading.timer._engine", made[0]))
        made[1].start()
        return made[0]

    def close():
        if made:
            made.pop().stop()
            engine = made.pop()
            engine.timer._at_exit()
            for pool in engine._pools.values():
                pool.leave()
            for check in engine.timer.pending():  # an exit leaves them, but this process goes on
                check.cancel()

    yield make
    close()


def is_of_a_timer(thread):
    return thread.name in ("reaper-Timer", IDLE_NAME) or thread.name.startswith("Timer-")


def start_timers(kind, ran, count=6):
    """Start timers of both kinds of threads. Half of them have an Event."""
    timers = []
    for i in range(count):
        timers.append(kind(0.001 * (i // 2), ran.append, [i]))
        timers[-1].daemon = i % 2 == 0
        if i % 3:
            assert not timers[-1].finished.is_set()
        timers[-1].start()
    return timers


def check_timers(timers, ran, reported):
    """Check that each function has run once, or the timer has reported an exception."""
    for timer in timers:
        timer.join(PATIENCE_S)
        assert not timer.is_alive(), timer
    assert len({*ran}) == len(ran)
    assert [i for i, timer in enumerate(timers) if i not in ran and timer not in reported] == []


@pytest.mark.skipif(sys.gettrace() is not None, reason="another tracer is active")
@pytest.mark.parametrize("kind", [hwheel.Timer, HasOwnRun])
def test_strikes_at_every_line_lose_no_timer(new_engine, monkeypatch, kind):
    """Twice in a row, in hwheel's Python code in the reaper, in the pools' threads, and in a timer's own thread."""
    counts = []
    while not counts or counts[-1]:
        striker = Striker(len(counts) + 1, PYTHON_CODE, is_of_a_timer)
        monkeypatch.setattr(threading, "excepthook", lambda args, striker=striker: striker.on_error(args.thread, args))
        new_engine()
        threading.settrace(striker.enter)
        try:
            ran = []
            timers = start_timers(kind, ran)
            check_timers(timers, ran, striker.reported)
        finally:
            threading.settrace(None)
        check_timers(start_timers(kind, ran := []), ran, striker.reported)
        counts.append(striker.strikes)
    assert len(counts) > 10
    assert max(counts) >= 2


def test_a_storm_of_strikes_loses_no_timer(new_engine, hook, eventually):
    """In the reaper, and in each thread that has run a function.

    The pool does not grow, because a strike at a thread that starts another one can hang in the standard library:
    CPython before 3.12 sometimes strikes the new thread instead, and Thread.start() then waits for it forever.
    """
    idents = set()
    ran, timers = [], []
    over = threading.Event()

    def function(i):
        idents.add(threading.get_ident())
        ran.append(i)

    def storm():
        reaper = next(thread for thread in threading.enumerate() if thread.name == "reaper-Timer" and is_new(thread))
        while not over.wait(0.0005):
            for ident in [reaper.ident, *idents]:
                strike(ident)
        for ident in [reaper.ident, *idents]:
            take_back_strike(ident)

    before = {*threading.enumerate()}
    is_new = lambda thread: thread not in before  # noqa: E731
    pool = ThreadPool(daemon=True, call_later=lambda *_: None, on_forked=int, minimum=4, initial=0)
    pool.fill()
    new_engine()._pools[True] = pool
    for i in range(1000):
        timers.append(hwheel.Timer(0.1 + 0.0002 * i, function, [i]))
        timers[-1].daemon = True
        timers[-1].start()
    storming = threading.Thread(target=storm)
    storming.start()
    try:
        eventually(lambda: not any(timer.is_alive() for timer in timers))
    finally:
        over.set()
        storming.join()
    reported = [args.thread for args in hook]
    check_timers(timers, ran, reported)
    assert len(pool) == 4
    assert {args.exc_type for args in hook} == {Strike}
    assert len(hook) > 10
    check_timers(start_timers(hwheel.Timer, ran := []), ran, [])


def test_a_strike_in_the_function_is_reported_and_wakes_joiners(hook):
    """The thread goes on: the next timer runs in it."""
    threads = []

    def function():
        threads.append(threading.current_thread())
        strike(threading.get_ident())
        threads.append("not reached")

    for _ in range(5):
        timer = hwheel.Timer(0, function)
        timer.start()
        timer.join(PATIENCE_S)
        assert not timer.is_alive()
        assert [args.thread for args in hook] == [timer] and hook.pop().exc_type is Strike
    assert len({*threads}) == 1
