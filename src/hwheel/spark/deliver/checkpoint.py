"""The checkpoint of a delivery: its lock, its outputs, and the logs of its two queries.

Spark logs a batch twice: before it runs (offsets), and when it has completed (commits).
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.failures import BROKEN_CHECKPOINT, ONE_JOB, OTHER_JOB, RESTORE
from hwheel.spark.deliver.topic import is_topic
from hwheel_core import HwheelError

MESSAGES, DEAD_LETTERS = "messages", "dead-letters"  # the directories of the two queries
OPTIONS = {MESSAGES: "--to", DEAD_LETTERS: "--dead-letters"}  # their outputs
METADATA = "state/0/_metadata/v2"  # about the operator that has the state
OUTPUTS = "hwheel-outputs.json"
LOCK = ".hwheel-lock"


class CheckpointBrokenError(HwheelError, RuntimeError):
    """The checkpoint lacks a file."""


class CheckpointInUseError(HwheelError, RuntimeError):
    """Another job runs on the checkpoint."""


class BatchElsewhereError(HwheelError, ValueError):
    """An interrupted batch has files in another output than the current one."""


# --- the logs of a query ----------------------------------------------------------------------------------------------


def last_batch(query: Directory, log: str) -> int:
    """Return the number of the last batch in a log, or -1."""
    if not query.exists(log):
        return -1
    return max((int(name) for name in query.names(log) if name.isdecimal()), default=-1)


def batch_time_ms(query: Directory, batch: int) -> int | None:
    """Return the time of a batch in epoch milliseconds, or None if the batch is not logged as begun."""
    if batch < 0 or not query.exists(f"offsets/{batch}"):
        return None
    found = re.search(r'"batchTimestampMs":(\d+)', query.read(f"offsets/{batch}"))
    return int(found[1]) if found else None


def input_of(query: Directory, batch: int) -> list[str] | None:
    """Return the ends of the input of a batch, one line for each source, or None if they are not logged."""
    if batch < 0 or not query.exists(f"offsets/{batch}"):
        return None
    lines = query.read(f"offsets/{batch}").split("\n")
    return lines[2:] if lines[0] == "v1" else None


def has_no_input(query: Directory, batch: int) -> bool:
    """Return True if a batch and the one before it are logged, and their inputs end at the same place."""
    ends = input_of(query, batch)
    return ends is not None and ends == input_of(query, batch - 1)


def begin_next_batch(query: Directory) -> bool:
    """Log the start of the next batch, so that a query whose input is idle delivers due messages after a start.

    Spark starts a batch for new input, or when the previous batch reports timers. A query that has just started has no
    previous batch, so messages that became due in the meantime would wait for new input. But Spark always runs a batch
    that is logged as begun and not as completed.

    The new batch has the offsets of the last batch, so it has no input. It also has the time of that batch, so no new
    message is due. The batch after it reads new input before it advances the clock, so that a cancel that arrived in
    the meantime precedes its message.

    The query must not be running.

    Returns:
        False, without a change, if no batch was begun, if the last batch has not completed, or if the format of the
        log is unknown.
    """
    begun = last_batch(query, "offsets")
    if begun < 0 or begun != last_batch(query, "commits"):
        return False
    text = query.read(f"offsets/{begun}")
    if not text.startswith("v1\n{") or text.count("\n") < 2:
        return False
    query.child_directory("offsets").write(str(begun + 1), text)
    return True


def check_logs(checkpoint: Directory) -> None:
    """Raise CheckpointBrokenError if the last completed batch is not logged as begun, or a log of input files lacks."""
    for query in (MESSAGES, DEAD_LETTERS):
        directory = checkpoint.child_directory(query)
        done, begun = (last_batch(directory, log) for log in ("commits", "offsets"))
        missing = f"offsets/{done}" if done > begun else missing_source_log(directory, begun)
        if missing is not None:
            said = f"{directory.path}/{missing} does not exist"
            raise CheckpointBrokenError(f"{BROKEN_CHECKPOINT.format(said=said)}\n{RESTORE}")


def correct_place(query: Directory) -> None:
    """Let a query find its state after the checkpoint was moved or restored elsewhere. The query must not be running.

    Spark stores the absolute path of the schema of the state.
    """
    metadata = query.child_directory(METADATA)
    for name in metadata.names(".") if metadata.exists() else []:
        text = metadata.read(name)
        moved = re.sub(r'"[^"]*(?=/state/\d+/_stateSchema/)', lambda _: f'"{query.url}', text)
        if name.isdecimal() and moved != text:
            metadata.delete(f".{name}.crc")  # the checksum that Hadoop keeps beside a local file
            metadata.write(name, moved)


def missing_source_log(query: Directory, batch: int) -> str | None:
    """Return the name of the log of a batch's input files if it is missing: Spark would read all files again."""
    if batch < 0:
        return None
    found = re.search(r'\n\{"logOffset":(\d+)\}\s*$', query.read(f"offsets/{batch}"))
    if found is None:  # a topic, or no file yet
        return None
    name = f"sources/0/{found[1]}"
    return None if query.exists(name) or query.exists(f"{name}.compact") else name


