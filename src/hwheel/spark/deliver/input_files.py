"""The files of an input directory: their log in the checkpoint, and their cleanup."""

import io
import json
import operator
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

from hwheel.spark.deliver.checkpoint import last_batch
from hwheel.spark.deliver.directory import Directory, steps_of
from hwheel.spark.deliver.failures import FROM_JAVA, failure_of
from hwheel.spark.deliver.owner import CLEANED, TimesDifferError, query_id

# --- the log of a source ----------------------------------------------------------------------------------------------

COMPACT = ".compact"


class Entry(NamedTuple):
    """A file in the log."""

    offset: int
    url: str
    name: str
    changed_ms: int


@dataclass
class SourceLog:
    """Spark's log of the input files of a query. Each file belongs to an offset, and each batch ends at an offset.

    Args:
        query: The checkpoint of the query.
        steps: The URL of the input directory, as ``steps_of()`` returns it.
    """

    query: Directory
    steps: list[str]
    through: int = -1  # the offset up to which newly_done() has read
    newest_ms: int = 0  # the latest modification time of the files that more() has read

    def more(self, present: Mapping[str, int], read: dict[str, int] | None = None) -> dict[str, int]:
        """Return the modification times of the newly completed files that are still present, by name.

        A file with another modification time is a new file, which no query has read.

        Args:
            present: The modification times of the files in the input, by name.
            read: Gets the modification times of all newly completed files.
        """
        found = {}
        for entry in self.newly_done():
            self.newest_ms = max(self.newest_ms, entry.changed_ms)
            if read is not None:
                read[entry.name] = entry.changed_ms
            if present.get(entry.name) == entry.changed_ms:
                found[entry.name] = entry.changed_ms
        return found

    def newly_done(self) -> list[Entry]:
        """Return the files of the batches that have completed since the last call."""
        done = self.offset_of("commits")
        entries = self.entries(self.through, done) if done > self.through else ()
        found = [entry for entry in entries if self.through < entry.offset <= done]
        self.through = max(self.through, done)
        return found

    def last_files(self) -> list[str]:
        """Return the URLs of the files of the last batch, if it has begun and has not completed."""
        done, begun = self.offset_of("commits"), self.offset_of("offsets")
        return [entry.url for entry in self.entries(done, begun) if done < entry.offset <= begun]

    def files_of(self, batch: int) -> list[str]:
        """Return the URLs of the files of a batch that has begun."""
        before, end = self.end_of(batch - 1), self.end_of(batch)
        if before == end:
            return []
        return [entry.url for entry in self.entries(before, end) if before < entry.offset <= end]

    def offset_of(self, log: str) -> int:
        """Return the offset at which the last batch of a log ends, or -1."""
        return self.end_of(last_batch(self.query, log))

    def end_of(self, batch: int) -> int:
        """Return the offset at which a batch ends, or -1."""
        if batch < 0 or not self.query.exists(f"offsets/{batch}"):
            return -1
        *_, line = self.query.read(f"offsets/{batch}").splitlines()
        offset = json.loads(line) if line.startswith("{") else {}
        return int(offset.get("logOffset", -1))

    def entries(self, after: int, upto: int) -> Iterator[Entry]:
        """Yield the files of the offsets above `after` up to `upto`, and possibly other files."""
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
        """Yield the entries in one file of the log, without those of files in subdirectories."""
        for line in io.StringIO(self.query.read(f"sources/0/{name}")):
            if line.startswith("{"):
                found = json.loads(line)
                *above, last = steps_of(found["path"])
                if [unquote(step) for step in above] == self.steps:
                    yield Entry(int(found["batchId"]), found["path"], unquote(last), int(found["timestamp"]))


# --- cleanup ----------------------------------------------------------------------------------------------------------

USED_NAME = "a file of its name was read before"
NOT_CLEANED = "input files cannot be removed: {reason}\nno message is lost; the files only take up space"
IN_ARCHIVE = (
    "{name} exists in the archive already, so it stays in the input\n"
    "do not reuse names: Spark reads a second file of the same name only if the first one was removed before"
)
IN_FUTURE = (
    "a file in the input is dated {time}, which is in the future\n"
    "files that are older are read nevertheless; correct the clock of the sender"
)
NAME_AGAIN = (
    "{name} is not read: a file of this name was read before, and this one is of {time}\n"
    "move it in under another name; the dead letters have its name"
)
TOO_OLD = (
    "{name} is not read: it is older than the newest file by more than --forget-files\n"
    "touch it, or give --forget-files a longer time"
)


