"""census() groups pending tasks by callback, also in hwheel.live and `hwheel top`."""

import asyncio
import functools
import gc
import itertools
import json
import operator
import random
import threading
from array import array
from collections import deque
from unittest.mock import Mock

import pytest

import hwheel
import hwheel.asyncio
import hwheel.live
from hwheel import ManualTimer, SystemTimer, TimerTask
from hwheel.cachetools import cached, cachedmethod
from hwheel.live.snapshot import Censuses
from hwheel.threading.timer import Timer
from servers import http_request
from waiting import eventually

HERE = __name__


@pytest.fixture
def timer(request):
    """A ManualTimer. pytest would keep a reference to it until after the check for leaked objects."""
    yield ManualTimer()
    request.node.funcargs.pop("timer", None)


class Session:
    def ping(self, *args):
        """Do nothing."""

    @classmethod
    def sweep(cls):
        """Do nothing."""


class WebSession(Session):
    pass


class OwnRun(TimerTask):
    def run(self):
        """Do nothing."""


class CallableObject:
    def __call__(self):
        """Do nothing."""


def closure(number):
    def inner():
        return number

    return inner


def line_of(function):
    return function.__code__.co_firstlineno


def groups_of(timer):
    return {(one.qualname, one.owner): one for one in timer.census()}


def test_tasks_are_grouped_by_function_and_type_of_owner(timer):
    web, plain = f"{HERE}.WebSession", f"{HERE}.Session"
    for _ in range(5):
        timer.call_later(60, WebSession().ping, 1)
    for _ in range(3):
        timer.call_later(60, functools.partial(functools.partial(Session().ping, 1), 2))
    timer.call_later(60, WebSession.sweep)
    for number in range(4):
        timer.call_later(60, closure(number))
    timer.call_later(60, print, "one")
    timer.call_later(60, [].append, 1)
    timer.call_later(60, deque().append, 1)
    timer.call_later(60, deque().append, 2)
    timer.call_later(60, {}.__setitem__, 1, 2)
    timer.call_later(60, {}.__setitem__, 3, 4)
    timer.call_later(60, CallableObject())
    timer.call_later(60, CallableObject())
    timer.call_later(60, CallableObject)
    timer.call_every(60, Session().ping)
    timer.group().call_later(60, Session().ping)
    timer.add(OwnRun(60_000))
    found = groups_of(timer)
    assert {key: group.pending for key, group in found.items()} == {
        ("Session.ping", web): 5,
        ("Session.ping", plain): 5,
        ("Session.sweep", web): 1,
        ("closure.<locals>.inner", None): 4,
        ("print", None): 1,
        ("list.append", "builtins.list"): 1,
        ("deque.append", "collections.deque"): 2,
        ("dict.__setitem__", "builtins.dict"): 2,
        ("CallableObject.__call__", f"{HERE}.CallableObject"): 2,
        ("CallableObject", None): 1,
        ("OwnRun", None): 1,
    }
    assert found["Session.ping", web][:3] == (HERE, "Session.ping", line_of(Session.ping))
    assert found["OwnRun", None][:3] == (HERE, "OwnRun", line_of(OwnRun.run))
    assert found["print", None][:3] == ("builtins", "print", None)
    assert [group.pending for group in timer.census()] == [5, 5, 4, 2, 2, 2, 1, 1, 1, 1, 1]
    assert sum(group.share for group in timer.census()) == pytest.approx(1)


def test_decorated_functions_are_distinguished(timer):
    def checked(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)

        return wrapper

    class Cleaner:
        @functools.lru_cache  # noqa: B019
        def sweep(self):
            """Do nothing."""

        @cachedmethod(lambda self: {})
        def wash(self):
            """Do nothing."""

    def one():
        """Do nothing."""

    def other():
        """Do nothing."""

    decorators = functools.lru_cache, cached({}), checked, lambda function: functools.lru_cache(cached({})(function))
    for decorate in decorators:
        timer.call_later(60, decorate(one))
        timer.call_later(60, functools.partial(decorate(other)))
    cleaner = Cleaner()
    timer.call_later(60, cleaner.sweep)
    timer.call_later(60, cleaner.wash)
    found = {group.qualname.rpartition(".")[2]: group for group in timer.census()}
    assert {name: group.pending for name, group in found.items()} == {"one": 4, "other": 4, "sweep": 1, "wash": 1}
    assert [found[name].line for name in ("one", "other")] == [line_of(one), line_of(other)]
    assert found["sweep"].owner.endswith("Cleaner")


