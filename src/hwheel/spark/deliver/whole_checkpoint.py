"""Whether the logs of a checkpoint fit together. Spark writes down of a batch what it has (offsets) and then that it is
done (commits); where the first is gone and not the second, what it says is about something else, or nothing at all."""

from hwheel.spark.deliver.batch_logs import last_batch
from hwheel.spark.deliver.delivery import DEAD_LETTERS, MESSAGES
from hwheel.spark.deliver.failures import BROKEN_CHECKPOINT, RESTORE
from hwheel.spark.deliver.files import Directory
from hwheel_core import HwheelError


class CheckpointBrokenError(HwheelError, RuntimeError):
    """Something was taken away from the checkpoint."""


def check_logs(checkpoint: Directory) -> None:
    """Raises CheckpointBrokenError where a batch was done of which the checkpoint does not know what it had."""
    for query in (MESSAGES, DEAD_LETTERS):
        done, begun = (last_batch(checkpoint.child_directory(query), log) for log in ("commits", "offsets"))
        if done > begun:
            missing = f"{checkpoint.path}/{query}/offsets/{done} is not there"
            raise CheckpointBrokenError(f"{BROKEN_CHECKPOINT.format(said=missing)}\n{RESTORE}")
