"""Groups that several threads use while the reaper dispatches their tasks."""

import contextlib
import itertools
import threading
import time
from functools import partial

import pytest

from hwheel import TimerClosed
from invariants import check_invariants
from sampling import seeded_random
from threads import run_concurrently

THREADS = 4


@pytest.mark.parametrize("own", [True, False], ids=["one group for each thread", "one group for all"])
def test_each_group_task_has_one_outcome_and_leaves_its_group(make_timer, executor, many_switches, soak_seconds, own):
    timer = make_timer(executor=executor)
    shared = timer.group()
    ran, numbers = [], itertools.count()
    cancelled = [0] * THREADS
    tasks = [[] for _ in range(THREADS)]
    groups = [timer.group() if own else shared for _ in range(THREADS)]

    def play(me):
        dice = seeded_random(me)
        while time.monotonic() < end:
            action, group = dice.random(), groups[me]
            if action < 0.85:
                delay = dice.choice([0, 0.001, 0.003, 0.01, 3600])
                tasks[me].append(group.call_later(delay, ran.append, next(numbers)))
            elif action < 0.9 and tasks[me]:
                cancelled[me] += dice.choice(tasks[me]).cancel()
            elif action < 0.95 and tasks[me]:
                dice.choice(tasks[me]).reschedule(0.002)
            else:
                cancelled[me] += group.cancel()

    end = time.monotonic() + max(1.0, soak_seconds)
    run_concurrently(*[partial(play, me) for me in range(THREADS)])
    cancelled.extend(group.close() for group in {*groups})
    give_up = time.monotonic() + 30
    while len(ran) + sum(cancelled) < sum(map(len, tasks)) and time.monotonic() < give_up:
        time.sleep(0.01)
    assert len({*ran}) == len(ran) == sum(task.expired for some in tasks for task in some)
    assert sum(cancelled) == sum(task.cancelled for some in tasks for task in some)
    assert len(ran) + sum(cancelled) == sum(map(len, tasks))
    assert all(len(group) == 0 for group in groups) and len(timer) == 0
    check_invariants(*groups)


def test_group_close_during_adds_leaves_nothing_pending(make_timer, many_switches):
    timer = make_timer(executor="inline")
    for _ in range(200):
        group, tasks, closed = timer.group(), [], []

        def add(group=group, tasks=tasks):
            with contextlib.suppress(TimerClosed):
                while True:
                    tasks.append(group.call_later(3600, print))

        run_concurrently(add, add, lambda: closed.append(group.close()))
        assert closed[0] == len(tasks) == sum(task.cancelled for task in tasks)
        assert len(group) == len(timer) == 0


def test_group_cancels_a_periodic_task_that_is_running(make_timer, executor, eventually):
    timer = make_timer(executor=executor)
    group, begun, go_on, ran = timer.group(), threading.Event(), threading.Event(), []

    def run():
        ran.append(1)
        begun.set()
        go_on.wait(30)

    task = group.call_every(0.001, run)
    begun.wait(30)
    assert len(group) == 1 and group.cancel() == 1 and task.cancelled
    go_on.set()
    probe = timer.call_later(0.02, int)
    eventually(lambda: probe.expired)
    assert ran == [1] and len(group) == len(timer) == 0


def test_tasks_that_close_takes_back_leave_their_group(make_timer):
    kept = []

    class Keeps:
        def submit(self, function, handed_out):
            kept.append(handed_out)

    timer = make_timer(executor=Keeps(), reaper=False)
    group = timer.group()
    task, every = group.call_later(0, print, 1), group.call_every(0.001, print, 2)
    while len(kept) < 2:
        timer.advance_clock(100)
    assert len(group) == 1 and task.expired
    back = timer.close(run_pending=True, timeout=0)
    assert {*back} == {task, every} and task.args == (1,) and len(group) == 0 and group.cancel() == 0
    kept.clear()
