"""Bad input raises an error that names the argument, and changes nothing."""

import math
import threading
import time
import warnings
from array import array
from fractions import Fraction

import numpy as np
import pytest

from hwheel import ExpiringDict, ManualTimer, SystemTimer, TimerBatch, TimerClosed, TimerTask, TimingWheel

NAN, INF = math.nan, math.inf
TOO_LARGE = 2**63

# Bad values by kind of argument: (value, error).
# fmt: off
NO_INTEGER = [(None, TypeError), (True, TypeError), ("5", TypeError), (b"5", TypeError), ([5], TypeError)]
WHOLE_MS = [*NO_INTEGER, (1.5, TypeError), (NAN, TypeError), (INF, TypeError), (-INF, TypeError),
            (TOO_LARGE, OverflowError), (-TOO_LARGE - 1, OverflowError), (10**400, OverflowError)]
LENGTH_MS = [*NO_INTEGER, (1.5, TypeError), (NAN, TypeError), (INF, TypeError), (TOO_LARGE, OverflowError),
             (-1, ValueError), (-TOO_LARGE - 1, ValueError)]
DELAY_MS = [*NO_INTEGER, (Fraction(3, 2), TypeError), (NAN, ValueError), (INF, ValueError), (-INF, ValueError),
            (TOO_LARGE, OverflowError), (-TOO_LARGE - 1, OverflowError), (10**400, OverflowError),
            (1e19, OverflowError), (-1e300, OverflowError)]
SECONDS = [*NO_INTEGER, (1j, TypeError), (NAN, ValueError), (INF, ValueError), (-INF, ValueError),
           (TOO_LARGE, OverflowError), (-TOO_LARGE, OverflowError), (10**400, OverflowError),
           (Fraction(10**400), OverflowError), (1e16, OverflowError), (1e300, OverflowError), (-1e300, OverflowError)]
LENGTH_S = [*[one for one in SECONDS if one[0] not in (-TOO_LARGE, -1e300, -INF)], (-1, ValueError),
            (-1e-6, ValueError), (-INF, ValueError)]
CALLBACK = [(None, TypeError), (5, TypeError), ("print", TypeError)]
TASK = [(None, TypeError), (5, TypeError), ("task", TypeError), (print, TypeError), (TimerTask, TypeError)]
BUFFER = [(None, TypeError), (5, TypeError), ([5], TypeError), ("5", TypeError), (array("d", [5.0]), TypeError)]
MISSED = [(None, ValueError), ("SKIP", ValueError), (5, ValueError), (["skip"], ValueError), ("", ValueError)]
TIMEOUT = [(True, TypeError), ("5", TypeError), ([5], TypeError), (-1, ValueError), (-0.5, ValueError),
           (NAN, ValueError), (-INF, ValueError)]
LATENESS = [*LENGTH_S[1:], (0, ValueError), (0.0, ValueError), (1e-12, ValueError)]     # None means no limit
OTHER_BUFFERS = [(array("i", [5, 5]), TypeError), (np.zeros((2, 2), "q"), TypeError),
                 (array("q", [5, 2**63 - 1]), OverflowError)]
DELAYS_OF_TWO = [(1.5, TypeError), (np.float64(1.5), TypeError), ("5", TypeError), (True, TypeError), (None, TypeError),
                 ([5, 5], TypeError), *OTHER_BUFFERS, (array("q", [5]), ValueError), (array("q", [5] * 3), ValueError),
                 (TOO_LARGE, OverflowError), (2**63 - 1, OverflowError)]
NO_CONTEXT = [(5, TypeError)]
NO_SOURCE = [(5, TypeError), ("random", TypeError), (print, TypeError)]
# fmt: on

TAKE_TERMS = [
    ("call_later", lambda timer, **terms: timer.call_later(1, print, **terms)),
    ("call_at", lambda timer, **terms: timer.call_at(5000, print, **terms)),
    ("call_every", lambda timer, **terms: timer.call_every(1, print, **terms)),
]

