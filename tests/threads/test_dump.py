"""dump() while threads add and callbacks run: each task runs or is in the dump, never both."""

import threading
import time
from collections import Counter
from functools import partial

import pytest

from hwheel import DumpError, ManualTimer, TimerClosed
from threads import run_concurrently

RAN = []
HOLD = threading.Event()
BEGUN = threading.Event()


def note(number):
    RAN.append(number)


def wait_here(number):
    BEGUN.set()
    HOLD.wait(30)
    RAN.append(number)


@pytest.fixture(autouse=True)
def reset():
    RAN.clear()
    HOLD.clear()
    BEGUN.clear()


def numbers_in(data):
    timer = ManualTimer()
    loaded = timer.load(data)
    numbers = [task.args[0] for task in loaded.tasks]
    timer.close()
    return numbers


def test_each_task_runs_or_is_in_the_dump(make_timer, executor, many_switches):
    for _ in range(20):
        RAN.clear()
        timer = make_timer(executor=executor)
        added, dumps = [], []

        def add(me, timer=timer, added=added):
            for number in range(me * 1000, me * 1000 + 300):
                try:
                    timer.call_later((number % 7) / 1000 if number % 3 else 3600, note, number)
                except TimerClosed:
                    return
                added.append(number)

        def dump(timer=timer, dumps=dumps):
            while not dumps:
                try:
                    dumps.append(timer.dump())
                except DumpError as error:
                    assert "faster" in str(error)

        run_concurrently(*[partial(add, me) for me in range(3)], dump)
        left = numbers_in(dumps[0])
        give_up = time.monotonic() + 30
        while len(RAN) + len(left) < len(added) and time.monotonic() < give_up:
            time.sleep(0.001)  # the pool still runs submitted calls
        assert Counter([*RAN, *left]) == Counter(added)
        stats = timer.stats()
        assert stats.added == stats.expired + len(left) and stats.pending == 0


@pytest.mark.parametrize("in_group", [False, True])
@pytest.mark.parametrize("timeout", [None, 0])
def test_running_periodic_task_is_dumped(make_timer, executor, timeout, in_group):
    timer = make_timer(executor=executor)
    group = timer.group()
    task = (group if in_group else timer).call_every(0.001, wait_here, 5)
    timer.call_later(3600, note, 6)
    BEGUN.wait(30)
    later = threading.Timer(0.05, HOLD.set)
    if timeout is None:
        later.start()
    data = timer.dump(timeout=timeout)
    HOLD.set()
    if timeout is None:
        later.join()  # dump() does not wait for a pool, and a late set() would release the next test
    assert sorted(numbers_in(data)) == [5, 6] and task.cancelled and len(group) == 0
    give_up = time.monotonic() + 30
    while not RAN and time.monotonic() < give_up:
        time.sleep(0.001)
    time.sleep(0.01)
    assert RAN == [5]


def test_periodic_task_cancelled_while_it_runs_is_not_dumped(make_timer):
    timer = make_timer(executor="inline")
    task = timer.call_every(0.001, wait_here, 5)
    BEGUN.wait(30)
    assert task.cancel()
    threading.Timer(0.05, HOLD.set).start()
    assert numbers_in(timer.dump()) == []


def test_concurrent_dumps_contain_each_task_once(make_timer):
    for _ in range(30):
        timer, dumps = make_timer(), []
        for number in range(20):
            timer.call_later(3600, note, number)

        def dump(timer=timer, dumps=dumps):
            try:
                dumps.append(timer.dump())
            except TimerClosed:
                pass

        run_concurrently(*[dump] * 2)
        numbers = [number for data in dumps for number in numbers_in(data)]
        assert sorted(numbers) == [*range(20)]
