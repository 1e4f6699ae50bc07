"""Fixtures that the tests of the drop-ins share."""

import threading

import pytest


@pytest.fixture(scope="session", autouse=True)
def engine(the_engine_runs):
    """Start the engine before the first test."""


@pytest.fixture
def hook(monkeypatch):
    """The arguments of each call of threading.excepthook, as a list."""
    calls = []
    monkeypatch.setattr(threading, "excepthook", calls.append)
    yield calls
    calls.clear()  # a traceback holds references to timers


@pytest.fixture
def gate():
    """An Event on which functions block. It is set at the end of the test."""
    event = threading.Event()
    yield event
    event.set()
