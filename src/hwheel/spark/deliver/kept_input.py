"""What a checkpoint keeps about its input: the place, the format, and two limits that an interrupted batch depends on.

Spark remembers the files that it has read by their URLs. Under another name, the same directory would be read again. So
a start with another place or format is refused. A symbolic link to the same directory, or a second mount of it, is read
under the first name.
"""

import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import unquote

from hwheel.spark.deliver.checkpoint import DEAD_LETTERS, MESSAGES, has_no_input, last_batch
from hwheel.spark.deliver.directory import Directory, steps_of
from hwheel.spark.deliver.settings import BEGUN, CheckpointOptionsError, check_same
from hwheel.spark.deliver.topic import Topic, is_topic
from hwheel.spark.deliver.trial_reading import as_in_logs
from hwheel.spark.deliver.unreadable_files import UnreadableFiles

INPUT = "hwheel-input.json"
LIMIT = "hwheel-largest-message"
LATENESS = "hwheel-max-lateness"  # in the checkpoint of the query of messages
DEFAULT_FORMAT = "json"


def kept_input(
    checkpoint: Directory, place: str, format: str | None = None, moved_from: str | None = None
) -> tuple[str, str]:
    """Return the place and the format to read, and store them. The queries must not be running.

    Args:
        format: None means that the user did not give it.
        moved_from: The former place of a directory that was moved or renamed. Its files count as read.

    Raises:
        CheckpointOptionsError: The checkpoint has another input.
    """
    stored = stored_input(checkpoint)
    stored_place, stored_format = stored or (None, None)
    if not is_topic(place):
        # An older checkpoint does not keep its input. It has read the files under the given name.
        is_older = stored is None and checkpoint.exists(BEGUN)
        place = Directory(checkpoint.spark, place).url if is_older else real_url(checkpoint, place)
    if stored_format is not None and format is not None:
        check_same("format", stored_format, format)
    if stored_place is None and moved_from is not None:
        stored_place = Directory(checkpoint.spark, moved_from).url
    if stored_place is not None and not is_same(stored_place, place):
        if moved_from is None or is_topic(place) or not is_same(real_url(checkpoint, moved_from), stored_place):
            raise CheckpointOptionsError(other_input(stored_place, place))
        rename_in_logs(checkpoint, stored_place, place)
    elif stored_place is not None and not is_topic(place):
        place = stored_place  # the files that were read have this name
    format = stored_format or format or DEFAULT_FORMAT
    if (place, format) != (stored_place, stored_format):
        checkpoint.make()
        checkpoint.write(INPUT, json.dumps({"from": place, "format": format}))
    return place, format


def keep_limit(checkpoint: Directory, largest: int) -> None:
    """Store the limit of --largest-message.

    Raises:
        CheckpointOptionsError: A batch was interrupted with another limit. Its repetition must have the same messages.
            Or the stored limit is damaged.
    """
    text = checkpoint.read(LIMIT) if checkpoint.exists(LIMIT) else None
    if text is not None and not text.strip().isdecimal():
        raise CheckpointOptionsError(f"{checkpoint.path}/{LIMIT} is damaged\nrestore it from a copy, or delete it")
    stored = None if text is None else int(text)
    queries = [checkpoint.child_directory(name) for name in (MESSAGES, DEAD_LETTERS)]
    if stored not in (None, largest) and any(map(repeats_input, queries)):
        raise CheckpointOptionsError(
            f"a batch was interrupted with --largest-message {stored}, not {largest}\n"
            "use that limit until a batch completes, then stop and change it"
        )
    if stored != largest:
        checkpoint.make()
        checkpoint.write(LIMIT, str(largest))


def repeats_input(query: Directory) -> bool:
    """Return True if a batch with input was interrupted. A job that rests has begun a batch, too, but without input."""
    begun = last_batch(query, "offsets")
    return begun > last_batch(query, "commits") and not has_no_input(query, begun)


class Lateness(NamedTuple):
    """The limit of --max-lateness, or None, and whether later messages only get a mark."""

    max_ms: int | None = None
    mark: bool = False


