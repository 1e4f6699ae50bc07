"""Loops whose time() is set back, jumps ahead, stops, raises, or returns no number.

Each program runs on asyncio's loop and on the wheel. On the wheel no timer is lost or early on that clock, nor later
than with asyncio by more than the resolution. `true_s` is the time that passes. time() returns it plus an offset, which
changes while the loop waits.
"""

import math
import sys
from collections import deque
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import hwheel_core
from event_loops import LoopWithoutFiles, loop_and_timers
from hwheel.asyncio import EventLoop, Timeouts, wheel_loop
from invariants import check_invariants
from sampling import search_settings, seeded_random

RESOLUTION_S = 1 / 4096
WAKE_UP_S = 1e-6  # lateness of each wake-up of the loop
YEAR_S = 365 * 86400.0


class Seconds(float):
    """A subclass of float."""

    def __add__(self, other):
        return Seconds(float(self) + other)


class MovedLoop(LoopWithoutFiles):
    """A loop that does not wait. `script` holds (true time, action)."""

    true_s = 1000.0
    offset_s = 0.0
    says = None  # instead of the time

    def __init__(self):
        super().__init__()
        self.script = deque()
        self.set_exception_handler(self.note)
        self.errors = []

    def note(self, loop, context):
        self.errors.append(context.get("exception"))

    def time(self):
        if self.says is OSError:
            raise OSError("no clock")
        return self.true_s + self.offset_s if self.says is None else self.says

    def select(self, timeout):
        if timeout is not None and math.isnan(timeout):  # asyncio does this from CPython 3.14 on
            raise ValueError("cannot wait for NaN seconds")
        wake_s = math.inf if timeout is None else self.true_s + timeout + (WAKE_UP_S if timeout else 0)
        at_s = self.script[0][0] if self.script else math.inf
        self.true_s = min(wake_s, max(at_s, self.true_s))
        assert self.true_s < math.inf, "nothing to do, and nothing to wait for"
        while self.script and self.script[0][0] <= self.true_s:
            self.script.popleft()[1]()
        return ()

    def run_until(self, true_s):
        self.script.append((true_s, int))
        for _ in range(20_000):
            if self.true_s >= true_s:
                return
            self._run_once()
        raise AssertionError("the loop iterates, but time does not pass")


WheelMovedLoop = wheel_loop(MovedLoop)


class Program:
    """A program for one loop. Each step is (seconds since the previous step, method, argument)."""

    def __init__(self, loop_class, steps):
        self.loop = loop_class()
        self.ran = {}
        self.handles = []
        true_s = self.loop.true_s
        for pause_s, what, number in steps:
            true_s += pause_s
            self.loop.script.append((true_s, lambda what=what, number=number: getattr(self, what)(number)))
        self.end_s = true_s + 20_000

    def add(self, delay_s):
        self.loop.call_soon(self.add_now, delay_s)

    def add_now(self, delay_s):
        number = len(self.handles)
        self.handles.append(self.loop.call_later(delay_s, self.run_one, number))

    def cancel(self, number):
        self.loop.call_soon(lambda: self.handles and self.handles[number % len(self.handles)].cancel())

    def jump(self, offset_s):
        self.loop.offset_s = offset_s

    def run_one(self, number):
        assert number not in self.ran, "twice"
        self.ran[number] = self.loop.true_s, self.loop.time() - self.handles[number].when()

    def run(self):
        loop = self.loop
        loop.run_until(self.end_s)
        if hasattr(loop, "_wheel_timers") and hwheel_core.DEBUG:
            hwheel_core.debug_check(loop._wheel_timers)
        assert not loop.errors
        loop.close()
        return self.ran


def compare(steps):
    stock = Program(MovedLoop, steps).run()
    program = Program(WheelMovedLoop, steps)
    wheel = program.run()
    for number, (at_s, _) in stock.items():
        assert number in wheel, f"timer {number} is lost"
        assert wheel[number][0] <= at_s + RESOLUTION_S + 10 * WAKE_UP_S, f"timer {number} is late"
    for number, (_, after_s) in wheel.items():
        assert after_s >= 0, f"timer {number} is early"


