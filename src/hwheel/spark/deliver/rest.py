"""Rest: the job waits while no message is due and nothing arrives, because each empty batch costs processor time.

Spark starts a batch at each trigger while the state has timers, and no setting makes a batch wait for the next timer.
So a batch that would change nothing waits inside the function that foreachBatch calls. The batch has begun, so it keeps
its time and its input. When the wait ends, it completes, and the batch after it reads the clock and the new input.
"""

import os
import threading
import time
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from hwheel.spark.deliver.checkpoint import batch_time_ms, has_no_input
from hwheel.spark.deliver.directory import Directory, DirectoryError
from hwheel.spark.deliver.failures import FROM_JAVA
from hwheel.spark.deliver.pending import indexes

LONGEST_WAIT_S = 60.0
AHEAD_MS = 2_000  # the waiting batch completes this long before the deadline
READ_SHARE = 10  # the time between two reads of the state is at least this multiple of the duration of a read
NEVER_MS = 2**63 - 1


class Arrivals(Protocol):
    """An observer of the input."""

    def look(self) -> object:
        """Return a description of all input. The description changes when input arrives."""

    def close(self) -> None:
        """Close connections."""


@dataclass(frozen=True)
class LocalFiles:
    """Arrivals in a local directory. Inodes distinguish a new file from an old one of the same name."""

    directory: str

    def look(self) -> Set[tuple[str, int]]:
        try:
            with os.scandir(self.directory) as entries:
                return {(entry.name, entry.inode()) for entry in entries}
        except OSError:
            return set()

    def close(self) -> None:
        pass


@dataclass
class Rest:
    """Makes a batch wait until a message is due soon, or until input arrives.

    Args:
        arrivals: Observed at each poll.
        query: The checkpoint of the query.
        poll_s: The time between polls, and so the longest delay of input that arrives.
    """

    arrivals: Arrivals
    query: Directory
    poll_s: float
    resting: bool = False
    last_arrivals: object = None  # what look() returned at the last batch, before Spark listed the input of this batch
    next_read_s: float = 0.0
    stopped: threading.Event = field(default_factory=threading.Event)

    def __call__(self, batch_id: int) -> None:
        """Wait if the batch changes nothing.

        Return at once if input has arrived since the last batch, if the batch may change something, or if the state
        was read recently.
        """
        before, self.last_arrivals = self.last_arrivals, self.arrivals.look()
        called_s = time.monotonic()
        if self.last_arrivals != before or called_s < self.next_read_s:
            return
        deadline_ms = None
        with suppress(*FROM_JAVA, DirectoryError):  # for example, Spark is deleting old files of the state
            deadline_ms = deadline_of_idle_batch(self.query, batch_id)
        read_s = time.monotonic()
        self.next_read_s = read_s + READ_SHARE * (read_s - called_s)
        if deadline_ms is None:
            return
        self.resting = True
        try:
            while (
                time.time() * 1000 < deadline_ms - AHEAD_MS
                and time.monotonic() - read_s < LONGEST_WAIT_S
                and self.arrivals.look() == before
                and not self.stopped.wait(self.poll_s)
            ):
                pass
        finally:
            self.resting = False


def deadline_of_idle_batch(query: Directory, batch_id: int) -> int | None:
    """Return the earliest deadline in the state, or NEVER_MS if the state has none.

    Return None if the batch may change something: it has input, or a timer is due at its time.
    """
    if not has_no_input(query, batch_id):
        return None
    timers = [index.timer_ms for index in indexes(query.spark, query.path) if index.timer_ms is not None]
    deadline_ms = min(timers, default=NEVER_MS)
    batch_ms = batch_time_ms(query, batch_id)
    return None if batch_ms is None or deadline_ms <= batch_ms else deadline_ms
