"""Fixtures for the tests of containers."""

import pytest

import hwheel
from invariants import check_invariants


@pytest.fixture(autouse=True, scope="session")
def the_shared_timer_runs():
    """Start the timers and threads that all dicts and queues of the process share; no test stops them."""
    hwheel.ExpiringDict(1)["a"] = 1
    q = hwheel.DelayQueue()
    q.put("a", 0.05)  # long enough to start the thread even with a coarse clock
    q.get()


@pytest.fixture
def timer(request):
    """A ManualTimer. pytest would keep a reference to it until after the check for leaked objects."""
    yield hwheel.ManualTimer()
    request.node.funcargs.pop("timer", None)


@pytest.fixture
def make(timer):
    """make(ttl, **options): an ExpiringDict on the ManualTimer, whose invariants a debug build checks at the end."""
    made = []
    usual = [timer]  # a list, so that teardown can drop the last reference before the leak check

    def make_dict(ttl=10, **options):
        made.append(hwheel.ExpiringDict(ttl, timer=options.pop("timer", usual[0]), **options))
        return made[-1]

    del timer
    yield make_dict
    usual.clear()
    while made:
        check_invariants(made[-1])
        made.pop()
