"""The garbage collector does not track pending tasks, so a million of them cost it nothing."""

import gc
from array import array

import pytest

from hwheel import ManualTimer, TimerTask, TimingWheel


class Subclass(TimerTask):
    pass


def argument_objects(task):
    """Return the tuple that holds the arguments of a task, and the dict of keyword arguments in it."""
    tuples = [one for one in gc.get_referents(task) if isinstance(one, tuple)]
    return tuples + [one for arguments in tuples for one in arguments if isinstance(one, dict)]


def test_pending_tasks_and_their_arguments_are_untracked(make_timer):
    timer = make_timer(wheel_size=4)
    shared = [1]  # a list is tracked, so the collector would track a tuple that holds it
    tasks = [timer.call_later(3600 + i % 100, print, shared, i) for i in range(1000)]
    tasks += [timer.add(TimerTask(3_600_000, print, shared, end=shared)) for _ in range(1000)]
    tasks += [timer.add(Subclass(3_600_000, print, shared, shared)) for _ in range(1000)]
    tasks += [timer.call_every(3600, print, shared, shared) for _ in range(1000)]
    gc.collect()
    assert [task for task in tasks if gc.is_tracked(task)] == []
    held = [one for task in tasks for one in argument_objects(task)]
    assert len(held) >= 4000
    assert [one for one in held if gc.is_tracked(one)] == []


def test_a_million_pending_tasks_add_no_tracked_objects(make_timer):
    timer = make_timer(wheel_size=4)
    shared = [1]
    timer.call_later(3600, print)  # starts the threads
    gc.collect()
    before = len(gc.get_objects())
    for i in range(1_000_000):
        timer.call_later(60 + i % 3600, print, shared, i)
    timer.call_many(array("q", [3_600_000]) * 1_000_000, print)
    gc.collect()
    assert len(timer) == 2_000_001
    assert len(gc.get_objects()) - before < 1000


@pytest.mark.parametrize("cls", [TimerTask, Subclass])
def test_tasks_that_close_returns_are_tracked_again(make_timer, cls):
    timer = make_timer(wheel_size=4)
    shared = [1]
    timer.add(cls(3_600_000, print, shared, shared, end=shared))
    timer.call_every(3600, print, shared, shared)
    gc.collect()
    returned = timer.close()
    assert len(returned) == 2
    for task in returned:
        assert gc.is_tracked(task)
        assert argument_objects(task)
        assert all(gc.is_tracked(one) for one in argument_objects(task))


@pytest.mark.parametrize("cls", [TimerTask, Subclass])
def test_tasks_that_poll_returns_are_tracked_again(cls):
    shared = [1]
    wheel = TimingWheel()
    task = cls(5, print, shared, shared)
    assert wheel.add(task, 5)
    gc.collect()
    assert not gc.is_tracked(task)
    assert wheel.poll(5) == [task]
    assert gc.is_tracked(task) and all(gc.is_tracked(one) for one in argument_objects(task))


def test_a_refused_task_stays_tracked():
    shared = [1]
    timer = ManualTimer(max_pending=1)
    timer.call_later(5, print)
    task = TimerTask(5, print, shared, shared)
    with pytest.raises(RuntimeError):
        timer.add(task)
    due = TimerTask(5, print, shared, shared)
    assert TimingWheel().add(due, 0) is False
    for refused in (task, due):
        assert gc.is_tracked(refused) and all(gc.is_tracked(one) for one in argument_objects(refused))


@pytest.mark.parametrize("ending", ["cancel", "expire"])
def test_a_subclass_is_tracked_again_after_its_end(ending):
    timer = ManualTimer()
    task = timer.add(Subclass(5, int))
    assert not gc.is_tracked(task)
    if ending == "cancel":
        task.cancel()
    else:
        timer.advance(0.005)
    assert gc.is_tracked(task)


def test_collections_at_any_time_are_harmless():
    # The collector finds tasks in every state, and finalizers that cancel tasks.
    timer = ManualTimer()
    threshold = gc.get_threshold()
    gc.set_threshold(5)
    try:

        class Owner:
            def __init__(self):
                self.me = self
                self.task = timer.call_later(50, len, [])

            def __del__(self):
                self.task.cancel()
                timer.call_later(0.001, list, [])

        for round_ in range(300):
            Owner()
            timer.add(Subclass(round_ % 7, list, [1])).cancel()
            timer.call_many(array("q", [1, 2, 3]), list)
            timer.advance((round_ % 3) / 1000)
            timer.pending()
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    timer.advance(0.1)
    stats = timer.stats()
    assert stats.added == stats.expired + stats.cancelled + stats.pending
    timer.close()


def test_pending_tasks_of_a_group_are_untracked():
    timer = ManualTimer()
    group = timer.group()
    task = group.call_later(1, print, [1], [2])
    assert not gc.is_tracked(task)
    tracked = [one for one in gc.get_objects() if type(one) is tuple and len(one) == 2]
    assert not [one for one in tracked if type(one[0]) is list and one == ([1], [2])]
    every = group.call_every(1, print)
    assert not gc.is_tracked(every)
    group.cancel()
