"""Numbers that a checkpoint shares with its outputs and its input, so that a start notices if one is an older copy.

Spark numbers the batches of a query. A checkpoint that was restored from an older copy uses the numbers again, for
batches whose files are in the output already. It also has not read the input files that were removed since the copy. So
each place keeps numbers, and a start compares them:

- An output directory has the id of its query and the last batch with messages, written before the files of the batch.
- The checkpoint has the output and the last batch with messages, written between the output's number and the files.
- An input directory that is cleaned has the last offsets whose files may be removed, written before the removal.
"""

import json
import re
from typing import NamedTuple

from hwheel.spark.deliver.checkpoint import last_batch
from hwheel.spark.deliver.directory import Directory
from hwheel_core import HwheelError

OWNER = ".hwheel-owner"  # in an output
PUBLISHED = "hwheel-published"  # in the checkpoint of a query
CLEANED = ".hwheel-cleaned-{id}"  # in an input
LATE_LETTERS = r"late-(\d{9})\."  # the files of dead letters about the messages of a batch that are too late


class TimesDifferError(HwheelError, ValueError):
    """The checkpoint and another place are from different times, because one was restored from an older copy."""


class Owner(NamedTuple):
    """The query that an output belongs to, and the last batch that may have files in it, or -1."""

    query_id: str
    batch: int = -1


def owner_of(output: Directory) -> Owner | None:
    """Return the owner of an output, or None if it has none."""
    if not output.exists(OWNER):
        return None
    query_id, _, batch = output.read(OWNER).partition("\n")
    return Owner(query_id, int(batch)) if batch.isdecimal() else Owner(query_id)


def store_owner(output: Directory, owner: Owner) -> None:
    output.write(OWNER, f"{owner.query_id}\n{owner.batch}" if owner.batch >= 0 else owner.query_id)


def query_id(query: Directory) -> str | None:
    """Return the id that Spark gave to the query of a checkpoint, or None before its first start."""
    return str(json.loads(query.read("metadata"))["id"]) if query.exists("metadata") else None


def store_published(query: Directory, output: Directory, batch: int) -> None:
    """Store that the files of a batch will be in an output."""
    query.write(PUBLISHED, f"{output.url}\n{batch}")


def last_written(query: Directory, output: Directory) -> int | None:
    """Return the last batch that a query has written to an output, or None if the output does not belong to it."""
    owner = owner_of(output)
    return owner.batch if owner is not None and owner.query_id == query_id(query) else None


def published_into(query: Directory, output: Directory) -> int:
    """Return the last batch that an output must have, or -1.

    That is the last batch with messages that the query has begun to write. If it went to another output, this one need
    not have the batch as long as the other has. Without the other, this one is its older copy.
    """
    if not query.exists(PUBLISHED):
        return -1
    url, _, text = query.read(PUBLISHED).partition("\n")
    batch = int(text) if text.isdecimal() else -1
    if url == output.url:
        return batch
    if last_written(query, output) is None:
        return -1
    elsewhere = last_written(query, Directory(query.spark, url))
    return -1 if elsewhere is not None and elsewhere >= batch else batch


def check_output(query: Directory, output: Directory, option: str) -> None:
    """Compare the last batches of a query and of its output. The query must not be running.

    Args:
        option: The command line option of the output.

    Raises:
        TimesDifferError: One of the two was restored from an older copy.
    """
    owner = owner_of(output)
    begun, published = last_batch(query, "offsets"), published_into(query, output)
    if owner is None and published > last_batch(query, "commits"):
        raise TimesDifferError(
            f"batch {published} was interrupted, and {output.path} no longer has its files, so its messages would "
            "appear again\n"
            f"put the directory back until a batch completes; or delete {query.path}/{PUBLISHED} to write all messages "
            "of the batch again"
        )
    if owner is None or owner.query_id != query_id(query):  # the sink refuses the output of another checkpoint
        return
    if owner.batch > begun:
        raise newer_output(output, owner.batch, begun, option)
    if owner.batch < published:
        raise TimesDifferError(
            f"{output.path} is older than the checkpoint: it ends at batch {owner.batch}, and the checkpoint has "
            f"delivered batch {published}\n"
            f"restore both from copies of one time; or delete {output.path}/{OWNER} to continue without the messages "
            "that were delivered in between"
        )


def check_late_letters(query: Directory, letters: Directory, option: str) -> None:
    """Compare the batches of a query with the dead letters about its messages that were too late.

    Raises:
        TimesDifferError: The checkpoint was restored from an older copy, so a batch would find its letters written.
    """
    names = letters.names(".") if letters.exists() else []
    last = max((int(found[1]) for name in names if (found := re.match(LATE_LETTERS, name))), default=-1)
    if last > (begun := last_batch(query, "offsets")):
        raise newer_output(letters, last, begun, option)


def newer_output(output: Directory, batch: int, begun: int, option: str) -> TimesDifferError:
    return TimesDifferError(
        f"{output.path} is newer than the checkpoint: it has messages of batch {batch}, and the checkpoint ends at "
        f"batch {begun}\n"
        "restore both from copies of one time, or put the newer checkpoint back; or give a new directory to "
        f"{option}, which gets the messages since that copy again"
    )
