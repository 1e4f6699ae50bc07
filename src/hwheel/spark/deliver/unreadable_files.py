"""Input files that cannot be read: truncated, or of other types. They are left out, and the job goes on.

A file is read wholly or not at all, because a batch that is run again must have the same messages. So when one cannot
be read, the batch fails, the file is written down here, in the checkpoint, and the batch is run again without it, now
and after any crash. The dead letters have its name, and why.
"""

import hashlib
import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from hwheel.spark.deliver.checkpoint import last_batch
from hwheel.spark.deliver.directory import Directory, steps_of
from hwheel.spark.deliver.failures import FROM_JAVA, Failure
from hwheel.spark.deliver.input_files import Entry, SourceLog
from hwheel.spark.deliver.source import Source
from hwheel.spark.deliver.topic import is_topic
from hwheel.spark.deliver.trial_reading import (
    as_in_logs,
    changed_ms,
    not_in_blocks,
    reads_as_nothing,
    sometimes_reads_as_nothing,
    unreadable_among,
    why_unreadable,
)
from hwheel_core import HwheelError

LIST = "unreadable-files.json"


class ListDamagedError(HwheelError, ValueError):
    """The list in the checkpoint is not as it was written."""


@dataclass
class UnreadableFiles:
    """Those of a checkpoint, with the reasons, by their URLs as they are in the log.

    Raises:
        ListDamagedError: the list in the checkpoint is not as it was written.
    """

    checkpoint: Directory
    reasons: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.checkpoint.exists(LIST):
            found = reasons_of(self.checkpoint.read(LIST), f"{self.checkpoint.path.rstrip('/')}/{LIST}")
            self.reasons = {as_in_logs(file): reason for file, reason in found.items()}

    def add(self, file: str, reason: str) -> None:
        """Writes it down."""
        self.reasons[file] = reason
        self.checkpoint.make()
        self.checkpoint.write(LIST, json.dumps(self.reasons, indent=1))

    def names(self) -> list[str]:
        """As `_metadata.file_path` has them, which has one slash where the log has three."""
        return sorted({name for file in self.reasons for name in (file, re.sub("^file:/+", "file:/", file))})


