"""close() returns pending tasks by deadline, or runs them, and ends the threads."""

import threading
from array import array
from concurrent.futures import Future

import pytest

from hwheel import TimerClosed
from threads import run_concurrently

PATIENCE_S = 60


class LosesTasks:
    def submit(self, function, *args):
        """Run nothing."""


class ReturnsFuture:
    def __init__(self, future):
        self.future = future

    def submit(self, function, *args):
        return self.future


def threads_of(timer):
    return [thread for thread in threading.enumerate() if thread.name.endswith(f"-{timer.name}")]


def test_close_is_idempotent_and_ends_the_threads(make_timer, executor):
    timer = make_timer("short", executor=executor)
    task = timer.call_later(3600, print)
    assert threads_of(timer)
    assert timer.close() == [task]
    assert threads_of(timer) == []
    assert timer.close() == []
    assert timer.close(run_pending=True) == []
    assert timer.closed


def test_unused_timer_closes(make_timer, executor):
    assert make_timer(executor=executor).close() == []
    assert make_timer(executor=executor).close(run_pending=True, timeout=1) == []


def test_close_returns_tasks_by_deadline_and_each_can_be_run_once(make_timer, executor):
    timer = make_timer(executor=executor, wheel_size=4)
    ran = []
    delays_s = [500.0, 7000.0, 60.0, 100_000.0, 60.0, 61.0, 3e9, 100.0]
    tasks = [timer.call_later(delay_s, ran.append, i) for i, delay_s in enumerate(delays_s)]
    returned = timer.close()
    assert [tasks.index(task) for task in returned] == [2, 4, 5, 7, 0, 1, 3, 6]
    for task in returned:
        assert task.cancelled and not task.pending and not task.expired
        assert task.cancel() is False and task.reschedule(0.005) is False
        assert task.callback == ran.append
        assert task.args == (tasks.index(task),) and task.kwargs == {}
        task.run()
        assert task.callback is None and task.args is None and task.kwargs is None
        with pytest.raises(RuntimeError):
            task.run()
    assert ran == [2, 4, 5, 7, 0, 1, 3, 6]


def test_run_pending_runs_everything_by_deadline_and_returns_nothing(make_timer, ordered_executor):
    timer = make_timer(executor=ordered_executor, wheel_size=3)
    ran = []
    delays_s = [(i * 7919) % 1000 + 60 for i in range(1000)]
    tasks = [timer.call_later(delay_s, ran.append, i) for i, delay_s in enumerate(delays_s)]
    deadlines_ms = [task.deadline_ms for task in tasks]  # delays would not do: adds take time on a busy machine
    timer.call_many(array("q", [30_000, 20_000, 10_000]), ran.append)
    assert timer.close(run_pending=True) == []
    assert list(ran.pop(0)) == [2, 1, 0]
    assert [deadlines_ms[i] for i in ran] == sorted(deadlines_ms)
    assert sorted(ran) == list(range(1000))
    stats = timer.stats()
    assert (stats.added, stats.expired, stats.cancelled, stats.pending) == (1003, 1003, 0, 0)


def test_run_pending_waits_for_a_pool(make_timer, pool):
    timer = make_timer(executor=pool)
    ran = []
    for i in range(200):
        timer.call_later(3600, ran.append, i)
    assert timer.close(run_pending=True) == []
    assert sorted(ran) == list(range(200))
    assert pool.submit(int).result() == 0, "close() must not shut down an executor of the caller"


def test_run_pending_without_a_reaper(make_timer, ordered_executor):
    timer = make_timer(executor=ordered_executor, reaper=False)
    ran = []
    for i in range(20):
        timer.call_later(3600 - i, ran.append, i)
    assert timer.close(run_pending=True) == []
    assert ran == list(range(19, -1, -1))


def test_callback_that_raises_or_adds_during_close_is_reported(make_timer, ordered_executor, eventually):
    reported, ran = [], []
    timer = make_timer(executor=ordered_executor, on_error=lambda task, error: reported.append(type(error)))
    timer.call_later(60, lambda: 1 / 0)
    timer.call_later(61, lambda: timer.call_later(1, print))
    timer.call_every(62, ran.append, "periodic")
    timer.call_later(63, ran.append, "last")
    assert timer.close(run_pending=True) == []
    assert ran == ["periodic", "last"]
    eventually(lambda: len(reported) == 2)
    assert reported == [ZeroDivisionError, TimerClosed]


