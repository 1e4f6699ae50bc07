"""What the tests of containers share."""

import pytest

import hwheel
import hwheel_core


@pytest.fixture(autouse=True, scope="session")
def the_shared_timer_runs():
    """What all dicts of the process share, and all queues, is made once and stays: it is no test's to clean up."""
    hwheel.ExpiringDict(1)["a"] = 1
    q = hwheel.DelayQueue()
    q.put("a", 0.05)  # long enough for its thread to be needed, also by a coarse clock
    q.get()


@pytest.fixture
def timer(request):
    """A ManualTimer; pytest would hold on to it while other fixtures look for what is left behind."""
    yield hwheel.ManualTimer()
    request.node.funcargs.pop("timer", None)


@pytest.fixture
def make(timer):
    """make(ttl, **options): an ExpiringDict on the ManualTimer. A debug build checks its invariants at the end."""
    made = []
    usual = [timer]

    def make_dict(ttl=10, **options):
        made.append(hwheel.ExpiringDict(ttl, timer=options.pop("timer", usual[0]), **options))
        return made[-1]

    del timer
    yield make_dict
    usual.clear()
    while made:
        if hwheel_core.DEBUG:
            hwheel_core.debug_check(made[-1])
        made.pop()
