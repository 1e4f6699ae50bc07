"""Input files that cannot be read: truncated ones, and ones of other types. They are left out, and the job continues.

A file is read completely or not at all, because a repeated batch must have the same messages. So if a file cannot be
read, its batch fails, the checkpoint stores the name of the file, and the batch runs again without it, now and after
any crash. The dead letters report the file and the reason.
"""

import hashlib
import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from hwheel.spark.deliver.checkpoint import last_batch
from hwheel.spark.deliver.directory import Directory, steps_of
from hwheel.spark.deliver.failures import FROM_JAVA, Failure, StartAgainError
from hwheel.spark.deliver.input_files import Entry, SourceLog
from hwheel.spark.deliver.parquet_due import KINDS, PLAIN, DueTypeError, due_kind, file_name
from hwheel.spark.deliver.source import Source
from hwheel.spark.deliver.topic import is_topic
from hwheel.spark.deliver.trial_reading import (
    PIECE_BYTES,
    as_in_logs,
    changed_ms,
    due_fault,
    located,
    long_line,
    may_read_as_nothing,
    not_in_blocks,
    reads_as_nothing,
    unreadable_among,
    why_unreadable,
)
from hwheel_core import HwheelError

LIST = "unreadable-files.json"
OUT_OF_MEMORY = re.compile("OutOfMemoryError|GC overhead limit")
SEARCH_S = 1.0  # the duration of one step of a search
LOOK_S = 1.0  # the duration of one step of SilentFiles


class ListDamagedError(HwheelError, ValueError):
    """The list of unreadable files in the checkpoint is damaged."""


@dataclass
class UnreadableFiles:
    """The list of unreadable files in a checkpoint, with reasons, by URL in the form of the logs.

    Raises:
        ListDamagedError: The list in the checkpoint is damaged.
    """

    checkpoint: Directory
    reasons: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.checkpoint.exists(LIST):
            found = parsed_reasons(self.checkpoint.read(LIST), f"{self.checkpoint.path.rstrip('/')}/{LIST}")
            self.reasons = {as_in_logs(file): reason for file, reason in found.items()}

    def add(self, file: str, reason: str) -> None:
        """Add a file, and store the list."""
        self.replace(self.reasons | {file: reason})

    def replace(self, reasons: dict[str, str]) -> None:
        """Replace and store the list."""
        if reasons == self.reasons:
            return
        self.reasons = reasons
        self.checkpoint.make()
        self.checkpoint.write(LIST, json.dumps(self.reasons, indent=1))

    def names(self) -> list[str]:
        """Return the files in both forms of their URL: `_metadata.file_path` has file:/a for file:///a."""
        return sorted({name for file in self.reasons for name in (file, re.sub("^file:/+", "file:/", file))})


