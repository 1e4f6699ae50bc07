"""stats(), lateness, and max_pending."""

import threading
from array import array
from functools import partial

import pytest

from hwheel import TimerFull
from threads import run_concurrently

PATIENCE_S = 60


def test_counters_are_exact_when_nothing_runs(make_timer, hand_clock):
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


def test_wait_behind_a_slow_callback_counts_as_lateness(make_timer, eventually):
    timer = make_timer()
    release = threading.Event()
    timer.call_later(0, release.wait, PATIENCE_S)
    task = timer.call_later(0.01, int)
    eventually(lambda: timer.time() * 1000 >= task.deadline_ms + 120)
    release.set()
    eventually(lambda: task.expired)
    assert timer.stats().lateness.max >= 120


def test_stats_add_up_while_threads_work(make_timer, many_switches):
    timer = make_timer()
    done = []

    def churn():
        while not done:
            timer.call_later(0.002, int)
            timer.call_later(60, int).cancel()
            timer.call_many(array("q", [1, 60_000]), len).cancel()

    def check():
        try:
            for _ in range(2000):
                stats = timer.stats()
                assert stats.added == stats.expired + stats.cancelled + stats.pending
        finally:
            done.append(True)

    run_concurrently(churn, churn, check)


LIMIT = 1000


def test_four_threads_add_exactly_max_pending(make_timer, many_switches):
    timer = make_timer(max_pending=LIMIT)
    added, refused = [], []

    def add(number):
        for _ in range(LIMIT):
            try:
                added.append(timer.call_later(3600, print))
            except TimerFull:
                refused.append(number)

    run_concurrently(*[partial(add, number) for number in range(4)])
    assert len(added) == LIMIT
    assert len(refused) == 3 * LIMIT
    assert len(timer) == timer.stats().added == LIMIT
    assert added[0].cancel()
    timer.call_later(3600, print)
    with pytest.raises(TimerFull):
        timer.call_later(3600, print)
    assert len(timer.close()) == LIMIT


def test_pending_never_exceeds_the_limit(make_timer, many_switches):
    timer = make_timer(max_pending=100)
    too_many, many = [], array("q", [3_600_000] * 7)

    def churn(number):
        mine = []
        for i in range(3000):
            try:
                mine.append(timer.call_many(many, print) if i % 2 else timer.call_later(3600, print))
            except TimerFull:
                if mine:
                    assert mine.pop().cancel()
            if len(timer) > 100:
                too_many.append(len(timer))

    run_concurrently(*[partial(churn, number) for number in range(4)])
    assert too_many == []
    stats = timer.stats()
    assert stats.added == stats.cancelled + stats.pending
