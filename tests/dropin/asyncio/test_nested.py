"""Callbacks that run the loop themselves, as with nest_asyncio.

The nested loop continues with expired and new timers, and each timer runs exactly once.
"""

import asyncio
import contextlib
import contextvars
import gc
import sys
import time

import pytest

from event_loops import loop_and_timers
from hwheel.asyncio import EventLoop
from systems import FREE_THREADED


class NestableLoop(asyncio.SelectorEventLoop):
    def _run_once(self):
        with contextlib.suppress(IndexError):  # the nested pass has run the callbacks of this pass
            super()._run_once()


@pytest.fixture(params=["asyncio", "hwheel", "Timeouts", "hwheel, debug", "Timeouts, debug"])
def timers(request):
    """Yield a loop and the object with call_later() and call_at()."""
    kind, _, debug = request.param.partition(", ")
    loop, timers = loop_and_timers(kind, NestableLoop)
    loop.set_debug(bool(debug))
    loop.errors = []
    loop.set_exception_handler(lambda loop, context: loop.errors.append(context))
    yield loop, timers
    assert loop.errors == []
    loop.close()


def run_passes(loop, done):
    """Run passes of the loop inside one of its callbacks."""
    give_up = time.monotonic() + 20
    while not done():
        assert time.monotonic() < give_up, "the nested loop hangs"
        loop._run_once()


def run_until(loop, done):
    def look():
        if done() or time.monotonic() > give_up:
            loop.stop()
        else:
            loop.call_soon(look)

    give_up = time.monotonic() + 20
    loop.call_soon(look)
    loop.run_forever()
    assert done(), "the loop hangs"


def test_nested_pass_runs_timers_added_in_it(timers):
    loop, timers = timers
    now, ran = loop.time(), []
    loop.time = lambda: now  # otherwise "later" could expire on a busy machine

    def outer():
        nonlocal now
        timers.call_later(0.01, ran.append, "inner")
        now += 0.015
        run_passes(loop, lambda: ran)
        ran.append("outer")

    timers.call_later(0.005, outer)
    timers.call_later(0.05, ran.append, "later")
    now += 0.01
    run_until(loop, lambda: len(ran) == 2)
    assert ran == ["inner", "outer"]
    now += 0.05
    run_until(loop, lambda: len(ran) == 3)
    assert ran == ["inner", "outer", "later"]


@pytest.mark.parametrize("count", [2, 3, 64, 65, 200])
def test_nested_pass_continues_with_expired_timers_in_order(timers, stop_clock, count):
    loop, timers = timers
    ran = []

    def outer():
        run_passes(loop, lambda: len(ran) == count - 1)
        ran.append("outer")

    with stop_clock(loop):
        when = loop.time() + 0.05
        timers.call_at(when, outer)
        for i in range(count - 1):
            timers.call_at(when + i * 1e-7, ran.append, i)
    run_until(loop, lambda: len(ran) == count)
    assert ran == [*range(count - 1), "outer"]


def test_passes_can_nest_once_for_each_timer(timers, stop_clock):
    loop, timers = timers
    entered, left = [], []

    def dive(i):
        entered.append(i)
        run_passes(loop, lambda: len(entered) == 30)
        left.append(i)

    with stop_clock(loop):
        when = loop.time() + 0.05
        for i in range(30):
            timers.call_at(when + i * 1e-4, dive, i)
    run_until(loop, lambda: len(left) == 30)
    assert entered == list(range(30))
    assert left == entered[::-1]


def test_exit_from_a_nested_pass_loses_no_timer(timers, stop_clock):
    loop, timers = timers
    ran = []

    def leave():
        raise KeyboardInterrupt

    def outer():
        run_passes(loop, lambda: False)

    with stop_clock(loop):
        when = loop.time() + 0.05
        timers.call_at(when, outer)
        timers.call_at(when + 1e-6, leave)
        for i in range(100):
            timers.call_at(when + 2e-6 + i * 1e-8, ran.append, i)
        timers.call_later(1.5, ran.append, "later")
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    run_until(loop, lambda: len(ran) == 101)
    assert ran == [*range(100), "later"]


def test_wakeup_does_not_inherit_a_callers_context(timers):
    loop, timers = timers
    variable = contextvars.ContextVar("variable", default="unset")
    seen = []

    def outer():
        variable.set("outer")
        timers.call_later(0.005, lambda: seen.append(variable.get()), context=contextvars.Context())
        run_passes(loop, lambda: seen)
        seen.append(variable.get())

    timers.call_later(0.001, outer)
    run_until(loop, lambda: len(seen) == 2)
    assert seen == ["unset", "outer"]


# --- run_forever() on a loop that runs -----------------------------------------------------------------------------


@pytest.mark.skipif(sys.version_info[:3] == (3, 13, 0), reason="asyncio 3.13.0 refuses only the first run")
def test_refused_second_run_leaves_handles_untracked():
    async def main():
        loop = asyncio.get_running_loop()
        before = loop.call_later(1000, int)
        for again in (loop.run_forever, lambda: loop.run_until_complete(loop.create_future())):
            with pytest.raises(RuntimeError, match="already running"):
                again()
        after = loop.call_later(1000, int)
        hidden = [gc.is_tracked(handle) for handle in (before, after)]
        return hidden, before, after

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        hidden, *handles = runner.run(main())
        assert hidden == [FREE_THREADED] * 2  # tracked without a GIL, see loop/collector.pxi
        gc.collect()
        assert [gc.is_tracked(handle) for handle in handles] == [True, True]
