"""Random programs on a stock asyncio loop and on the same loop with its timers on the wheel, on a simulated clock.

The same callbacks must run in the same order at the same times. A loop whose callbacks take time may run a timer one
pass later than asyncio, so a separate test checks only the guarantees.

All deadlines differ, because asyncio guarantees no order for equal deadlines. They are multiples of the tick, because
the wheel runs the timers of one tick at the last of their deadlines.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hwheel_core
from event_loops import JumpingLoop
from hwheel.asyncio import wheel_loop
from sampling import search_settings

TICK_S = 1 / 4096

# The sum stays below 2**24 seconds. Beyond, the clock's steps exceed its resolution, and asyncio waits forever for a
# deadline that is exactly now.
names = st.integers(0, 40)
delays = st.one_of(st.integers(1, 40), st.integers(1, 200_000), st.integers(1, 10**8)).map(lambda ticks: ticks * TICK_S)
add = st.tuples(st.just("later"), names, delays)
soon = st.tuples(st.just("soon"), names, st.none())
cancel = st.tuples(st.just("cancel"), names, st.none())
overdue = st.tuples(st.just("later"), names, st.integers(-5000, 0).map(lambda ticks: ticks * TICK_S))
work = st.tuples(st.just("work"), st.none(), st.integers(1, 3000).map(lambda ticks: ticks * TICK_S))


def programs(*operations):
    """Generate the operations of each callback. Callback 0 runs first."""
    return st.lists(st.lists(st.one_of(*operations), max_size=6), min_size=1, max_size=30)


WheelJumpingLoop = wheel_loop(JumpingLoop)


class Program:
    """A program on one loop, with a log of (callback, time)."""

    def __init__(self, loop, program, in_order):
        self.loop = loop
        self.program = program
        self.in_order = in_order
        self.handles = {}
        self.taken = set()
        self.done = set()
        self.cancelled = set()
        self.log = []
        self.errors = []
        loop.set_exception_handler(lambda loop, context: self.errors.append(context["message"]))
        self.left = 200  # ends programs that add callbacks endlessly

    def run(self):
        for what, name, seconds in self.program[0]:
            if what == "later":
                self.later(name, seconds)
        self.loop.call_soon(self.callback, 0, None)
        for _ in range(2000):
            if not self.handles and not self.loop._ready:
                break
            self.loop._run_once()
        self.loop.close()
        assert not self.errors
        assert not self.handles
        assert self.done | self.cancelled == self.taken
        assert not self.done & self.cancelled
        return self.log

    def callback(self, name, deadline):
        self.log.append((name, self.loop.time()))
        if name in self.handles and self.handles[name].when() == deadline:
            del self.handles[name]
        if deadline is not None:
            assert self.loop.time() >= deadline, "early"
            assert deadline not in self.done, "twice"
            self.done.add(deadline)
            if self.in_order:
                assert all(deadline < handle.when() for handle in self.handles.values()), "out of order"
        for what, other, seconds in self.program[name] if name < len(self.program) else ():
            if what == "later":
                self.later(other, seconds)
            elif what == "soon" and self.left:
                self.left -= 1
                self.loop.call_soon(self.callback, other, None)
            elif what == "cancel" and other in self.handles:
                handle = self.handles.pop(other)
                self.cancelled.add(handle.when())
                handle.cancel()
            elif what == "work" and deadline is not None:
                self.loop.now += seconds
        if hwheel_core.DEBUG and isinstance(self.loop, WheelJumpingLoop):
            hwheel_core.debug_check(self.loop._wheel_timers)

    def later(self, name, seconds):
        if name in self.handles or not self.left:
            return
        self.left -= 1
        deadline = self.loop.time() + seconds
        while deadline in self.taken:
            deadline += TICK_S
        self.taken.add(deadline)
        self.handles[name] = self.loop.call_at(deadline, self.callback, name, deadline)


settled = search_settings(150)


@settled
@given(programs(add, soon, cancel, overdue))
def test_punctual_loop_matches_asyncio(program):
    expected = Program(JumpingLoop(), program, in_order=False).run()
    assert Program(WheelJumpingLoop(), program, in_order=False).run() == expected


@settled
@given(programs(add, soon, cancel, work))
def test_late_loop_runs_each_timer_once_in_order_and_never_early(program):
    Program(WheelJumpingLoop(), program, in_order=True).run()


@pytest.mark.parametrize("seconds", [TICK_S, 1.0, 40.0, 5000.0, 1e6])
def test_single_deadline_is_exact(seconds):
    loop = WheelJumpingLoop()
    log = []
    loop.call_later(seconds, lambda: log.append(loop.time()))
    while not log:
        loop._run_once()
    assert log == [1000.0 + seconds]
    loop.close()


@pytest.mark.parametrize("base", [lambda loop: loop, wheel_loop], ids=["asyncio", "hwheel"])
def test_timer_added_during_a_pass_waits_for_the_next_pass_even_if_due(base):
    class ReadableLoop(JumpingLoop):
        def _process_events(self, events):
            if self.now >= 1001 and not log:
                self.call_soon(read)  # runs before the timer in the same pass, like a socket's callback

    def read():
        log.append("read")
        loop.call_later(TICK_S, log.append, "added")
        loop.call_soon(log.append, "soon")
        loop.now += 1  # the callback takes one second

    log = []
    loop = base(ReadableLoop)()
    loop.call_later(1, log.append, "timer")
    while len(log) < 4:
        loop._run_once()
    assert log == ["read", "timer", "soon", "added"]
    loop.close()
