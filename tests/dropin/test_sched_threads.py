"""hwheel.sched with several threads: run() notices their changes, and each event runs once or is cancelled."""

import itertools
import math
import os
import signal
import threading

import pytest

import hwheel.sched

PATIENCE_S = 60


class Sleeper:
    """A thread in run(), with the standard delay function."""

    def __init__(self, scheduler):
        self.thread = threading.Thread(target=scheduler.run, daemon=True)
        self.scheduler = scheduler

    def start(self, eventually):
        self.thread.start()
        eventually(lambda: {None} < {None, *self.scheduler._sleepers.values()}, "run() sleeps")

    def ends(self):
        self.thread.join(PATIENCE_S)
        return not self.thread.is_alive()


@pytest.fixture
def slept(eventually):
    scheduler = hwheel.sched.scheduler()
    head = scheduler.enter(1000, 1, print, ("never",))
    sleeper = Sleeper(scheduler)
    sleeper.start(eventually)
    yield scheduler, head, sleeper
    for event in scheduler.queue:
        scheduler.cancel(event)
    assert sleeper.ends()


def test_run_notices_an_earlier_event_of_another_thread(slept):
    scheduler, head, _ = slept
    ran = threading.Event()
    scheduler.enter(0.01, 1, ran.set)
    assert ran.wait(PATIENCE_S)
    assert scheduler.queue == [head]


def test_all_threads_that_run_one_scheduler_notice_a_cancel(slept, eventually):
    scheduler, head, sleeper = slept
    more = [Sleeper(scheduler) for _ in range(3)]
    for one in more:
        one.thread.start()
    eventually(lambda: [*scheduler._sleepers.values()].count(None) == 0 and len(scheduler._sleepers) == 4)
    scheduler.cancel(head)
    assert all(one.ends() for one in [sleeper, *more])


def test_a_cancel_at_any_moment_wakes_run():
    for i in range(1500):
        scheduler = hwheel.sched.scheduler()
        head = scheduler.enter(1000, 1, print)
        thread = threading.Thread(target=scheduler.run, daemon=True)
        thread.start()
        for _ in range(i % 50 * 10):
            pass
        scheduler.cancel(head)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@pytest.mark.parametrize("reading", [1, 2], ids=["first reading", "the reading before it sleeps"])
@pytest.mark.parametrize("now", [0, 5000], ids=["not yet due", "due"])
def test_a_cancel_while_run_reads_the_time(now, reading):
    readings = itertools.count(1)

    def timefunc():
        if next(readings) < reading:
            return 0
        for event in scheduler.queue:
            scheduler.cancel(event)
        return now

    scheduler = hwheel.sched.scheduler(timefunc)
    scheduler.enterabs(1000, 1, pytest.fail, ("it was cancelled",))
    thread = threading.Thread(target=scheduler.run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("time", [1e18, math.inf])
def test_run_waits_for_times_beyond_the_limit_of_a_lock(time, eventually):
    scheduler = hwheel.sched.scheduler()
    event = scheduler.enterabs(time, 1, pytest.fail, ("it was cancelled",))
    sleeper = Sleeper(scheduler)
    sleeper.start(eventually)
    assert not scheduler.empty() and sleeper.thread.is_alive()
    scheduler.cancel(event)
    assert sleeper.ends()


def test_a_run_that_fails_is_not_registered_as_a_sleeper():
    times = iter([0])  # the second reading is the one before it sleeps
    scheduler = hwheel.sched.scheduler(lambda: next(times))
    scheduler.enterabs(1000, 1, print)
    with pytest.raises(StopIteration):
        scheduler.run()
    assert not scheduler._sleepers


class EntersInBetween(dict):
    """A scheduler's events, which call the attribute `meanwhile` at the first lookup of a cancelled event."""

    meanwhile = None

    def get(self, number):
        event = super().get(number)
        if event is None and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return event


def test_a_signal_handler_may_enter_an_earlier_event_while_run_drops_the_key_of_a_cancelled_one():
    ran = []
    scheduler = hwheel.sched.scheduler(lambda: 10)
    cancelled = scheduler.enterabs(1, 1, pytest.fail, ("it was cancelled",))
    scheduler.enterabs(2, 1, ran.append, ("later",))
    scheduler.cancel(cancelled)
    scheduler._events = EntersInBetween(scheduler._events)
    scheduler._events.meanwhile = lambda: scheduler.enterabs(0, 1, ran.append, ("earlier",))
    scheduler.run()
    assert ran == ["earlier", "later"]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no setitimer here")
def test_a_signal_handler_may_enter_and_cancel():
    scheduler = hwheel.sched.scheduler()
    head = scheduler.enter(1000, 1, print)
    ran = []

    def handler(*_):
        scheduler.enter(0, 1, ran.append, ("entered by the handler",))
        scheduler.cancel(head)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        scheduler.run()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ran == ["entered by the handler"]


def test_each_event_runs_or_is_cancelled_when_threads_race():
    scheduler = hwheel.sched.scheduler()
    count = 3000
    fates = [[] for _ in range(count)]
    events = [scheduler.enter(i / count / 5, 1, fates[i].append, ("ran",)) for i in range(count)]

    def cancel(start):
        for i in range(start, count, 2):
            try:
                scheduler.cancel(events[i])
            except ValueError:
                continue
            fates[i].append("cancelled")

    threads = [threading.Thread(target=scheduler.run) for _ in range(2)]
    threads += [threading.Thread(target=cancel, args=(start,)) for start in (0, 1, 1, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [len(fate) for fate in fates] == [1] * count
    assert scheduler.empty()


# --- forks ----------------------------------------------------------------------------------------------------------

FORKED = """
from hwheel import sched

class Time:
    # Its comparisons are Python code. When `stops` is set, the comparison number {after} of another thread blocks.
    stops = threading.Event()
    stopped = threading.Event()
    compared = 0

    def __init__(self, s):
        self.s = s

    def __lt__(self, other):
        if Time.stops.is_set() and threading.current_thread() is not threading.main_thread():
            Time.compared += 1
            if Time.compared == {after}:
                Time.stopped.set()
                goes_on.wait(100)
        return self.s < other.s

    def __gt__(self, other):
        return other < self

    def __eq__(self, other):
        return self.s == other.s

    def __sub__(self, other):
        return self.s - other.s

now = [Time(0)]
goes_on = threading.Event()
ran = []
scheduler = sched.scheduler(lambda: now[0], lambda delay: now.append(Time(now.pop().s + delay)))
for s in range(20, 52):
    scheduler.enterabs(Time(s), 1, ran.append, (s,))
Time.stops.set()
thread = threading.Thread(target=scheduler.enterabs, args=(Time(0), 1, ran.append, (0,)), daemon=True)
thread.start()
Time.stopped.wait(60)
assert not scheduler._lock.acquire(blocking=False)

def child():
    there = sorted(event.argument[0] for event in scheduler.queue)
    assert there == [*range(20, 52)], there
    scheduler.enterabs(Time(7.5), 1, ran.append, (7.5,))
    scheduler.run()
    assert ran == sorted([*there, 7.5]), ran
    assert scheduler.empty()

in_child(child)
goes_on.set()
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("after", [3, 4, 5])  # the first comparisons during which the heap is out of order
def test_a_fork_while_another_thread_changes_the_heap(ends_well, after):
    ends_well(FORKED.format(after=after))
