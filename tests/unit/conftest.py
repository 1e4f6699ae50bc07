"""What the unit tests share: looking up where a task sits, a log of what ran, and a Python process that may hang."""

import subprocess
import sys

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


@pytest.fixture
def run_python():
    """run_python(code): what the code prints in a process of its own, which must end within the time."""

    def run(code, seconds=20):
        done = subprocess.run(
            [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=seconds, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
