"""Fixtures for tests of fork, exit, and the release of memory."""

import gc

import pytest


@pytest.fixture
def no_gc():
    """Disable the garbage collector, so that only reference counts release objects."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
