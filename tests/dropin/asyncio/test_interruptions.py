"""KeyboardInterrupt at each line of Python code that a loop on the wheel runs between two callbacks.

After each interrupt the loop runs again, and each timer must have run once.
"""

import asyncio
import gc
import signal
import sys
import time

import pytest

from event_loops import loop_and_timers
from hwheel.asyncio import EventLoop, Timeouts
from interrupts import interrupt_each_line
from invariants import check_invariants
from sampling import search_seconds, seeded_random

# asyncio's code of one iteration, and ours
FILES = ("asyncio/base_events.py", "asyncio/events.py", "hwheel/asyncio/loop_class.py", "hwheel/asyncio/timers.py")


def make_program(kind, debug):
    loop, timers = loop_and_timers(kind)
    loop.set_debug(debug)
    ran = []
    started = loop.time()
    loop.time = lambda: started  # no timer is added after its deadline, which the base loop would run
    when = started + 0.002
    for i in range(4):
        timers.call_at(when, ran.append, i)
    timers.call_at(when + 0.0005, ran.append, 4)
    timers.call_at(when + 0.0007, ran.append, 5)
    timers.call_at(when + 0.003, ran.append, 6)
    del loop.time
    return loop, timers, ran


def run_until_count(loop, ran, count, patience_s=10):
    give_up = time.monotonic() + patience_s
    while len(ran) < count and time.monotonic() < give_up:
        loop.call_soon(loop.stop)
        loop.run_forever()
        time.sleep(0.0002)


@pytest.mark.parametrize("debug", [False, True])
def test_interrupt_at_any_line_runs_each_timer_once(debug):
    def scenario():
        loop, timers, ran = make_program("hwheel", debug)
        stop_at = time.monotonic() + 2

        def run():
            while len(ran) < 7 and time.monotonic() < stop_at:
                loop._wheel_timers.run(loop._run_once)

        yield run
        run_until_count(loop, ran, 7)
        assert sorted(ran) == list(range(7))
        check_invariants(loop._wheel_timers)
        loop.close()

    assert interrupt_each_line(scenario, FILES) > 50


@pytest.mark.parametrize("kind", ["hwheel", "Timeouts"])
@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("exit_with", [KeyboardInterrupt, SystemExit])
def test_exit_in_the_exception_handler_loses_no_timer(kind, debug, exit_with):
    loop, timers, ran = make_program(kind, debug)

    def leave(loop, context):
        raise exit_with

    loop.set_exception_handler(leave)
    timers.call_later(0.002, divmod, 1, 0)
    with pytest.raises(exit_with):
        loop.run_forever()
    run_until_count(loop, ran, 7)
    assert sorted(ran) == list(range(7))
    loop.set_exception_handler(None)
    loop.close()


@pytest.mark.parametrize("kind", ["hwheel", "Timeouts"])
@pytest.mark.parametrize("debug", [False, True])
def test_failing_exception_handler_loses_no_timer(kind, debug, caplog):
    loop, timers, ran = make_program(kind, debug)
    loop.set_exception_handler(lambda loop, context: 1 / 0)
    for _ in range(3):
        timers.call_later(0.002, divmod, 1, 0)
    run_until_count(loop, ran, 7)
    assert sorted(ran) == list(range(7))
    caplog.clear()  # the tracebacks hold the loop
    loop.set_exception_handler(None)
    loop.close()


class Refusing(asyncio.SelectorEventLoop):
    """A loop that refuses the next `refuse` calls."""

    refuse = 0

    def refuse_some(self):
        if self.refuse:
            self.refuse -= 1
            raise MemoryError

    def call_soon(self, callback, *args, context=None):
        self.refuse_some()
        return super().call_soon(callback, *args, context=context)

    def call_at(self, when, callback, *args, context=None):
        self.refuse_some()
        return super().call_at(when, callback, *args, context=context)


@pytest.mark.parametrize("kind", ["hwheel", "Timeouts"])
def test_call_refused_by_the_loop_loses_no_timer(kind):
    for debug in (False, True):
        loop, timers = loop_and_timers(kind, Refusing)
        loop.set_debug(debug)
        loop.set_exception_handler(lambda loop, context: None)
        ran = []

        def refuse():
            loop.refuse = 2

        when = loop.time() + 0.005
        timers.call_at(when, refuse)
        for i in range(7):
            timers.call_at(when + i * 0.001, ran.append, i)
        give_up = time.monotonic() + 10
        while len(ran) < 7 and time.monotonic() < give_up:
            loop._run_once() if loop._scheduled or loop._ready else time.sleep(0.001)
        assert sorted(ran) == list(range(7))
        loop.close()


def test_lost_wakeup_is_requested_again():
    loop = asyncio.SelectorEventLoop()
    timeouts = Timeouts(loop)
    ran = []
    timeouts.call_later(0.001, ran.append, 1)
    loop._scheduled.clear()  # as an interrupt inside asyncio may do
    now = loop.time()
    loop.time = lambda: now + 2.0
    timeouts.call_later(5, ran.append, 2)
    for _ in range(3):
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert ran == [1]
    timeouts.close()
    loop.close()


