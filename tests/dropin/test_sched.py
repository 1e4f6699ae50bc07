"""hwheel.sched: where it behaves like the standard sched, and its own promises.

tests/model/test_sched_model.py compares the order of events, delays, and exceptions.
"""

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
    """A clock of any type of time that the test moves, with its delay function."""

    def __init__(self, now):
        self.now = now
        self.delays = []

    def __call__(self):
        return self.now

    def wait(self, delay):
        self.delays.append(delay)
        self.now += delay


def scheduler_with_clock(module, now=0):
    clock = HandTime(now)
    return module.scheduler(clock, clock.wait), clock


def test_events_are_of_the_standard_class():
    assert hwheel.sched.Event is sched.Event
    scheduler, _ = scheduler_with_clock(hwheel.sched, 10)
    event = scheduler.enter(5, 3, print, (1,), {"sep": ""})
    other = scheduler.enterabs(15, 3, print)
    assert event == (15, 3, event.sequence, print, (1,), {"sep": ""}) and isinstance(event, sched.Event)
    assert other == (15, 3, other.sequence, print, (), {})
    assert scheduler.queue == [event, other]


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
def test_any_type_of_time(module, now, step):
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
def test_cancel_of_an_event_that_is_not_pending_is_an_error(module):
    scheduler, _ = scheduler_with_clock(module)
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
def test_cancel_removes_only_this_event_and_not_an_equal_event(module):
    scheduler, _ = scheduler_with_clock(module)
    ran = []
    events = [scheduler.enterabs(1, 1, ran.append, ("same",)) for _ in range(10)]
    scheduler.cancel(events[5])
    assert [*map(id, scheduler.queue)] == [id(event) for event in events if event is not events[5]]
    other_scheduler, _ = scheduler_with_clock(module)
    stranger = other_scheduler.enterabs(1, 1, print)
    with pytest.raises(ValueError):
        scheduler.cancel(stranger)
    assert len(scheduler.queue) == 9
    assert other_scheduler.queue == [stranger]


# --- hwheel only -------------------------------------------------------------------------------------------------


def test_cancel_refuses_a_copy_of_an_event():
    scheduler, _ = scheduler_with_clock(hwheel.sched)
    event = scheduler.enter(1, 1, int)
    for copy in (hwheel.sched.Event(*event), event._replace(action=print)):
        with pytest.raises(ValueError):
            scheduler.cancel(copy)
    scheduler.cancel(event)


def test_times_that_cannot_be_compared_are_refused_and_change_nothing():
    scheduler, _ = scheduler_with_clock(hwheel.sched)
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
    """A time whose comparisons fail once `comparisons_left` is used up. None: they never fail."""

    comparisons_left = None

    def __lt__(self, other):
        if Touchy.comparisons_left is not None:
            Touchy.comparisons_left -= 1
            if Touchy.comparisons_left < 0:
                raise ZeroDivisionError
        return int(self) < int(other)


@pytest.mark.parametrize("comparisons", range(5))
def test_order_survives_a_failing_comparison_while_run_drops_a_cancelled_event(comparisons):
    scheduler, clock = scheduler_with_clock(hwheel.sched)
    ran = []
    events = [scheduler.enterabs(Touchy(time_), 1, ran.append, (time_,)) for time_ in range(1, 20)]
    scheduler.cancel(events.pop(0))
    Touchy.comparisons_left = comparisons
    try:
        with pytest.raises(ZeroDivisionError):
            scheduler.run(blocking=False)
    finally:
        Touchy.comparisons_left = None
    assert not ran
    scheduler.run()
    assert ran == [*range(2, 20)]


class Thing:
    """An object with weak references."""


def test_a_cancelled_event_is_released_at_once():
    scheduler, _ = scheduler_with_clock(hwheel.sched)
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


def test_an_event_that_is_cancelled_while_run_waits_for_it_is_released_at_once():
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


def test_the_heap_has_at_most_as_many_keys_of_cancelled_events_as_of_pending_ones():
    scheduler, clock = scheduler_with_clock(hwheel.sched)
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
