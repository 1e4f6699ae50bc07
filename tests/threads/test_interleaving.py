"""Threads in the Python half, under a scheduler that preempts them at any line (helpers/interleaving.py)."""

import asyncio
import contextlib
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from unittest import mock

import pytest

from hwheel import Timer, TimerClosed
from hwheel.cachetools import cached
from hwheel.threading.engine import TimerEngine, _EngineTimer
from hwheel_core import ThreadPool
from interleaving import Selector, SteppedTimer, explore
from sampling import scaled, seed_for

pytestmark = pytest.mark.skipif(sys.gettrace() is not None, reason="another tracer is active")
SCHEDULES = scaled(40)
SCENARIOS = []


def scenario(function):
    SCENARIOS.append(function)
    return function


def run_threads(*functions):
    """Run each function in a thread of its own, and return their results."""
    results = [None] * len(functions)

    def call(i):
        results[i] = functions[i]()

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class Account:
    """A timer and its tasks, each of which runs once, or is cancelled, reported, or returned."""

    def __init__(self, executor, **settings):
        self.tasks, self.ends = [], []
        self.timer = SteppedTimer(executor=executor, on_error=lambda task, error: self.ends.append(task), **settings)

    def add(self, delay):
        cell = []  # of the task, which does not exist yet
        try:
            cell.append(self.timer.call_later(delay, lambda: self.ends.append(cell)))
        except TimerClosed:
            return
        self.tasks.append(cell)

    def cancel(self, i):
        if self.tasks[i][0].cancel():
            self.ends.append(self.tasks[i])

    def check(self, returned):
        """Check the account, once the executor has nothing left to run."""
        ends = [end if isinstance(end, list) else [end] for end in self.ends + returned]
        names = {id(cell[0]): i for i, cell in enumerate(self.tasks)}
        assert sorted(names[id(end[0])] for end in ends) == [*range(len(self.tasks))]
        assert len(self.timer) == 0


class Refusing:
    """An executor that raises for every second task."""

    def __init__(self):
        self.pool = ThreadPoolExecutor(1)
        self.submitted = 0

    def submit(self, function, *args):
        self.submitted += 1
        if self.submitted % 2:
            raise RuntimeError("full")
        return self.pool.submit(function, *args)

    def shutdown(self):
        self.pool.shutdown()


@scenario
def close_beside_dispatch():
    account = Account("inline")
    account.add(0)
    _, returned = run_threads(partial(account.add, 0), account.timer.close)
    account.check(returned)


@scenario
def close_beside_hand_over():
    with ThreadPoolExecutor(2) as pool:
        account = Account(pool)
        account.add(0)
        _, _, returned = run_threads(partial(account.add, 0), partial(account.add, 0.001), account.timer.close)
    account.check(returned)


@scenario
def two_threads_close():
    with ThreadPoolExecutor(1) as pool:
        account = Account(pool)
        account.add(0)
        account.add(9)
        first, second = run_threads(account.timer.close, partial(account.timer.close, run_pending=True))
    account.check(first + second)


@scenario
def an_executor_that_raises():
    executor = Refusing()
    account = Account(executor)
    run_threads(partial(account.add, 0), partial(account.add, 0.001), partial(account.add, 0))
    account.check(account.timer.drain())
    executor.shutdown()


@scenario
def an_executor_that_shuts_down():
    pool = ThreadPoolExecutor(1)
    account = Account(pool)
    account.add(0)
    run_threads(partial(account.add, 0), partial(pool.shutdown, cancel_futures=True))
    account.check(account.timer.close())


@scenario
def cancel_beside_hand_over():
    with ThreadPoolExecutor(1) as pool:
        account = Account(pool)
        account.add(0)
        account.add(0)
        run_threads(partial(account.cancel, 0), partial(account.cancel, 1))
        returned = account.timer.drain()
    account.check(returned)


@scenario
def close_beside_drain():
    with ThreadPoolExecutor(1) as pool:
        account = Account(pool)
        account.add(0)
        account.add(0.002)
        drained, closed, _ = run_threads(account.timer.drain, account.timer.close, partial(account.add, 0))
    account.check(drained + closed)


@scenario
def callers_without_a_reaper():
    with ThreadPoolExecutor(1) as pool:
        account = Account(pool, reaper=False)
        account.add(0)
        account.add(0.001)

        def advance():
            with contextlib.suppress(TimerClosed):
                account.timer.advance_clock(10)

        _, _, returned = run_threads(advance, advance, account.timer.drain)
    account.check(returned)


@scenario
def callback_closes():
    with ThreadPoolExecutor(1) as pool:
        account = Account(pool)
        returned = []
        account.add(0)
        closing = account.timer.call_later(0, lambda: returned.extend(account.timer.close()))
        run_threads(partial(account.add, 0))
        returned += account.timer.close()
        if closing in returned:
            returned.remove(closing)
    account.check(returned)


