"""The account of every task, and the memory of the process."""

import os
import threading
import time
from array import array
from collections import Counter
from pathlib import Path

import numpy as np

ROUNDING_S = 1e-6  # of deadlines as floats; a tick is a thousand times longer
PATIENCE_S = 100
FEWEST_SAMPLES = 20
GROWTH_MB, GROWTH_SHARE = 30, 0.1  # a run may grow by the larger of both by chance
MORE_DESCRIPTORS = 5


class Account:
    """Records for each task that it ends once and not before its deadline.

    A task is a number, its place in two arrays. Places are given out in a circle. Before a place is given out again,
    its task is checked, so a run of any length needs memory for the pending tasks only.

    A byte counts the ends of its task. Two ends at exactly the same moment may be counted as one.
    """

    def __init__(self, places):
        self.ends, self.deadlines = bytearray(places), array("d", bytes(8 * places))
        self._ends, self._deadlines = np.frombuffer(self.ends, np.uint8), np.frombuffer(self.deadlines)
        self._used = np.full(places, False)
        self.added = self._next = 0
        self.faults = Counter()
        self._make_lock()
        os.register_at_fork(after_in_child=self._make_lock)

    def _make_lock(self):
        self._lock = threading.Lock()

    def places(self, count):
        """Return places for so many new tasks."""
        with self._lock:
            first = self._next if self._next + count <= len(self.ends) else 0
            self._next = first + count
            self.settle(first, self._next, PATIENCE_S)
            self._used[first : self._next] = True
            self.added += count
        return range(first, first + count)

    def end(self, places):
        """Record that the task in this place, or those in an array of places, were cancelled or returned."""
        np.add.at(self._ends, places, 1)

    def run(self, place, now_s):
        """Record that a task runs now."""
        self.ends[place] += 1
        if now_s + ROUNDING_S < self.deadlines[place]:
            self.faults["early"] += 1

    def run_many(self, places, now_s):
        """Do the same for an array of places."""
        self.end(places)
        self._count("early", now_s + ROUNDING_S < self._deadlines[places])

    def expect(self, first, deadlines):
        """Set the deadlines of the places from ``first`` on."""
        self._deadlines[first : first + len(deadlines)] = deadlines

    def settle(self, begin, end, patience_s=0):
        """Count what became of the tasks in these places, after waiting for those that are pending, and clear them."""
        used, give_up = self._used[begin:end], time.monotonic() + patience_s
        while (self._ends[begin:end][used] == 0).any() and time.monotonic() < give_up:
            time.sleep(0.01)
        ends = self._ends[begin:end][used]
        self._count("lost", ends == 0)
        self._count("doubled", ends > 1)
        self._ends[begin:end] = 0
        used[:] = False

    def _count(self, fault, tasks):
        if count := int(np.count_nonzero(tasks)):
            self.faults[fault] += count


def sample():
    """Return the memory of this process in MB, and the number of its open file descriptors."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6, len(os.listdir("/proc/self/fd"))


def growth(samples):
    """Return {resource: growth} for what grew beyond chance along a line fitted to (s, pending, MB, descriptors)."""
    rows = np.array(samples)
    if len(rows) < FEWEST_SAMPLES:
        return {}
    grown_mb, descriptors = np.polyfit(rows[:, 0], rows[:, 2:], 1)[0] * (rows[-1, 0] - rows[0, 0])
    limit_mb = max(GROWTH_MB, GROWTH_SHARE * rows[:, 2].max())
    found = {"MB of memory grown": (grown_mb, limit_mb), "descriptors grown": (descriptors, MORE_DESCRIPTORS)}
    return {fault: round(float(grown), 1) for fault, (grown, limit) in found.items() if grown > limit}
