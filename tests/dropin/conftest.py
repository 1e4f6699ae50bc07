"""What the tests of the drop-ins share."""

import threading

import pytest

from hwheel import Timer

PATIENCE_S = 60


@pytest.fixture(scope="session", autouse=True)
def the_engine_runs():
    """What all Timers of the process share is made once and stays: it is no test's to clean up."""
    timer = Timer(0, int)
    timer.start()
    timer.join()


@pytest.fixture
def hook(monkeypatch):
    """What threading.excepthook is given, a list."""
    given = []
    monkeypatch.setattr(threading, "excepthook", given.append)
    return given


@pytest.fixture
def gate():
    """An Event on which functions block, and which is set in the end."""
    event = threading.Event()
    yield event
    event.set()


def wait(event):
    assert event.wait(PATIENCE_S), "it did not come about"
