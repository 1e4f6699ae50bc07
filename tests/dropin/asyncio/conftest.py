"""Fixtures for each kind of loop on the wheel."""

import contextlib

import pytest

from hwheel.asyncio import EventLoop, wheel_loop
from invariants import check_invariants

KINDS = {
    "asyncio": lambda: EventLoop,
    "uvloop": lambda: wheel_loop(pytest.importorskip("uvloop").Loop),
    "zuvloop": lambda: wheel_loop(pytest.importorskip("zuvloop").EventLoop),
}


@pytest.fixture(autouse=True)
def release_loops(request):
    """Release the test's fixtures, which pytest would keep alive, before nothing_left_behind counts objects."""
    yield
    if request.node.funcargs is not None:  # None after an interrupted test
        request.node.funcargs.clear()


@pytest.fixture(autouse=True)
def skip_without_package(request):
    """Skip a test on uvloop or zuvloop before it begins if that is missing.

    A later skip could leave a coroutine that was never awaited, and Python would warn during the next test.
    """
    name = getattr(getattr(request.node, "callspec", None), "id", "")
    if "uvloop" in name:
        pytest.importorskip("zuvloop" if "zuvloop" in name else "uvloop", reason="the loop is not installed")


@pytest.fixture(params=list(KINDS))
def loop_class(request, skip_without_package):
    return KINDS[request.param]()


@pytest.fixture
def loop(loop_class):
    loop = loop_class()
    yield loop
    check_invariants(loop._wheel_timers)
    loop.close()


@pytest.fixture
def idle(loop):
    """Return idle(seconds), which runs the loop for this long with no other timer on the wheel."""

    def run(seconds):
        base_call_later = super(type(loop).__mro__[1], loop).call_later
        base_call_later(seconds, loop.stop)
        loop.run_forever()

    return run


@pytest.fixture
def stop_clock():
    """Return a context manager that stops a loop's clock, so that timers are added at the same time on a slow machine.

    Otherwise a timer could be added after its deadline. The base loop runs such timers in its own order.
    """

    @contextlib.contextmanager
    def stands(loop):
        now = loop.time()
        loop.time = lambda: now
        try:
            yield
        finally:
            del loop.time

    return stands