TICK_MS = [*WHOLE_MS, (0, ValueError), (-1, ValueError)]
WHEEL_SIZE = [*WHOLE_MS, (1, ValueError), (0, ValueError), (-20, ValueError), (2**20 + 1, ValueError)]
START_MS = [*WHOLE_MS[1:], (-1, ValueError), (-(10**15), ValueError), (-TOO_LARGE, ValueError)]
MAX_PENDING = [*WHOLE_MS[1:], (0, ValueError), (-1, ValueError)]


def cases(*groups):
    """Return a pytest parameter for each wrong value of each (title, argument, call, wrong values)."""
    return [
        pytest.param(call, argument, value, error, id=f"{title}-{argument}-{value!r:.25}")
        for title, argument, call, wrong in groups
        for value, error in wrong
    ]


def named(argument):
    return rf"\b{argument}\b"


# --- errors leave a timer and a wheel unchanged --------------------------------------------------------------------


class Stage:
    """A ManualTimer and a TimingWheel with pending tasks, and a new task."""

    def __init__(self):
        self.timer = ManualTimer(tick_ms=2, start_ms=1000)
        self.pending = self.timer.add(TimerTask(50, print))
        self.timer.call_later(7, print)
        self.batch = self.timer.call_many(array("q", [5, 500]), print)
        self.group = self.timer.group()
        self.wheel = TimingWheel(start_ms=1000)
        self.in_wheel = TimerTask(30, print)
        self.wheel.add(self.in_wheel, 1030)
        self.free = TimerTask(5, print)

    def state(self):
        tasks = [self.pending, self.in_wheel, self.free]
        return (
            self.timer.stats(),
            len(self.timer),
            self.timer.time(),
            self.timer.closed,
            self.timer.pending(),
            (len(self.batch), list(self.batch.indices())),
            len(self.group),
            self.wheel.snapshot(),
            len(self.wheel),
            self.wheel.next_expiration_ms,
            [(task.pending, task.expired, task.cancelled, task.delay_ms, task.deadline_ms) for task in tasks],
        )


CALLS = cases(
    ("TimerTask", "delay_ms", lambda stage, value: TimerTask(value), DELAY_MS),
    ("TimerTask", "callback", lambda stage, value: TimerTask(5, value), CALLBACK[1:]),
    ("reschedule", "delay", lambda stage, value: stage.pending.reschedule(value), SECONDS),
    ("reschedule in a wheel", "delay", lambda stage, value: stage.in_wheel.reschedule(value), SECONDS),
    ("reschedule before add", "delay", lambda stage, value: stage.free.reschedule(value), SECONDS),
    ("wheel.add", "expiration_ms", lambda stage, value: stage.wheel.add(stage.free, value), WHOLE_MS),
    ("wheel.add", "task", lambda stage, value: stage.wheel.add(value, 1005), TASK),
    ("wheel.poll", "now_ms", lambda stage, value: stage.wheel.poll(value), WHOLE_MS),
    ("wheel.advance_clock", "time_ms", lambda stage, value: stage.wheel.advance_clock(value), WHOLE_MS),
    ("add", "task", lambda stage, value: stage.timer.add(value), TASK),
    ("call_later", "delay", lambda stage, value: stage.timer.call_later(value, print), SECONDS),
    ("call_later", "callback", lambda stage, value: stage.timer.call_later(1, value), CALLBACK),
    ("call_at", "when", lambda stage, value: stage.timer.call_at(value, print), SECONDS),
    ("call_at", "callback", lambda stage, value: stage.timer.call_at(1, value), CALLBACK),
    (
        "call_every",
        "interval",
        lambda stage, value: stage.timer.call_every(value, print),
        [*SECONDS, (0, ValueError), (0.0, ValueError), (-1, ValueError), (1e-12, ValueError)],
    ),
    ("call_every", "callback", lambda stage, value: stage.timer.call_every(1, value), CALLBACK),
    ("call_every", "missed_ticks", lambda stage, value: stage.timer.call_every(1, print, missed_ticks=value), MISSED),
    *(
        (name, argument, lambda stage, value, call=call, name=argument: call(stage.timer, **{name: value}), bad)
        for name, call in TAKE_TERMS
        for argument, bad in (("slack", LENGTH_S), ("max_lateness", LATENESS))
    ),
    ("call_every", "jitter", lambda stage, value: stage.timer.call_every(1, print, jitter=value), LENGTH_S),
    ("call_every", "random", lambda stage, value: stage.timer.call_every(1, print, random=value), NO_SOURCE),
    *(
        (f"group.{name}", argument, lambda stage, value, name=name: getattr(stage.group, name)(value, print), SECONDS)
        for name, argument in [("call_later", "delay"), ("call_at", "when"), ("call_every", "interval")]
    ),
    *(
        (f"group.{name}", "callback", lambda stage, value, name=name: getattr(stage.group, name)(1, value), CALLBACK)
        for name in ("call_later", "call_at", "call_every")
    ),
    ("group.call_every", "interval", lambda stage, value: stage.group.call_every(value, print), [(0, ValueError)]),
    (
        "group.call_every",
        "missed_ticks",
        lambda stage, value: stage.group.call_every(1, print, missed_ticks=value),
        MISSED,
    ),
    ("group.call_later", "context", lambda stage, value: stage.group.call_later(1, print, context=value), NO_CONTEXT),
    ("call_many", "delays_ms", lambda stage, value: stage.timer.call_many(value, print), BUFFER),
    ("extend", "delays_ms", lambda stage, value: stage.batch.extend(value), [*BUFFER, *OTHER_BUFFERS]),
    ("extend", "callback", lambda stage, value: stage.batch.extend(array("q", [5]), value), CALLBACK[1:]),
    ("batch.reschedule", "delays_ms", lambda stage, value: stage.batch.reschedule([0, 1], value), DELAYS_OF_TWO),
    ("call_many", "callback", lambda stage, value: stage.timer.call_many(array("q", [5]), value), CALLBACK),
    ("advance", "seconds", lambda stage, value: stage.timer.advance(value), LENGTH_S),
    ("advance_to", "when", lambda stage, value: stage.timer.advance_to(value), LENGTH_S),
    ("close", "timeout", lambda stage, value: stage.timer.close(timeout=value), TIMEOUT),
)