@scenario
def await_and_cancel():
    timer = SteppedTimer(executor="inline")
    task = timer.call_later(0.001, lambda: "done")

    async def wait():
        try:
            return await task
        except (asyncio.CancelledError, RuntimeError) as error:
            return type(error)

    def run_loop():
        loop = asyncio.SelectorEventLoop(Selector())
        try:
            return loop.run_until_complete(wait())
        finally:
            loop.close()

    result, is_cancelled = run_threads(run_loop, task.cancel)
    timer.close()
    # The await may come too late for the result, which raises RuntimeError.
    assert is_cancelled == (result is asyncio.CancelledError), result
    assert task.expired == (result in ("done", RuntimeError)), result


@scenario
def single_flight():
    calls = []

    @cached({}, single_flight=True)
    def slow(key):
        calls.append(key)
        if len(calls) == 1:
            raise ValueError
        return key

    def call():
        try:
            return slow(1)
        except ValueError:
            return ValueError

    results = run_threads(call, call, call)
    assert results.count(1) + results.count(ValueError) == 3
    assert ValueError in results
    assert len(calls) == 1 + (1 in results)


@scenario
def single_flight_runs_once():
    calls = []

    @cached({}, single_flight=True)
    def slow(key):
        calls.append(key)
        time.sleep(1)
        return key

    assert run_threads(*[partial(slow, 1)] * 3) == [1, 1, 1]
    assert len(calls) == 1


@scenario
def single_flight_without_a_kept_result():
    class Nothing(dict):
        def __setitem__(self, key, value):
            pass

    running = []

    @cached(Nothing(), single_flight=True)
    def slow(key):
        running.append(key)
        count = len(running)
        time.sleep(1)
        running.pop()
        return count

    def call():
        return slow(1), slow(1)

    assert run_threads(call, call, call) == [(1, 1)] * 3


single_flight_without_a_kept_result.factor = 5  # three preemptions at rare places


@scenario
def flights_that_need_each_other():
    here = threading.local()

    def nested(function):
        if vars(here).setdefault("depth", 0):
            return 0
        here.depth = 1
        time.sleep(1)
        return function(1) + 1

    one = cached({}, single_flight=True)(lambda key: nested(other))
    other = cached({}, single_flight=True)(lambda key: nested(one))
    assert {*run_threads(partial(one, 1), partial(other, 1))} <= {0, 1, 2}


@scenario
def jobs_of_a_pool():
    ran = []
    checks = []

    def call_later(seconds, callback):
        checks.append(threading.Timer(seconds, callback))
        checks[-1].start()

    pool = ThreadPool(daemon=True, call_later=call_later, on_forked=int, initial=1)
    run_threads(partial(pool.submit, partial(ran.append, 1)), partial(pool.submit, partial(ran.append, 2)))
    pool.submit(partial(ran.append, 3))
    while len(pool):
        pool.leave()
        threading.Event().wait(1)
    assert sorted(ran) == [1, 2, 3]
    assert not pool.idle_count and not pool.queue_length


@scenario
def idle_threads_of_a_pool():
    ran = []
    pool = ThreadPool(daemon=True, call_later=lambda seconds, callback: None, on_forked=int, minimum=1)
    pool.fill()
    submit = lambda i: lambda: pool.submit(partial(ran.append, i))  # noqa: E731
    run_threads(submit(1), submit(2))
    threading.Event().wait(9.999)  # until about the end of an idle thread
    pool.submit(partial(ran.append, 3))
    while len(ran) < 3 or len(pool) > 1:
        threading.Event().wait(1)
    pool.leave()
    assert sorted(ran) == [1, 2, 3]


class SteppedEngineTimer(_EngineTimer, SteppedTimer):
    """The SystemTimer behind all Timers."""


@scenario
def timers_of_threads():
    ran = []
    with mock.patch("hwheel.threading.engine._EngineTimer", SteppedEngineTimer):
        engine = TimerEngine()
    with mock.patch("hwheel.threading.timer._engine", engine):
        timer = Timer(0, ran.append, [1])
        timer.start()

        def cancel():
            timer.cancel()
            timer.join()

        run_threads(timer.join, cancel, timer.finished.wait)
        assert not timer.is_alive()
        engine.timer._at_exit()  # which refuses the checks of the pools without a report
        for pool in engine._pools.values():
            pool.leave()
        for check in engine.timer.pending():  # an exit leaves them, but this process goes on
            check.cancel()
    assert len(ran) <= 1


@pytest.mark.parametrize("function", SCENARIOS, ids=lambda function: function.__name__)
def test_every_schedule_ends_well(function):
    first = seed_for(1)
    different = explore(function, range(first, first + SCHEDULES * getattr(function, "factor", 1)))
    assert different > SCHEDULES / 2


def test_a_lost_wake_up_is_found_and_repeats():
    def scenario():
        flags = []

        def wait():
            lock = threading.Lock()
            lock.acquire()
            if not flags:
                locks.append(lock)
                lock.acquire()

        def wake():
            for lock in locks:
                lock.release()
            flags.append(True)

        locks = []
        run_threads(wait, wake)

    messages = []
    for _ in range(2):
        with pytest.raises(AssertionError, match="deadlock") as caught:
            explore(scenario, range(1, 101))
        messages.append(caught.value.__notes__)
    assert messages[0] == messages[1]
