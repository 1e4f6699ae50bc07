"""An idle timer costs nothing: while nothing is due nothing wakes up, however much is pending."""

import os
import threading
import time
from array import array

import pytest

from hwheel import SystemTimer
from systems import skip_unless_clock

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs Linux's /proc")

WATCHED_S = 2


def switches(thread):
    """How often a thread has gone to sleep by itself: it was awake as often."""
    with open(f"/proc/self/task/{thread.native_id}/status") as status:
        for line in status:
            if line.startswith("voluntary_ctxt_switches:"):
                return int(line.split()[1])
    raise AssertionError("no such line")


def threads_of(timer):
    return [thread for thread in threading.enumerate() if thread.name.endswith(f"-{timer.name}")]


def settled_switches(threads):
    """The counts once they have stopped changing: what was done just now may still be going on."""
    give_up = time.monotonic() + 60
    counts = None
    while counts != (counts := [switches(thread) for thread in threads]):
        assert time.monotonic() < give_up, "the threads never come to rest"
        time.sleep(0.3)
    return counts


def add_nothing(timer):
    timer.call_later(0, int)  # starts the threads; then nothing is pending


def add_a_million_tasks(timer):
    for i in range(1_000_000):
        timer.call_later(3600 + i % 10_000, print, i)


def add_a_million_in_bulk(timer):
    timer.call_many(array("q", range(3_600_000, 4_600_000)), print)


def add_and_cancel_many_that_would_be_due_soon(timer):
    # Emptied buckets stand in the delay queue until they are due. The first one at which the reaper finds that
    # nothing has been added since is the last.
    tasks = [timer.call_later(i / 1000, print) for i in range(100, 5000)]
    for task in tasks:
        assert task.cancel()


@pytest.mark.parametrize("clock", ["monotonic", "boottime", lambda: time.monotonic() * 1000])
@pytest.mark.parametrize("executor", [None, "inline"])
@pytest.mark.parametrize("add", [add_nothing, add_a_million_tasks, add_a_million_in_bulk])
def test_the_threads_of_an_idle_timer_sleep(executor, add, clock):
    skip_unless_clock(clock)
    if clock != "monotonic" and add is not add_nothing:
        pytest.skip("how much is pending makes no difference to the clock")
    with SystemTimer("idle", executor=executor, clock=clock) as timer:
        add(timer)
        threads = threads_of(timer)
        assert len(threads) == (2 if executor is None else 1)
        before, wakeups = settled_switches(threads), timer.stats().wakeups
        time.sleep(WATCHED_S)
        assert [switches(thread) for thread in threads] == before
        assert timer.stats().wakeups == wakeups
        if add is not add_nothing:
            assert len(timer) == 1_000_000


def test_buckets_that_were_emptied_wake_the_reaper_twice_at_most():
    with SystemTimer("idle") as timer:
        add_and_cancel_many_that_would_be_due_soon(timer)
        wakeups = timer.stats().wakeups
        time.sleep(1)
        assert timer.stats().wakeups <= wakeups + 2


def test_timers_that_are_cancelled_before_the_next_one_comes_do_not_wake_the_reaper_each():
    with SystemTimer("idle") as timer:
        for seconds in range(60, 110):
            timer.call_later(seconds, print).cancel()
            time.sleep(0.01)  # the reaper looks, and finds nothing
        assert timer.stats().wakeups <= 3


def test_a_later_timer_does_not_wake_the_reaper_and_an_earlier_one_does():
    with SystemTimer("idle") as timer:
        timer.call_later(3600, print)
        [reaper] = [thread for thread in threads_of(timer) if thread.name == "reaper-idle"]
        [before] = settled_switches([reaper])
        for i in range(1000):
            timer.call_later(7200 + i, print)
        time.sleep(0.3)
        assert switches(reaper) == before
        timer.call_later(60, print)
        give_up = time.monotonic() + 60
        while switches(reaper) == before:
            assert time.monotonic() < give_up
            time.sleep(0.002)


def test_wake_ups_happen_only_for_buckets_that_hold_something():
    # Kafka's example: timers at 200 ms and at 840 ms.
    with SystemTimer("idle", wheel_size=20) as timer:
        done = threading.Event()
        timer.call_later(0.2, int)
        timer.call_later(0.84, done.set)
        assert done.wait(60)
        # Two to run; two cascades each at most (400 ms and 20 ms buckets); and the two adds.
        assert timer.stats().wakeups <= 8