@pytest.mark.parametrize(("call", "argument", "value", "error"), CALLS)
def test_error_names_the_argument_and_nothing_changes(call, argument, value, error):
    stage = Stage()
    before = stage.state()
    with pytest.raises(error, match=named(argument)) as caught:
        call(stage, value)
    assert type(caught.value) is error
    assert stage.state() == before
    stage.timer.advance(0)
    assert stage.timer.add(stage.free).pending


CONSTRUCTORS = cases(
    ("TimingWheel", "tick_ms", lambda value: TimingWheel(tick_ms=value), TICK_MS),
    ("TimingWheel", "wheel_size", lambda value: TimingWheel(wheel_size=value), WHEEL_SIZE),
    ("TimingWheel", "start_ms", lambda value: TimingWheel(start_ms=value), [(None, TypeError), *START_MS]),
    ("TimingWheel", "tick_ms", lambda value: TimingWheel(value, 2**10), [(2**53, OverflowError)]),
    ("ManualTimer", "tick_ms", lambda value: ManualTimer(tick_ms=value), TICK_MS),
    ("ManualTimer", "wheel_size", lambda value: ManualTimer(wheel_size=value), WHEEL_SIZE),
    ("ManualTimer", "start_ms", lambda value: ManualTimer(start_ms=value), START_MS),
    ("ManualTimer", "max_pending", lambda value: ManualTimer(max_pending=value), MAX_PENDING),
    ("ManualTimer", "name", lambda value: ManualTimer(value), [(None, TypeError), (5, TypeError), (b"t", TypeError)]),
    ("ManualTimer", "on_error", lambda value: ManualTimer(on_error=value), [*CALLBACK[1:], (b"raise", TypeError)]),
    ("ManualTimer", "on_missed", lambda value: ManualTimer(on_missed=value), CALLBACK[1:]),
    ("SystemTimer", "tick_ms", lambda value: SystemTimer(tick_ms=value), TICK_MS),
    ("SystemTimer", "wheel_size", lambda value: SystemTimer(wheel_size=value), WHEEL_SIZE),
    ("SystemTimer", "start_ms", lambda value: SystemTimer(start_ms=value), [*START_MS, (2**62, ValueError)]),
    ("SystemTimer", "max_pending", lambda value: SystemTimer(max_pending=value), MAX_PENDING),
    ("SystemTimer", "name", lambda value: SystemTimer(value), [(None, TypeError), (5, TypeError), (b"t", TypeError)]),
    ("SystemTimer", "on_error", lambda value: SystemTimer(on_error=value), CALLBACK[1:]),
    (
        "SystemTimer",
        "executor",
        lambda value: SystemTimer(executor=value),
        [("threads", TypeError), (5, TypeError), (True, TypeError)],
    ),
    (
        "SystemTimer",
        "clock",
        lambda value: SystemTimer(clock=value),
        [(None, ValueError), ("wall", ValueError), ("manual", ValueError), (5, ValueError)],
    ),
    (
        "SystemTimer",
        "fork",
        lambda value: SystemTimer(fork=value),
        [(None, ValueError), ("DROP", ValueError), (True, ValueError)],
    ),
)


