"""Programs that watch what a loop calls: debug mode, those that replace asyncio.Handle._run, those that read handles.
They see each callback once, under its own name."""

import asyncio
import functools
import logging
import re
import time

import pytest

from hwheel.asyncio import EventLoop, Timeouts, wheel_loop


class Clock:
    """The loops' time, which passes only where a test lets it: a machine that is busy makes nothing slow. uvloop
    measures callbacks by a clock of its own; there the time really passes."""

    def __init__(self):
        self.now = None

    def stand_still_for(self, loop):
        self.now = None
        if not is_uvloops(loop):
            self.now = loop.time()
            loop.time = lambda: self.now

    def let_pass(self, seconds):
        if self.now is None:
            time.sleep(seconds)
        else:
            self.now += seconds


clock = Clock()
IS_SLOW_S = 0.25
SLOW_S = 0.3


def is_uvloops(loop):
    return type(loop).__module__.startswith("uvloop") or type(loop).__mro__[2].__module__.startswith("uvloop")


def slow_one(seconds):
    clock.let_pass(seconds)


class Holder:
    def slow_method(self):
        clock.let_pass(SLOW_S)


@pytest.fixture(params=["hwheel", "hwheel over uvloop", "Timeouts"])
def timers(request):
    if request.param == "hwheel over uvloop":
        loop = wheel_loop(pytest.importorskip("uvloop").Loop)()
    else:
        loop = EventLoop() if request.param == "hwheel" else asyncio.SelectorEventLoop()
    clock.stand_still_for(loop)
    yield loop, lambda: Timeouts(loop) if request.param == "Timeouts" else loop
    loop.close()


def run_pass(loop):
    loop.call_soon(loop.stop)
    loop.run_forever()


def run_for(loop, seconds):
    """Lets so much time pass, in steps, and all that is due come about."""
    for _ in range(10):
        clock.let_pass(seconds / 10)
        run_pass(loop)
    for _ in range(20):  # what is watched runs in the pass after the alarm's, 64 at a time
        run_pass(loop)


CALLBACKS = [
    (slow_one, (SLOW_S,), "slow_one(0.3)"),
    (functools.partial(slow_one, SLOW_S), (), "slow_one(0.3)"),
    (Holder().slow_method, (), "slow_method()"),
    (lambda: clock.let_pass(SLOW_S), (), "<lambda>()"),
]


@pytest.mark.parametrize("callback, arguments, name", CALLBACKS)
def test_debug_mode_reports_a_slow_callback_once_and_by_name(timers, caplog, callback, arguments, name):
    loop, make = timers
    loop.set_debug(True)
    loop.slow_callback_duration = IS_SLOW_S
    make().call_later(0.001, callback, *arguments)
    with caplog.at_level(logging.WARNING, logger="asyncio"):
        run_for(loop, 0.06)
    slow = [message for message in caplog.messages if message.startswith("Executing ")]
    assert len(slow) == 1
    # uvloop's handles show no arguments.
    assert (name.split("(")[0] if is_uvloops(loop) else name) in slow[0]
    took_s = float(re.search(r" took ([0-9.]+) seconds", slow[0])[1])
    assert took_s >= SLOW_S - 0.001 if is_uvloops(loop) else took_s == pytest.approx(SLOW_S, abs=0.001)
    assert not any("_on_wakeup" in message for message in caplog.messages)


def test_debug_mode_shows_a_timer_as_asyncio_does(caplog):
    def shown(loop):
        loop.set_debug(True)
        loop.slow_callback_duration = IS_SLOW_S
        caplog.clear()
        clock.stand_still_for(loop)
        loop.call_at(loop.time() + 0.001, slow_one, SLOW_S)
        run_for(loop, 0.06)
        loop.close()
        (message,) = [message for message in caplog.messages if message.startswith("Executing ")]
        return [word for word in message.split() if not word.startswith("when=") and "test_monitors" not in word]

    with caplog.at_level(logging.WARNING, logger="asyncio"):
        assert shown(EventLoop()) == shown(asyncio.SelectorEventLoop())


def test_debug_mode_keeps_order_cancels_and_contexts(timers):
    loop, make = timers
    loop.set_debug(True)
    timers = make()
    ran = []
    when = loop.time() + 1.0  # on uvloop long enough to add them all: debug mode is slow
    handles = [timers.call_at(when, ran.append, i) for i in range(200)]
    timers.call_at(when - 0.001, handles[7].cancel)
    handles.append(timers.call_at(when, lambda: (handles[150].cancel(), handles[199].cancel())))
    timers.call_at(when - 1e-7, handles[9].cancel)
    timers.call_at(when, lambda: ran.append("last"))
    run_for(loop, 1.3)
    assert ran[:-1] == [i for i in range(200) if i not in (7, 9)]
    assert ran[-1] == "last"


