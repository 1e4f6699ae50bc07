"""What a query's checkpoint says of its input files: each belongs to an offset of the source, and of each batch it says
up to which offset it goes.
"""

import io
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

from hwheel.spark.deliver.checkpoint import last_batch
from hwheel.spark.deliver.directory import Directory, steps_of
from hwheel.spark.deliver.failures import FROM_JAVA, failure_of

COMPACT = ".compact"


class Entry(NamedTuple):
    """A file in the log."""

    offset: int
    url: str
    name: str
    changed_ms: int


@dataclass
class SourceLog:
    """That of a query. `more` reads on from where it was read before."""

    query: Directory
    steps: list[str]  # those of the input directory
    through: int = -1  # the offset up to which it was read
    newest_ms: int = 0  # of the times of change of those files

    def more(self, there: Mapping[str, int]) -> dict[str, int]:
        """The files that were done since it was last asked, of those that are there, by name, with times of change. A
        file of another time of change is another one, which nobody has read."""
        found = {}
        for entry in self.newly_done():
            self.newest_ms = max(self.newest_ms, entry.changed_ms)
            if there.get(entry.name) == entry.changed_ms:
                found[entry.name] = entry.changed_ms
        return found

    def newly_done(self) -> list[Entry]:
        """The files that were done since it was last asked."""
        done = self.offset_of("commits")
        entries = self.entries(self.through, done) if done > self.through else ()
        found = [entry for entry in entries if self.through < entry.offset <= done]
        self.through = max(self.through, done)
        return found

    def last_files(self) -> list[str]:
        """The URLs of the files of the last batch that was begun, if it is not done."""
        done, begun = self.offset_of("commits"), self.offset_of("offsets")
        return [entry.url for entry in self.entries(done, begun) if done < entry.offset <= begun]

    def offset_of(self, log: str) -> int:
        """That of the last batch in a log; -1: there is none."""
        batch = last_batch(self.query, log)
        if batch < 0 or not self.query.exists(f"offsets/{batch}"):
            return -1
        *_, line = self.query.read(f"offsets/{batch}").splitlines()
        offset = json.loads(line) if line.startswith("{") else {}
        return int(offset.get("logOffset", -1))

    def entries(self, after: int, upto: int) -> Iterator[Entry]:
        """The files of some offsets, and of others."""
        names = self.query.names("sources/0")
        single = {int(name): name for name in names if name.isdecimal()}
        compact = {int(name.removesuffix(COMPACT)): name for name in names if name.endswith(COMPACT)}
        wanted = range(after + 1, upto + 1)
        if not all(number in single for number in wanted):
            last = max(compact, default=-1)
            yield from self.lines(compact[last]) if compact else ()
            wanted = range(last + 1, upto + 1)
        for number in wanted:
            if number in single:
                yield from self.lines(single[number])

    def lines(self, name: str) -> Iterator[Entry]:
        """Those of a file of the log."""
        for line in io.StringIO(self.query.read(f"sources/0/{name}")):
            if line.startswith("{"):
                found = json.loads(line)
                *above, last = steps_of(found["path"])
                if [unquote(step) for step in above] == self.steps:
                    yield Entry(int(found["batchId"]), found["path"], unquote(last), int(found["timestamp"]))


STAYS = "input files cannot be taken away: {reason}\nsee to that; nothing is lost by it, they are only in the way"
THERE_ALREADY = (
    "{name} is in the archive already, and stays where it was\n"
    "call no two files the same: the second is read only if the first was there no more when Spark looked"
)
PASSED_OVER = (
    "{name} is not read: its time of change is further behind that of the newest file than --forget-files says\n"
    "touch it, or give --forget-files a longer time"
)


@dataclass
class SourceCleaner:
    """`clean()` is called again and again, and looks from time to time. `archive`: None, where files are deleted.

    `keep`: gives the names of files that stay, whatever the logs say. `forget_ms`: how far behind the newest file's
    time of change that of another may be without Spark passing it over; None: there is no limit.
    """

    source: Directory
    archive: Directory | None
    queries: list[Directory]
    keep: Callable[[], Collection[str]]
    every_s: float
    forget_ms: int | None = None
    look_at: float = 0.0
    done: list[dict[str, int]] = field(default_factory=list)  # what each query is through with
    late: set[str] = field(default_factory=set)  # those that were found to be too old the last time

    def __post_init__(self) -> None:
        self.logs = [SourceLog(query, steps_of(self.source.url)) for query in self.queries]
        self.done = [{} for _ in self.logs]

    def clean(self) -> list[str]:
        """Takes away what can be, if it is time to look; returns what the user has to know."""
        if time.monotonic() < self.look_at:
            return []
        self.look_at = time.monotonic() + self.every_s
        try:
            return [*self.clean_now()]
        except (*FROM_JAVA, ValueError, KeyError) as error:
            return [STAYS.format(reason=failure_of(error).what)]

    def clean_now(self) -> Iterator[str]:
        """The same, at once."""
        there = self.source.changed_ms()
        for number, log in enumerate(self.logs):
            known = {
                name: changed_ms for name, changed_ms in self.done[number].items() if there.get(name) == changed_ms
            }
            self.done[number] = known | log.more(there)
        for name in sorted(set.intersection(*map(set, self.done)) - {*self.keep()}):
            if self.archive is None:
                self.source.delete(name)
            elif not self.source.move_to(name, self.archive):
                yield THERE_ALREADY.format(name=name)
        if self.forget_ms is not None:
            # In both queries it may still be on its way through a batch, so it has to be found twice.
            oldest_ms = self.logs[0].newest_ms - self.forget_ms
            late = {name for name, changed_ms in there.items() if changed_ms < oldest_ms} - set().union(*self.done)
            yield from (PASSED_OVER.format(name=name) for name in sorted(late & self.late) if name[0] not in "._")
            self.late = late


NOT_READ = "{name} is not read: its name is no text in the encoding of this system, and Java does not see it\nrename it"


@dataclass
class UnseenNames:
    """`look()` is called again and again, and looks from time to time."""

    source: Directory
    every_s: float
    look_at: float = 0.0

    def look(self) -> list[str]:
        """What the user has to know of the names that are there, if it is time to look."""
        if self.source.local_path is None or time.monotonic() < self.look_at:
            return []
        self.look_at = time.monotonic() + self.every_s
        try:
            names = sorted(os.listdir(self.source.local_path))
        except OSError:  # it is Spark's to say that
            return []
        return [NOT_READ.format(name=shown(name)) for name in names if not is_text(name) and name[0] not in "._"]


def is_text(name: str) -> bool:
    """Whether Python had no need to escape any byte of it."""
    return not any("\udc80" <= character <= "\udcff" for character in name)


def shown(name: str) -> str:
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