def test_handle_is_not_rescheduled_when_the_loop_refuses_the_wakeup():
    for kind in ("hwheel", "Timeouts"):
        loop, timers = loop_and_timers(kind, Refusing)
        ran = []
        handle = timers.call_later(500, ran.append, 1)
        when = handle.when()
        loop.refuse = 1
        with pytest.raises(MemoryError):
            handle.reschedule(0.01)
        assert handle.when() == when
        assert handle.reschedule(0.01)
        run_until_count(loop, ran, 1)
        assert ran == [1]
        loop.close()


@pytest.mark.parametrize("kind", ["hwheel", "Timeouts"])
def test_signal_handler_reschedules_while_the_loop_adds_a_wakeup(kind):
    class CallAtUsesCallLater(asyncio.SelectorEventLoop):
        """A loop whose call_at uses call_later, like uvloop."""

        def handle_signal(self):
            pass

        def call_at(self, when, callback, *args, context=None):
            self.handle_signal()
            return self.call_later(when - self.time(), callback, *args, context=context)

        def call_later(self, delay, callback, *args, context=None):
            return super().call_at(self.time() + delay, callback, *args, context=context)

    loop, timers = loop_and_timers(kind, CallAtUsesCallLater)
    ran = []
    moved = timers.call_later(500, ran.append, "moved")

    def handle_signal():
        del loop.handle_signal
        moved.reschedule(0.01)

    loop.handle_signal = handle_signal
    timers.call_later(0.02, ran.append, "added")
    assert len(getattr(loop, "_wheel_timers", timers)) == 2  # does not count the wake-up
    run_until_count(loop, ran, 2)
    assert ran == ["moved", "added"]
    loop.close()


@pytest.mark.parametrize("kind", ["hwheel", "Timeouts"])
def test_lost_calls_are_requested_again(kind):
    loop, timers = loop_and_timers(kind)
    timers.debug = True
    loop.set_debug(True)
    ran = []
    when = loop.time() + 0.1
    for i in range(3):
        timers.call_at(when, ran.append, i)
    give_up = time.monotonic() + 10
    while not any("append" in repr(handle) for handle in loop._ready) and time.monotonic() < give_up:
        loop._run_once()
    loop._ready.clear()  # as an interrupt inside asyncio may do
    run_until_count(loop, ran, 3)
    assert ran == [0, 1, 2]
    loop.close()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer()")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of files that an interrupt left open
@pytest.mark.parametrize("debug", [False, True])
def test_random_signals_run_each_timer_once(debug):
    """Signal handlers raise at random times in a loop that runs again afterwards, with cancels and reschedules."""
    armed = False

    def interrupt(number, frame):
        if armed:
            raise KeyboardInterrupt

    dice = seeded_random(debug)
    loop = EventLoop()
    loop.set_debug(debug)
    loop.slow_callback_duration = 100
    ran, handles, cancelled, interrupted = [], [], set(), 0
    before = signal.signal(signal.SIGALRM, interrupt)
    stop_at = time.monotonic() + search_seconds(0.7)
    gc.disable()  # an interrupt in a gc callback could not be caught
    try:
        while time.monotonic() < stop_at:
            for _ in range(20):
                handles.append(loop.call_later(0.003 + dice.random() * 0.02, ran.append, len(handles)))
            for number in dice.sample(range(len(handles)), 5):
                if not hasattr(handles[number], "reschedule"):
                    continue
                if dice.random() < 0.5:
                    handles[number].reschedule(dice.random() * 0.01)
                elif handles[number]._scheduled:
                    handles[number].cancel()
                    cancelled.add(number)
            loop.call_later(0.002, loop.stop)
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + dice.random() * 0.0015)
                armed = True
                try:
                    loop.run_forever()
                finally:
                    armed = False
            except KeyboardInterrupt:
                interrupted += 1
                # From CPython 3.12 on run_forever() does its setup before its `try`. An interrupt there would leave
                # the loop marked as running.
                loop._thread_id = None
                asyncio._set_running_loop(None)
            armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
        sys.set_asyncgen_hooks(None, None)  # an interrupted run_forever() may not restore them
    # The base loop owns timers that were added after their deadline, and may lose them.
    numbers = {i for i, handle in enumerate(handles) if hasattr(handle, "reschedule")} - cancelled
    give_up = time.monotonic() + 60
    while not numbers <= set(ran) and time.monotonic() < give_up:  # the base loop's timers also run
        run_until_count(loop, ran, len(ran) + 1, patience_s=0.1)
    assert len(ran) == len(set(ran)), "twice"
    assert numbers <= set(ran), "lost"
    assert not cancelled & set(ran), "cancelled"
    assert interrupted
    check_invariants(loop._wheel_timers)
    loop.close()
