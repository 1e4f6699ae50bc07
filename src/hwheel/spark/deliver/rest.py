"""Rest: the job waits while no message is due and nothing arrives, because each empty batch costs processor time.

Spark starts a batch at each trigger while the state has timers, and no setting makes a batch wait for the next timer.
So a batch that would change nothing waits inside the function that foreachBatch calls. It has begun, so it keeps its
time and its input. When the wait ends, it completes, and the batch after it reads the clock and the new input.
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

LONGEST_S = 60.0
AHEAD_MS = 2_000  # the waiting batch completes before the deadline
LOOK_SHARE = 10  # the time between looks at the state is at least this multiple of the duration of a look
NEVER_MS = 2**63 - 1


class Arrivals(Protocol):
    """Tells whether input has arrived."""

    def look(self) -> object:
        """Return a description of all input, which differs if more has arrived."""

    def close(self) -> None:
        """Close connections."""


@dataclass(frozen=True)
class LocalFiles:
    """Arrivals in a local directory, by names and inodes, so that a new file under an old name is noticed."""

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
    """Waits in a batch until a message will be due soon, or input arrives.

    Args:
        arrivals: Asked at each poll.
        query: The checkpoint of the query.
        poll_s: The time between polls, and so the longest delay of input that arrives.
    """

    arrivals: Arrivals
    query: Directory
    poll_s: float
    resting: bool = False
    input: object = None  # before Spark read it for the batch
    look_at: float = 0.0
    stopped: threading.Event = field(default_factory=threading.Event)

    def __call__(self, batch_id: int) -> None:
        """Return at once if the batch may change something. Otherwise, wait."""
        before, self.input = self.input, self.arrivals.look()
        begun = time.monotonic()
        if self.input != before or begun < self.look_at:
            return
        deadline_ms = None
        with suppress(*FROM_JAVA, DirectoryError):  # for example, Spark is deleting old files of the state
            deadline_ms = deadline_of_idle_batch(self.query, batch_id)
        looked = time.monotonic()
        self.look_at = looked + LOOK_SHARE * (looked - begun)
        if deadline_ms is None:
            return
        self.resting = True
        while (
            time.time() * 1000 < deadline_ms - AHEAD_MS
            and time.monotonic() - looked < LONGEST_S
            and self.arrivals.look() == before
            and not self.stopped.wait(self.poll_s)
        ):
            pass
        self.resting = False


def deadline_of_idle_batch(query: Directory, batch_id: int) -> int | None:
    """Return the time of the earliest timer after a batch that has begun, or None if the batch may change something.

    A batch changes nothing if it has no input, and no timer is due at its time.
    """
    if not has_no_input(query, batch_id):
        return None
    timers = [one.timer_ms for one in indexes(query.spark, query.path) if one.timer_ms is not None]
    deadline_ms = min(timers, default=NEVER_MS)
    begun_ms = batch_time_ms(query, batch_id)
    return None if begun_ms is None or deadline_ms <= begun_ms else deadline_ms
