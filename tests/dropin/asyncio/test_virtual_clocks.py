"""Loops on the wheel use a replaced time(), call_at(), or call_later() at once, like asyncio's loops."""

import asyncio
import subprocess
import sys
import time
from unittest import mock

import pytest

from event_loops import loop_and_timers
from hwheel.asyncio import wheel_loop

PATIENCE_S = 20


class Clock:
    """A clock that the test sets."""

    def __init__(self, now=5000.0):
        self.now = now

    def __call__(self, loop=None):
        return self.now


class OtherTime:
    """A mix-in for a loop class."""

    clock = Clock(7000.0)

    def time(self):
        return self.clock.now


@pytest.fixture(params=["asyncio", "hwheel", "Timeouts"])
def own(request):
    """Yield a loop with its own class, and the object with call_later() and call_at()."""

    class Own(asyncio.SelectorEventLoop):
        pass

    loop, timers = loop_and_timers(request.param, Own)
    yield loop, timers
    loop.close()


def put_on_the_instance(loop, clock):
    loop.time = clock
    return lambda: delattr(loop, "time")


def put_into_its_dict(loop, clock):
    vars(loop)["time"] = clock
    return lambda: vars(loop).pop("time")


def patch_the_object(loop, clock):
    patch = mock.patch.object(loop, "time", clock)
    patch.start()
    return patch.stop


def put_on_the_class(loop, clock):
    type(loop).time = lambda self: clock.now
    return lambda: delattr(type(loop), "time")


def put_on_a_base(loop, clock):
    genuine = asyncio.BaseEventLoop.time
    asyncio.BaseEventLoop.time = lambda self: clock.now

    def restore():
        asyncio.BaseEventLoop.time = genuine

    return restore


def replace_its_class(loop, clock):
    genuine = type(loop)
    loop.__class__ = type("Virtual", (OtherTime, genuine), {"clock": clock})

    def restore():
        loop.__class__ = genuine

    return restore


def replace_monotonic(loop, clock):
    patch = mock.patch.object(time, "monotonic", clock)
    patch.start()
    return patch.stop


def replace_the_name_in_asyncio(loop, clock):
    patch = mock.patch("asyncio.base_events.time", mock.Mock(monotonic=clock))
    patch.start()
    return patch.stop


WAYS = [
    put_on_the_instance,
    put_into_its_dict,
    patch_the_object,
    put_on_the_class,
    put_on_a_base,
    replace_its_class,
    replace_monotonic,
    replace_the_name_in_asyncio,
]


@pytest.mark.parametrize("way", WAYS)
def test_replaced_clock_is_used_at_once(own, way):
    loop, timers = own
    ran = []
    timers.call_later(3600, ran.append, "real").cancel()
    for _ in range(3):  # replace and restore repeatedly
        clock = Clock()
        restore = way(loop, clock)
        try:
            handle = timers.call_later(3600, ran.append, "virtual")
            assert handle.when() == 8600.0
            if way is not put_on_a_base:
                loop.call_soon(loop.stop)
                loop.run_forever()
                assert ran == []
            clock.now = 8600.5
            give_up = time.perf_counter() + PATIENCE_S
            while not ran:
                assert time.perf_counter() < give_up
                loop.call_soon(loop.stop)
                loop.run_forever()
            assert ran == ["virtual"]
            ran.clear()
        finally:
            restore()
        handle = timers.call_later(3600, ran.append, "real")
        assert 3599 < handle.when() - time.monotonic() < 3601
        handle.cancel()


def test_reschedule_reads_the_current_clock(own):
    loop, timers = own
    handle = timers.call_later(10, int)
    if not hasattr(handle, "reschedule"):
        pytest.skip("asyncio's handles cannot be moved")
    loop.time = Clock()
    handle.reschedule(20)
    assert handle.when() == 5020.0
    del loop.time
    handle.reschedule(20)
    assert 19 < handle.when() - time.monotonic() < 21
    handle.cancel()


def test_clock_from_getattribute_is_used():
    class Answering(asyncio.SelectorEventLoop):
        def __getattribute__(self, name):
            return (lambda: 5000.0) if name == "time" else super().__getattribute__(name)

    loop = wheel_loop(Answering)()
    handle = loop.call_later(10, int)
    assert handle.when() == 5010.0
    handle.cancel()
    loop.close()


# --- call_at and call_later ----------------------------------------------------------------------------------------


@pytest.fixture(params=["asyncio", "hwheel", "uvloop"])
def loop(request):
    base = pytest.importorskip("uvloop").Loop if request.param == "uvloop" else asyncio.SelectorEventLoop

    class Own(base if request.param == "asyncio" else wheel_loop(base)):
        pass

    loop = Own()
    yield loop
    loop.close()


def check_added(loop, call):
    """Make a call, and check that it added a timer."""
    handle = call()
    assert isinstance(handle, asyncio.TimerHandle)
    handle.cancel()


