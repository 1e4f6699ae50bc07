"""What a query's checkpoint says of its input files: each belongs to an offset of the source, and of each batch it says
up to which offset it goes.
"""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote

from hwheel.spark.deliver.batch_logs import last_batch
from hwheel.spark.deliver.files import Directory
from hwheel.spark.deliver.source import steps_of

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