# --- one job for each checkpoint --------------------------------------------------------------------------------------


@contextmanager
def only_job(checkpoint: Directory) -> Iterator[None]:
    """Lock the checkpoint. The system releases the lock when the process ends.

    The lock works on local file systems, but not on Windows. Elsewhere, the second job stops when it logs a batch
    that the first one has logged.

    Raises:
        CheckpointInUseError: Another process holds the lock.
    """
    local = checkpoint.local_path
    if local is None or sys.platform == "win32":
        yield
        return
    import fcntl  # not on Windows

    checkpoint.make()
    descriptor = os.open(os.path.join(local, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckpointInUseError(f"{OTHER_JOB}, {checkpoint.path}\n{ONE_JOB}") from None
        except OSError:
            pass  # the file system has no locks
        yield
    finally:
        os.close(descriptor)


# --- outputs ----------------------------------------------------------------------------------------------------------


def check_and_store_outputs(checkpoint: Directory, destinations: dict[str, str], options: dict[str, str]) -> None:
    """Compare the outputs of the queries with those stored in the checkpoint, then store them.

    A job may write to a new place, unless an interrupted batch has files in the old place: Spark repeats the batch, so
    its messages would be in both. The queries must not be running.

    Args:
        destinations: The output of each query, by its directory in the checkpoint.
        options: The command line option of each output.

    Raises:
        BatchElsewhereError: An interrupted batch has files in another place.
    """
    spark = checkpoint.spark
    urls = {query: to if is_topic(to) else Directory(spark, to).url for query, to in destinations.items()}
    stored = stored_outputs(checkpoint)
    for query, stored_url in stored.items():
        if query in urls and stored_url != urls[query] and not is_topic(stored_url):
            logs = checkpoint.child_directory(query)
            begun = last_batch(logs, "offsets")
            if begun > last_batch(logs, "commits") and has_files_of(Directory(spark, stored_url), begun):
                raise BatchElsewhereError(
                    f"batch {begun} was interrupted and has files in {stored_url}; its messages would appear again in "
                    f"{destinations[query]}\n"
                    f"use {options[query]} {stored_url} until a batch completes, or move its files"
                )
    if stored != urls:
        checkpoint.make()
        checkpoint.write(OUTPUTS, json.dumps(urls))


def stored_outputs(checkpoint: Directory) -> dict[str, str]:
    """Return the stored URLs, or an empty dict if they cannot be read."""
    if not checkpoint.exists(OUTPUTS):
        return {}
    try:
        found = json.loads(checkpoint.read(OUTPUTS))
    except ValueError:
        return {}
    return {str(query): str(url) for query, url in found.items()} if isinstance(found, dict) else {}


def has_files_of(output: Directory, batch: int) -> bool:
    """Return True if an output has files of a batch."""
    return output.exists() and any(name.startswith(f"{batch:09d}-") for name in output.changed_ms())