def kept_lateness(query: Directory, wanted: Lateness) -> Callable[[int], Lateness]:
    """Store the limit of lateness; return the limit of each batch. The query must not be running.

    The repetition of an interrupted batch has the limit of its first attempt, which may have written dead letters.
    """
    begun, done = last_batch(query, "offsets"), last_batch(query, "commits")
    stored: dict[str, Any] = {"since": 0, "limit": Lateness(), "before": Lateness()}
    if query.exists(LATENESS):
        stored = json.loads(query.read(LATENESS))
    before = Lateness(*stored["limit" if begun >= stored["since"] else "before"])
    since = begun + 1 if begun > done else 0
    query.make()
    query.write(LATENESS, json.dumps({"since": since, "limit": wanted, "before": before}))
    return lambda batch: wanted if batch >= since else before


def stored_input(checkpoint: Directory) -> tuple[str, str] | None:
    """Return the stored place and format, or None before the query has begun."""
    if not checkpoint.exists(BEGUN) or not checkpoint.exists(INPUT):
        return None
    try:
        found = json.loads(checkpoint.read(INPUT))
        return str(found["from"]), str(found["format"])
    except (ValueError, KeyError, TypeError):
        raise CheckpointOptionsError(
            f"{checkpoint.path}/{INPUT} is damaged\n"
            'restore it from a copy, or write the first --from and --format into it: {"from": "...", "format": "json"}'
        ) from None


def real_url(checkpoint: Directory, place: str) -> str:
    """Return the URL of a directory, on a local disk without symbolic links."""
    directory = Directory(checkpoint.spark, place)
    if directory.local_path is None:
        return directory.url
    return Directory(checkpoint.spark, os.path.realpath(directory.local_path)).url


def is_same(stored: str, given: str) -> bool:
    """Return True if two URLs are of one directory, or of one topic at any brokers."""
    if is_topic(stored) or is_topic(given):
        return is_topic(stored) and is_topic(given) and Topic.of(stored).name == Topic.of(given).name
    if steps_of(stored) == steps_of(given):
        return True
    try:
        return os.path.samefile(*(url.removeprefix("file:") for url in (stored, given)))
    except OSError:
        return False


def other_input(stored: str, given: str) -> str:
    """Return the error for another input than the stored one."""
    if is_topic(stored):
        return (
            f"--from: the checkpoint was created for {stored}, not for {given}\nuse a new checkpoint and output for it"
        )
    return (
        f"--from: the checkpoint was created for {stored}, not for {given}\n"
        f"if the directory was moved or renamed, add --moved-from {stored}; for another one, use a new checkpoint and "
        "output"
    )


def rename_in_logs(checkpoint: Directory, old: str, new: str) -> None:
    """Rename the input in the logs of both queries. After an interruption, the same call completes it."""
    parent, renamed = steps_of(old), as_in_logs(Directory(checkpoint.spark, new).encoded_url)

    def moved(url: str) -> str:
        *above, name = steps_of(url)
        return f"{renamed}/{name}" if [unquote(step) for step in above] == parent else url

    for query in (MESSAGES, DEAD_LETTERS):
        log = checkpoint.child_directory(f"{query}/sources/0")
        for name in log.names(".") if log.exists() else []:
            lines = log.read(name).split("\n")
            after = [moved_line(line, moved) if line.startswith("{") else line for line in lines]
            if after != lines:
                log.delete(f".{name}.crc")  # the checksum that Hadoop keeps beside a local file
                log.write(name, "\n".join(after))
    left_out = UnreadableFiles(checkpoint)
    left_out.replace({moved(file): reason for file, reason in left_out.reasons.items()})


def moved_line(line: str, moved: Callable[[str], str]) -> str:
    """Return an entry of a source's log with another URL."""
    entry = json.loads(line)
    path = moved(entry["path"])
    return line if path == entry["path"] else json.dumps(entry | {"path": path}, separators=(",", ":"))
