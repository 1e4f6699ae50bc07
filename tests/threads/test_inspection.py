"""Inspection of a running timer: it blocks other threads only briefly, and concurrent changes do not break it."""

import random
import threading
import time
from array import array

import pytest

from programs import run_python

COLUMNS = 60
FAR_S = 600


def count_pending(snapshot):
    """Return the number of pending timers in the result of _look()."""
    return sum(sum(bars) for *_, bars in snapshot[4])


@pytest.fixture
def inspect_repeatedly():
    """Return a function that starts threads which inspect a timer until the end of the test."""
    stop, threads, errors = threading.Event(), [], []

    def look(timer, seen):
        try:
            while not stop.is_set():
                seen.append(count_pending(timer._occupancy(COLUMNS)))
        except BaseException as error:
            errors.append(error)

    def start(timer, count=2):
        seen = []
        for _ in range(count):
            threads.append(threading.Thread(target=look, args=(timer, seen)))
            threads[-1].start()
        return seen

    yield start
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []


def test_tasks_cancelled_and_moved_during_inspection(make_timer, inspect_repeatedly, soak_seconds, many_switches):
    timer = make_timer(executor="inline")
    seen = inspect_repeatedly(timer)
    chance = random.Random(7)
    end = time.monotonic() + soak_seconds
    while time.monotonic() < end:
        tasks = [timer.call_later(FAR_S, int) for _ in range(5_000)]
        for task in tasks[::2]:
            task.cancel()
        for task in tasks[1::2]:
            task.reschedule(chance.uniform(FAR_S, 2 * FAR_S))
        chance.shuffle(tasks)
        for task in tasks:
            task.cancel()
    assert max(seen) <= 10_000  # a moved task may be counted in both buckets
    assert len(timer) == count_pending(timer._occupancy(COLUMNS)) == 0


def test_cascades_during_inspection(make_timer, inspect_repeatedly, hand_clock, soak_seconds):
    timer = make_timer(executor="inline", clock=hand_clock, reaper=False, wheel_size=4)
    seen = inspect_repeatedly(timer)
    ran = []
    chance = random.Random(8)
    end = time.monotonic() + soak_seconds
    added = 0
    while time.monotonic() < end:
        delays_ms = array("q", [chance.randrange(1, 500) for _ in range(3_000)])
        timer.call_many(delays_ms, ran.extend)
        added += len(delays_ms)
        hand_clock.ms += chance.randrange(300)
        timer.advance_clock(0)
    hand_clock.ms += 1_000
    timer.advance_clock(0)
    assert len(ran) == added
    assert seen and count_pending(timer._occupancy(COLUMNS)) == 0


def test_adds_proceed_during_inspection(make_timer):
    """Inspection of a million timers does not hold the lock all the time."""
    timer = make_timer(executor="inline")
    timer.call_many(array("q", [FAR_S * 1000]) * 1_000_000, len)
    began, over, between = threading.Event(), threading.Event(), []

    def look():
        began.set()
        for _ in range(50):
            timer._occupancy(COLUMNS)
        over.set()

    thread = threading.Thread(target=look)
    thread.start()
    began.wait()
    while not over.is_set():
        timer.call_later(FAR_S, int)
        between.append(timer.stats().added)
    thread.join()
    assert len(between) > 100


def test_executor_backlog_is_counted_up_to_a_limit(make_timer, eventually):
    timer = make_timer()
    release = threading.Event()
    timer.call_later(0, release.wait, 60)
    for _ in range(100):
        timer.call_later(0.001, int)
    eventually(lambda: timer._occupancy(COLUMNS)[1:3] == (100, False))
    for _ in range(1_000):
        timer.call_later(0.001, int)
    eventually(lambda: timer._occupancy(COLUMNS)[1:3] == (512, True))
    release.set()
    eventually(lambda: timer._occupancy(COLUMNS)[1:3] == (0, False))


FORKS = """
import os, threading
from array import array
import hwheel_core
from hwheel import SystemTimer

timer = SystemTimer(executor="inline", fork="keep")
batch = timer.call_many(array("q", [600_000]) * 200_000, len)
stop = threading.Event()


def look():
    while not stop.is_set():
        timer._occupancy(60)


threads = [threading.Thread(target=look) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(15):
    pid = os.fork()
    if pid == 0:
        if hwheel_core.DEBUG:
            hwheel_core.debug_check(timer)
        pending = sum(map(sum, (level[4] for level in timer._occupancy(60)[4])))
        os._exit(0 if pending == 200_000 == batch.cancel() and len(timer) == 0 else 1)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
assert batch.cancel() == 200_000
timer.close()
print("well")
"""


@pytest.mark.skipif("not hasattr(__import__('os'), 'fork')")
def test_fork_during_inspection_leaves_a_consistent_timer_in_the_child(tmp_path):
    path = tmp_path / "forks.py"
    path.write_text(FORKS)
    ended = run_python("-W", "ignore::DeprecationWarning", path)
    assert (ended.status, ended.out, ended.err) == (0, "well\n", "")
