"""An idle timer uses no processor time, however much is pending, and close() closes its file descriptors."""

import os
import threading
import time
from array import array

import pytest

from hwheel import SystemTimer
from systems import skip_unless_clock

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")

WATCHED_S = 2


def switches(thread):
    """Return how often a thread has gone to sleep, which is how often it has woken up."""
    with open(f"/proc/self/task/{thread.native_id}/status") as status:
        for line in status:
            if line.startswith("voluntary_ctxt_switches:"):
                return int(line.split()[1])
    raise AssertionError("no voluntary_ctxt_switches in /proc")


def threads_of(timer):
    return [thread for thread in threading.enumerate() if thread.name.endswith(f"-{timer.name}")]


def settled_switches(threads):
    """Return the counts as soon as they stop changing, because the last add may still be in progress."""
    give_up = time.monotonic() + 60
    counts = None
    while counts != (counts := [switches(thread) for thread in threads]):
        assert time.monotonic() < give_up, "the threads do not go to sleep"
        time.sleep(0.3)
    return counts


def add_nothing(timer):
    timer.call_later(0, int)  # starts the threads


def add_a_million_tasks(timer):
    for i in range(1_000_000):
        timer.call_later(3600 + i % 10_000, print, i)


def add_a_million_in_bulk(timer):
    timer.call_many(array("q", range(3_600_000, 4_600_000)), print)


def add_and_cancel_soon(timer):
    # Empty buckets stay in the delay queue until they expire. When one expires and nothing was added since, the reaper
    # removes the others.
    tasks = [timer.call_later(i / 1000, print) for i in range(100, 5000)]
    for task in tasks:
        assert task.cancel()


@pytest.mark.parametrize("clock", ["monotonic", "boottime", lambda: time.monotonic() * 1000])
@pytest.mark.parametrize("executor", [None, "inline"])
@pytest.mark.parametrize("add", [add_nothing, add_a_million_tasks, add_a_million_in_bulk])
def test_the_threads_of_an_idle_timer_sleep(executor, add, clock):
    skip_unless_clock(clock)
    if clock != "monotonic" and add is not add_nothing:
        pytest.skip("the number of pending tasks does not depend on the clock")
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


def test_empty_buckets_wake_the_reaper_at_most_twice():
    with SystemTimer("idle") as timer:
        add_and_cancel_soon(timer)
        wakeups = timer.stats().wakeups
        time.sleep(1)
        assert timer.stats().wakeups <= wakeups + 2


def test_tasks_that_are_cancelled_one_by_one_rarely_wake_the_reaper():
    with SystemTimer("idle") as timer:
        for seconds in range(60, 110):
            timer.call_later(seconds, print).cancel()
            time.sleep(0.01)  # time for the reaper to wake up
        assert timer.stats().wakeups <= 3


def test_only_an_earlier_task_wakes_the_reaper():
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


def test_the_reaper_wakes_only_for_buckets_with_tasks():
    # Kafka's example: tasks at 200 ms and at 840 ms.
    with SystemTimer("idle", wheel_size=20) as timer:
        done = threading.Event()
        timer.call_later(0.2, int)
        timer.call_later(0.84, done.set)
        assert done.wait(60)
        # Two runs, at most two cascades for each (buckets of 400 ms and 20 ms), and two adds.
        assert timer.stats().wakeups <= 8


# --- descriptors -------------------------------------------------------------------------------------------------


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("clock", ["monotonic", "boottime"])
@pytest.mark.parametrize("executor", [None, "inline"])
def test_close_closes_the_descriptors_of_a_referenced_timer(executor, clock):
    skip_unless_clock(clock)
    before = open_descriptors()
    timers = [SystemTimer(executor=executor, clock=clock) for _ in range(20)]
    assert open_descriptors() == before, "an unused timer has no descriptor"
    tasks = [timer.call_later(3600, print) for timer in timers]
    assert before < open_descriptors() <= before + 40
    returned = [timer.close() for timer in timers]
    assert returned == [[task] for task in tasks]
    assert open_descriptors() == before


def test_close_closes_the_descriptors_of_a_timer_without_a_reaper():
    before = open_descriptors()
    timer = SystemTimer(reaper=False)
    timer.call_later(3600, print)
    timer.advance_clock(1)
    timer.close()
    assert open_descriptors() == before


def test_close_in_a_callback_closes_the_descriptors(eventually):
    before = open_descriptors()
    timers = [SystemTimer(executor=executor) for executor in (None, "inline")]
    for timer in timers:
        timer.call_later(0, timer.close)
    eventually(lambda: all(timer.closed for timer in timers) and open_descriptors() == before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_closes_the_descriptors_of_its_parent(ends_well):
    ends_well(
        """
before = len(os.listdir("/proc/self/fd"))
timers = [SystemTimer() for _ in range(20)]
for timer in timers:
    timer.call_later(3600, print)

def child():
    assert len(os.listdir("/proc/self/fd")) == before

in_child(child)
"""
    )
