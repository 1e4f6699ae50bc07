"""Fixtures for the unit tests."""

import pytest

import dumps


@pytest.fixture
def where():
    """where(wheel, task): the (level, index, expiration) of the task's bucket, or None."""

    def find(wheel, task):
        for level in wheel.snapshot().levels:
            for bucket in level.buckets:
                if any(task is other for other in bucket.tasks):
                    return bucket.level, bucket.index, bucket.expiration_ms
        return None

    return find


@pytest.fixture
def ran():
    """A list for callbacks to append to."""
    return []


@pytest.fixture(autouse=True)
def clear_dumps():
    """Release the arguments that dumps.note was called with."""
    yield
    dumps.RAN.clear()
