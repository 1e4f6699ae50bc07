"""Executors of all kinds: whatever submit() does, the reaper goes on, each task runs once, and errors are reported."""

import gc
import threading
import weakref
from array import array
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from hwheel import TimerTask
from systems import collect_if_free_threaded
from threads import ManualExecutor

PATIENCE_S = 60


class Odd:
    """An executor that runs what it is given in a thread, and returns what it was made with."""

    def __init__(self, answer=None, *, before=None, after=None):
        self.answer, self.before, self.after = answer, before, after

    def submit(self, function, *args):
        if self.before is not None:
            raise self.before
        thread = threading.Thread(target=function, args=args)
        thread.start()
        thread.join(PATIENCE_S)
        if self.after is not None:
            raise self.after
        return self.answer


class Raising(Future):
    def add_done_callback(self, function):
        raise OSError("no callbacks")


def done_future():
    future = Future()
    future.set_result(None)
    return future


def cancelled_future():
    future = Future()
    future.cancel()
    return future


@pytest.mark.parametrize("answer", [None, 5, "text", object(), done_future(), cancelled_future(), Raising()])
def test_whatever_submit_returns_each_task_runs_once_and_call_every_goes_on(make_timer, eventually, answer):
    timer = make_timer(executor=Odd(answer), on_error=lambda *_: None)
    ran, every = [], []
    for i in range(20):
        timer.call_later(i / 1000, ran.append, i)
    timer.call_many(array("q", [5, 6]), lambda indices: ran.extend(100 + i for i in indices))
    periodic = timer.call_every(0.005, every.append, 1)
    eventually(lambda: len(ran) == 22 and len(every) > 3)
    assert sorted(ran) == [*range(20), 100, 101]
    assert periodic.cancel()
    assert timer.close() == []


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_submit_that_raises_is_reported_and_ends_nothing(make_timer, eventually, kind):
    error = kind("on purpose")
    executor = Odd(before=error)
    reported, ran = [], []
    timer = make_timer(executor=executor, on_error=lambda task, error: reported.append((task, error)))
    lost = timer.call_later(0.001, ran.append, "lost")
    every = timer.call_every(0.02, ran.append, "every")
    eventually(lambda: len(reported) >= 3)
    assert (lost, error) in reported
    executor.before = None
    timer.call_later(0.001, ran.append, "later")
    eventually(lambda: "later" in ran and "every" in ran)
    assert "lost" not in ran
    assert every.cancel()


def test_a_submit_that_raises_after_it_has_run_the_task(make_timer, eventually):
    reported, ran = [], []
    timer = make_timer(executor=Odd(after=OSError("late")), on_error=lambda task, error: reported.append(error))
    timer.call_later(0, ran.append, 1)
    timer.call_later(0.001, ran.append, 2)
    eventually(lambda: len(ran) == 2)
    timer.close()
    assert ran == [1, 2]


def test_a_task_that_is_added_again_while_it_waits_runs_also_if_the_second_add_is_cancelled(make_timer, eventually):
    executor, ran = ManualExecutor(), []

    class Again(TimerTask):
        def run(self):
            ran.append("ran")

    timer = make_timer(executor=executor)
    task = timer.add(Again(1))
    eventually(lambda: task.expired)
    timer.add(task)  # the first run waits in the executor
    assert task.cancel()  # the second
    executor.run_one()
    assert ran == ["ran"]


def test_what_an_executor_loses_of_call_every_lives_until_it_is_cancelled(make_timer, eventually):
    """The timer holds what it has handed out. So what others come upon, in a group, does not die in another thread at
    that moment: where there is no GIL, they would take hold of what is dying."""

    class Callback:
        def __call__(self):
            pass

    for others_look in (False, True) * 5:
        executor = ManualExecutor()
        timer = make_timer(executor=executor)
        group = timer.group()
        callbacks = [Callback() for _ in range(20)]
        held = [weakref.ref(callback) for callback in callbacks]
        for callback in callbacks:
            group.call_every(0.001, callback)
        del callback, callbacks
        eventually(lambda executor=executor: executor.calls.qsize() == 20)
        cancelled = []
        cancel = threading.Thread(target=lambda group=group, cancelled=cancelled: cancelled.append(group.cancel()))
        if others_look:
            cancel.start()
        while not executor.calls.empty():
            executor.calls.get()  # and is gone
        if not others_look:
            gc.collect()
            assert None not in [callback() for callback in held]
            assert len(group) == 20
            cancel.start()
        cancel.join(PATIENCE_S)
        assert cancelled == [20] and len(group) == 0
        timer.close()


@pytest.mark.parametrize("name", ["cancelled", "pending", "expired", "args", "callback", "timer", "begin", "finish"])
def test_a_subclass_may_have_a_method_of_any_name(make_timer, pool, eventually, name):
    ran = []
    kind = type("Mine", (TimerTask,), {name: lambda self: True, "run": lambda self: ran.append(name)})
    timer = make_timer(executor=pool)
    timer.add(kind(1))
    eventually(lambda: ran == [name])


