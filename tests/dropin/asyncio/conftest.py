"""Every kind of loop on the wheel."""

import contextlib

import pytest

import hwheel_core
from hwheel.asyncio import EventLoop, wheel_loop

with contextlib.suppress(ImportError):
    import uvloop

KINDS = {"asyncio": lambda: EventLoop, "uvloop": lambda: wheel_loop(uvloop.Loop)}


@pytest.fixture(params=list(KINDS))
def loop_class(request):
    if request.param == "uvloop":
        pytest.importorskip("uvloop", reason="uvloop is not installed")
    return KINDS[request.param]()


@pytest.fixture
def loop(loop_class):
    loop = loop_class()
    yield loop
    if hwheel_core.DEBUG:
        hwheel_core.debug_check(loop._wheel_timers)
    loop.close()
    loop.set_exception_handler(None)
    for name in ("_wheel_timers", "call_at", "call_later"):     # pytest keeps the loop for longer than the test lasts
        del vars(loop)[name]


@pytest.fixture
def idle(loop):
    """idle(seconds): runs the loop for so long, with nothing of asyncio's own on the wheel."""

    def run(seconds):
        base_call_later = super(type(loop).__mro__[1], loop).call_later
        base_call_later(seconds, loop.stop)
        loop.run_forever()

    return run