def test_callables_of_compilers_and_strange_callables(timer):
    class Strange:
        def __getattr__(self, name):
            raise KeyError(name)

        def __call__(self):
            """Do nothing."""

    def around():
        """Do nothing."""

    around.__wrapped__ = around
    for callback in (Strange(), around, operator.itemgetter(1), operator.itemgetter(2), Mock()):
        timer.call_later(60, callback)
    names = sorted(group.qualname.rpartition(">.")[2] for group in timer.census())
    assert names == ["CallableMixin.__call__", "Strange.__call__", "around", "itemgetter"]


def test_times_of_a_group(timer):
    first = timer.call_later(100, print)
    timer.advance(10)
    timer.call_later(30, print)
    timer.call_later(10, print, slack=5)
    timer.advance(2)
    [group] = timer.census()
    assert (group.oldest, group.farthest) == (12.0, 88.0) and 8 <= group.nearest <= 13
    first.reschedule(50)
    [group] = timer.census()
    assert (group.oldest, group.farthest) == (2.0, 50.0)


def test_no_pending_tasks_and_tasks_that_have_ended(timer):
    assert timer.census() == []
    timer.call_later(1, print).cancel()
    timer.call_later(1, int)
    timer.advance(1)
    assert timer.census() == []
    timer.close()
    assert timer.census() == []


def test_timers_of_batches_are_counted(timer):
    timer.advance(100)
    batch = timer.call_many(array("q", range(1000, 2000)), Session().ping)
    timer.call_many(array("q", [5000]), Session().ping)
    timer.call_later(50, print)
    batch.cancel(array("q", [7]))
    timer.advance(1.5)  # 501 have run, of which one was cancelled
    found = groups_of(timer)
    [ping] = [group for (name, _), group in found.items() if name == "Session.ping"]
    assert (ping.pending, ping.owner) == (500, f"{HERE}.Session")
    assert (ping.oldest, ping.farthest) == (1.5, 3.5) and 0 < ping.nearest < 0.01
    batch.extend(array("q", [9000] * 10))
    assert sum(group.pending for group in timer.census()) == 511


def test_expired_timers_of_batches_that_wait_are_counted():
    held, begun = threading.Event(), threading.Event()
    with SystemTimer() as timer:
        timer.call_later(0, lambda: (begun.set(), held.wait(60)))
        begun.wait(60)
        timer.call_many(array("q", [0] * 700), print)
        eventually(lambda: timer._occupancy(4)[1] == 700)
        assert groups_of(timer)["print", None].pending == 700
        held.set()


async def session_with_a_limit(make, gate):
    async with make(60):
        await gate.wait()


def test_timers_of_loops_are_counted_and_timeouts_by_the_coroutine_of_their_task():
    async def main():
        loop, gate = asyncio.get_running_loop(), asyncio.Event()
        for number in range(5):
            loop.call_later(60 + number, Session().ping)
        tasks = [asyncio.create_task(session_with_a_limit(hwheel.asyncio.timeout, gate)) for _ in range(4)]
        tasks += [asyncio.create_task(session_with_a_limit(asyncio.timeout, gate)) for _ in range(3)]
        await asyncio.sleep(0)
        with hwheel.asyncio.Timeouts(loop) as timeouts:
            timeouts.call_later(30, print)
            [one] = timeouts.census()
            assert (one.qualname, one.pending) == ("print", 1)
        found = {(group.qualname, group.owner): group for group in await asyncio.to_thread(loop._wheel_timers.census)}
        gate.set()
        await asyncio.gather(*tasks)
        return found

    found = hwheel.asyncio.run(main())
    assert {key: group.pending for key, group in found.items()} == {
        ("Session.ping", f"{HERE}.Session"): 5,
        ("session_with_a_limit", "hwheel.asyncio.Timeout"): 4,
        ("session_with_a_limit", "asyncio.timeouts.Timeout"): 3,
    }
    ping = found["Session.ping", f"{HERE}.Session"]
    assert 59 < ping.nearest < 60 and 63 < ping.farthest < 64 and 0 <= ping.oldest < 60
    limited = found["session_with_a_limit", "hwheel.asyncio.Timeout"]
    assert limited[:3] == (HERE, "session_with_a_limit", line_of(session_with_a_limit))


