"""Very many Timers, and Timers whose functions block."""

import threading
import time

import hwheel
from sampling import seeded_random

PATIENCE_S = 60


def test_a_hundred_thousand_timers_need_few_threads_and_run_once_each():
    count = 100_000
    runs = [0] * count
    before = threading.active_count()
    dice = seeded_random(1)

    def run(i):
        runs[i] += 1

    timers = [hwheel.Timer(2 + dice.random(), run, [i]) for i in range(count)]
    for timer in timers:
        timer.start()
    peak = threading.active_count()
    assert peak <= before + 10  # (threads of other tests may still be ending)
    while any(timer.is_alive() for timer in timers[:: count // 100]) or sum(runs) < count:
        peak = max(peak, threading.active_count())
        time.sleep(0.005)
    assert runs == [1] * count
    assert peak < 20
    for timer in timers:
        timer.join(PATIENCE_S)
        assert not timer.is_alive()


def test_functions_that_block_delay_no_other_timer(gate):
    entered = threading.Semaphore(0)

    def start(daemon, seconds, function):
        timer = hwheel.Timer(seconds, function)
        timer.daemon = daemon
        timer.start()
        return timer

    for daemon in (False, True):
        for _ in range(50):
            start(daemon, 0.001, lambda: (entered.release(), gate.wait(PATIENCE_S)))
    for _ in range(100):
        assert entered.acquire(timeout=PATIENCE_S)
    for daemon in (False, True):
        for other in [start(daemon, 0.001 * i, entered.release) for i in range(50)]:
            other.join(PATIENCE_S)
            assert not other.is_alive()
    assert not gate.is_set()


def test_functions_may_wait_for_each_other():
    meeting = threading.Barrier(30)
    timers = [hwheel.Timer(0.01, meeting.wait, [PATIENCE_S]) for _ in range(30)]
    for timer in timers:
        timer.start()
    for timer in timers:
        timer.join(PATIENCE_S)
    assert not meeting.broken
    assert all(timer.finished.is_set() for timer in timers)


def test_functions_that_start_timers():
    ran = []
    done = threading.Event()

    def run(depth):
        ran.append(depth)
        if depth == 200:
            done.set()
        else:
            hwheel.Timer(0, run, [depth + 1]).start()

    hwheel.Timer(0, run, [0]).start()
    assert done.wait(PATIENCE_S)
    assert ran == [*range(201)]
