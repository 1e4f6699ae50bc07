"""hwheel.sched: what the standard module promises, and what hwheel's does better. What can be, is asked of both."""

import gc
import sched
import time
import weakref
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

import hwheel.sched

BOTH = pytest.mark.parametrize("module", [sched, hwheel.sched], ids=["standard", "hwheel"])


class HandTime:
    """A time of any kind, and the delay function that goes with it."""

    def __init__(self, now):
        self.now = now
        self.delays = []

    def __call__(self):
        return self.now

    def wait(self, delay):
        self.delays.append(delay)
        self.now += delay


def handed(module, now=0):
    clock = HandTime(now)
    return module.scheduler(clock, clock.wait), clock


@BOTH
def test_order_is_time_then_priority_then_insertion(module):
    scheduler, _ = handed(module)
    ran = []
    entries = [(2, 1, "e"), (1, 2, "c"), (1, 1, "a"), (1, 2, "d"), (1, 1, "b"), (2, 0, "late but first of 2")]
    for time_, priority, name in entries:
        scheduler.enterabs(time_, priority, ran.append, (name,))
    scheduler.run()
    assert ran == ["a", "b", "c", "d", "late but first of 2", "e"]


@BOTH
def test_an_event_is_a_named_tuple(module):
    scheduler, clock = handed(module, 10)
    event = scheduler.enter(5, 3, print, (1,), {"sep": ""})
    assert isinstance(event, tuple)
    assert isinstance(event, module.Event)
    assert event._fields == ("time", "priority", "sequence", "action", "argument", "kwargs")
    assert event == (15, 3, event.sequence, print, (1,), {"sep": ""})
    other = scheduler.enterabs(15, 3, print)
    assert (other.argument, other.kwargs) == ((), {})
    assert event < other
    assert event.sequence < other.sequence
    assert scheduler.queue == [event, other]


def test_events_are_those_of_the_standard_module():
    assert hwheel.sched.Event is sched.Event


@BOTH
def test_the_defaults_are_the_monotonic_clock_and_sleep(module):
    scheduler = module.scheduler()
    assert scheduler.timefunc is time.monotonic
    assert scheduler.delayfunc is time.sleep
    begin = time.monotonic()
    ran = []
    scheduler.enter(0.05, 1, lambda: ran.append(time.monotonic() - begin))
    scheduler.run()
    assert ran[0] >= 0.05


@BOTH
def test_a_delay_function_is_called_as_in_the_standard_module(module):
    scheduler, clock = handed(module)
    scheduler.enter(3, 1, int)
    scheduler.enter(5, 1, int)
    scheduler.enter(5, 1, int)
    scheduler.run()
    assert clock.delays == [3, 0, 2, 0, 0]


@BOTH
def test_a_delay_function_may_return_early_and_change_the_queue(module):
    ran = []
    delays = []

    def wait(delay):
        delays.append(delay)
        if delay == 10:
            scheduler.enterabs(2, 1, ran.append, ("earlier",))
        clock.now += min(delay, 1)

    clock = HandTime(0)
    scheduler = module.scheduler(clock, wait)
    scheduler.enter(10, 1, ran.append, ("later",))
    scheduler.run()
    assert ran == ["earlier", "later"]
    assert delays == [10, 1, 0, 8, 7, 6, 5, 4, 3, 2, 1, 0]


@BOTH
def test_run_without_blocking(module):
    scheduler, clock = handed(module)
    ran = []
    assert scheduler.run(blocking=False) is None
    scheduler.enter(3, 1, ran.append, ("a",))
    scheduler.enter(0, 1, ran.append, ("b",))
    assert scheduler.run(blocking=False) == 3
    assert ran == ["b"]
    clock.now = 10
    assert scheduler.run(False) is None
    assert ran == ["b", "a"]


@BOTH
@pytest.mark.parametrize(
    ("now", "step"),
    [
        (datetime(2030, 1, 1), timedelta(seconds=30)),
        (Decimal("0.1"), Decimal("0.1")),
        (Fraction(1, 3), Fraction(1, 7)),
        (10**30, 1),
        (0.5, 0.25),
    ],
    ids=lambda value: type(value).__name__,
)
def test_time_is_anything_that_compares_and_subtracts(module, now, step):
    ran = []
    clock = HandTime(now)
    scheduler = module.scheduler(clock, lambda delay: clock.wait(delay) if delay else None)
    for i in (3, 1, 2):
        scheduler.enter(step * i, 1, lambda i=i: ran.append((i, clock.now)))
    cancelled = scheduler.enter(step, 2, ran.append, ("never",))
    assert scheduler.run(blocking=False) == step
    scheduler.cancel(cancelled)
    scheduler.run()
    assert ran == [(1, now + step), (2, now + step * 2), (3, now + step * 3)]


@BOTH
def test_an_exception_in_an_action_leaves_a_queue_to_go_on_with(module):
    scheduler, _ = handed(module)
    ran = []
    scheduler.enter(1, 1, lambda: 1 / 0)
    scheduler.enter(2, 1, ran.append, (2,))
    with pytest.raises(ZeroDivisionError):
        scheduler.run()
    assert len(scheduler.queue) == 1
    scheduler.run()
    assert ran == [2]


@BOTH
def test_actions_may_enter_and_cancel(module):
    scheduler, _ = handed(module)
    ran = []
    victim = scheduler.enter(2, 1, ran.append, ("victim",))
    scheduler.enter(1, 1, scheduler.cancel, (victim,))
    scheduler.enter(1, 2, lambda: scheduler.enter(5, 1, ran.append, ("entered",)))
    scheduler.run()
    assert ran == ["entered"]


