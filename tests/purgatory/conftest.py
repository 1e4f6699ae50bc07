"""Fixtures: an operation whose condition is a flag, and purgatories that are closed after the test."""

import threading

import pytest

from hwheel import ManualTimer
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
from threads import call_in_thread, run_concurrently

FAR_OFF_MS = 100_000


class Flagged(DelayedOperation):
    """An operation that completes when `completable` is set.

    Attributes:
        calls: The calls of on_complete() and on_expiration(), in order. The one that `fails_in` names raises `error`.
        at_look: A function in place of the n-th try_complete(). An add looks twice.
    """

    def __init__(self, delay_ms=FAR_OFF_MS, *, completable=False, fails_in="", error=ZeroDivisionError):
        super().__init__(delay_ms)
        self.completable = completable
        self.fails_in, self.error = fails_in, error
        self.looks, self.at_look = 0, {}
        self.calls = []
        self.done = threading.Event()

    def try_complete(self):
        assert self.lock._is_owned()
        self.looks += 1
        if look := self.at_look.get(self.looks):
            return look()
        return self.completable and self.force_complete()

    def on_complete(self):
        assert self.is_completed
        self.note("on_complete")

    def on_expiration(self):
        self.note("on_expiration")

    def note(self, name):
        assert self.lock._is_owned()
        self.calls.append(name)
        self.done.set()
        if name == self.fails_in:
            raise self.error


@pytest.fixture(autouse=True)
def release_fixtures(request):
    """Release the test's fixtures, which pytest would keep alive, before nothing_left_behind counts objects."""
    yield
    request.node.funcargs.clear()


@pytest.fixture
def flagged():
    """Return the class Flagged."""
    return Flagged


@pytest.fixture
def errors():
    """Return the list of the manual timer's reports to on_error: (operation, exception)."""
    return []


@pytest.fixture
def timer(errors):
    """Yield the timer of `purgatory`, on virtual time."""
    with ManualTimer("manual", on_error=lambda *report: errors.append(report)) as timer:
        yield timer


@pytest.fixture
def make_purgatory():
    """Return a factory of purgatories that are closed after the test."""
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
    """Return run_threads(functions), like run_concurrently(), which also fails on a deadlock."""

    def run(functions):
        def collect():
            try:
                run_concurrently(*functions)
            except BaseException as error:
                return error

        if error := call_in_thread(collect):
            raise error

    return run
