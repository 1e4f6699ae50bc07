"""Ctrl-C at any line of the drop-ins loses nothing and leaves no lock taken."""

import threading

import pytest

from hwheel import Timer, sched
from hwheel_core import IDLE_NAME, ThreadPool
from interrupts import interrupt_each_line
from waiting import eventually

PATIENCE_S = 60
THIS_FILE = (__file__,)
SCHED = ("hwheel/sched.py",)
TIMER = ("hwheel/threading/timer.py",)


def test_start_cancel_and_join_of_a_timer():
    def scenario():
        ran = []
        timer = Timer(3600, ran.append, [1])

        def use():
            timer.start()
            timer.cancel()
            timer.join(PATIENCE_S)

        yield use
        timer.cancel()
        if timer._task is not None:
            timer.join(PATIENCE_S)
            assert not timer.is_alive()
        assert not ran
        other = Timer(0, ran.append, [2])  # the locks of the module are free
        other.start()
        other.join(PATIENCE_S)
        assert ran == [2]

    assert interrupt_each_line(scenario, TIMER) > 10


def test_a_pool_counts_its_threads_exactly(monkeypatch):
    """Only fill() and leave() run in the main thread, where Ctrl-C is raised. Python code runs in Thread.start()."""

    def workers():
        return {thread for thread in threading.enumerate() if thread.name == IDLE_NAME}

    def start(thread, start=threading.Thread.start):
        started.append(thread)
        start(thread)
        started.remove(thread)

    started = []
    monkeypatch.setattr(threading.Thread, "start", start)

    def scenario():
        others = workers()
        pool = ThreadPool(daemon=True, call_later=lambda *_: None, on_forked=int, minimum=3)
        yield pool.fill
        eventually(lambda: len(pool) == len(workers() - others))
        ran = threading.Event()
        pool.submit(ran.set)
        assert ran.wait(PATIENCE_S)
        pool.leave()
        eventually(lambda: not workers() - others)
        assert len(pool) == 0

    assert interrupt_each_line(scenario, THIS_FILE) > 5


@pytest.mark.parametrize("action", ["enter", "cancel", "run"])
def test_a_scheduler_loses_no_event(action):
    def scenario():
        now, ran = [0], []
        scheduler = sched.scheduler(lambda: now[0], lambda delay: now.append(now.pop() + delay))
        events = {
            name: scheduler.enter(delay, 1, ran.append, (name,)) for name, delay in (("b", 2), ("a", 1), ("c", 3))
        }
        entered = None
        if action == "enter":
            entered = yield lambda: scheduler.enter(0.5, 1, ran.append, ("new",))
            assert len(scheduler.queue) == len(scheduler._events) == 3 + (entered is not None)
        elif action == "cancel":
            yield lambda: scheduler.cancel(events["a"])
            for event in scheduler.queue[:-2]:
                scheduler.cancel(event)
        else:
            yield scheduler.run
            assert sorted([*ran, *(event.argument[0] for event in scheduler.queue)]) == ["a", "b", "c"]
        thread = threading.Thread(target=scheduler.run, daemon=True)  # the lock is free
        thread.start()
        thread.join(PATIENCE_S)
        assert not thread.is_alive() and scheduler.empty() and not scheduler._sleepers
        expected = ["b", "c"] if action == "cancel" else ["a", "b", "c"]
        assert [name for name in ran if name != "new"] == expected
        assert ran.count("new") == (entered is not None)

    assert interrupt_each_line(scenario, SCHED) > 3


@pytest.mark.parametrize("action", ["enter", "cancel"])
def test_a_sleeping_run_notices_an_interrupted_change(action):
    def scenario():
        ran = []
        scheduler = sched.scheduler()
        event = scheduler.enter(3600, 1, ran.append, (1,))
        thread = threading.Thread(target=scheduler.run, daemon=True)
        thread.start()
        eventually(lambda: {None} < {None, *scheduler._sleepers.values()})
        if action == "cancel":
            yield lambda: scheduler.cancel(event)
        else:
            yield lambda: scheduler.enter(0, 1, ran.append, (2,))
            if len(scheduler._events) == 2:
                eventually(lambda: ran)
        for left in scheduler.queue:
            scheduler.cancel(left)
        thread.join(PATIENCE_S)
        assert not thread.is_alive() and 1 not in ran

    assert interrupt_each_line(scenario, SCHED) > 3
