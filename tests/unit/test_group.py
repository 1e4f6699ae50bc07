"""TimerGroup: timers that are cancelled together."""

import contextlib
import gc
import pickle
import sys
import weakref
from array import array
from contextvars import ContextVar, copy_context

import pytest

from hwheel import ManualTimer, SystemTimer, TimerClosed, TimerFull, TimerGroup, TimerTask


def timer_and_group():
    """Return both. Fixtures would outlive the check for leftover objects."""
    timer = ManualTimer()
    return timer, timer.group()


def test_timers_of_a_group_run_in_order_with_others(ran):
    timer, group = timer_and_group()
    timer.call_later(0.005, ran.append, "before")
    tasks = [group.call_later(0.005, ran.append, "later"), group.call_at(0.005, ran.append, "at")]
    timer.call_later(0.005, ran.append, "after")
    group.call_every(0.003, ran.append, "every")
    assert [task.deadline_ms for task in tasks] == [5, 5] and all(isinstance(task, TimerTask) for task in tasks)
    timer.advance(0.006)
    assert ran == ["every", "before", "later", "at", "after", "every"]
    assert all(task.expired and task.callback is None and task.args is None for task in tasks)


def test_callbacks_get_their_arguments(ran):
    timer, group = timer_and_group()
    for args in [(), (None,), ((1,),), (1, "two", [3])]:
        task = group.call_later(1, lambda *given: ran.append(given), *args)
        assert task.args == args and task.kwargs == {}
    timer.advance(1)
    assert ran == [(), (None,), ((1,),), (1, "two", [3])]


def test_closed_group_refuses_new_timers(ran):
    timer, group = timer_and_group()
    group.call_later(1, ran.append, 1)
    assert (group.close(), group.close(), group.closed) == (1, 0, True)
    for add in (group.call_later, group.call_at, group.call_every):
        with pytest.raises(TimerClosed, match="the group is closed"):
            add(1, ran.append, 2)
        with pytest.raises(TimerClosed):
            add(1, ran.append, 2, slack=1)
    with pytest.raises(ValueError, match="slack must not be negative"):
        timer.group().call_later(1, int, slack=-1)
    assert (len(group), len(timer), timer.stats().added) == (0, 0, 1)
    timer.call_later(1, ran.append, 3)
    timer.advance(1)
    assert ran == [3]


def test_with_block_closes_the_group(ran):
    timer = ManualTimer()
    with timer.group() as group:
        group.call_later(1, ran.append, 1)
    assert group.closed and len(timer) == 0
    with pytest.raises(ZeroDivisionError), timer.group() as group:
        group.call_later(1, ran.append, 1)
        raise ZeroDivisionError
    assert group.closed and len(timer) == 0


@pytest.mark.parametrize("end", ["expiry", "cancel", "close of the timer", "close that runs"])
def test_ended_task_leaves_its_group(end):
    timer, group = timer_and_group()
    task = group.call_later(1, int)
    assert len(group) == 1
    if end == "expiry":
        timer.advance(1)
    elif end == "cancel":
        assert task.cancel() and not task.cancel()
    elif end == "close of the timer":
        assert timer.close() == [task] and task.callback is int
        task.run()
    else:
        assert timer.close(run_pending=True) == [] and task.expired
    assert len(group) == 0 and group.cancel() == 0


def test_periodic_task_stays_in_its_group_while_it_runs(ran):
    timer, group = timer_and_group()
    task = group.call_every(1, lambda: ran.append(len(group)))
    timer.advance(3)
    assert ran == [1, 1, 1] and len(group) == 1 and task.pending
    assert group.cancel() == 1 and task.cancelled
    timer.advance(3)
    assert len(ran) == 3


@pytest.mark.parametrize("way", ["cancel", "close"])
def test_cancelling_the_group_in_a_periodic_callback_ends_it(ran, way):
    timer, group = timer_and_group()
    task = group.call_every(1, lambda: ran.append(getattr(group, way)()))
    timer.advance(5)
    assert ran == [1] and task.cancelled and task.callback is None and len(group) == len(timer) == 0


