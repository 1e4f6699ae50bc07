"""Fork: a child can use the timer, drops or keeps the pending tasks, and the parent loses none."""

import os

import pytest

from systems import skip_unless_clock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

USE_IT = """
def use_it(timer):
    # Use most methods of a timer.
    ran = []
    timer.call_later(0.001, ran.append, 1)
    timer.call_later(0, ran.append, 0)
    timer.call_many(array("q", [2, 2]), lambda indices: ran.extend(indices))
    far_off = timer.call_later(3600, ran.append, "never")
    eventually(lambda: len(ran) == 4)
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("reaper-" + timer.name) == 1, names
    assert far_off.cancel()
    late = timer.call_later(3600, print)
    assert timer.close() == [late]
    assert not [thread for thread in threading.enumerate() if thread.name.endswith("-" + timer.name)]

"""


@pytest.mark.parametrize("executor", ["None", "'inline'"])
@pytest.mark.parametrize("clock", ["'monotonic'", "'boottime'", "lambda: time.monotonic() * 1000"])
def test_the_child_uses_the_timer_and_the_parent_loses_nothing(ends_well, executor, clock):
    if clock == "'boottime'":
        skip_unless_clock("boottime")
    ends_well(
        USE_IT
        + f"""
timer = SystemTimer(executor={executor}, clock={clock})
ran = []
tasks = [timer.call_later(0.3 + i / 1000, ran.append, i) for i in range(200)]
batch = timer.call_many(array("q", range(300, 500)), lambda indices: ran.extend(1000 + i for i in indices))
far_off = timer.call_later(3600, ran.append, "far off")

def child():
    assert len(timer) == 0 and timer.pending() == []
    assert all(task.cancelled and not task.pending for task in tasks + [far_off])
    assert tasks[0].callback is None and tasks[0].cancel() is False
    assert batch.pending == 0 and batch.cancel() == 0
    stats = timer.stats()
    assert stats.added == stats.expired + stats.cancelled and stats.pending == 0, stats
    del ran[:]
    use_it(timer)
    time.sleep(0.5)
    assert ran == [], ran

in_child(child)
eventually(lambda: len(ran) == 400)
assert sorted(ran) == [*range(200), *range(1000, 1200)]
assert timer.close() == [far_off]
"""
    )


def test_a_timer_that_cannot_start_in_the_child_does_not_affect_others(ends_well):
    ends_well(
        """
errors = []
timers = [SystemTimer(str(i), fork="keep", on_error=print) for i in range(4)]
ran = []
for i, timer in enumerate(timers):
    timer.call_later(0.3, ran.append, i)
threading.excepthook = errors.append
start = threading.Thread.start

def refuse(thread):
    if thread.name.endswith("-2"):
        raise RuntimeError("can't start new thread")
    start(thread)

def child():
    eventually(lambda: len(ran) == 3)
    assert sorted(ran) == [0, 1, 3]
    assert [type(args.exc_value) for args in errors] == [RuntimeError]
    threading.Thread.start = start
    timers[2].call_later(0, ran.append, "late")         # the next add starts it
    eventually(lambda: len(ran) == 5)
    assert {*ran} == {0, 1, 2, 3, "late"}

threading.Thread.start = refuse
in_child(child)
"""
    )


@pytest.mark.parametrize("executor", ["None", "'inline'"])
def test_a_kept_timer_that_a_later_fork_handler_closes(ends_well, executor):
    ends_well(
        f"""
import subprocess
timer = SystemTimer(executor={executor}, fork="keep")
other = SystemTimer("other")
timer.call_later(3600, print)
closed, used = [], threading.Event()

def use_and_close():
    other.call_later(0.001, used.set)
    assert used.wait(30)
    closed.extend(timer.close())

os.register_at_fork(after_in_child=use_and_close)

def child():
    assert len(closed) == 1 and used.is_set()

in_child(child)
subprocess.run(["true"], preexec_fn=timer.close, timeout=60, check=True)
"""
    )


def test_tasks_with_slack_or_max_lateness_are_kept_or_dropped(ends_well):
    ends_well(
        """
now_ms = [1000.0]
for keep in ("keep", "drop"):
    ran, missed = [], []
    timer = SystemTimer(clock=lambda: now_ms[0], fork=keep, executor="inline", reaper=False, on_missed=missed.append)
    late = timer.call_later(1, ran.append, "late", max_lateness=5)
    put_off = timer.call_later(9, ran.append, "put off", slack=1, max_lateness=5)
    every = timer.call_every(9, ran.append, "every", slack=1, jitter=1)

    def child():
        now_ms[0] += 12_000
        while timer.advance_clock(0):
            pass
        kept = keep == "keep"
        assert sorted(ran) == ["every", "put off"] * kept, ran
        assert missed == [late] * kept and late.missed == kept
        assert every.pending == kept
        assert timer.call_later(100, print, slack=1).cancel()
        timer.close()

    in_child(child)
    assert len(timer) == 3 and ran == missed == []
    timer.close()
"""
    )


@pytest.mark.parametrize("fork", ["drop", "keep"])
def test_a_fork_while_threads_add(ends_well, fork):
    """The parent loses no task. The child has all tasks that were added before the fork, or none."""
    ends_well(f"""
timer = SystemTimer(fork={fork!r})
first = timer.call_later(0.3, int)
time.sleep(0.05)
ran = []
over = threading.Event()
added = [0, 0]

def add(number):
    while not over.is_set() and added[number] < 20_000:
        timer.call_later(3600, print).cancel()
        timer.call_later(1, ran.append, number)
        added[number] += 1

def child():
    if {fork!r} == "keep":
        # At most two tasks remain that the threads did not cancel yet.
        eventually(lambda: {{task.delay_ms for task in timer.pending()}} <= {{3_600_000}})
        assert len(timer) <= 2
        eventually(lambda: all(abs(ran.count(number) - added[number]) <= 1 for number in range(2)))
    else:
        assert len(timer) == 0 and timer.pending() == []
    done = []
    timer.call_later(0.001, done.append, 1)
    eventually(lambda: done == [1])

threads = [threading.Thread(target=add, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
for _ in range(5):
    in_child(child)
over.set()
for thread in threads:
    thread.join()
eventually(lambda: len(ran) == sum(added))
time.sleep(0.01)
assert [ran.count(0), ran.count(1)] == added
assert len(timer) == 0
""")


@pytest.mark.parametrize("fork", ["drop", "keep"])
def test_a_group_is_kept_or_dropped_with_its_timer(ends_well, fork):
    ends_well(
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
