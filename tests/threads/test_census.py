"""census() groups pending tasks by callback, also in hwheel.live and `hwheel top`."""

import functools
import json
import threading

import pytest

import hwheel
import hwheel.live
from hwheel import ManualTimer, SystemTimer, TimerTask
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
        ("CallableObject", None): 2,
        ("OwnRun", None): 1,
    }
    assert found["Session.ping", web][:3] == (HERE, "Session.ping", line_of(Session.ping))
    assert found["OwnRun", None][:3] == (HERE, "OwnRun", line_of(OwnRun.run))
    assert found["print", None][:3] == ("builtins", "print", None)
    assert [group.pending for group in timer.census()] == [5, 5, 4, 2, 1, 1, 1, 1]
    assert sum(group.share for group in timer.census()) == pytest.approx(1)


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


def test_a_census_is_reused_until_it_has_cost_at_most_a_hundredth(timer, monkeypatch):
    """Each census here takes 0.3 s of processor time."""
    clock, cpu = [1000.0], iter(range(100))
    monkeypatch.setattr("hwheel.live.snapshot.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("hwheel.live.snapshot.time.thread_time", lambda: 0.3 * next(cpu))
    censuses, ages = Censuses(), []
    timer.call_later(60, print)
    for _ in range(32):
        ages.append(censuses.of(timer)[0])
        clock[0] += 1
    assert ages == [*map(float, range(30)), 0.0, 1.0]


def test_timers_that_are_freed_are_forgotten():
    censuses, timer = Censuses(), ManualTimer()
    censuses.of(timer)
    assert len(censuses._taken) == 1
    del timer
    eventually(lambda: not censuses._taken)