def test_expired_tasks_can_be_cancelled_before_they_run(ran):
    timer = SystemTimer(executor="inline", reaper=False)
    group = timer.group()
    first = group.call_later(0, lambda: ran.append(group.cancel()))
    others = [group.call_later(0, ran.append, "never"), group.call_every(0.001, ran.append, "never")]
    while first.pending:
        timer.advance_clock(100)
    timer.advance_clock(5)
    assert ran == [2] and all(task.cancelled for task in others)
    timer.close()


def test_task_of_a_group_cannot_be_added_again():
    timer, group = timer_and_group()
    task = group.call_later(1, int)
    with pytest.raises(ValueError, match="pending already"):
        timer.add(task)
    timer.advance(1)
    with pytest.raises(ValueError, match="has expired"):
        timer.add(task)
    cancelled = group.call_later(1, int)
    cancelled.cancel()
    assert timer.add(cancelled) is cancelled and cancelled.cancelled
    assert len(group) == len(timer) == 0


def test_callback_runs_in_the_given_context(ran):
    timer, group = timer_and_group()
    variable = ContextVar("variable", default="empty")
    variable.set("mine")
    group.call_later(1, lambda: ran.append(variable.get()))
    group.call_later(1, lambda: ran.append(variable.get()), context=copy_context())
    group.call_at(1, lambda: ran.append(variable.get()), context=copy_context())
    timer.advance(1)
    variable.set("default")
    assert ran == ["empty", "mine", "mine"]


def test_max_pending_counts_timers_of_groups(ran):
    timer = ManualTimer(max_pending=2)
    group = timer.group()
    group.call_later(1, ran.append, 1)
    timer.call_later(1, ran.append, 2)
    for add in (group.call_later, group.call_at, group.call_every):
        with pytest.raises(TimerFull):
            add(1, ran.append, 3)
    assert len(group) == 1 and group.cancel() == 1
    group.call_later(1, ran.append, 4)
    timer.advance(1)
    assert ran == [2, 4]


def test_group_of_a_closed_timer_refuses_new_timers():
    timer, group = timer_and_group()
    timer.close()
    with pytest.raises(TimerClosed, match="the timer is closed"):
        group.call_later(1, print)
    assert group.close() == 0 and timer.group().cancel() == 0


def test_timers_survive_their_group(ran):
    timer = ManualTimer()
    group = timer.group()
    tasks = [group.call_later(i / 10, ran.append, i) for i in range(5)]
    every = group.call_every(0.25, ran.append, "every")
    dropped = weakref.ref(group)
    del group
    assert dropped() is None
    assert tasks[3].cancel() and tasks[4].reschedule(0.1)
    timer.advance(0.3)
    assert ran == [0, 1, 4, 2, "every"] and every.pending
    every.cancel()
    assert len(timer) == 0


def test_group_keeps_its_timer_alive():
    group = ManualTimer().group()
    task = group.call_later(1, print)
    timer = weakref.ref(group.timer)
    assert timer() is not None and task.pending
    del group
    assert timer() is None and task.cancelled
    del task


def test_periodic_task_lost_by_an_executor_is_collected_with_its_timer():
    class NeverRuns:
        def submit(self, run, *args):
            return None

    timer = SystemTimer(executor=NeverRuns(), reaper=False)
    group, arguments = timer.group(), [array("q"), array("q")]
    group.call_every(0.001, print, arguments[0])
    group.call_every(60, print, arguments[1])
    while timer.stats().expired == 0:
        timer.advance_clock(10)
    assert len(group) == 2  # a dispatched task stays in its group until it returns
    left = [weakref.ref(one) for one in (timer, *arguments)]
    arguments.clear()
    del timer, group
    gc.collect()
    assert [one() for one in left] == [None] * 3


def test_close_returns_a_task_cancelled_before_its_executor_ran_it():
    class Interrupted:
        def submit(self, run, *args):
            raise KeyboardInterrupt

    timer = SystemTimer(executor=Interrupted(), reaper=False)
    group = timer.group()
    task = group.call_every(0.001, print, "never")
    while not task.expired:
        with contextlib.suppress(KeyboardInterrupt):
            timer.advance_clock(10)
    assert len(group) == 1
    task.cancel()
    assert (len(group), timer.close(), task.cancelled) == (0, [task], True)