@pytest.mark.parametrize(("call", "argument", "value", "error"), CONSTRUCTORS)
def test_constructor_error_names_the_argument(call, argument, value, error):
    with pytest.raises(error, match=named(argument)) as caught:
        call(value)
    assert type(caught.value) is error


def test_system_timer_can_start_in_the_past(ran):
    with SystemTimer(start_ms=0, executor="inline", reaper=False) as timer:
        timer.add(TimerTask(0, ran.append, "ran"))
        timer.advance_clock(0)
    assert ran == ["ran"]


@pytest.mark.parametrize(("value", "error"), TIMEOUT)
def test_bad_timeout_of_close_leaves_a_system_timer_open(value, error):
    with SystemTimer(reaper=False) as timer:
        with pytest.raises(error, match=named("timeout")):
            timer.close(timeout=value)
        assert not timer.closed


@pytest.mark.parametrize(("value", "error"), [one for one in LENGTH_MS if one[0] != TOO_LARGE])
def test_bad_timeout_of_advance_clock(value, error):
    with SystemTimer(reaper=False) as timer:
        timer.call_later(100, print)
        before = timer.stats()
        with pytest.raises(error, match=named("timeout_ms")):
            timer.advance_clock(value)
        assert timer.stats() == before


def test_advance_clock_needs_a_timer_without_reaper():
    with SystemTimer() as timer, pytest.raises(RuntimeError, match="reaper"):
        timer.advance_clock(0)


@pytest.mark.parametrize("make", [ManualTimer, SystemTimer, lambda: SystemTimer(reaper=False)])
def test_closed_timer_refuses_every_call(make):
    timer = make()
    timer.close()
    before = timer.stats()
    task = TimerTask(5)
    for call in (
        lambda: timer.add(task),
        lambda: timer.call_later(1, print),
        lambda: timer.call_at(1, print),
        lambda: timer.call_every(1, print),
        lambda: timer.call_many(array("q", [5]), print),
        lambda: timer.call_many(array("q"), print),
    ):
        with pytest.raises(TimerClosed, match="closed"):
            call()
    if not isinstance(timer, ManualTimer):
        assert not [thread for thread in threading.enumerate() if thread.name.endswith(f"-{timer.name}")]
    assert timer.stats() == before
    assert (task.pending, task.deadline_ms) == (False, None)


@pytest.mark.parametrize(
    ("kind", "options", "advance"), [(ManualTimer, {}, "advance"), (SystemTimer, {"reaper": False}, "advance_clock")]
)
def test_closed_timer_refuses_to_advance(kind, options, advance):
    timer = kind(**options)
    timer.close()
    with pytest.raises(TimerClosed, match="closed"):
        getattr(timer, advance)(0)


# --- timers that are closed, uninitialized, or unsuitable -------------------------------------------------------------


def test_callback_that_closes_its_timer_ends_the_advance():
    timer = ManualTimer()
    timer.call_later(0.001, timer.close)
    later = timer.call_later(0.002, pytest.fail, "it was closed")
    timer.advance(0.01)
    assert timer.closed and later.cancelled


