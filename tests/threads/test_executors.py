"""Executors of the caller, also faulty ones: the reaper survives, each task runs once, and errors are reported."""

import asyncio
import gc
import math
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


class Unusual:
    """An executor that runs each call in a thread and returns `answer`. It raises `before` or `after` the run.

    With a `lost`, it runs nothing and returns that instead.
    """

    def __init__(self, answer=None, *, before=None, after=None, lost=None):
        self.answer, self.before, self.after, self.lost = answer, before, after, lost

    def submit(self, function, *args):
        if self.before is not None:
            raise self.before
        if self.lost is not None:
            return self.lost
        thread = threading.Thread(target=function, args=args)
        thread.start()
        thread.join(PATIENCE_S)
        if self.after is not None:
            raise self.after
        return self.answer


def future_after(method, *args, kind=Future):
    """Return a future after calling a method of it."""
    future = kind()
    getattr(future, method)(*args)
    return future


class FutureWithoutException(Future):
    def exception(self, timeout=None):
        raise OSError("no answer")


class FutureWithoutCallbacks(Future):
    def add_done_callback(self, function):
        raise RuntimeError("no callbacks")


CLOSED_LOOP = asyncio.new_event_loop()
CLOSED_LOOP.close()
ANSWERS = {
    "None": lambda: None,
    "int": lambda: 7,
    "not hashable": list,
    "one future for all": Future,
    "done": lambda: future_after("set_result", None),
    "failed": lambda: future_after("set_exception", OSError("failed")),
    "cancelled": lambda: future_after("cancel"),
    "no exception()": lambda: future_after("set_result", None, kind=FutureWithoutException),
    "asyncio": lambda: asyncio.Future(loop=CLOSED_LOOP),
    "no callbacks": FutureWithoutCallbacks,
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_calls_that_run_inside_submit_run_once_even_if_its_future_is_unusual(make_timer, eventually, answer):
    ran, reported = [], []
    timer = make_timer(executor=Unusual(ANSWERS[answer]()), on_error=lambda *error: reported.append(error))
    tasks = [timer.call_later(0.001, ran.append, i) for i in range(3)]
    timer.call_many(array("q", [1, 1]), lambda indices: ran.extend(10 + i for i in indices))
    every = timer.call_every(0.005, ran.append, "every")
    eventually(lambda: ran.count("every") > 1)
    assert every.cancel() and timer.close(run_pending=True) == []
    assert [n for n in ran if n != "every"] == [0, 1, 2, 10, 11] and not any(task.pending for task in tasks)
    assert bool(reported) == (answer == "no callbacks")


@pytest.mark.parametrize("answer", ["failed", "cancelled", "no exception()"])
def test_each_task_that_an_executor_loses_is_reported_and_later_tasks_run(make_timer, eventually, answer):
    executor, reported, ran = Unusual(lost=ANSWERS[answer]()), [], []
    timer = make_timer(executor=executor, on_error=lambda source, error: reported.append(source))
    lost = [timer.call_later(0.001, ran.append, 1), timer.call_many(array("q", [1, 1]), ran.extend)]
    eventually(lambda: len(reported) == 2)
    executor.lost = None
    timer.call_later(0.001, ran.append, "later")
    eventually(lambda: ran == ["later"])
    assert {*map(id, reported)} == {*map(id, lost)}


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_exception_of_submit_is_reported_and_later_tasks_run(make_timer, eventually, kind):
    error = kind("on purpose")
    executor = Unusual(before=error)
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


def test_submit_that_raises_after_running_the_task_does_not_run_it_twice(make_timer, eventually):
    reported, ran = [], []
    timer = make_timer(executor=Unusual(after=OSError("late")), on_error=lambda task, error: reported.append(error))
    timer.call_later(0, ran.append, 1)
    timer.call_later(0.001, ran.append, 2)
    eventually(lambda: len(ran) == 2)
    timer.close()
    assert ran == [1, 2]


def test_queued_run_survives_the_cancel_of_a_second_add(make_timer, eventually):
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


def test_periodic_tasks_that_an_executor_loses_live_until_cancelled(make_timer, eventually):
    """The timer keeps references to dispatched tasks.

    Otherwise a task of a group could be freed by one thread while another takes a reference to it, without a GIL.
    """

    class Callback:
        def __call__(self):
            pass

    for cancel_first in (False, True) * 5:
        executor = ManualExecutor()
        timer = make_timer(executor=executor)
        group = timer.group()
        callbacks = [Callback() for _ in range(20)]
        references = [weakref.ref(callback) for callback in callbacks]
        for callback in callbacks:
            group.call_every(0.001, callback)
        del callback, callbacks
        eventually(lambda executor=executor: executor.calls.qsize() == 20)
        cancelled = []
        cancel = threading.Thread(target=lambda group=group, cancelled=cancelled: cancelled.append(group.cancel()))
        if cancel_first:
            cancel.start()
        while not executor.calls.empty():
            executor.calls.get()  # drops the call
        if not cancel_first:
            gc.collect()
            assert None not in [callback() for callback in references]
            assert len(group) == 20
            cancel.start()
        cancel.join(PATIENCE_S)
        assert cancelled == [20] and len(group) == 0
        timer.close()


ATTRIBUTES = """__bool__ __call__ __eq__ __len__ __repr__ _report _restart args begin callback cancel cancelled
    deadline_ms delay_ms expired finish kwargs pending reschedule task timer""".split()


def fails(self, *args):
    raise RuntimeError("an overridden attribute was used")


@pytest.mark.parametrize("attribute", [fails, lambda self, *args: 1, property(fails)], ids=["raises", "1", "property"])
def test_subclass_may_override_any_attribute(make_timer, executor, eventually, attribute):
    ran, reported = [], []
    timer = make_timer(executor=executor, on_error=lambda *error: reported.append(error))
    kinds = []
    for name in ATTRIBUTES:
        names = {"__hash__": None} if name == "__eq__" else {}
        names |= {name: attribute, "run": lambda self, name=name: ran.append(name)}
        kinds.append(type("Mine", (TimerTask,), names))
    far = [timer.add(kind(3_600_000)) for kind in kinds]
    for kind in kinds:
        timer.add(kind(1))
    eventually(lambda: len(ran) == len(kinds))
    returned = timer.close()
    assert [*map(id, returned)] == [*map(id, far)]
    assert (len(ran), len({*ran}), reported) == (len(kinds), len(kinds), [])


def test_close_takes_back_calls_that_an_executor_without_futures_has_not_begun(make_timer, eventually):
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
        executor.run_one()  # close() took it back, so nothing runs
    assert ran == [0]
    stats = timer.stats()
    assert (stats.added, stats.expired, stats.cancelled, stats.pending) == (6, 1, 0, 0)


def test_executor_shutdown_reports_each_lost_task(make_timer, eventually):
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


def test_interrupt_in_a_callback_that_submit_runs_in_the_calling_thread_is_raised(make_timer, hand_clock):
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


class Interrupted:
    """An executor whose submit() is interrupted the first `times` times, and then runs the call."""

    def __init__(self, times=math.inf):
        self.times = times

    def submit(self, function, *args):
        if self.times:
            self.times -= 1
            raise KeyboardInterrupt
        function(*args)


def test_call_is_submitted_again_after_an_interrupted_submit(make_timer, hand_clock):
    ran = []
    timer = make_timer(executor=Interrupted(2), clock=hand_clock, reaper=False)
    for i in range(3):
        timer.call_later(0, ran.append, i)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            timer.advance_clock(0)
    timer.call_later(0, ran.append, 3)
    timer.advance_clock(0)
    assert ran == [0, 1, 2, 3]


def test_close_returns_tasks_of_an_interrupted_submit(make_timer, hand_clock):
    timer = make_timer(executor=Interrupted(), clock=hand_clock, reaper=False)
    tasks = [timer.call_later(0, print, i) for i in range(3)]
    with pytest.raises(KeyboardInterrupt):
        timer.advance_clock(0)
    assert timer.close() == tasks
    assert [task.args for task in tasks] == [(0,), (1,), (2,)]


def test_close_returns_group_tasks_that_an_executor_never_ran(make_timer, hand_clock):
    class NeverRuns:
        def submit(self, function, *args):
            return None

    timer = make_timer(executor=NeverRuns(), clock=hand_clock, reaper=False)
    group = timer.group()
    tasks = [group.call_later(0, print, i) for i in range(3)]
    timer.advance_clock(0)
    assert timer.close(run_pending=True, timeout=0) == tasks and len(group) == 0
    assert [task.args for task in tasks] == [(0,), (1,), (2,)] and all(task.cancelled for task in tasks)


def test_close_returns_batch_indices_of_an_interrupted_submit_first(make_timer, hand_clock):
    timer = make_timer(executor=Interrupted(), clock=hand_clock, reaper=False)
    batch = timer.call_many(array("q", [9000, 0, 7000, 0, 8000]), print)
    with pytest.raises(KeyboardInterrupt):
        timer.advance_clock(0)
    assert timer.close() == [batch]
    assert batch.indices() == array("q", [1, 3, 2, 4, 0]) and batch.callback is print


def test_arguments_are_released_after_the_run(make_timer, pool, eventually):
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
def test_timeout_beyond_the_limit_of_threads_means_no_timeout(make_timer, executor, timeout):
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


def test_close_returns_tasks_whose_future_fails_to_cancel(make_timer, eventually):
    class Never:
        def submit(self, *args):
            return Uncancellable()

    timer = make_timer(executor=Never())
    tasks = [timer.call_later(100 + i, print) for i in range(3)]
    assert timer.close(run_pending=True, timeout=0.05) == tasks


def test_unreadable_future_is_reported_and_its_task_runs(make_timer, eventually):
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


def test_task_whose_run_attribute_raises_is_reported(make_timer, eventually):
    class NoRun(TimerTask):
        @property
        def run(self):
            raise OSError("no run")

    reported, ran = [], []
    with ThreadPoolExecutor(1) as pool:
        timer = make_timer(executor=pool, on_error=lambda source, error: reported.append(type(error)))
        timer.add(NoRun(1))
        timer.add(TimerTask(1))  # without a callback, calls nothing
        timer.call_later(0.02, ran.append, 1)
        eventually(lambda: ran == [1])
        assert reported == [OSError]
        timer.close()


def test_close_does_not_wait_for_a_done_future_that_ran_in_another_process(make_timer, eventually):
    """The future is done after submit() returned, because the second task has been submitted since."""
    futures, ran = [], []

    class Elsewhere:
        def submit(self, function, *args):
            if futures:
                function(*args)
                return future_after("set_result", None)
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


def test_interrupted_calls_taken_by_another_thread_are_not_taken_twice(make_timer):
    """A deque that seems to hold calls which another thread has just taken."""

    class Taken(deque):
        def __bool__(self):
            return True

    with ThreadPoolExecutor(1) as pool:
        timer = make_timer(executor=pool, reaper=False)
        timer._dispatch({}, Taken(), pytest.fail, True)
