"""What the tests of lifetimes share: a switched-off garbage collector."""

import gc

import pytest


@pytest.fixture
def no_gc():
    """What is released in this test is released by reference count alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
