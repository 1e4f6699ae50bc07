"""Exact counters: counters are exact at every quiet moment, and lateness is what was late."""

import threading
from array import array

PATIENCE_S = 60


def test_every_counter_at_quiet_moments(make_timer, hand_clock):
    timer = make_timer(executor="inline", clock=hand_clock, reaper=False, wheel_size=4)
    assert timer.stats()[:4] == (0, 0, 0, 0) and timer.stats().pending == 0
    tasks = [timer.call_later(i / 1000, int) for i in range(1, 101)]
    batch = timer.call_many(array("q", range(1, 101)), len)
    assert (timer.stats().added, timer.stats().pending, len(timer)) == (200, 200, 200)
    assert timer.stats().levels == 4  # 100 ms in wheels of 4 ms, 16 ms, 64 ms and 256 ms
    assert tasks[99].cancel() and batch.cancel([98, 99]) == 2
    assert (timer.stats().cancelled, timer.stats().pending) == (3, 197)
    hand_clock.ms += 50
    timer.advance_clock(0)
    stats = timer.stats()
    assert (stats.expired, stats.cancelled, stats.pending) == (100, 3, 97)
    assert stats.cascaded > 0
    assert (stats.lateness.max, stats.lateness.p99) == (49.0, 49.0)
    assert 23 <= stats.lateness.p50 <= 26
    timer.close()
    stats = timer.stats()
    assert (stats.added, stats.expired, stats.cancelled, stats.pending) == (200, 100, 3, 0)


def test_without_tasks_nothing_was_late(make_timer):
    assert make_timer().stats().lateness == (0.0, 0.0, 0.0)


def test_lateness_of_a_real_timer_is_plausible(make_timer, executor, eventually):
    timer = make_timer(executor=executor)
    ran = []
    for i in range(300):
        timer.call_later(i / 3000, ran.append, i)
    eventually(lambda: len(ran) == 300)
    lateness = timer.stats().lateness
    assert 0 <= lateness.p50 <= lateness.p99 <= lateness.max < PATIENCE_S * 1000
    assert lateness.max > 0


def test_what_waits_for_a_slow_callback_is_late_by_as_much(make_timer, eventually):
    timer = make_timer()
    release = threading.Event()
    timer.call_later(0, release.wait, PATIENCE_S)
    task = timer.call_later(0.01, int)
    eventually(lambda: timer.time() * 1000 >= task.deadline_ms + 120)
    release.set()
    eventually(lambda: task.expired)
    assert timer.stats().lateness.max >= 120


def test_stats_taken_while_threads_work_always_add_up(make_timer, many_switches):
    timer = make_timer()
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            timer.call_later(0.002, int)
            timer.call_later(60, int).cancel()
            timer.call_many(array("q", [1, 60_000]), len).cancel()

    workers = [threading.Thread(target=churn) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(2000):
            stats = timer.stats()
            assert stats.added == stats.expired + stats.cancelled + stats.pending
    finally:
        stop.set()
        for worker in workers:
            worker.join()