BACK = [
    # The clock is set back, with timers added before and after.
    [(0, "add", 1.5), (1, "jump", -900.0), (0.2, "add", 0.2), (0, "add", 0.7), (0.05, "add", 0.1)],
    # A timer has expired before, so the wheel's clock is ahead.
    [(0, "add", 1.0), (2, "jump", -1000.0), (0, "add", 1.7), (0, "add", 0.2), (0, "add", 0.5)],
    # Many deadlines before the wheel's clock.
    [(0, "add", 1.0), (2, "jump", -1000.0)] + [(0, "add", 0.2 + i % 97 / 50) for i in range(300)],
    # The same with many near and distant timers from before.
    [(0, "add", 10.0 + i * 7) for i in range(300)]
    + [(15, "jump", -900.0)]
    + [(0.001, "add", 0.2 + i % 97 / 50) for i in range(300)],
]
AHEAD = [
    [(0, "add", 1.0), (0, "add", 50.0), (0, "add", 2 * YEAR_S), (0.5, "jump", YEAR_S), (1, "add", 0.2)],
    [(0, "add", 1.0 + i / 1000) for i in range(300)] + [(0.5, "jump", YEAR_S), (1, "jump", 0.0), (0.1, "add", 0.2)],
    [(0, "add", 0.001), (1, "jump", YEAR_S), (0, "add", 0.001), (1, "jump", 0.0)]
    + [(0, "add", 0.2), (0, "add", 90.0)] * 99,
]


@pytest.mark.parametrize("steps", BACK + AHEAD)
def test_clock_jumps_lose_and_delay_nothing(steps):
    compare(steps)


offsets = st.sampled_from([-999.0, -700.0, -1.0, -0.01, -RESOLUTION_S, 0.0, 0.01, 1.0, 300.0, 5000.0, 8e6])
delays = st.one_of(st.floats(1e-6, 0.1), st.floats(0.1, 300), st.floats(-1, 0), st.floats(300, 9000))
step = st.one_of(
    st.tuples(st.floats(0, 2), st.just("add"), delays),
    st.tuples(st.just(0.0), st.just("add"), delays),
    st.tuples(st.floats(0, 5), st.just("jump"), offsets),
    st.tuples(st.floats(0, 2), st.just("cancel"), st.integers(0, 1000)),
)


@search_settings(200)
@given(st.lists(step, max_size=40))
@example([(0, "add", 1.0), (2, "jump", -999.0), (0, "add", 1.7), (0, "add", 0.2)])
def test_random_clock_jumps_lose_and_delay_nothing(steps):
    compare(steps)


def test_timers_added_after_a_step_back_run_in_order():
    loop = WheelMovedLoop()
    loop.call_later(1, int)
    loop.run_until(loop.true_s + 5)
    loop.offset_s = -1000.0
    ran = []
    for i in range(2000):
        loop.call_later(1 + i % 7, ran.append, i)
    loop.run_until(loop.true_s + 20)
    assert len(ran) == 2000
    assert ran == sorted(ran, key=lambda i: i % 7)
    loop.close()


def test_stopped_clock_runs_nothing():
    loop = WheelMovedLoop()
    ran = []
    loop.call_later(0.2, ran.append, 1)
    loop.says = loop.time()
    loop.run_until(loop.true_s + 5)
    assert ran == []
    loop.says = None
    loop.run_until(loop.true_s + 0.01)
    assert ran == [1]
    loop.close()


@pytest.mark.parametrize("says", [math.nan, math.inf, -math.inf, -5.0, OSError], ids=repr)
def test_broken_clock_loses_no_timer(says):
    loop = WheelMovedLoop()
    ran = []
    handles = [loop.call_later(delay_s, ran.append, delay_s) for delay_s in (0.2, 0.3, 5.0)]
    never = loop.call_later(math.inf, ran.append, "never")
    for _ in range(20):
        loop.says = says
        for _ in range(3):
            loop.script.append((loop.true_s, int))  # ends the wait
            try:
                loop._run_once()
            except (OSError, ValueError):
                pass
        if says != math.inf:
            assert ran == []
        loop.says = None
        loop.true_s += 0.001
    handles.append(loop.call_later(0.4, ran.append, 0.4))
    loop.run_until(loop.true_s + 10)
    assert sorted(ran) == [0.2, 0.3, 0.4, 5.0]
    assert not never.cancelled()
    assert len(loop._wheel_timers) == 1
    loop.close()


