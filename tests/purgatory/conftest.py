"""What the tests of the purgatory share: an operation whose condition is a flag, and purgatories that are closed."""

import threading

import pytest

from hwheel import ManualTimer
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory

FAR_OFF_MS = 100_000


class Flagged(DelayedOperation):
    """Completes when `completable` is set. `calls` is what was called, in order."""

    def __init__(self, delay_ms=FAR_OFF_MS, *, completable=False):
        super().__init__(delay_ms)
        self.completable = completable
        self.calls = []
        self.done = threading.Event()

    def try_complete(self):
        assert self.lock._is_owned()
        return self.completable and self.force_complete()

    def on_complete(self):
        assert self.lock._is_owned()
        assert self.is_completed
        self.calls.append("on_complete")
        self.done.set()

    def on_expiration(self):
        assert self.lock._is_owned()
        self.calls.append("on_expiration")


@pytest.fixture(autouse=True)
def let_go_of_fixtures(request):
    """pytest holds on to what a test was given, also while the fixture for all tests looks for what is left behind."""
    yield
    request.node.funcargs.clear()


@pytest.fixture
def flagged():
    """The class of those operations, to make or to subclass."""
    return Flagged


@pytest.fixture
def errors():
    """What was reported to the manual timer's on_error: (operation, exception)."""
    return []


@pytest.fixture
def timer(errors):
    """Virtual time for `purgatory`."""
    with ManualTimer("manual", on_error=lambda *report: errors.append(report)) as timer:
        yield timer


@pytest.fixture
def make_purgatory():
    """DelayedOperationPurgatory, but closed at the end of the test."""
    made = []

    def make(*args, **kwargs):
        made.append(DelayedOperationPurgatory("test", *args, **kwargs))
        return made[-1]

    yield make
    for purgatory in made:
        purgatory.close()


@pytest.fixture
def purgatory(make_purgatory, timer):
    return make_purgatory(timer)


@pytest.fixture
def run_threads():
    """run_threads(functions): runs each in a thread of its own, all at once, and fails with the first error of one."""

    def run(functions):
        errors = []
        start = threading.Barrier(len(functions))

        def body(function):
            try:
                start.wait(60)
                function()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=body, args=(function,), daemon=True) for function in functions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads), "deadlock"
        if errors:
            raise errors[0]

    return run
