"""Debug mode, and programs that replace asyncio.Handle._run or read handles."""

import asyncio
import contextlib
import functools
import logging
import re
import threading
import time

import pytest

from hwheel.asyncio import EventLoop, Timeouts, wheel_loop


@pytest.fixture
def debug_loop():
    loop = EventLoop()
    loop.set_debug(True)
    yield loop
    loop.close()
    loop.set_exception_handler(None)
    for name in ("_wheel_timers", "call_at", "call_later"):
        del vars(loop)[name]


def nothing():
    pass


async def coroutine_function():
    pass


def test_coroutine_is_refused_as_a_callback(debug_loop):
    for call in (debug_loop.call_later, debug_loop.call_at):
        with pytest.raises(TypeError, match="coroutines cannot be used"):
            call(10**9, coroutine_function)
        with pytest.raises(TypeError, match="a callable object was expected"):
            call(10**9, "no function")
    assert len(debug_loop._wheel_timers) == 0


def test_call_from_another_thread_is_refused(debug_loop):
    refused = []

    def call():
        try:
            debug_loop.call_later(10, nothing)
        except RuntimeError as error:
            refused.append(str(error))

    def run():
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        debug_loop.stop()

    debug_loop.call_soon(run)
    debug_loop.run_forever()
    assert len(refused) == 1
    assert refused[0].startswith("Non-thread-safe operation invoked")
    call()  # allowed, because the loop does not run
    assert len(refused) == 1


def test_handle_has_the_traceback_of_its_creation(debug_loop):
    class Own(EventLoop):
        def call_at(self, when, callback, *args, context=None):
            return super().call_at(when, callback, *args, context=context)

    own = Own()
    own.set_debug(True)
    for loop, name in ((debug_loop, "test_handle_has_the_traceback_of_its_creation"), (own, "call_at")):
        handle = loop.call_later(10, nothing)
        assert handle._source_traceback[-1].name == name
        assert f" nothing() at {__file__}:" in repr(handle)
        assert f" created at {__file__}:" in repr(handle)
        handle.cancel()
        assert repr(handle).startswith("<TimerHandle cancelled when=")
        assert "nothing()" in repr(handle)
    own.close()


def test_debug_mode_can_be_switched(debug_loop):
    ran = []
    debug_loop.call_later(0.001, ran.append, 1)
    debug_loop.set_debug(False)
    debug_loop.call_later(10**9, coroutine_function).cancel()
    debug_loop.call_later(0.002, ran.append, 2)
    debug_loop.set_debug(True)
    debug_loop.call_later(0.005, debug_loop.stop)
    debug_loop.run_forever()
    assert ran == [1, 2]


def test_loop_that_sets_debug_mode_in_its_constructor():
    class MadeInDebugMode(asyncio.SelectorEventLoop):
        def __init__(self):
            super().__init__()
            self._debug = True

    with contextlib.closing(wheel_loop(MadeInDebugMode)()) as loop, pytest.raises(TypeError, match="coroutines cannot"):
        loop.call_later(10**9, coroutine_function)


def test_asyncio_run_in_debug_mode():
    from hwheel.asyncio import run

    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(10), 0.005)
        return asyncio.get_running_loop().get_debug()

    assert run(main(), debug=True) is True


class Clock:
    """The time of the loops, which passes only in let_pass(), so that a busy machine makes no callback slow.

    uvloop measures callbacks with its own clock, so let_pass() sleeps there.
    """

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
    """Let time pass in steps, and run all expired timers."""
    for _ in range(10):
        clock.let_pass(seconds / 10)
        run_pass(loop)
    for _ in range(20):  # monitored callbacks run in the pass after the wake-up, 64 at a time
        run_pass(loop)


CALLBACKS = [
    (slow_one, (SLOW_S,), "slow_one(0.3)"),
    (functools.partial(slow_one, SLOW_S), (), "slow_one(0.3)"),
    (Holder().slow_method, (), "slow_method()"),
    (lambda: clock.let_pass(SLOW_S), (), "<lambda>()"),
]


