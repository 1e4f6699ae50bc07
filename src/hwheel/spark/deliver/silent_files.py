"""Input files that are read without an error, and nothing comes of them, because they are not what they are called: a
line of JSON, or a .gz, that is called .bz2. A query does not fail at them, so they are looked at when it has read them.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from hwheel.spark.deliver.failures import FROM_JAVA
from hwheel.spark.deliver.source_log import Entry, SourceLog
from hwheel.spark.deliver.trial_reading import as_in_logs, changed_ms, reads_as_nothing, sometimes_reads_as_nothing
from hwheel.spark.deliver.unreadable_files import UnreadableFiles

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
