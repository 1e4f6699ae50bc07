"""slack and max_lateness on every executor: late tasks are missed and counted."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from sampling import seeded_random
from threads import run_concurrently

PATIENCE_S = 60


def test_late_task_is_missed_and_a_punctual_one_runs_on_every_executor(make_timer, executor, hand_clock, eventually):
    ran, missed, threads = [], [], set()

    def note(task):
        missed.append((task.callback, task.args, task.missed))
        threads.add(threading.current_thread())

    timer = make_timer(executor=executor, clock=hand_clock, on_missed=note)
    task = timer.call_later(1, ran.append, "too late", max_lateness=1)
    timer.call_later(1, ran.append, "not too late", max_lateness=100)
    timer.call_later(1, lambda: threads.add(threading.current_thread()))
    hand_clock.ms += 3000
    timer.call_later(0, ran.append, "at once")
    eventually(lambda: len(ran) == 2 and missed and threads)
    assert sorted(ran) == ["at once", "not too late"]
    assert missed == [(ran.append, ("too late",), True)]
    eventually(lambda: task.callback is None)
    assert (task.missed, task.expired) == (True, True)
    assert threading.main_thread() not in threads
    stats = timer.stats()
    assert (stats.added, stats.expired, stats.missed, stats.pending) == (4, 4, 1, 0)


def test_task_behind_a_slow_callback_is_missed(make_timer, ordered_executor, hand_clock, eventually):
    ran, missed = [], []
    timer = make_timer(executor=ordered_executor, clock=hand_clock, on_missed=missed.append)
    timer.call_later(1, lambda: setattr(hand_clock, "ms", hand_clock.ms + 500))
    late = timer.call_later(1, ran.append, "late", max_lateness=0.4)
    every = timer.call_every(1, ran.append, "every", max_lateness=0.4)
    timer.call_later(1, ran.append, "late, and no matter")
    hand_clock.ms += 1000
    timer.call_later(0, ran.append, "last")
    eventually(lambda: "last" in ran)
    assert ran == ["late, and no matter", "last"]
    assert missed == [late, every]
    eventually(lambda: every.pending)
    hand_clock.ms += 500
    timer.call_later(0, int)
    eventually(lambda: "every" in ran)
    eventually(lambda: every.pending)
    assert not every.missed
    every.cancel()


def test_task_that_waits_too_long_in_a_pool_is_missed(make_timer, hand_clock, eventually):
    ran, missed, release, begun = [], [], threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: (begun.set(), release.wait(PATIENCE_S)))
        timer = make_timer(executor=pool, clock=hand_clock, on_missed=lambda task: missed.append((task, task.args)))
        assert begun.wait(PATIENCE_S)
        late = timer.call_later(0.001, ran.append, "late", max_lateness=0.4)
        timer.call_later(0.001, ran.append, "late, and no matter", slack=0.4)
        hand_clock.ms += 400
        timer.call_later(0, int)
        eventually(lambda: timer.stats().expired == 3)
        hand_clock.ms += 2
        release.set()
        eventually(lambda: ran)
        assert ran == ["late, and no matter"]
        assert missed == [(late, ("late",))]
        assert (late.missed, late.callback) == (True, None)


def test_failing_clock_does_not_make_a_task_late(make_timer, pool, hand_clock, eventually):
    ran, reported = [], []
    failing = threading.Event()

    def clock():
        if failing.is_set() and threading.current_thread().name.startswith("pool"):
            raise OSError("no clock")
        return hand_clock()

    timer = make_timer(executor=pool, clock=clock, on_error=lambda *error: reported.append(error))
    timer.call_later(1, ran.append, "ran", max_lateness=0.001)
    failing.set()
    hand_clock.ms += 1000
    timer.call_later(0, int)
    eventually(lambda: ran == ["ran"])
    assert reported == []


def test_each_task_is_run_missed_or_cancelled_once(make_timer, executor, many_switches, eventually):
    ran, missed = [], []
    timer = make_timer(executor=executor, on_missed=lambda task: missed.append(task.args[0]))
    cancelled = []

    def work(worker):
        dice = seeded_random(worker)
        for number in range(400):
            key = worker, number
            task = timer.call_later(dice.uniform(0, 0.02), ran.append, key, slack=0.01, max_lateness=0.0005)
            if dice.random() < 0.3:
                task.reschedule(dice.uniform(0, 0.02))
            if dice.random() < 0.3 and task.cancel():
                cancelled.append(key)

    run_concurrently(*[partial(work, worker) for worker in range(3)])
    eventually(lambda: len(ran) + len(missed) + len(cancelled) == 1200)
    assert len({*ran, *missed, *cancelled}) == 1200
    stats = timer.stats()
    assert (stats.added, stats.cancelled, stats.pending) == (1200, len(cancelled), 0)
    assert (stats.expired, stats.missed) == (len(ran) + len(missed), len(missed))
