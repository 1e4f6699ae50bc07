"""Every kind of loop on the wheel."""

import contextlib

import pytest

import hwheel_core
from hwheel.asyncio import EventLoop, wheel_loop

with contextlib.suppress(ImportError):
    import uvloop

KINDS = {"asyncio": lambda: EventLoop, "uvloop": lambda: wheel_loop(uvloop.Loop)}


@pytest.fixture(autouse=True)
def loops_are_let_go(request):
    """Ends after a test's other fixtures, and before it is counted what has been left behind: pytest itself would keep
    the loops for longer than that."""
    yield
    if request.node.funcargs is not None:  # the test was interrupted
        request.node.funcargs.clear()


@pytest.fixture(autouse=True)
def uvloop_is_there(request):
    """A test on uvloop's loop is skipped, where there is none, before it begins: it might have made a coroutine by
    then, of which Python would complain, in whatever test runs next, that nobody has awaited it."""
    if "uvloop" in getattr(getattr(request.node, "callspec", None), "id", ""):
        pytest.importorskip("uvloop", reason="uvloop is not installed")


@pytest.fixture(params=list(KINDS))
def loop_class(request, uvloop_is_there):
    return KINDS[request.param]()


@pytest.fixture
def loop(loop_class):
    loop = loop_class()
    yield loop
    if hwheel_core.DEBUG:
        hwheel_core.debug_check(loop._wheel_timers)
    loop.close()


@pytest.fixture
def idle(loop):
    """idle(seconds): runs the loop for so long, with nothing of asyncio's own on the wheel."""

    def run(seconds):
        base_call_later = super(type(loop).__mro__[1], loop).call_later
        base_call_later(seconds, loop.stop)
        loop.run_forever()

    return run


@pytest.fixture
def clock_stands():
    """with clock_stands(loop): what is added is added at one time, however long the machine takes for it. (What is late
    already when it is added is left to the base loop, in whose order it runs.)"""

    @contextlib.contextmanager
    def stands(loop):
        now = loop.time()
        loop.time = lambda: now
        try:
            yield
        finally:
            del loop.time

    return stands
