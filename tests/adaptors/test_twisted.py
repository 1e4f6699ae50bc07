"""Twisted on the wheel: Twisted's own tests of timers, and tests of the reactor and its calls."""

import gc
import json
import sys
import weakref
from pathlib import Path

import pytest

pytest.importorskip("twisted", reason="Twisted is not installed")
pytest.importorskip("twisted.internet.asyncioreactor", reason="Twisted has no reactor on asyncio here")

from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from hwheel.asyncio import EventLoop
from hwheel.twisted import LONGEST_S, WheelReactor
from programs import output_of

TRIAL = Path(__file__).parent / "run_trial.py"
# {module: the minimum number of its tests that must run}
SUITES = {
    "twisted.internet.test.test_time": 2,
    "twisted.test.test_internet": 55,
    "twisted.internet.test.test_core": 10,
    "twisted.internet.test.test_threads": 8,
    "twisted.test.test_task": 50,
    "twisted.test.test_policies": 30,
}


@pytest.mark.skipif(sys.platform == "win32", reason="Twisted's asyncio reactor differs on Windows")
def test_twisteds_own_tests_of_timers_pass(tmp_path):
    pytest.importorskip("hamcrest", reason="Twisted's tests need PyHamcrest")
    out = output_of("-W", "ignore", TRIAL, tmp_path / "trial", *SUITES, cwd=tmp_path, patience_s=250)
    found = json.loads(out.splitlines()[-1])
    assert found["failed"] == []
    assert found["ran"] - found["skipped"] >= sum(SUITES.values())
    assert found["calls"] > 200


class ManualLoop(EventLoop):
    """An event loop with a manual clock."""

    now = 1000.0

    def time(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds
        for _ in range(3):
            self.call_soon(self.stop)
            self.run_forever()


@pytest.fixture
def loop():
    made = ManualLoop()
    yield made
    made.close()


@pytest.fixture
def reactor(loop, monkeypatch):
    made = WheelReactor(loop)
    monkeypatch.setattr(made, "seconds", loop.time)
    yield made
    for reader in [*made._internalReaders]:
        made.removeReader(reader)
        reader.connectionLost(None)


def test_the_reactor_and_its_calls_provide_the_interfaces(reactor):
    call = reactor.callLater(1, int)
    assert IReactorTime.providedBy(reactor) and IDelayedCall.providedBy(call)
    assert (call.active(), call.getTime(), reactor.getDelayedCalls()) == (True, 1001.0, [call])
    assert reactor.timeout() is None


def test_a_call_runs_once_and_not_early(reactor, loop):
    ran = []
    call = reactor.callLater(2, ran.append, 1)
    loop.advance(1.99)
    assert (ran, call.active()) == ([], True)
    loop.advance(0.02)
    loop.advance(10)
    assert (ran, call.active(), reactor.getDelayedCalls()) == ([1], False, [])
    for move in (call.cancel, lambda: call.reset(1), lambda: call.delay(1)):
        with pytest.raises(AlreadyCalled):
            move()


def test_a_cancelled_call_does_not_run_and_releases_its_function(reactor, loop):
    class Thing:
        def method(self):
            raise AssertionError("the call was cancelled")

    thing = Thing()
    gone = weakref.ref(thing)
    call = reactor.callLater(2, thing.method)
    gc.disable()
    try:
        del thing
        call.cancel()
        assert gone() is None
    finally:
        gc.enable()
    assert len(loop._wheel_timers) == 0
    loop.advance(5)
    assert reactor.getDelayedCalls() == []
    for move in (call.cancel, lambda: call.reset(1), lambda: call.delay(1)):
        with pytest.raises(AlreadyCancelled):
            move()


@pytest.mark.parametrize("first", [0, 5, LONGEST_S * 2])
def test_a_call_can_be_moved_earlier_and_later(reactor, loop, first):
    ran = []
    call = reactor.callLater(first, ran.append, 1)
    call.reset(3)
    call.delay(-1)
    assert call.getTime() == 1002.0
    call.reset(10)
    call.delay(2)
    loop.advance(11.9)
    assert ran == []
    loop.advance(0.2)
    assert ran == [1]


def test_a_call_beyond_the_longest_delay_of_a_loop_runs_in_time(reactor, loop):
    ran = []
    reactor.callLater(LONGEST_S * 2.5, ran.append, 1)
    reactor.callLater(5, int).reset(LONGEST_S * 2.5 + 1)
    for _ in range(2):
        loop.advance(LONGEST_S)
        assert ran == []
    loop.advance(LONGEST_S)
    assert ran == [1] and reactor.getDelayedCalls() == []


def test_calls_with_one_deadline_run_in_order_and_can_move_each_other(reactor, loop):
    ran = []
    calls = [reactor.callLater(1, ran.append, number) for number in range(4)]

    def move():
        calls[1].cancel()
        calls[2].reset(5)
        calls[3].reset(0)

    reactor.callLater(0.5, move)
    loop.advance(1.1)
    assert ran in ([0, 3], [3, 0])
    loop.advance(5)
    assert ran[2:] == [2]


def test_an_exception_in_a_call_is_logged_and_the_next_call_runs(reactor, loop):
    from twisted.logger import globalLogPublisher

    logged, ran = [], []
    reactor.callLater(1, lambda: 1 / 0)
    reactor.callLater(1, ran.append, 1)
    globalLogPublisher.addObserver(logged.append)
    try:
        loop.advance(2)
    finally:
        globalLogPublisher.removeObserver(logged.append)
    assert ran == [1]
    assert [event["log_failure"].type for event in logged if "log_failure" in event] == [ZeroDivisionError]


def test_a_negative_delay_raises_the_same_error_as_in_twisted(reactor):
    with pytest.raises(AssertionError, match="-1 is not greater than or equal to 0 seconds"):
        reactor.callLater(-1, int)


@pytest.mark.parametrize("move", ["reset", "delay"])
@pytest.mark.parametrize(("bad", "error"), [(float("nan"), ValueError), ("1", TypeError), (None, TypeError)])
def test_a_failed_move_leaves_the_call_unchanged(reactor, loop, move, bad, error):
    ran = []
    call = reactor.callLater(2, ran.append, 1)
    with pytest.raises(error):
        getattr(call, move)(bad)
    assert (call.getTime(), call.active()) == (1002.0, True)
    loop.advance(1.99)
    assert ran == []
    loop.advance(0.02)
    assert ran == [1]


def test_moving_a_call_does_not_search_the_pending_calls(reactor):
    compared = []
    calls = [reactor.callLater(100 + number, int) for number in range(1000)]
    kind = type(calls[0])

    class Counting(kind):
        def __eq__(self, other):
            compared.append(1)
            return self is other

        __hash__ = kind.__hash__

    for call in calls:
        call.__class__ = Counting
    for call in calls:
        call.reset(50)
        call.reset(200)
    assert compared == []