def test_close_takes_back_what_an_executor_without_futures_has_not_begun(make_timer, eventually):
    executor, ran = ManualExecutor(), []
    timer = make_timer(executor=executor)
    tasks = [timer.call_later(0.001, ran.append, i) for i in range(3)]
    batch = timer.call_many(array("q", [1, 1, 3_600_000]), ran.append)
    eventually(lambda: executor.calls.qsize() == 4)
    executor.run_one()
    returned = timer.close(run_pending=True, timeout=0.05)
    assert ran == [0]
    assert {*map(id, returned)} == {*map(id, [*tasks[1:], batch])} and len(returned) == 3
    assert sorted(batch.indices()) == [0, 1, 2]
    while not executor.calls.empty():
        executor.run_one()  # it was taken back: nothing happens
    assert ran == [0]
    stats = timer.stats()
    assert (stats.added, stats.expired, stats.cancelled, stats.pending) == (6, 1, 0, 0)


def test_an_executor_that_is_shut_down_in_the_middle(make_timer, eventually):
    reported, ran = [], []
    executor = ThreadPoolExecutor(1)
    timer = make_timer(executor=executor, on_error=lambda task, error: reported.append(task))
    inside, go_on = threading.Event(), threading.Event()
    timer.call_later(0, lambda: (inside.set(), go_on.wait(PATIENCE_S)))
    assert inside.wait(PATIENCE_S)
    waiting = [timer.call_later(0, ran.append, i) for i in range(3)]
    eventually(lambda: all(task.expired for task in waiting))
    executor.shutdown(wait=False, cancel_futures=True)
    refused = timer.call_later(0.001, ran.append, 3)
    eventually(lambda: len(reported) == 4)
    go_on.set()
    assert {*map(id, reported)} == {*map(id, [*waiting, refused])}
    assert ran == []
    assert timer.close() == []


def test_an_interruption_in_a_callback_that_submit_runs_in_the_callers_thread_is_raised_there(make_timer, hand_clock):
    class Here:
        def submit(self, function, *args):
            function(*args)

    ran, reported = [], []

    def interrupted():
        raise KeyboardInterrupt

    timer = make_timer(
        executor=Here(), clock=hand_clock, reaper=False, on_error=lambda _, error: reported.append(type(error))
    )
    timer.call_later(0, interrupted)
    timer.call_later(0, lambda: 1 / 0)
    timer.call_later(0, ran.append, 1)
    with pytest.raises(KeyboardInterrupt):
        timer.advance_clock(0)
    timer.advance_clock(0)
    assert ran == [1] and reported == [ZeroDivisionError]


def test_what_an_interrupted_submit_did_not_begin_is_submitted_again(make_timer, hand_clock):
    class Interrupted:
        def __init__(self):
            self.interruptions = 2

        def submit(self, function, *args):
            if self.interruptions:
                self.interruptions -= 1
                raise KeyboardInterrupt
            function(*args)

    ran = []
    timer = make_timer(executor=Interrupted(), clock=hand_clock, reaper=False)
    for i in range(3):
        timer.call_later(0, ran.append, i)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            timer.advance_clock(0)
    timer.call_later(0, ran.append, 3)
    timer.advance_clock(0)
    assert ran == [0, 1, 2, 3]


def test_close_returns_what_an_interrupted_submit_did_not_begin(make_timer, hand_clock):
    class Interrupted:
        def submit(self, function, *args):
            raise KeyboardInterrupt

    timer = make_timer(executor=Interrupted(), clock=hand_clock, reaper=False)
    tasks = [timer.call_later(0, print, i) for i in range(3)]
    with pytest.raises(KeyboardInterrupt):
        timer.advance_clock(0)
    assert timer.close() == tasks
    assert [task.args for task in tasks] == [(0,), (1,), (2,)]


def test_close_returns_what_of_a_group_an_executor_has_not_begun_with_in_time(make_timer, hand_clock):
    class NeverRuns:
        def submit(self, function, *args):
            return None

    timer = make_timer(executor=NeverRuns(), clock=hand_clock, reaper=False)
    group = timer.group()
    tasks = [group.call_later(0, print, i) for i in range(3)]
    timer.advance_clock(0)
    assert timer.close(run_pending=True, timeout=0) == tasks and len(group) == 0
    assert [task.args for task in tasks] == [(0,), (1,), (2,)] and all(task.cancelled for task in tasks)


