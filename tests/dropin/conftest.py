"""What the tests of the drop-ins share."""

import threading

import pytest


@pytest.fixture(scope="session", autouse=True)
def engine(the_engine_runs):
    """Before the first test."""


@pytest.fixture
def hook(monkeypatch):
    """What threading.excepthook is given, a list."""
    given = []
    monkeypatch.setattr(threading, "excepthook", given.append)
    yield given
    given.clear()  # a traceback holds on to timers


@pytest.fixture
def gate():
    """An Event on which functions block, and which is set in the end."""
    event = threading.Event()
    yield event
    event.set()
