"""call_every(): ticks, the three ways to treat missed ticks, and cancellation."""

import threading
import time

import pytest

PATIENCE_S = 60


@pytest.fixture
def make_hand_timer(make_timer, hand_clock):
    """Return a factory of timers on hand_clock that run callbacks in advance_clock()."""
    return lambda: make_timer(executor="inline", clock=hand_clock, reaper=False)


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("skip", [100, 500, 600, 700]),  # skips 200, 300, and 400
        ("burst", [100, 450, 450, 450, 500, 600, 700]),  # runs the missed ticks at once
        ("delay", [100, 550, 650]),  # starts a new grid at 450
    ],
)
def test_missed_ticks_after_a_long_run(make_hand_timer, hand_clock, missed, expected):
    timer = make_hand_timer()
    start_ms = hand_clock.ms
    seen = []

    def slow_at_first():
        seen.append(hand_clock.ms - start_ms)
        if len(seen) == 1:
            hand_clock.ms += 350

    timer.call_every(0.1, slow_at_first, missed_ticks=missed)
    while hand_clock.ms < start_ms + 700:
        hand_clock.ms += 10
        while timer.advance_clock(0):  # the task may be due again at once
            pass
    assert seen == expected


@pytest.mark.parametrize("missed", ["skip", "burst", "delay"])
def test_periodic_task_repeats_and_is_never_early(make_timer, executor, eventually, missed):
    timer = make_timer(executor=executor)
    started_ns = time.monotonic_ns()
    seen_ns = []
    task = timer.call_every(0.005, lambda: seen_ns.append(time.monotonic_ns() - started_ns), missed_ticks=missed)
    eventually(lambda: len(seen_ns) >= 10)
    assert task.cancel() is True
    assert all(seen >= 5_000_000 * (i + 1) for i, seen in enumerate(seen_ns))


def test_periodic_task_that_cancels_itself_never_runs_again(make_timer, executor, eventually):
    reported = []
    timer = make_timer(executor=executor, on_error=lambda *args: reported.append(args))
    answers = []
    have_task = threading.Event()

    def cancel_myself():
        have_task.wait(PATIENCE_S)
        answers.append((task.expired, task.cancel(), task.cancelled, task.cancel()))

    task = timer.call_every(0.001, cancel_myself)
    have_task.set()
    eventually(lambda: answers)
    done = threading.Event()
    timer.call_later(0.05, done.set)
    assert done.wait(PATIENCE_S)
    assert answers == [(True, True, True, False)]
    assert (task.cancelled, len(timer), reported) == (True, 0, [])


def test_runs_never_overlap_in_a_pool(make_timer, pool, eventually):
    timer = make_timer(executor=pool)
    inside, most, runs = [], [], []

    def slow():
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.005)
        inside.pop()
        runs.append(1)

    task = timer.call_every(0.001, slow, missed_ticks="burst")
    eventually(lambda: len(runs) >= 10)
    task.cancel()
    assert max(most) == 1


def test_cancelled_queued_run_neither_runs_nor_reports_an_error(make_timer, pool, eventually):
    reported, ran = [], []
    timer = make_timer(executor=pool, on_error=lambda *args: reported.append(args))
    release = threading.Event()
    blocked = [pool.submit(release.wait, PATIENCE_S) for _ in range(4)]
    task = timer.call_every(0.001, ran.append, "ran")
    try:
        eventually(lambda: task.expired, "the submission to the pool")
        assert task.cancel() is True
    finally:
        release.set()
    for future in blocked:
        future.result()
    pool.submit(int).result()  # queued after the cancelled run
    timer.close()
    pool.shutdown(wait=True)
    assert (ran, reported) == ([], [])


def test_cancel_from_another_thread_ends_a_periodic_task(make_timer, executor, many_switches, eventually):
    reported = []
    timer = make_timer(executor=executor, on_error=lambda *args: reported.append(args))
    for round_ in range(100):
        runs = []
        task = timer.call_every(0.0005, runs.append, 1, missed_ticks="burst")
        time.sleep(0.0001 * (round_ % 20))
        assert task.cancel() is True
        assert task.cancelled
    done = threading.Event()
    timer.call_later(0.02, done.set)
    assert done.wait(PATIENCE_S)
    assert reported == []
    assert len(timer) == 0
