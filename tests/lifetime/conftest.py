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


@pytest.fixture
def ends_well(run_script):
    """Return ends_well(text), which runs a program and fails unless it succeeds and writes nothing."""

    def run(text):
        assert run_script(text) == (0, "", "")

    return run
