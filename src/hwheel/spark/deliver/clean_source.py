"""Takes input files away, or into an archive, that both queries are through with.

Spark has this for a query of its own (cleanSource). Here two read the same directory, of which one takes its time, and
a file that one of them took away would be missing to the other. So it is done here, by what the checkpoint says: a file
belongs to an offset of its source, and a batch that is in the commit log is never run again. What cannot be read in the
logs, or is in one only, stays where it is.
"""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from hwheel.spark.deliver.failures import FROM_JAVA, failure_of
from hwheel.spark.deliver.files import Directory
from hwheel.spark.deliver.source import steps_of
from hwheel.spark.deliver.source_log import SourceLog

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