def test_clock_that_fails_in_the_wakeup_loses_no_timer():
    loop = WheelMovedLoop()
    ran = []
    loop.call_later(0.2, ran.append, 1)
    loop.call_later(0.3, ran.append, 2)
    broken = []

    def time():
        if sys._getframe(1).f_code.co_name == "_run" and len(broken) < 5:
            broken.append(loop.true_s)
            raise OSError("no clock")
        return loop.true_s

    loop.time = time
    loop.run_until(1010)
    assert len(broken) == len(loop.errors) == 5
    assert ran == [1, 2]
    loop.close()


def test_call_at_does_not_read_the_clock():
    loop = WheelMovedLoop()
    ran = []
    loop.says = OSError
    with pytest.raises(OSError):
        loop.call_later(1, ran.append, 1)
    loop.call_at(1001.0, ran.append, 2)
    loop.says = None
    loop.run_until(1010)
    assert ran == [2]
    loop.close()


def test_reschedule_with_a_nan_clock_leaves_the_deadline():
    loop = WheelMovedLoop()
    handle = loop.call_later(1, int)
    when = handle.when()
    loop.says = math.nan
    with pytest.raises(ValueError, match="not a number"):
        handle.reschedule(5)
    loop.says = None
    assert handle.when() == when
    handle.cancel()
    loop.close()


@pytest.mark.parametrize("base", [lambda loop: loop, wheel_loop], ids=["asyncio", "hwheel"])
def test_pass_runs_to_its_end_even_if_the_clock_is_set_back(base):
    loop = base(MovedLoop)()
    ran = []

    def back():
        loop.offset_s = -900.0
        ran.append(0)

    when = loop.time() + 1
    loop.call_at(when, back)
    for i in range(1, 200):
        loop.call_at(when + i * 1e-9, ran.append, i)
    loop.run_until(1010)
    assert sorted(ran) == list(range(200))
    loop.close()


def test_reschedule_with_an_infinite_clock_delays_no_other_timer():
    loop = WheelMovedLoop()
    ran = []
    moved = loop.call_later(5, ran.append, "moved")
    loop.says = -math.inf
    moved.reschedule(1)
    with pytest.raises(ValueError, match="not a number"):
        moved.reschedule(math.inf)
    loop.says = None
    for i in range(3):
        loop.call_later(1 + i, ran.append, i)
    loop.run_until(1010)
    assert sorted(ran, key=str) == [0, 1, 2, "moved"]
    loop.close()


@pytest.mark.parametrize("kind", ["asyncio", "hwheel", "Timeouts"])
@pytest.mark.parametrize("unit_s, zero", [(1e-3, 0), (1e-3, 1.7e12), (1.0, -1e6)])
def test_clock_with_another_unit_or_origin(kind, unit_s, zero):
    class Other(MovedLoop):
        def time(self):
            return zero + self.true_s / unit_s

        def select(self, timeout):
            return super().select(None if timeout is None else timeout * unit_s)

    loop, timers = loop_and_timers(kind, Other)
    start = loop.time()
    late = []

    def note(when):
        late.append(loop.time() - when)

    for i in (5, 1, 4, 2, 3):
        timers.call_at(start + i / unit_s, note, start + i / unit_s)
    loop.run_until(1010)
    assert len(late) == 5
    assert min(late) >= 0
    assert max(late) <= 0.01 / unit_s
    loop.close()


@pytest.mark.parametrize("kind", ["asyncio", "hwheel", "Timeouts"])
@pytest.mark.parametrize("number", [int, Fraction, Seconds], ids=lambda number: number.__name__)
def test_clock_of_another_number_type(kind, number):
    class Other(MovedLoop):
        def time(self):
            return number(super().time())

    loop, timers = loop_and_timers(kind, Other)
    ran = []
    timers.call_later(number(3), ran.append, "by a delay")
    timers.call_at(loop.time() + number(2), ran.append, "by a time")
    loop.run_until(1010)
    assert ran == ["by a time", "by a delay"]
    loop.close()