def test_of_a_batch_close_returns_what_an_interrupted_submit_did_not_begin_before_the_rest(make_timer, hand_clock):
    class Interrupted:
        def submit(self, function, *args):
            raise KeyboardInterrupt

    timer = make_timer(executor=Interrupted(), clock=hand_clock, reaper=False)
    batch = timer.call_many(array("q", [9000, 0, 7000, 0, 8000]), print)
    with pytest.raises(KeyboardInterrupt):
        timer.advance_clock(0)
    assert timer.close() == [batch]
    assert batch.indices() == array("q", [1, 3, 2, 4, 0]) and batch.callback is print


def test_what_has_run_is_released_at_once_also_by_an_executor_with_futures(make_timer, pool, eventually):
    class Argument:
        pass

    gc.collect()
    gc.disable()
    try:
        timer = make_timer(executor=pool)
        arguments = [Argument() for _ in range(50)]
        alive = [weakref.ref(one) for one in arguments]
        for i, one in enumerate(arguments):
            timer.call_later(i / 10_000, id, one)
        del arguments, one
        eventually(lambda: collect_if_free_threaded() or not any(ref() for ref in alive))
    finally:
        gc.enable()


@pytest.mark.parametrize("timeout", [float("inf"), 1e10, 10**400])
def test_a_timeout_that_is_longer_than_threads_can_wait_is_none(make_timer, executor, timeout):
    timer = make_timer(executor=executor)
    timer.call_later(0, int)
    task = timer.call_later(3600, int)
    assert timer.close(timeout=timeout)[-1] is task


class Uncancellable:
    def add_done_callback(self, function):
        pass

    def cancel(self):
        raise ZeroDivisionError


class Unreadable:
    @property
    def add_done_callback(self):
        raise LookupError("gone")


def test_a_future_whose_cancel_raises_keeps_nothing_from_coming_back(make_timer, eventually):
    class Never:
        def submit(self, *args):
            return Uncancellable()

    timer = make_timer(executor=Never())
    tasks = [timer.call_later(100 + i, print) for i in range(3)]
    assert timer.close(run_pending=True, timeout=0.05) == tasks


def test_what_submit_returns_may_be_unreadable(make_timer, eventually):
    class Counting(ManualExecutor):
        def submit(self, function, *args):
            super().submit(function, *args)
            return Unreadable()

    executor, reported, ran = Counting(), [], []
    timer = make_timer(executor=executor, on_error=lambda task, error: reported.append(task))
    tasks = [timer.call_later(0, ran.append, i) for i in range(2)]
    eventually(lambda: len(reported) == 2)
    assert reported == tasks and executor.calls.qsize() == 2
    for _ in range(2):
        executor.run_one()
    assert ran == [0, 1]


def test_a_task_whose_run_cannot_be_found_is_reported_and_the_reaper_goes_on(make_timer, eventually):
    class NoRun(TimerTask):
        @property
        def run(self):
            raise OSError("no run")

    reported, ran = [], []
    with ThreadPoolExecutor(1) as pool:
        timer = make_timer(executor=pool, on_error=lambda source, error: reported.append(type(error)))
        timer.add(NoRun(1))
        timer.add(TimerTask(1))  # without a callback: nothing is called
        timer.call_later(0.02, ran.append, 1)
        eventually(lambda: ran == [1])
        assert reported == [OSError]
        timer.close()


def test_a_future_that_cannot_tell_its_error_is_an_error(make_timer, eventually):
    class Silent(Future):
        def exception(self, timeout=None):
            raise OSError("no answer")

    class RunsNothing:
        def submit(self, function, *args):
            silent = Silent()
            silent.set_result(None)
            return silent

    reported = []
    timer = make_timer(executor=RunsNothing(), on_error=lambda source, error: reported.append(type(error)))
    timer.call_later(0.001, int)
    eventually(lambda: reported == [OSError])
    timer.close()


def test_what_an_executor_says_is_done_is_not_waited_for_though_it_did_not_run_here(make_timer, eventually):
    """It ran in another process, say. It was done after submit(), for the second task has been submitted since."""
    futures, ran = [], []

    class Elsewhere:
        def submit(self, function, *args):
            if futures:
                function(*args)
                return done_future()
            futures.append(Future())
            return futures[0]

    timer = make_timer(executor=Elsewhere())
    for name in ("there", "here"):
        timer.call_later(0.001, ran.append, name)
    eventually(lambda: ran == ["here"])
    futures[0].set_result(None)
    closing = threading.Thread(target=timer.close, kwargs={"run_pending": True}, daemon=True)
    closing.start()
    closing.join(PATIENCE_S)
    assert not closing.is_alive() and ran == ["here"]


def test_what_another_thread_takes_at_that_moment_is_not_taken_twice(make_timer):
    """Of what comes again because its submit() was interrupted."""

    class Taken(deque):
        def __bool__(self):
            return True  # a moment ago

    with ThreadPoolExecutor(1) as pool:
        timer = make_timer(executor=pool, reaper=False)
        timer._hand_out({}, Taken(), pytest.fail, True)
