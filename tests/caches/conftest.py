"""Fixtures for the tests of caches and of the decorators."""

import pytest

import hwheel
from hwheel.cachetools import TLRUCache, TTLCache
from invariants import check_invariants


@pytest.fixture(autouse=True, scope="session")
def the_shared_timer_runs():
    """Start the timer that all caches of the process share; no test stops it."""
    TTLCache(1, 1)["a"] = 1


@pytest.fixture
def timer(request):
    """A ManualTimer. pytest would keep a reference to it until after the check for leaked objects."""
    yield hwheel.ManualTimer()
    request.node.funcargs.pop("timer", None)


@pytest.fixture(params=["TTLCache", "TLRUCache"])
def make(request, timer):
    """make(maxsize, seconds, **options): a cache on the ManualTimer, whose invariants are checked at the end."""
    made = []
    times = [timer.time]
    del timer

    def make_cache(maxsize=100, seconds=10, cls=None, **options):
        cls = cls or {"TTLCache": TTLCache, "TLRUCache": TLRUCache}[request.param]
        span = seconds if issubclass(cls, TTLCache) else lambda key, value, now: now + seconds
        made.append(cls(maxsize, span, options.pop("timer", times[0]), **options))
        return made[-1]

    make_cache.base = {"TTLCache": TTLCache, "TLRUCache": TLRUCache}[request.param]
    yield make_cache
    times.clear()
    while made:
        check_invariants(made.pop())