def reasons_of(text: str, file: str) -> dict[str, str]:
    """What was written down. Raises ListDamagedError: a job without it would take these files for read."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(reason, str) for reason in found.values()):
        raise ListDamagedError(
            f"{file} is damaged: it has the input files that could not be read, and why\n"
            "put it back from a copy; where there is none, move the files that the dead letters name out of the input, "
            "and delete it"
        )
    return found


def letter_name(file: str) -> str:
    """What the dead letter of a file is called, the same each time."""
    return f"file-{hashlib.sha256(file.encode()).hexdigest()[:16]}"


SEARCH_S = 1.0  # at a time


@dataclass
class Search:
    """For the files because of which a query has failed: with many of them it takes minutes, in which who runs it has
    to see whether it is to stop. So it goes on at each call.
    """

    query: str
    files: Iterator[tuple[str, str]]
    found: int = 0

    def go_on(self, tell: Callable[[str, str], None]) -> bool:
        """Tells of each file that is found, and why it is left out; returns whether all are."""
        until = time.monotonic() + SEARCH_S
        for file, reason in self.files:
            self.found += 1
            tell(file, reason)
            if time.monotonic() >= until:
                return False
        return True


@dataclass
class LeavingOut:
    """`queries`: their checkpoints. `send_letter`: of a file, and why it is left out; it comes again after a crash."""

    source: Source
    files: UnreadableFiles
    queries: Mapping[str, Directory]
    send_letter: Callable[[str, str], None]
    left_out: set[tuple[str, str]] = field(default_factory=set)  # by the query that has been started without the file
    failed_before: dict[str, int] = field(default_factory=dict)  # the batch of each query that failed last

    def __post_init__(self) -> None:
        self.known = {*self.files.reasons}

    def after(self, query: str, failure: Failure) -> Iterator[tuple[str, str]]:
        """Leaves out the files because of which a query has failed, from now on, one by one; with the reasons.

        Spark names one file, and when it is left out the whole batch is read again, from which nothing goes out until
        it is done: with a thousand such files for hours. So when a batch fails for a second one, all of it is tried.
        """
        any_found = False
        for file in [as_in_logs(failure.file)] if failure.file else self.suspects():
            if (query, file) not in self.left_out and (reason := self.leave_out(file)) is not None:
                any_found = True
                self.left_out.add((query, file))
                yield file, reason
        if not any_found or not self.fails_again(query):
            return
        for file, trial in self.others(query):
            reason = self.leave_out(file, trial)
            if reason is None:  # it is not the file's fault, and perhaps none of them is at fault
                return
            self.left_out.add((query, file))
            yield file, reason

    def leave_out(self, file: str, trial: Failure | None = None) -> str | None:
        """Tells why it is left out; None if it is not the file's fault. `trial`: the failure of a reading on trial."""
        if file in self.files.reasons:  # by the other query, whose frame is older
            return self.files.reasons[file]
        reason = why_unreadable(self.source.spark, file, self.source.file_format, self.source.schema, trial)
        if reason is not None:
            self.send_letter(file, reason)
            self.files.add(file, reason)
        return reason

    def suspects(self) -> list[str]:
        """Files that may have ended a query which does not name any."""
        if is_topic(self.source.place) or self.source.file_format != "text":
            return []
        return [file for file in not_in_blocks(self.directory()) if file not in self.known]

    def fails_again(self, query: str) -> bool:
        """Whether the batch that has failed is the one that failed the last time, too."""
        before, batch = self.failed_before.get(query), last_batch(self.queries[query], "offsets")
        self.failed_before[query] = batch
        return before == batch

    def others(self, query: str) -> Iterator[tuple[str, Failure]]:
        """The files of the batch that has failed at which reading fails, and how, but for those that are left out."""
        batch = SourceLog(self.queries[query], steps_of(self.directory().url)).last_files()
        files = {*batch} - {*self.files.reasons} - {*self.suspects()}
        return unreadable_among(self.source.spark, sorted(files), self.source.file_format, self.source.schema)

    def directory(self) -> Directory:
        return Directory(self.source.spark, self.source.place)


LOOK_S = 1.0  # at a time


@dataclass
class SilentFiles:
    """`look()` is called again and again, and looks from time to time. `log`: of the query that has read them, for
    nobody else. `leave_out`: returns why, or None if there is no reason.
    """

    spark: SparkSession
    log: SourceLog
    left_out: UnreadableFiles
    leave_out: Callable[[str], str | None]
    every_s: float
    look_at: float = 0.0
    waiting: deque[Entry] = field(default_factory=deque)  # to be looked at

    def look(self) -> Iterator[tuple[str, str]]:
        """The files that are left out, by their URLs, each with the reason."""
        now = time.monotonic()
        if now < self.look_at:
            return
        self.look_at = now + self.every_s
        try:
            self.take_up()
            while self.waiting and time.monotonic() < now + LOOK_S:
                entry = self.waiting[0]
                file = as_in_logs(entry.url)
                if file not in self.left_out.reasons and self.is_silent(file, entry.changed_ms):
                    if (reason := self.leave_out(file)) is not None:
                        yield file, reason
                self.waiting.popleft()
        except (*FROM_JAVA, ValueError, KeyError):  # the file or the log may be there again the next time
            self.waiting.rotate(-1)

    def is_silent(self, file: str, read_ms: int) -> bool:
        """Whether it reads as nothing, and is not another file by now, which nobody has read."""
        return reads_as_nothing(self.spark, file) and changed_ms(self.spark, file) == read_ms

    def take_up(self) -> list[str]:
        """The names of those that have been read, and are to be looked at."""
        self.waiting += [entry for entry in self.log.newly_done() if sometimes_reads_as_nothing(entry.name)]
        return [entry.name for entry in self.waiting]
