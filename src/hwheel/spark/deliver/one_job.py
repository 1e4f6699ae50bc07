"""One job a checkpoint: the second is refused, where that can be told."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hwheel.spark.deliver.failures import ONE_JOB, OTHER_JOB
from hwheel.spark.deliver.files import Directory
from hwheel_core import HwheelError

LOCK = ".hwheel-lock"


class CheckpointInUseError(HwheelError, RuntimeError):
    """Another job runs on the checkpoint."""


@contextmanager
def only_job(checkpoint: Directory) -> Iterator[None]:
    """Raises CheckpointInUseError where another job of this machine has the checkpoint. The lock ends with its process.

    On a file system that is not this machine's there is no such lock, nor on Windows. There the two are told from each
    other when one writes down a batch that the other has written down, which ends it.
    """
    local = checkpoint.local_path
    if local is None or sys.platform == "win32":
        yield
        return
    import fcntl  # which Windows has not

    checkpoint.make()
    descriptor = os.open(os.path.join(local, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckpointInUseError(f"{OTHER_JOB}, {checkpoint.path}\n{ONE_JOB}") from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)
