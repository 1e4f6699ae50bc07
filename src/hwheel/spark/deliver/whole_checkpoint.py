"""Whether the logs of a checkpoint fit together. Spark writes down of a batch what it has (offsets) and then that it is
done (commits); where the first is gone and not the second, what it says is about something else, or nothing at all."""

from hwheel.spark.deliver.delivery import DEAD_LETTERS, MESSAGES
from hwheel.spark.deliver.failures import BROKEN_CHECKPOINT, RESTORE
from hwheel.spark.deliver.files import Directory
from hwheel_core import HwheelError


class CheckpointBrokenError(HwheelError, RuntimeError):
    """Something was taken away from the checkpoint."""


def check_logs(checkpoint: Directory) -> None:
    """Raises CheckpointBrokenError where a batch was done of which the checkpoint does not know what it had."""
    for query in (MESSAGES, DEAD_LETTERS):
        done, begun = (last_batch(checkpoint, f"{query}/{log}") for log in ("commits", "offsets"))
        if done > begun:
            missing = f"{checkpoint.path}/{query}/offsets/{done} is not there"
            raise CheckpointBrokenError(f"{BROKEN_CHECKPOINT.format(said=missing)}\n{RESTORE}")


def last_batch(checkpoint: Directory, log: str) -> int:
    """The latest of a log; -1: there is none."""
    if not checkpoint.exists(log):
        return -1
    return max((int(name) for name in checkpoint.names(log) if name.isdecimal()), default=-1)