def parsed_reasons(text: str, file: str) -> dict[str, str]:
    """Parse the list. A job that ignored a damaged list would count its files as read."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(reason, str) for reason in found.values()):
        raise ListDamagedError(
            f"{file} is damaged: it lists the input files that could not be read\n"
            "restore it from a copy; without one, move the files that the dead letters name out of the input, "
            "and delete it"
        )
    return found


def letter_name(file: str) -> str:
    """Return the name of the dead letter of a file, which is the same each time."""
    return f"file-{hashlib.sha256(file.encode()).hexdigest()[:16]}"


# --- after a failure --------------------------------------------------------------------------------------------------


@dataclass
class Search:
    """A search for the files that made a query fail. It runs in steps, because many files can take minutes.

    Args:
        query: The name of the query.
        files: Yields each file with the reason.
    """

    query: str
    files: Iterator[tuple[str, str]]
    found: int = 0

    def step(self, report: Callable[[str, str], None]) -> bool:
        """Search for SEARCH_S, and report each file that is found. Return True at the end."""
        until = time.monotonic() + SEARCH_S
        for file, reason in self.files:
            self.found += 1
            report(file, reason)
            if time.monotonic() >= until:
                return False
        return True


@dataclass
class LeavingOut:
    """Finds and leaves out the files that make a query fail.

    Args:
        queries: The checkpoints of the queries by name.
        send_letter: Writes a dead letter for a file and a reason. After a crash it is called again.
    """

    source: Source
    files: UnreadableFiles
    queries: Mapping[str, Directory]
    send_letter: Callable[[str, str], None]
    left_out: set[tuple[str, str]] = field(default_factory=set)  # (query, file): the query runs without the file
    failed_before: dict[str, int] = field(default_factory=dict)  # the batch of each query that failed last

    def __post_init__(self) -> None:
        self.known = {*self.files.reasons}  # left out from the start, so these files make no query fail

    def after(self, query: str, failure: Failure) -> Iterator[tuple[str, str]]:
        """Leave out the files that made a query fail. Yield each with the reason.

        Spark names one file, and the batch without it reads all other files again. With a thousand unreadable files,
        that would take hours. So when the same batch fails a second time, a trial read covers all its files.
        """
        any_found = False
        for file in [as_in_logs(failure.file)] if failure.file else self.suspects(query):
            if (query, file) not in self.left_out and (reason := self.leave_out(file)) is not None:
                any_found = True
                self.left_out.add((query, file))
                yield file, reason
        if not any_found and OUT_OF_MEMORY.search(failure.details) and self.source.settings.file_format == "text":
            yield from self.long_lines(query)  # the slowest search, because it reads all large files
        if not any_found or not self.fails_again(query):
            return
        for file, trial in self.others(query):
            reason = self.leave_out(file, trial)
            if reason is None:  # the fault may be in the disk or the network, so all trial reads are doubtful
                return
            self.left_out.add((query, file))
            yield file, reason

    def long_lines(self, query: str) -> Iterator[tuple[str, str]]:
        """Leave out the files of the failed batch with a line that is too large; yield each with the reason."""
        if is_topic(self.source.place):
            return
        limit = max(self.source.settings.largest_message, PIECE_BYTES)
        for file in SourceLog(self.queries[query], steps_of(self.directory().url)).last_files():
            if file in self.known or (query, file) in self.left_out:
                continue
            reason = self.files.reasons.get(file)  # the other query may have found the line
            if reason is None and (found := long_line(self.source.spark, file, limit)) is not None:
                reason = f"Java ran out of memory, and a line at byte {found[0]} has {found[1]} bytes"
                self.send_letter(file, reason)
                self.files.add(file, reason)
            if reason is not None:
                self.left_out.add((query, file))
                yield file, reason

    def leave_out(self, file: str, trial: Failure | None = None) -> str | None:
        """Leave out a file and return the reason, or return None if the file itself is not at fault.

        Args:
            trial: The failure of a trial read.
        """
        if file in self.files.reasons:  # the other query has left it out after this query had started
            return self.files.reasons[file]
        source = self.source
        reason = why_unreadable(source.spark, file, source.settings.file_format, source.schema, trial)
        if reason is not None:
            self.send_letter(file, reason)
            self.files.add(file, reason)
        return reason

    def suspects(self, query: str) -> list[str]:
        """Return the files that can make a query fail with an error that names no file."""
        if is_topic(self.source.place):
            return []
        if self.source.settings.file_format == "text":
            found = not_in_blocks(self.directory())
        else:
            files = SourceLog(self.queries[query], steps_of(self.directory().url)).last_files()
            found = [file for file in files if due_fault(*located(self.source.spark, file)) is not None]
        return [file for file in found if file not in self.known]

    def fails_again(self, query: str) -> bool:
        """Remember the failed batch of a query. Return True if it also was the batch that failed the last time."""
        before, batch = self.failed_before.get(query), last_batch(self.queries[query], "offsets")
        self.failed_before[query] = batch
        return before == batch

    def others(self, query: str) -> Iterator[tuple[str, Failure]]:
        """Yield the files of the failed batch whose trial read fails, without those that are left out already."""
        batch = SourceLog(self.queries[query], steps_of(self.directory().url)).last_files()
        files = {*batch} - {*self.files.reasons} - {*self.suspects(query)}
        source = self.source
        return unreadable_among(source.spark, sorted(files), source.settings.file_format, source.schema)

    def directory(self) -> Directory:
        return Directory(self.source.spark, self.source.place)


# --- before a batch is read -------------------------------------------------------------------------------------------


@dataclass
class DueCheck:
    """Decides before each batch of Parquet files how Spark reads their column `due`.

    Args:
        query: The checkpoint of the query.
        by_row: The query runs with the plan that reads all accepted types.
    """

    source: Source
    files: UnreadableFiles
    query: Directory
    by_row: bool = False

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Set the kinds of `due` for the tasks of a batch.

        Raises:
            StartAgainError: The query must start again, because a file has another type than its plan can read.
        """
        log = SourceLog(self.query, steps_of(Directory(self.source.spark, self.source.place).url))
        kinds, refused = {}, False
        for file in {*log.files_of(batch_id)} - {*self.files.reasons}:
            try:
                kinds[file_name(file)] = due_kind(*located(self.source.spark, file))
            except DueTypeError:
                refused = True
        is_plain = {*kinds.values()} <= {*PLAIN}
        if refused or not (is_plain or self.by_row):
            self.by_row = self.by_row or not is_plain
            raise StartAgainError("files have another type of due than the ones before")
        others = {name: kind for name, kind in kinds.items() if kind != "integer"}
        batch.sparkSession.sparkContext.setLocalProperty(KINDS, json.dumps(others))


# --- without a failure ------------------------------------------------------------------------------------------------


@dataclass
class SilentFiles:
    """Finds input files that Spark reads as empty, without an error, because their name does not match their content.

    An example is a gzip file with the name .bz2. Such files are checked after the query has read them.

    Args:
        log: The log of the query that reads the files. No other reader may use this object.
        leave_out: Leaves out a file and returns the reason, or returns None.
    """

    spark: SparkSession
    log: SourceLog
    left_out: UnreadableFiles
    leave_out: Callable[[str], str | None]
    every_s: float
    next_look_s: float = 0.0
    waiting: deque[Entry] = field(default_factory=deque)  # files to check

    def find(self) -> Iterator[tuple[str, str]]:
        """Check files for LOOK_S if ``every_s`` has passed; yield those that are left out, with the reasons."""
        now = time.monotonic()
        if now < self.next_look_s:
            return
        self.next_look_s = now + self.every_s
        try:
            self.take_up()
            while self.waiting and time.monotonic() < now + LOOK_S:
                entry = self.waiting[0]
                file = as_in_logs(entry.url)
                if file not in self.left_out.reasons and self.is_silent(file, entry.changed_ms):
                    if (reason := self.leave_out(file)) is not None:
                        yield file, reason
                self.waiting.popleft()
        except (*FROM_JAVA, ValueError, KeyError):  # the file or the log may be accessible the next time
            self.waiting.rotate(-1)

    def is_silent(self, file: str, read_ms: int) -> bool:
        """Return True if a file reads as empty and has not been replaced since the query read it."""
        return reads_as_nothing(self.spark, file) and changed_ms(self.spark, file) == read_ms

    def take_up(self) -> list[str]:
        """Add the files that have been read since the last call; return the names of all files to check."""
        self.waiting += [entry for entry in self.log.newly_done() if may_read_as_nothing(entry.name)]
        return [entry.name for entry in self.waiting]