def test_closed_group_leaves_no_cycle():
    timer = ManualTimer()

    class Connection:
        pass

    connection = Connection()
    connection.group = timer.group()
    connection.task = connection.group.call_later(1, print, connection)
    connection.again = connection.group.call_every(1, print, connection)
    gone = weakref.ref(connection)
    connection.group.close()
    del connection
    gc.collect()
    assert gone() is None


def test_cancel_releases_callbacks_without_garbage_collection():
    timer, group = timer_and_group()
    gc.disable()
    try:
        arguments = [array("q"), array("q"), array("q")]
        tasks = [group.call_later(1, print, arguments[0]), group.call_every(1, print, arguments[2])]
        tasks.append(group.call_later(1, print, arguments[1], arguments[1]))
        left = [weakref.ref(argument) for argument in arguments]
        arguments.clear()
        group.cancel()
        assert [one() for one in left] == [None] * 3
        assert all(task.cancelled for task in tasks)
    finally:
        gc.enable()


def test_finalizer_can_use_the_group_during_cancel(ran):
    timer, group = timer_and_group()

    class Ends:
        def __del__(self):
            ran.append((group.cancel(), group.call_later(1, ran.append, "added during cancel").pending))

    ends = Ends()
    group.call_later(1, print, ends)
    group.call_later(1, print)
    del ends
    assert group.cancel() == 2 and ran == [(0, True)] and len(group) == 1


def test_large_group_is_cancelled_completely():
    timer, group = timer_and_group()
    tasks = [group.call_later(1 + i % 977, int, i) for i in range(10_000)]
    for task in tasks[::7]:
        task.cancel()
    assert group.cancel() == 10_000 - len(tasks[::7]) and len(group) == len(timer) == 0
    assert all(task.cancelled for task in tasks)


def test_repr_and_truth():
    timer, group = timer_and_group()
    assert bool(group) and group.timer is timer
    group.call_later(1, print)
    assert repr(group) == "<TimerGroup of <ManualTimer 'timer', 1 pending>, 1>"
    group.close()
    assert repr(group) == "<TimerGroup of <ManualTimer 'timer', 0 pending>, closed>"


def test_group_cannot_be_instantiated():
    with pytest.raises(TypeError, match=r"group\(\) creates"):
        TimerGroup()
    bare = TimerGroup.__new__(TimerGroup)
    adds = [lambda: bare.call_later(1, print), lambda: bare.call_at(1, print), lambda: bare.call_every(1, print)]
    for use in (bare.cancel, bare.close, bare.__enter__, *adds):
        with pytest.raises(RuntimeError, match="not created by group"):
            use()
    assert (len(bare), bare.closed, bare.timer) == (0, True, None) and repr(bare)
    with pytest.raises(TypeError):
        type("Group", (TimerGroup,), {})()
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(ManualTimer().group())


def test_only_grouped_tasks_are_larger():
    timer, group = timer_and_group()
    plain, grouped = timer.call_later(1, print, 1), group.call_later(1, print, 1)
    assert sys.getsizeof(plain) == sys.getsizeof(TimerTask(1)) < sys.getsizeof(grouped) <= sys.getsizeof(plain) + 32


# --- with slack, max_lateness and jitter ------------------------------------------------------------------------------


def test_slack_max_lateness_and_jitter_in_a_group(ran):
    timer, group = timer_and_group()
    late = group.call_later(0.005, ran.append, "postponed", slack=0.01)
    missed = group.call_at(0.006, ran.append, "missed", max_lateness=0.001)
    every = group.call_every(0.01, ran.append, "every", slack=0.006, max_lateness=5, jitter=0.001)
    assert len(group) == 3 and late.deadline_ms == 8
    assert late.reschedule(0.009) and late.deadline_ms == 16
    assert group.cancel() == 3 and len(group) == len(timer) == 0
    assert late.cancelled and missed.cancelled and every.cancelled
    timer.advance(1)
    assert ran == []


def test_missed_timer_leaves_its_group(ran):
    timer = ManualTimer(tick_ms=10)
    with timer.group() as group:
        group.call_later(0.003, ran.append, "in time", slack=0.5)
        group.call_later(0.003, ran.append, "missed", max_lateness=0.001)
        timer.advance(1)
        assert ran == ["in time"] and timer.stats().missed == 1
        assert len(group) == len(timer) == 0