@pytest.mark.parametrize("debug", [False, True])
def test_what_replaces_handle_run_sees_the_callback(timers, monkeypatch, debug):
    loop, make = timers
    if is_uvloops(loop):
        pytest.skip("uvloop's handles are not asyncio's")
    loop.set_debug(debug)
    seen = []
    genuine = asyncio.events.Handle._run

    def run(self):
        start = loop.time()
        genuine(self)
        seen.append((asyncio.base_events._format_handle(self), loop.time() - start))

    monkeypatch.setattr(asyncio.events.Handle, "_run", run)
    timers = make()
    timers.call_later(0.001, slow_one, SLOW_S)
    timers.call_later(0.002, slow_one, 0.001)
    run_for(loop, 0.08)
    slow = [shown for shown, seconds in seen if seconds > IS_SLOW_S]
    assert len(slow) == 1
    assert "slow_one(0.3)" in slow[0] or "slow_one()" in slow[0]  # arguments are shown in debug mode only, in time
    monkeypatch.undo()
    ran = []
    timers.call_later(0.001, ran.append, 1)
    run_for(loop, 0.03)
    assert ran == [1]


def test_errors_of_watched_callbacks_are_reported_as_ever(timers):
    loop, make = timers
    loop.set_debug(True)
    reported = []
    loop.set_exception_handler(lambda loop, context: reported.append(context))
    handle = make().call_later(0.001, divmod, 1, 0)
    run_for(loop, 0.03)
    (context,) = reported
    assert context["handle"] is handle
    assert isinstance(context["exception"], ZeroDivisionError)
    assert context["source_traceback"][-1].filename == __file__
    loop.set_exception_handler(None)


class Unshowable:
    def __repr__(self):
        raise ValueError("cannot be shown")

    def __call__(self):
        ran.append(1)


ran = []


@pytest.mark.parametrize("debug", [False, True])
def test_a_callback_that_cannot_be_shown_runs_all_the_same(timers, debug):
    loop, make = timers
    loop.set_debug(debug)
    ran.clear()
    timers = make()
    timers.call_later(0.001, Unshowable())
    timers.call_later(0.001, ran.append, 2)
    run_for(loop, 0.03)
    assert ran == [1, 2]


# --- handles -------------------------------------------------------------------------------------------------------


def test_a_handle_has_what_a_stock_handle_has(timers):
    loop, make = timers
    handle = make().call_later(1000, slow_one, 1)
    stock = asyncio.TimerHandle(handle.when(), slow_one, (1,), loop)
    for name in (*asyncio.TimerHandle.__slots__, *asyncio.Handle.__slots__):
        if name != "__weakref__":
            assert hasattr(handle, name), name
    for name in dir(stock):
        assert hasattr(handle, name) or name.startswith("__"), name
    assert handle._context is handle.get_context()
    assert handle._repr_info() == stock._repr_info()
    assert handle._repr is None
    assert handle._scheduled is True
    handle.cancel()
    assert handle._scheduled is False
    assert handle._repr_info() == ["TimerHandle", "cancelled", f"when={handle.when()}"]


def test_a_handle_that_is_run_by_hand_runs_once_in_its_context(timers):
    loop, make = timers
    ran = []
    timers = make()
    handle = timers.call_later(0.001, ran.append, 1)
    handle._run()
    handle._run()
    assert ran == [1]
    assert not handle._scheduled
    cancelled = timers.call_later(0.001, ran.append, 2)
    cancelled.cancel()
    cancelled._run()
    run_for(loop, 0.02)
    assert ran == [1]


def test_a_call_that_is_moved_when_the_loop_has_been_asked_for_it_is_not_early(timers):
    loop, make = timers
    loop.set_debug(True)
    timers = make()
    ran = []

    def move():
        assert moved.reschedule(0.3)

    when = loop.time() + 0.2  # on uvloop long enough to add both
    timers.call_at(when, move)
    moved = timers.call_at(when, lambda: ran.append(loop.time()))
    while not ran:
        run_for(loop, 0.05)
    assert ran[0] >= moved.when() >= when + 0.3


def test_a_call_that_is_cancelled_though_it_cannot_be_shown_does_not_run(timers):
    class Hidden:
        def __call__(self):
            ran.append("Hidden")

        def __repr__(self):
            raise ValueError("nothing to see")

    loop, make = timers
    loop.set_debug(True)
    timers = make()
    ran = []
    handle = timers.call_later(0.02, Hidden())
    with pytest.raises(ValueError, match="nothing to see"):
        handle.cancel()
    run_for(loop, 0.05)
    assert handle.cancelled()
    assert ran == []
    assert handle._callback is None
