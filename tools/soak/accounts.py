"""Who has ended how: a byte and a deadline a task, in memory that all threads and callbacks of a process write to."""

import os
import threading
import time

import numpy as np

ROUNDING_S = 1e-6  # of the floats that a deadline is reckoned with; a tick is a thousand times that
PATIENCE_S = 100


class Account:
    """Tasks, each of which has to end once and not before its deadline; known by the number of their place.

    Places are given out in a circle: what has ended is counted and its places are given to others. Who wants one
    whose task has not ended yet waits for it, and after PATIENCE_S calls it lost. So a soak of any length needs as much
    memory as what may be pending at once.

    A byte holds how many ends its task has seen. It is written by two hands only if there are two ends, so what has
    ended once is never miscounted; of two ends at the very same moment one may be missed.
    """

    def __init__(self, places: int) -> None:
        # All is written to once, so that the process has this memory from the beginning on.
        self.ends = bytearray(b"\0") * places
        self.deadlines = memoryview(np.full(places, 0.0)).cast("B").cast("d")
        self.added = self.lost = self.doubled = self.early = 0
        self._ends = np.frombuffer(self.ends, np.uint8)
        self._deadlines = np.asarray(self.deadlines)
        self._used = np.full(places, False)
        self._next = 0
        self._make_lock()
        if hasattr(os, "register_at_fork"):  # it may be taken at a fork; what a child counts is its own
            os.register_at_fork(after_in_child=self._make_lock)

    def _make_lock(self) -> None:
        self._lock = threading.Lock()

    def places(self, count: int) -> range:
        """The caller's, for so many tasks: they are about to be added."""
        with self._lock:
            if self._next + count > len(self.ends):
                self._next = 0
            first, self._next = self._next, self._next + count
            self.settle(first, first + count, PATIENCE_S)
            self._used[first : first + count] = True
            self.added += count
        return range(first, first + count)

    def end(self, place: int) -> None:
        """Its task was cancelled, or came back."""
        self.ends[place] += 1

    def end_all(self, places: tuple[int, ...]) -> None:
        """The same for each."""
        for place in places:
            self.ends[place] += 1

    def run(self, place: int, now: float) -> None:
        """Its task runs, at a time of the timer's clock in seconds."""
        self.ends[place] += 1
        if now + ROUNDING_S < self.deadlines[place]:
            self.early += 1

    def end_many(self, places: np.ndarray) -> None:
        """The same as end(), for each."""
        np.add.at(self._ends, places, 1)

    def expect(self, first: int, deadlines: np.ndarray) -> None:
        """When those from that place on are due."""
        self._deadlines[first : first + len(deadlines)] = deadlines

    def run_many(self, places: np.ndarray, now: float) -> np.ndarray:
        """The same as run(), for each. Returns their deadlines."""
        np.add.at(self._ends, places, 1)
        deadlines = self._deadlines[places]
        early = int(np.count_nonzero(now + ROUNDING_S < deadlines))
        if early:  # a store for each would be one that threads meet at: see HAS_GIL in forks.py
            self.early += early
        return deadlines

    def settle(self, begin: int, end: int, patience_s: float) -> None:
        """Counts what has become of the tasks of some places, and clears these."""
        used = self._used[begin:end]
        give_up = time.monotonic() + patience_s
        while (self._ends[begin:end][used] == 0).any() and time.monotonic() < give_up:
            time.sleep(0.01)
        ends = self._ends[begin:end][used]
        self.lost += int(np.count_nonzero(ends == 0))
        self.doubled += int(np.count_nonzero(ends > 1))
        self._ends[begin:end] = 0
        used[:] = False

    def close(self, patience_s: float = 0) -> None:
        """Counts what has not been counted yet."""
        self.settle(0, len(self.ends), patience_s)

    @property
    def faults(self) -> dict[str, int]:
        """What must not be, by its name."""
        return {"lost": self.lost, "doubled": self.doubled, "early": self.early}