@pytest.mark.parametrize("run_pending", [False, True])
def test_close_with_a_timeout_does_not_wait_for_a_blocked_callback(make_timer, ordered_executor, run_pending):
    timer = make_timer(executor=ordered_executor)
    entered, release = threading.Event(), threading.Event()
    ran = []
    blocked = timer.call_later(0, lambda: (entered.set(), release.wait(PATIENCE_S), ran.append("blocked")))
    try:
        assert entered.wait(PATIENCE_S)
        tasks = [timer.call_later(3600 + i, ran.append, i) for i in range(3)]
        batch = timer.call_many(array("q", [5_000_000, 4_000_000]), ran.append)
        periodic = timer.call_every(6_000, ran.append, "periodic")
        returned = timer.close(run_pending=run_pending, timeout=0.05)
        assert returned == [*tasks, batch, periodic]
        assert [task.args for task in tasks] == [(0,), (1,), (2,)]
        assert all(task.cancelled for task in [*tasks, periodic])
        assert list(batch.indices()) == [1, 0] and batch.callback == ran.append
        assert ran == []
        stats = timer.stats()
        assert (stats.added, stats.expired, stats.cancelled, stats.pending) == (7, 1, 0, 0)
    finally:
        release.set()
    if hasattr(ordered_executor, "shutdown"):
        ordered_executor.shutdown(wait=True)
    for thread in threads_of(timer):
        thread.join(PATIENCE_S)
    assert ran == ["blocked"] and blocked.expired
    tasks[0].run()
    periodic.run()
    assert ran == ["blocked", 0, "periodic"]


@pytest.mark.parametrize("add", ["call_later", "call_every"])
def test_close_without_a_timeout_waits_for_the_running_callback(make_timer, executor, add):
    timer = make_timer(executor=executor)
    entered, release = threading.Event(), threading.Event()
    getattr(timer, add)(0.001, lambda: (entered.set(), release.wait(PATIENCE_S)))
    assert entered.wait(PATIENCE_S)
    closing = threading.Thread(target=timer.close)
    closing.start()
    try:
        closing.join(0.3)
        assert closing.is_alive()
    finally:
        release.set()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()


def test_close_does_not_wait_for_a_task_that_an_executor_has_not_begun(make_timer, eventually):
    timer, lost = make_timer(executor=LosesTasks()), []
    task = timer.call_later(0.001, lost.append, 1)
    eventually(lambda: task.expired)
    assert timer.close() == [] and lost == []


def test_close_in_a_callback_of_a_pool_does_not_wait_for_itself(make_timer, pool, eventually):
    timer, closed = make_timer(executor=pool), []
    later = timer.call_later(3600, print)
    timer.call_later(0.001, lambda: closed.append(timer.close()))
    eventually(lambda: closed == [[later]])


def test_close_waits_for_a_call_in_another_process(make_timer, eventually):
    """The future of a process pool is the only one who knows that the call runs."""
    future = Future()
    timer = make_timer(executor=ReturnsFuture(future))
    task = timer.call_later(0.001, print)
    eventually(lambda: task.expired and future._done_callbacks)
    future.set_running_or_notify_cancel()
    closing = threading.Thread(target=timer.close)
    closing.start()
    closing.join(0.3)
    assert closing.is_alive()
    future.set_result(None)
    closing.join(PATIENCE_S)
    assert not closing.is_alive()


def test_concurrent_closes_return_each_task_once(make_timer, executor, many_switches):
    for _ in range(20):
        timer = make_timer(executor=executor)
        tasks = [timer.call_later(3600 + i, print) for i in range(50)]
        answers = []
        run_concurrently(*[lambda: answers.append(timer.close())] * 4)
        assert len(answers) == 4
        assert sum(answers, []) == tasks


def test_callback_and_another_thread_close_concurrently(make_timer, executor):
    timer = make_timer(executor=executor)
    entered, go_on, done = threading.Event(), threading.Event(), threading.Event()
    answers = []

    def close_it():
        entered.set()
        go_on.wait(PATIENCE_S)
        answers.append(timer.close())
        done.set()

    timer.call_later(0, close_it)
    task = timer.call_later(3600, print)
    assert entered.wait(PATIENCE_S)
    other = threading.Thread(target=lambda: answers.append(timer.close()))
    other.start()
    go_on.set()
    assert done.wait(PATIENCE_S)
    other.join(PATIENCE_S)
    assert sorted(answers, key=len) == [[], [task]]


def test_adds_during_close_are_refused_or_returned(make_timer, executor, many_switches):
    for _ in range(20):
        timer = make_timer(executor=executor)
        tasks, batches = [], []

        def add_until_closed(timer=timer, tasks=tasks, batches=batches):
            try:
                while True:
                    tasks.append(timer.call_later(3600, print))
                    batches.append(timer.call_many(array("q", [3_600_000] * 5000), print))
            except TimerClosed:
                pass

        def close(timer=timer, batches=batches):
            while len(batches) < 5:
                pass
            returned.extend(timer.close())

        returned = []
        run_concurrently(*[add_until_closed] * 3, close)
        assert {id(one) for one in returned} == {id(one) for one in [*tasks, *batches]}
        assert len(returned) == len(tasks) + len(batches)
        assert all(one.pending == 5000 for one in batches)
