"""Leaves out the input files that a query has failed at, so that the job goes on without them."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from hwheel.spark.deliver.batch_logs import last_batch
from hwheel.spark.deliver.failures import Failure
from hwheel.spark.deliver.files import Directory
from hwheel.spark.deliver.source import Source, steps_of
from hwheel.spark.deliver.source_log import SourceLog
from hwheel.spark.deliver.topic import is_topic
from hwheel.spark.deliver.trial_reading import as_in_logs, not_in_blocks, unreadable_among, why_unreadable
from hwheel.spark.deliver.unreadable_files import UnreadableFiles

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