@BOTH
def test_cancel_of_what_is_not_there(module):
    scheduler, _ = handed(module)
    cancelled = scheduler.enter(1, 1, int)
    scheduler.cancel(cancelled)
    ran = scheduler.enter(1, 1, int)
    inside = []
    running = scheduler.enter(2, 1, lambda: inside.append(pytest.raises(ValueError, scheduler.cancel, running)))
    scheduler.run()
    assert len(inside) == 1
    for event in (cancelled, ran, running, None, "event", 5, (), object()):
        with pytest.raises(ValueError):
            scheduler.cancel(event)


@BOTH
def test_cancel_takes_the_very_event(module):
    scheduler, _ = handed(module)
    ran = []
    events = [scheduler.enterabs(1, 1, ran.append, ("same",)) for _ in range(10)]
    scheduler.cancel(events[5])
    assert [*map(id, scheduler.queue)] == [id(event) for event in events if event is not events[5]]
    other_scheduler, _ = handed(module)
    stranger = other_scheduler.enterabs(1, 1, print)
    with pytest.raises(ValueError):
        scheduler.cancel(stranger)
    assert len(scheduler.queue) == 9
    assert other_scheduler.queue == [stranger]


# --- hwheel's alone ----------------------------------------------------------------------------------------------


def test_an_event_that_is_merely_equal_is_not_the_event():
    scheduler, _ = handed(hwheel.sched)
    event = scheduler.enter(1, 1, int)
    for copy in (hwheel.sched.Event(*event), event._replace(action=print)):
        with pytest.raises(ValueError):
            scheduler.cancel(copy)
    scheduler.cancel(event)


def test_what_cannot_be_compared_is_refused_and_changes_nothing():
    scheduler, _ = handed(hwheel.sched)
    events = [scheduler.enterabs(time_, 1, int) for time_ in (5, 3, 4, 1, 2)]
    for bad in ("soon", None, datetime(2030, 1, 1)):
        with pytest.raises(TypeError):
            scheduler.enterabs(bad, 1, int)
    with pytest.raises(TypeError):
        scheduler.enterabs(1, "high", int)
    for nan in (float("nan"), Decimal("nan")):
        with pytest.raises(ValueError):
            scheduler.enterabs(nan, 1, int)
    assert scheduler.queue == sorted(events)
    scheduler.run()
    assert scheduler.empty()


class Touchy(int):
    """A time whose comparisons fail from the `bears`th on, if that is a number."""

    bears = None

    def __lt__(self, other):
        if Touchy.bears is not None:
            Touchy.bears -= 1
            if Touchy.bears < 0:
                raise ZeroDivisionError
        return int(self) < int(other)


@pytest.mark.parametrize("bears", range(5))
def test_a_comparison_that_fails_while_run_passes_over_a_cancelled_event(bears):
    """The order of the others is as it was."""
    scheduler, clock = handed(hwheel.sched)
    ran = []
    events = [scheduler.enterabs(Touchy(time_), 1, ran.append, (time_,)) for time_ in range(1, 20)]
    scheduler.cancel(events.pop(0))
    Touchy.bears = bears
    try:
        with pytest.raises(ZeroDivisionError):
            scheduler.run(blocking=False)
    finally:
        Touchy.bears = None
    assert not ran
    scheduler.run()
    assert ran == [*range(2, 20)]


class Thing:
    """Something whose end can be seen."""


def test_a_cancelled_event_is_released_at_once():
    scheduler, _ = handed(hwheel.sched)
    gc.collect()
    gc.disable()
    try:
        thing = Thing()
        seen = weakref.ref(thing)
        others = [scheduler.enter(i, 1, int) for i in range(1, 100)]
        event = scheduler.enter(50, 1, print, (thing,))
        del thing
        scheduler.cancel(event)
        assert seen() is not None
        del event
        assert seen() is None
        assert len(others) == len(scheduler.queue)
    finally:
        gc.enable()


def test_what_is_cancelled_while_run_waits_for_it_is_released_at_once():
    seen = []
    clock = HandTime(0)

    def wait(delay):
        for event in scheduler.queue:
            scheduler.cancel(event)
        del event
        seen.append(reference() is None)
        clock.wait(delay)

    scheduler = hwheel.sched.scheduler(clock, wait)
    thing = Thing()
    reference = weakref.ref(thing)
    scheduler.enter(5, 1, print, (thing,))
    del thing
    scheduler.run()
    assert seen == [True]


def test_an_event_that_has_run_is_released_before_the_next_wait():
    seen = []
    thing = Thing()
    clock = HandTime(0)

    def wait(delay):
        seen.append(reference() is None)
        clock.wait(delay)

    scheduler = hwheel.sched.scheduler(clock, wait)
    reference = weakref.ref(thing)
    scheduler.enter(0, 1, lambda thing: None, (thing,))
    del thing
    scheduler.enter(5, 1, int)
    scheduler.run()
    assert seen == [True, True, True]


def test_cancelled_events_do_not_pile_up():
    """The order in which they go does not matter: the heap keeps at most as many keys of dead events as of living."""
    scheduler, clock = handed(hwheel.sched)
    longest = 0
    far_off = [scheduler.enter(10**9 + i, 1, int) for i in range(1000)]
    for i in range(100_000):
        scheduler.cancel(scheduler.enter(i % 977 + 1, i % 3, int))
        longest = max(longest, len(scheduler._keys))
    assert longest <= 2 * len(far_off) + 100
    for event in far_off:
        scheduler.cancel(event)
    assert scheduler.empty()
    assert scheduler.queue == []
    scheduler.enter(1, 1, int)
    assert len(scheduler._keys) == 1
