"""Twisted on the wheel: its own tests of timers, and what ours do better."""

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
# Each with the least number of its tests that have to run.
SUITES = {
    "twisted.internet.test.test_time": 2,
    "twisted.test.test_internet": 55,
    "twisted.internet.test.test_core": 10,
    "twisted.internet.test.test_threads": 8,
    "twisted.test.test_task": 50,
    "twisted.test.test_policies": 30,
}


@pytest.mark.skipif(sys.platform == "win32", reason="Twisted's reactor on asyncio is another one there")
def test_twisteds_own_tests_of_timers_pass_on_the_wheel(tmp_path):
    pytest.importorskip("hamcrest", reason="Twisted's tests need PyHamcrest")
    shown = output_of("-W", "ignore", TRIAL, tmp_path / "trial", *SUITES, cwd=tmp_path, patience_s=250)
    told = json.loads(shown.splitlines()[-1])
    assert told["wrong"] == []
    assert told["ran"] - told["skipped"] >= sum(SUITES.values())
    assert told["calls"] > 200


class Clocked(EventLoop):
    """A loop whose time is moved by hand."""

    now = 1000.0

    def time(self):
        return self.now

    def pass_by(self, seconds):
        self.now += seconds
        for _ in range(3):
            self.call_soon(self.stop)
            self.run_forever()


@pytest.fixture
def loop():
    made = Clocked()
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


def test_the_reactor_and_its_calls_are_what_twisted_asks_for(reactor):
    call = reactor.callLater(1, int)
    assert IReactorTime.providedBy(reactor) and IDelayedCall.providedBy(call)
    assert (call.active(), call.getTime(), reactor.getDelayedCalls()) == (True, 1001.0, [call])
    assert reactor.timeout() is None  # the loop itself knows


def test_a_call_is_made_once_at_its_time_and_not_before(reactor, loop):
    made = []
    call = reactor.callLater(2, made.append, 1)
    loop.pass_by(1.99)
    assert (made, call.active()) == ([], True)
    loop.pass_by(0.02)
    loop.pass_by(10)
    assert (made, call.active(), reactor.getDelayedCalls()) == ([1], False, [])
    for move in (call.cancel, lambda: call.reset(1), lambda: call.delay(1)):
        with pytest.raises(AlreadyCalled):
            move()


def test_a_cancelled_call_is_not_made_and_releases_what_it_would_have_called(reactor, loop):
    class Thing:
        def method(self):
            raise AssertionError("it was cancelled")

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
    loop.pass_by(5)
    assert reactor.getDelayedCalls() == []
    for move in (call.cancel, lambda: call.reset(1), lambda: call.delay(1)):
        with pytest.raises(AlreadyCancelled):
            move()


@pytest.mark.parametrize("first", [0, 5, LONGEST_S * 2])
def test_a_call_can_be_moved_sooner_and_later(reactor, loop, first):
    made = []
    call = reactor.callLater(first, made.append, 1)
    call.reset(3)
    call.delay(-1)
    assert call.getTime() == 1002.0
    call.reset(10)
    call.delay(2)
    loop.pass_by(11.9)
    assert made == []
    loop.pass_by(0.2)
    assert made == [1]


def test_a_call_that_is_further_off_than_a_loop_is_asked_for_is_made_in_its_time(reactor, loop):
    made = []
    reactor.callLater(LONGEST_S * 2.5, made.append, 1)
    reactor.callLater(5, int).reset(LONGEST_S * 2.5 + 1)
    for _ in range(2):
        loop.pass_by(LONGEST_S)
        assert made == []
    loop.pass_by(LONGEST_S)
    assert made == [1] and reactor.getDelayedCalls() == []


def test_calls_of_one_time_are_made_in_order_and_may_move_each_other(reactor, loop):
    made = []
    calls = [reactor.callLater(1, made.append, number) for number in range(4)]

    def move():
        calls[1].cancel()
        calls[2].reset(5)
        calls[3].reset(0)

    reactor.callLater(0.5, move)
    loop.pass_by(1.1)
    assert made in ([0, 3], [3, 0])
    loop.pass_by(5)
    assert made[2:] == [2]


def test_what_a_call_raises_is_logged_and_the_next_is_made(reactor, loop):
    from twisted.logger import globalLogPublisher

    logged, made = [], []
    reactor.callLater(1, lambda: 1 / 0)
    reactor.callLater(1, made.append, 1)
    globalLogPublisher.addObserver(logged.append)
    try:
        loop.pass_by(2)
    finally:
        globalLogPublisher.removeObserver(logged.append)
    assert made == [1]
    assert [event["log_failure"].type for event in logged if "log_failure" in event] == [ZeroDivisionError]


def test_a_negative_delay_is_refused_as_twisted_does(reactor):
    with pytest.raises(AssertionError, match="-1 is not greater than or equal to 0 seconds"):
        reactor.callLater(-1, int)


@pytest.mark.parametrize("move", ["reset", "delay"])
@pytest.mark.parametrize(("bad", "error"), [(float("nan"), ValueError), ("1", TypeError), (None, TypeError)])
def test_a_call_that_is_moved_to_no_time_stays_where_it_was(reactor, loop, move, bad, error):
    made = []
    call = reactor.callLater(2, made.append, 1)
    with pytest.raises(error):
        getattr(call, move)(bad)
    assert (call.getTime(), call.active()) == (1002.0, True)
    loop.pass_by(1.99)
    assert made == []
    loop.pass_by(0.02)
    assert made == [1]


def test_moving_a_call_does_not_look_for_it_among_the_others(reactor):
    """Twisted's compares with the pending ones until it has found it."""
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
