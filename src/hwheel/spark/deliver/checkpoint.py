"""The logs of a query's checkpoint, in which Spark writes down of a batch what it has (offsets) and that it is done
(commits); and the batch with which a query goes on.

Spark begins a batch when there is new input, or when the batch before says that it has timers. A query that has just
been started has no batch before. So where its last batch was done, nothing that is held would go out until something
new came in. But a batch that is in the offsets and not in the commits is run at the start, whatever it has: a job that
is killed between the two leaves that behind. So before a start the next batch is written down here: a copy of the last
one, with its offsets, which is no input, and its time, at which nothing more is due. Nothing comes of it but that Spark
has a batch before, and goes on with one that looks for input, and only then at the time: a cancel that came while
nothing ran has to be seen before its message goes out.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.failures import BROKEN_CHECKPOINT, ONE_JOB, OTHER_JOB, RESTORE
from hwheel.spark.deliver.topic import is_topic
from hwheel_core import HwheelError

MESSAGES, DEAD_LETTERS = "messages", "dead-letters"  # the checkpoints of the two queries, in the delivery's


def last_batch(query: Directory, log: str) -> int:
    """The latest of a log; -1: there is none."""
    if not query.exists(log):
        return -1
    return max((int(name) for name in query.names(log) if name.isdecimal()), default=-1)


def begin_next_batch(query: Directory) -> bool:
    """Writes down the next batch, if the last one is done; False if there is none, or it is not, or Spark's log is not
    as it was in the versions that are known. Not while the query runs."""
    begun = last_batch(query, "offsets")
    if begun < 0 or begun != last_batch(query, "commits"):
        return False
    text = query.read(f"offsets/{begun}")
    if not text.startswith("v1\n{") or text.count("\n") < 2:
        return False
    query.child_directory("offsets").write(str(begun + 1), text)
    return True


class CheckpointBrokenError(HwheelError, RuntimeError):
    """Something was taken away from the checkpoint."""


def check_logs(checkpoint: Directory) -> None:
    """Raises CheckpointBrokenError where a batch was done of which the checkpoint does not know what it had."""
    for query in (MESSAGES, DEAD_LETTERS):
        done, begun = (last_batch(checkpoint.child_directory(query), log) for log in ("commits", "offsets"))
        if done > begun:
            missing = f"{checkpoint.path}/{query}/offsets/{done} is not there"
            raise CheckpointBrokenError(f"{BROKEN_CHECKPOINT.format(said=missing)}\n{RESTORE}")


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


OUTPUTS = "hwheel-outputs.json"


class BatchElsewhereError(HwheelError, ValueError):
    """A batch that comes again has files in another place than it is to go to now."""


def keep_outputs(checkpoint: Directory, places: dict[str, str], options: dict[str, str]) -> None:
    """Writes down where each query writes, and checks it against what was written down before. Not while they run.

    `places`, `options`: by the query's directory in the checkpoint, where it writes, and the option that says so.

    Raises:
        BatchElsewhereError: the last batch of a query has files elsewhere, and is not done.
    """
    spark = checkpoint.spark
    urls = {query: place if is_topic(place) else Directory(spark, place).url for query, place in places.items()}
    kept = known(checkpoint)
    for query, before in kept.items():
        if query in urls and before != urls[query] and not is_topic(before):
            logs = checkpoint.child_directory(query)
            begun = last_batch(logs, "offsets")
            if begun > last_batch(logs, "commits") and has_files_of(Directory(spark, before), begun):
                raise BatchElsewhereError(
                    f"batch {begun} was cut off and has files in {before}; in {places[query]} its messages would come "
                    f"again\ngive {options[query]} {before} once more, until a batch is done, or move its files"
                )
    if kept != urls:
        checkpoint.make()
        checkpoint.delete(OUTPUTS)
        checkpoint.write(OUTPUTS, json.dumps(urls))


def known(checkpoint: Directory) -> dict[str, str]:
    """What was written down; nothing where it was not, or cannot be read: then there is nothing to compare with."""
    if not checkpoint.exists(OUTPUTS):
        return {}
    try:
        found = json.loads(checkpoint.read(OUTPUTS))
    except ValueError:
        return {}
    return {str(query): str(url) for query, url in found.items()} if isinstance(found, dict) else {}


def has_files_of(place: Directory, batch: int) -> bool:
    """Whether files of a batch have their names there."""
    return place.exists() and any(name.startswith(f"{batch:09d}-") for name in place.changed_ms())
