"""What the unit tests share: looking up where a task sits, and a log of what ran."""

import pytest


@pytest.fixture
def where():
    """where(wheel, task): the (level, bucket, expiration of the bucket) that holds the task; None: no bucket does."""

    def look(wheel, task):
        for level in wheel.snapshot().levels:
            for bucket in level.buckets:
                if any(task is other for other in bucket.tasks):
                    return bucket.level, bucket.index, bucket.expiration_ms
        return None

    return look


@pytest.fixture
def ran():
    """A list for callbacks to append to."""
    return []