@pytest.mark.parametrize("name", ["call_later", "call_at"])
def test_method_replaced_on_the_class_is_used(loop, name):
    kind = type(loop)
    genuine = getattr(kind, name)
    asked = []

    def method(self, when, callback, *args, context=None):
        asked.append(when)
        return genuine(self, when, callback, *args, context=context)

    check_added(loop, lambda: loop.call_later(10, int))
    setattr(kind, name, method)
    check_added(loop, lambda: getattr(loop, name)(1e9, int))
    check_added(loop, lambda: getattr(loop, name)(1e9, int, context=None))
    assert asked == [1e9, 1e9]
    delattr(kind, name)
    check_added(loop, lambda: getattr(loop, name)(1e9, int))
    assert asked == [1e9, 1e9]


@pytest.mark.parametrize("name", ["call_later", "call_at"])
def test_method_replaced_on_the_loop_is_used(loop, name):
    genuine = getattr(loop, name)
    asked = []

    def method(when, callback, *args, context=None):
        asked.append(when)
        return genuine(when, callback, *args, context=context)

    with mock.patch.object(loop, name, method):
        check_added(loop, lambda: getattr(loop, name)(1e9, int))
        assert asked.count(1e9) == 1  # uvloop's call_at uses call_later, also for the wheel's wake-up
    check_added(loop, lambda: getattr(loop, name)(1e9, int))
    assert asked.count(1e9) == 1


@pytest.mark.parametrize("place", ["class", "loop"])
def test_replaced_call_at_is_used_by_call_later(loop, place):
    if isinstance(loop, pytest.importorskip("uvloop").Loop):
        pytest.skip("uvloop's call_later does not ask call_at")
    genuine = loop.call_at
    asked = []

    def call_at(*args, **kwargs):
        if place == "class":
            args = args[1:]
        asked.append(args[0])
        return genuine(*args, **kwargs)

    with mock.patch.object(type(loop) if place == "class" else loop, "call_at", call_at):
        check_added(loop, lambda: loop.call_later(1000, int))
        assert 999 < asked[0] - loop.time() < 1001
    check_added(loop, lambda: loop.call_later(1000, int))
    assert len(asked) == 1


@pytest.mark.parametrize("name", ["call_later", "call_at"])
def test_mock_that_wraps_the_loops_method(loop, name):
    with mock.patch.object(type(loop), name, wraps=getattr(loop, name)) as wrapped:
        check_added(loop, lambda: getattr(loop, name)(1e9, int))
        wrapped.assert_called_once_with(1e9, int)


def test_replaced_class_provides_its_methods(loop):
    asked = []

    class Other(type(loop)):
        def call_later(self, delay, callback, *args, context=None):
            asked.append(delay)
            return super().call_later(delay, callback, *args, context=context)

    genuine = type(loop)
    loop.__class__ = Other
    check_added(loop, lambda: loop.call_later(1000, int))
    loop.__class__ = genuine
    assert asked == [1000]


def test_keyword_arguments_match_asyncio(loop):
    check_added(loop, lambda: loop.call_later(delay=10, callback=int))
    check_added(loop, lambda: loop.call_at(when=loop.time() + 10, callback=int, context=None))
    for wrong in (lambda: loop.call_later(10), lambda: loop.call_at(), lambda: loop.call_later(10, int, colour=1)):
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize("place", ["base", "loop"])
def test_timeouts_and_loops_use_the_current_call_at(place):
    asked = []
    genuine = asyncio.SelectorEventLoop.call_at

    class Base(asyncio.SelectorEventLoop):
        pass

    loop, timers = loop_and_timers("Timeouts" if place == "loop" else "hwheel", Base)
    with mock.patch.object(
        Base, "call_at", lambda self, *args, **kw: asked.append(args[0]) or genuine(self, *args, **kw)
    ):
        timers.call_later(5, int).cancel()
    assert len(asked) == 1
    loop.close()


WITHOUT_WATCHERS = """
import ctypes
api, taken = ctypes.pythonapi, 0
api.PyDict_AddWatcher.argtypes = [ctypes.c_void_p]
note = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(lambda *args: 0)
try:
    while True:
        api.PyDict_AddWatcher(note)
        taken += 1
except RuntimeError:
    pass
import hwheel.asyncio
loop = hwheel.asyncio.new_event_loop()
for _ in range(3):
    assert loop.call_later(10, int).when() < 1e9
    loop.time = lambda: 1e9
    assert loop.call_later(10, int).when() == 1e9 + 10
    del loop.time
print("taken", taken > 0)
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="CPython has no watchers of dicts before 3.12")
def test_replaced_clock_is_used_if_other_extensions_have_taken_all_watchers():
    command = [sys.executable, "-P", "-c", WITHOUT_WATCHERS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("taken True\n", "")
