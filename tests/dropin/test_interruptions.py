"""A Ctrl-C at any line of the drop-ins: nothing is lost, no lock stays taken."""

import threading

import pytest

from hwheel import Timer, sched
from hwheel.threading import pool as thread_pool
from hwheel.threading.pool import IDLE_NAME, ThreadPool
from interrupts import interrupt_each_line
from waiting import eventually


def test_start_cancel_and_join():
    def scenario():
        ran = []
        timer = Timer(3600, ran.append, [1])
        waits = threading.Event()

        def use():
            timer.start()
            waits.set()
            timer.cancel()
            timer.join(60)
            return True

        yield use
        timer.cancel()
        if timer._task is not None:
            timer.join(60)
            assert not timer.is_alive()
        assert not ran
        other = Timer(0, ran.append, [2])  # no lock of the module stays taken
        other.start()
        other.join(60)
        assert ran == [2]

    assert interrupt_each_line(scenario, ("hwheel/threading/timer.py",)) > 10


POOL = ("hwheel/threading/pool.py",)


class Looks:
    """call_later of a pool: keeps what is to be called."""

    def __init__(self):
        self.waiting = []

    def __call__(self, delay, callback):
        self.waiting.append(callback)

    def happen(self):
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback()


def workers():
    return {thread for thread in threading.enumerate() if thread.name == IDLE_NAME}


@pytest.mark.parametrize("action", ["submit", "submit to an idle one", "fill", "look"])
def test_the_threads_of_a_pool_are_counted_exactly(action, monkeypatch):
    def scenario():
        others = workers()
        looks, gate, begun = Looks(), threading.Event(), []

        def block():
            begun.append(1)
            gate.wait(60)

        monkeypatch.setattr(thread_pool, "CHECK_INTERVAL_S", 1000)
        pool = ThreadPool(daemon=True, call_later=looks, minimum=3 if action == "fill" else 0)
        if action == "fill":
            yield pool.fill
        elif action == "submit":
            yield lambda: pool.submit(block)
        elif action == "submit to an idle one":
            pool.submit(int)
            eventually(lambda: pool._idle)
            yield lambda: pool.submit(block)
        else:
            for _ in range(thread_pool.INITIAL_THREADS + 3):
                pool.submit(block)
            eventually(lambda: len(begun) == thread_pool.INITIAL_THREADS)
            looks.happen()
            pool._taken_at_check = -1
            yield looks.happen
            if pool._taken_at_check == -1:
                pool._check()  # it had not begun, and what never begins comes to no harm in the reaper
        eventually(lambda: len(pool) == len(workers() - others))
        ran = []
        for number in range(5):  # whatever became of it, the pool takes jobs, and runs all that it has taken
            pool.submit(lambda number=number: ran.append(number))
        eventually(lambda: (looks.happen(), sorted(ran) == [*range(5)])[1])
        gate.set()
        if action == "look":
            eventually(lambda: len(begun) == thread_pool.INITIAL_THREADS + 3)
        pool.leave()
        eventually(lambda: not workers() - others)
        assert len(pool) == 0

    assert interrupt_each_line(scenario, POOL) > 5


SCHED = ("hwheel/sched.py",)


@pytest.mark.parametrize("action", ["enter", "cancel", "run"])
def test_a_scheduler_loses_no_event(action):
    def scenario():
        now, ran, begun = [0], [], set()

        def act(name):
            begun.add(name)
            ran.append(name)

        scheduler = sched.scheduler(lambda: now[0], lambda delay: now.append(now.pop() + delay))
        events = {name: scheduler.enter(delay, 1, act, (name,)) for name, delay in (("b", 2), ("a", 1), ("c", 3))}
        if action == "enter":
            entered = yield lambda: scheduler.enter(0.5, 1, act, ("new",))
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
        thread.join(60)
        assert not thread.is_alive() and scheduler.empty() and not scheduler._sleepers
        expected = {"enter": ["a", "b", "c"], "cancel": ["b", "c"], "run": ["a", "b", "c"]}[action]
        assert [name for name in ran if name != "new"] == expected
        assert ran.count("new") == (action == "enter" and entered is not None)

    assert interrupt_each_line(scenario, SCHED) > 3


@pytest.mark.parametrize("action", ["enter", "cancel"])
def test_a_run_that_sleeps_notices_what_is_left_of_an_interrupted(action):
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
        thread.join(30)
        assert not thread.is_alive() and 1 not in ran

    assert interrupt_each_line(scenario, SCHED) > 3