@pytest.mark.parametrize("callback, arguments, name", CALLBACKS)
def test_debug_mode_reports_a_slow_callback_once_by_name(timers, caplog, callback, arguments, name):
    loop, make = timers
    loop.set_debug(True)
    loop.slow_callback_duration = IS_SLOW_S
    timers = make()
    timers.call_later(0.001, callback, *arguments)
    timers.call_later(0.002, nothing)
    with caplog.at_level(logging.WARNING, logger="asyncio"):
        run_for(loop, 0.06)
    slow = [message for message in caplog.messages if message.startswith("Executing ")]
    assert len(slow) == 1
    # The repr of uvloop's handles has no arguments.
    assert (name.split("(")[0] if is_uvloops(loop) else name) in slow[0]
    took_s = float(re.search(r" took ([0-9.]+) seconds", slow[0])[1])
    assert took_s >= SLOW_S - 0.001 if is_uvloops(loop) else took_s == pytest.approx(SLOW_S, abs=0.001)
    assert not any("_on_wakeup" in message for message in caplog.messages)


def test_debug_mode_formats_a_timer_as_asyncio_does(caplog):
    def shown(loop):
        loop.set_debug(True)
        loop.slow_callback_duration = IS_SLOW_S
        caplog.clear()
        clock.stand_still_for(loop)
        loop.call_at(loop.time() + 0.001, slow_one, SLOW_S)
        run_for(loop, 0.06)
        loop.close()
        (message,) = [message for message in caplog.messages if message.startswith("Executing ")]
        return [word for word in message.split() if not word.startswith("when=") and "test_debug" not in word]

    with caplog.at_level(logging.WARNING, logger="asyncio"):
        assert shown(EventLoop()) == shown(asyncio.SelectorEventLoop())


def test_debug_mode_keeps_order_and_cancels(timers):
    loop, make = timers
    loop.set_debug(True)
    timers = make()
    ran = []
    when = loop.time() + 1.0  # long enough to add all of them, as debug mode is slow on uvloop
    handles = [timers.call_at(when, ran.append, i) for i in range(200)]
    timers.call_at(when - 0.001, handles[7].cancel)
    handles.append(timers.call_at(when, lambda: (handles[150].cancel(), handles[199].cancel())))
    timers.call_at(when - 1e-7, handles[9].cancel)
    timers.call_at(when, lambda: ran.append("last"))
    run_for(loop, 1.3)
    assert ran[:-1] == [i for i in range(200) if i not in (7, 9)]
    assert ran[-1] == "last"


@pytest.mark.parametrize("debug", [False, True])
def test_replaced_handle_run_receives_the_callback(timers, monkeypatch, debug):
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
    assert "slow_one(0.3)" in slow[0] or "slow_one()" in slow[0]  # only debug mode shows arguments
    monkeypatch.undo()
    ran = []
    timers.call_later(0.001, ran.append, 1)
    run_for(loop, 0.03)
    assert ran == [1]


def test_debug_mode_reports_errors_of_callbacks(timers):
    loop, make = timers
    loop.set_debug(True)
    reported = []
    loop.set_exception_handler(lambda loop, context: reported.append(context))
    handle = make().call_later(0.001, divmod, 1, 0)
    run_for(loop, 0.03)
    (context,) = reported
    assert set(context) == {"message", "exception", "handle", "source_traceback"}
    assert context["handle"] is handle
    assert isinstance(context["exception"], ZeroDivisionError)
    assert context["source_traceback"][-1].filename == __file__
    loop.set_exception_handler(None)


class FailingRepr:
    def __repr__(self):
        raise ValueError("cannot be shown")

    def __call__(self):
        ran.append(1)


ran = []


@pytest.mark.parametrize("debug", [False, True])
def test_callback_with_a_failing_repr_runs(timers, debug):
    loop, make = timers
    loop.set_debug(debug)
    ran.clear()
    timers = make()
    timers.call_later(0.001, FailingRepr())
    timers.call_later(0.001, ran.append, 2)
    run_for(loop, 0.03)
    assert ran == [1, 2]


# --- handles -------------------------------------------------------------------------------------------------------


def test_handle_has_all_attributes_of_a_stock_handle(timers):
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


def test_handle_run_directly_runs_once(timers):
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


def test_call_rescheduled_in_its_own_pass_is_not_early(timers):
    loop, make = timers
    loop.set_debug(True)
    timers = make()
    ran = []

    def move():
        assert moved.reschedule(0.3)

    when = loop.time() + 0.2  # long enough to add both on uvloop
    timers.call_at(when, move)
    moved = timers.call_at(when, lambda: ran.append(loop.time()))
    while not ran:
        run_for(loop, 0.05)
    assert ran[0] >= moved.when() >= when + 0.3


def test_cancelled_call_with_a_failing_repr_does_not_run(timers):
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
