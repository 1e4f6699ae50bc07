"""What the tests of lifetimes share: a switched-off garbage collector, and programs that have nothing to say."""

import gc

import pytest


@pytest.fixture
def no_gc():
    """What is released in this test is released by reference count alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def ends_well(run_script):
    """ends_well(text): runs it as a program of its own, as run_script does, which succeeds and writes nothing."""

    def run(text):
        assert run_script(text) == (0, "", "")

    return run