# --- early wake-ups -----------------------------------------------------------------------------------------------


class EarlyLoop(MovedLoop):
    """A loop that wakes up early by less than its resolution, and sleeps in whole milliseconds like a selector."""

    def select(self, timeout):
        if timeout and timeout > 1e-6:
            self.true_s += timeout - 0.5e-9
            return super().select(0)
        if timeout:
            self.slept_ms += 1
            self.true_s += 0.001
        self.true_s += self.pass_s
        return super().select(0)

    slept_ms = 0
    pass_s = 3e-6


@pytest.mark.parametrize("pass_s", [3e-6, 0.0], ids=["running clock", "stopped clock"])
def test_wakeup_early_by_less_than_the_resolution_causes_no_lateness(pass_s):
    loop = wheel_loop(EarlyLoop)()
    loop.pass_s = pass_s
    late_s = []
    for _ in range(5):
        when = loop.time() + 0.25
        loop.call_at(when, lambda when=when: late_s.append(loop.time() - when))
        for _ in range(50):
            loop._run_once()
    assert len(late_s) == 5
    assert min(late_s) >= 0
    if pass_s:
        assert max(late_s) < 0.0005
        assert loop.slept_ms == 0
    loop.close()


class CoarseLoop(MovedLoop):
    """A loop whose clock advances only in sleeps of 0.1 ms or longer."""

    def select(self, timeout):
        if timeout and timeout < 0.9e-4:
            return ()
        if timeout:
            self.true_s += timeout - 0.6e-9
        return ()


def test_coarse_clock_reaches_the_deadline():
    loop = wheel_loop(CoarseLoop)()
    late_s = []
    when = loop.time() + 0.25
    loop.call_at(when, lambda: late_s.append(loop.time() - when))
    for _ in range(100):
        loop._run_once()
    (late_s,) = late_s
    assert 0 <= late_s < 0.001
    loop.close()


# --- Timeouts ------------------------------------------------------------------------------------------------------


def test_timeouts_on_a_loop_whose_clock_is_set_back():
    loop = MovedLoop()
    ran = []
    with Timeouts(loop) as timeouts:
        timeouts.call_later(1, ran.append, "before")
        loop.run_until(1002)
        loop.offset_s = -1000.0
        timeouts.call_later(1.7, ran.append, "later")
        handle = timeouts.call_later(5, ran.append, "soon")
        handle.reschedule(0.2)
        loop.run_until(1002.3)
        assert ran == ["before", "soon"]
        loop.run_until(1004)
    assert ran == ["before", "soon", "later"]
    loop.close()


@pytest.mark.parametrize("seed", range(20))
def test_timers_added_one_turn_after_cancels_are_punctual(seed):
    """A bucket emptied by cancels is dropped at its deadline and not mistaken for a bucket of the next turn."""
    chance = seeded_random(seed)
    loop = WheelMovedLoop()
    ran = []

    def ran_one(when):
        assert loop.time() >= when
        ran.append(when)

    for _ in range(20):
        reach_s = chance.choice([5, 300, 20_000]) * RESOLUTION_S
        for handle in [loop.call_later(chance.uniform(0, reach_s), int) for _ in range(20)]:
            handle.cancel()
        assert len(loop._wheel_timers) == 0
        loop.true_s += chance.uniform(0, reach_s)
        deadlines = [loop.time() + chance.uniform(0, reach_s) for _ in range(10)]
        for when in deadlines:
            loop.call_at(when, ran_one, when)
            check_invariants(loop._wheel_timers)
        loop.run_until(max(deadlines) + 2 * RESOLUTION_S)
        assert ran == sorted(deadlines)
        ran.clear()
    assert not loop.errors
    loop.close()


def test_reschedule_of_a_handle_cancelled_by_the_clock_reading_fails():
    class Meddles(EventLoop):
        meddled = None

        def time(self):
            if self.meddled is not None:
                self.meddled.cancel()
            return super().time()

    loop = Meddles()
    handle = loop.call_later(1, int)
    loop.meddled = handle
    assert handle.reschedule(2) is False
    assert handle.cancelled() and len(loop._wheel_timers) == 0
    loop.meddled = None
    loop.close()