@pytest.mark.parametrize("seed", range(4))
def test_census_of_a_loop_that_runs_in_another_thread(many_switches, seed):
    dice, done, censuses = random.Random(seed), threading.Event(), []
    loop = hwheel.asyncio.new_event_loop()

    def work():
        handles = [loop.call_later(dice.random() / 10, int) for _ in range(50)]
        for handle in handles[::2]:
            handle.cancel() if dice.random() < 0.7 else handle.reschedule(dice.random() / 50)
        loop.stop() if done.is_set() else loop.call_later(0.001, work)

    stay = [loop.call_later(3600 + number % 50, len, "a") for number in range(5_000)]
    loop.call_soon(work)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        for _ in range(10):
            censuses.append({group.qualname: group.pending for group in loop._wheel_timers.census()})
            gc.collect()
    finally:
        done.set()
        thread.join()
        loop.close()
    assert len(censuses) == 10 and all(census["len"] == len(stay) for census in censuses)
    assert loop._wheel_timers.census() == []


@pytest.mark.usefixtures("the_engine_runs")
def test_timers_of_threading_show_their_functions():
    timers = [Timer(3600, Session().ping) for _ in range(3)]
    for timer in timers:
        timer.start()
    try:
        [found] = [one for one in hwheel.threading.timer._engine.timer.census() if one.qualname == "Session.ping"]
        assert (found.pending, found.owner) == (3, f"{HERE}.Session")
    finally:
        for timer in timers:
            timer.cancel()


def test_census_while_timers_are_added_and_cancelled(many_switches):
    with SystemTimer() as timer:
        stay = [timer.call_later(3600 + number % 50, len, "a") for number in range(20_000)]
        done = threading.Event()

        def work():
            while not done.is_set():
                timer.call_later(0.002, int)
                timer.call_later(60, str).cancel()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for _ in range(10):
                assert groups_of(timer)["len", None].pending == len(stay)
        finally:
            done.set()
            thread.join()


def test_pages_of_the_live_server():
    timer = ManualTimer("requests")
    for _ in range(3):
        timer.call_later(30, Session().ping)
    with hwheel.live.serve(0, timer) as server:
        [one] = json.loads(http_request(server.address, "/timers").body)["timers"]
        [snapshot] = json.loads(http_request(server.address, "/live.json").body)["timers"]
    assert (one["name"], one["pending"]) == ("requests", 3) and one["census_age_s"] >= 0
    [group] = one["callbacks"]
    assert group["owner"] == f"{HERE}.Session" and (group["pending"], group["share"]) == (3, 1.0)
    assert [other["pending"] for other in snapshot["callbacks"]] == [3]


def test_pages_of_the_live_server_show_the_timers_of_loops():
    async def main(server):
        asyncio.get_running_loop().call_later(60, Session().ping)
        with hwheel.asyncio.Timeouts() as timeouts:
            timeouts.call_later(60, Session().ping)
            pages = [await asyncio.to_thread(http_request, server.address, page) for page in ("/timers", "/live.json")]
            name = type(asyncio.get_running_loop()).__name__
            return name, [json.loads(page.body)["loops"] for page in pages]

    with hwheel.live.serve(0) as server, hwheel.live.serve(0, ManualTimer()) as other:
        name, pages = hwheel.asyncio.run(main(server))
        assert json.loads(http_request(other.address, "/live.json").body)["loops"] == []
        assert json.loads(http_request(server.address, "/live.json").body)["loops"] == []  # the loop is closed
    for loops in pages:
        assert [loop["name"] for loop in loops] == [name, f"{name} #2"] and "EventLoop" in name
        groups = [group for loop in loops for group in loop["callbacks"] if group["owner"] == f"{HERE}.Session"]
        assert [group["pending"] for group in groups] == [1, 1]


def test_censuses_together_need_half_a_percent_of_a_processor(monkeypatch):
    """Each census here takes 0.125 s of processor time, so both are repeated after 50 s."""
    clock, cpu = [1000.0], itertools.count()
    monkeypatch.setattr("hwheel.live.snapshot.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("hwheel.live.snapshot.time.thread_time", lambda: 0.125 * next(cpu))
    censuses, ages = Censuses(), []
    timers = [ManualTimer(), ManualTimer()]
    for _ in range(52):
        ages.append([censuses.of(timer)[0] for timer in timers])
        clock[0] += 1
    assert ages == [[age, age] for age in [*map(float, range(50)), 0.0, 1.0]]


def test_timers_that_are_freed_are_forgotten():
    censuses, timer = Censuses(), ManualTimer()
    censuses.of(timer)
    assert len(censuses._taken) == 1
    del timer
    eventually(lambda: not censuses._taken)