@dataclass
class SourceCleaner:
    """Deletes or archives the input files that all queries have read.

    Spark's option cleanSource serves one query. Here two queries read the same directory, and one of them must not miss
    a file that the other has removed. So a file is removed when the logs of both queries have it in a completed batch,
    which is never repeated. All other files stay.

    Args:
        archive: Where files are moved. None: files are deleted.
        queries: The checkpoints of the queries.
        keep: Returns the names of files that must stay.
        send_letter: Writes a dead letter for the URL of a file, a reason, and the modification time.
        forget_ms: How much older than the newest file a file may be before Spark ignores it. None: without limit.
    """

    source: Directory
    archive: Directory | None
    queries: list[Directory]
    keep: Callable[[], Collection[str]]
    every_s: float
    forget_ms: int | None = None
    send_letter: Callable[[str, str, int], None] = lambda file, reason, changed_ms: None
    next_look_s: float = 0.0
    done: list[dict[str, int]] = field(default_factory=list)  # for each query, the present files that it has completed
    marked: list[int] = field(default_factory=list)  # the offsets that mark() has stored
    read: dict[str, int] = field(default_factory=dict)  # the modification times of all files that were read
    again: dict[str, int] = field(default_factory=dict)  # the files with a used name that the last check found
    reported: dict[str, int] = field(default_factory=dict)  # the files with a used name that were reported
    too_old: set[str] = field(default_factory=set)  # the files that the last check found too old

    def __post_init__(self) -> None:
        self.logs = [SourceLog(query, steps_of(self.source.url)) for query in self.queries]
        self.done = [{} for _ in self.logs]

    def mark(self) -> None:
        """Store, for ``check_removed()``, up to which offset of each query files may be removed."""
        through = [log.through for log in self.logs]
        if through != self.marked:
            self.source.write(CLEANED.format(id=query_id(self.queries[0])), " ".join(map(str, through)))
            self.marked = through

    def clean(self) -> list[str]:
        """Remove files if ``every_s`` has passed; return notices for the user."""
        if time.monotonic() < self.next_look_s:
            return []
        self.next_look_s = time.monotonic() + self.every_s
        try:
            return [*self.clean_now()]
        except (*FROM_JAVA, ValueError, KeyError) as error:
            return [NOT_CLEANED.format(reason=failure_of(error).what)]

    def clean_now(self) -> Iterator[str]:
        present = self.source.changed_ms()
        for number, log in enumerate(self.logs):
            still_present = {name: ms for name, ms in self.done[number].items() if present.get(name) == ms}
            self.done[number] = still_present | log.more(present, self.read if number == 0 else None)
        names = sorted(set.intersection(*map(set, self.done)) - {*self.keep()})
        if names:
            self.mark()
        for name in names:
            if self.archive is None:
                self.source.delete(name)
            elif not self.source.move_to(name, self.archive):
                yield IN_ARCHIVE.format(name=name)
        yield from self.report_names_again(present)
        if self.forget_ms is not None:
            yield from self.report_too_old(present, self.newest_ms() - self.forget_ms)

    def newest_ms(self) -> int:
        """Return the modification time of the newest file that was read, or the current time if that is earlier."""
        return min(self.logs[0].newest_ms, int(time.time() * 1000))

    def ahead_ms(self) -> int:
        """Return how many milliseconds the newest file that was read is dated in the future."""
        return self.logs[0].newest_ms - self.newest_ms()

    def report_names_again(self, present: Mapping[str, int]) -> Iterator[str]:
        """Yield notices about files that Spark does not read, because it has read another file of the same name."""
        if self.forget_ms is not None:  # Spark forgets the names of older files, and reads a new file of such a name
            oldest_ms = self.newest_ms() - self.forget_ms
            self.read = {name: ms for name, ms in self.read.items() if ms >= oldest_ms}
        again = {name: ms for name, ms in present.items() if self.read.get(name, ms) != ms}
        for name, ms in sorted(again.items()):
            # A file that is found for the first time may still be changing.
            if self.again.get(name) == ms != self.reported.get(name):
                self.send_letter(self.source.child_url(name), USED_NAME, ms)
                self.reported[name] = ms
                yield NAME_AGAIN.format(name=name, time=utc(ms))
        self.again = again

    def report_too_old(self, present: Mapping[str, int], oldest_ms: int) -> Iterator[str]:
        """Yield notices about files that Spark ignores because they are too old."""
        too_old = {name for name, ms in present.items() if ms < oldest_ms} - set().union(*self.done)
        # A file that is found for the first time may still be part of a running batch.
        yield from (TOO_OLD.format(name=name) for name in sorted(too_old & self.too_old) if name[0] not in "._")
        self.too_old = too_old


def check_removed(source: Directory, queries: list[Directory]) -> None:
    """Check that the files that were removed from an input are among those that a checkpoint has read.

    Args:
        queries: The checkpoints of the queries, that of the messages first. They must not be running.

    Raises:
        TimesDifferError: Files were removed that the checkpoint has not read, because it is an older copy.
    """
    id = query_id(queries[0])
    if id is None or not source.exists(mark := CLEANED.format(id=id)):
        return
    removed = map(int, source.read(mark).split())
    done = [SourceLog(query, steps_of(source.url)).offset_of("commits") for query in queries]
    if any(map(operator.gt, removed, done)):  # each query has offsets of its own
        raise TimesDifferError(
            f"{source.path} is newer than the checkpoint: files that the checkpoint has not read were removed from it\n"
            "put the newer checkpoint back; or move the files that were removed since that copy back into the input, "
            f"from --archive or from where they came, and delete {source.path}/{mark}"
        )


def utc(ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ms // 1000))


# --- names that Java cannot read --------------------------------------------------------------------------------------

NOT_TEXT = "{name} is not read: Java ignores it, because its name is not text in the encoding of this system\nrename it"


@dataclass
class IgnoredNames:
    """Finds input files on a local disk that Java ignores because their names are not valid text. Python lists them."""

    source: Directory
    every_s: float
    next_look_s: float = 0.0

    def notices(self) -> list[str]:
        """Return notices for the user if ``every_s`` has passed."""
        if self.source.local_path is None or time.monotonic() < self.next_look_s:
            return []
        self.next_look_s = time.monotonic() + self.every_s
        try:
            names = sorted(os.listdir(self.source.local_path))
        except OSError:  # Spark reports the fault
            return []
        return [NOT_TEXT.format(name=printable(name)) for name in names if not is_text(name) and name[0] not in "._"]


def is_text(name: str) -> bool:
    """Return True if Python had to escape no byte of a name."""
    return not any("\udc80" <= character <= "\udcff" for character in name)


def printable(name: str) -> str:
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