@pytest.mark.parametrize(
    "use",
    [
        lambda timer: timer.call_later(1, print),
        lambda timer: timer.call_at(1, print),
        lambda timer: timer.call_every(1, print),
        lambda timer: timer.call_many(array("q", [1]), print),
        lambda timer: timer.add(TimerTask(1)),
        lambda timer: timer.advance_clock(0),
        lambda timer: timer.drain(),
        lambda timer: timer.dump(),
        lambda timer: timer.load(b""),
        lambda timer: timer.group(),
        lambda timer: timer.stats(),
        lambda timer: timer.time(),
        lambda timer: timer.next_deadline(),
        len,
    ],
)
def test_uninitialized_timer_is_an_error(use):
    timer = SystemTimer.__new__(SystemTimer)
    with pytest.raises(RuntimeError, match="has not been set up|the timer is closed"):
        use(timer)
    assert repr(timer) == "<SystemTimer, not set up>"
    assert timer.close() == []


# --- errors that state the reason -------------------------------------------------------------------------------------


def test_manual_clock_does_not_go_back():
    timer = ManualTimer(start_ms=5000)
    with pytest.raises(ValueError, match="when must not be before the current time of 5.0 s"):
        timer.advance_to(4)
    assert timer.time() == 5


@pytest.mark.parametrize(
    ("reading", "error", "text"),
    [(-1, ValueError, "negative"), (2**63, OverflowError, "64 bits"), (1e19, OverflowError, "64 bits")],
)
def test_invalid_reading_of_a_clock(reading, error, text):
    readings = [1000]
    with SystemTimer(clock=lambda: readings[0], executor="inline", reaper=False) as timer:
        task = timer.call_later(1, int)
        readings[0] = reading
        with pytest.raises(error, match=text):
            timer.call_later(1, int)
        assert timer.pending() == [task]
        readings[0] = 2000
        timer.advance_clock(0)
        assert task.expired


def test_second_init_is_an_error():
    timer, wheel = ManualTimer(), TimingWheel(1, 20, 0)
    task = timer.call_later(1, int)
    wheel.add(TimerTask(0), 5)
    for made in (timer, wheel):
        with pytest.raises(ValueError, match="has been set up already"):
            made.__init__()
    assert timer.pending() == [task] and len(wheel) == 1


def test_second_init_during_the_first_is_an_error():
    wheel = TimingWheel.__new__(TimingWheel)

    class SetsItUp:
        def __index__(self):
            wheel.__init__(7)
            return 5

    with pytest.raises(ValueError, match="has been set up already"):
        wheel.__init__(SetsItUp())
    assert wheel.snapshot().levels[0].tick_ms == 7


def test_batch_needs_a_timer():
    with pytest.raises(TypeError, match="call_many"):
        TimerBatch()
    with pytest.raises(TypeError, match=r"call_many\(\)"):
        TimerBatch.__new__(TimerBatch).extend(array("q", [1]))


def test_pop_of_a_missing_or_expired_key():
    timer = ManualTimer()
    items = ExpiringDict(1, timer=timer)
    items["a"] = 1
    for key in ("b", "a"):
        timer.advance(0.5)
        assert key == "b" or items.pop(key, "lapsed") == "lapsed"
        with pytest.raises(KeyError, match=key):
            items.pop(key)


def test_repr_of_batch_and_wheel():
    timer, wheel = ManualTimer(), TimingWheel(1, 20, 0)
    batch = timer.call_many(array("q", [1, 2, 3]), len)
    timer.advance(0.001)
    assert repr(batch) == "<TimerBatch of 3, 2 pending>"
    wheel.add(TimerTask(0), 25)
    assert repr(wheel) == "<TimingWheel level 1, tick_ms=1, wheel_size=20, current_time_ms=0, 1 pending>"
    assert (
        repr(wheel.overflow_wheel) == "<TimingWheel level 2, tick_ms=20, wheel_size=20, current_time_ms=0, 1 pending>"
    )


def test_call_at_warns_about_a_time_of_another_clock():
    with SystemTimer() as timer:
        for caller in (timer, timer.group()):
            with pytest.warns(RuntimeWarning, match=r"years ahead on the timer's clock, which is not time\.time\(\)"):
                caller.call_at(time.time() + 5, int)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            timer.call_at(timer.time() + 9 * 365 * 86400, int)
            timer.call_later(60 * 365 * 86400, int)
        assert len(timer) == 4


def test_call_at_of_a_manual_timer_does_not_warn():
    timer = ManualTimer()
    timer.call_at(time.time() + 5, int)
    assert len(timer) == 1
