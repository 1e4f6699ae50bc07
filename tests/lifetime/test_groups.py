"""Groups in the life of a process: fork, exit, and many rounds of use."""

import gc
import os
import tracemalloc

import pytest

from hwheel import ManualTimer

ALLOWED_GROWTH = 50_000  # bytes

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@forks
@pytest.mark.parametrize("fork", ["drop", "keep"])
def test_the_child_of_a_fork_has_the_group_as_it_has_the_timer(run_script, fork):
    ended = run_script(
        f"""
timer = SystemTimer(fork={fork!r})
group, ran = timer.group(), []
tasks = [group.call_later(3600 + i, ran.append, i) for i in range(100)]
every = group.call_every(3600, ran.append, "every")

def child():
    kept = {fork!r} == "keep"
    assert len(group) == (101 if kept else 0), len(group)
    assert all(task.pending == kept for task in tasks)
    group.call_later(0.001, ran.append, "child")
    eventually(lambda: ran == ["child"])
    assert group.cancel() == (101 if kept else 0)
    assert all(task.cancelled for task in tasks) and every.cancelled and len(timer) == len(group) == 0
    group.call_later(3600, ran.append, 1)
    assert group.close() == 1 and timer.close() == []

in_child(child)
assert len(group) == 101 and all(task.pending for task in tasks)
assert group.close() == 101 and timer.close() == []
"""
    )
    assert ended == (0, "", "")


@forks
def test_a_fork_while_other_threads_use_groups_leaves_each_of_them_whole(run_script):
    ended = run_script(
        """
import hwheel_core
timer, stop = SystemTimer(executor="inline", fork="keep"), threading.Event()
groups = [timer.group() for _ in range(3)]

def use(group):
    while not stop.is_set():
        for i in range(50):
            group.call_later(i / 10_000 if i % 3 else 3600, int)
        if group.cancel() > 2000:
            break

threads = [threading.Thread(target=use, args=(group,)) for group in groups]
for thread in threads:
    thread.start()

def child():
    for group in groups:
        if hwheel_core.DEBUG:
            hwheel_core.debug_check(group)
        left = len(group)
        group.call_later(3600, int)
        assert left - 100 < group.close() and len(group) == 0      # some fall due meanwhile
    eventually(lambda: len(timer) == 0)
    assert timer.close() == []

for _ in range(10):
    in_child(child)
stop.set()
for thread in threads:
    thread.join()
timer.close()
"""
    )
    assert ended == (0, "", "")


def test_exit_with_groups_pending_is_quiet(run_script):
    ended = run_script(
        """
timer = SystemTimer()
group = timer.group()
for i in range(10_000):
    group.call_later(3600, print, group, i)
dropped = timer.group()
dropped.call_every(3600, print)
del dropped
print("end")
"""
    )
    assert ended == (0, "end\n", "")


def test_a_long_lived_group_does_not_grow_by_what_is_over():
    timer = ManualTimer()
    group = timer.group()
    group.call_every(1e6, int)

    def one_round():
        for i in range(500):
            group.call_later(0.01, int, i)
            group.call_later(5, int, i, i).cancel()
            group.call_every(5, int, i).cancel()
        timer.advance(1)
        for i in range(500):
            short = timer.group()
            short.call_later(100 + i, int, short)
            short.close()
            timer.group().call_later(0.5, int, i)
        timer.advance(1)

    tracemalloc.start()
    try:
        for _ in range(3):
            one_round()
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(10):
            one_round()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < ALLOWED_GROWTH and len(group) == len(timer) == 1


def test_pending_tasks_of_a_group_are_not_seen_by_the_collector():
    timer = ManualTimer()
    group = timer.group()
    task = group.call_later(1, print, [1], [2])
    assert not gc.is_tracked(task)
    assert not [one for one in gc.get_objects() if isinstance(one, tuple) and len(one) == 2 and one[0] == [1] == one[0]]
    every = group.call_every(1, print)
    assert not gc.is_tracked(every)
    group.cancel()
