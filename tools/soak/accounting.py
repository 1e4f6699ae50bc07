"""The account of every task, and the memory of the process."""

import os
import threading
import time
from pathlib import Path

import numpy as np

ROUNDING_S = 1e-6  # of deadlines as floats; a tick is a thousand times longer
PATIENCE_S = 100
FEWEST_SAMPLES = 20
GROWTH_MB = 30  # a short run may grow by this much by chance
GROWTH_SHARE = 0.1


class Account:
    """Records for each task that it ends once and not before its deadline.

    A task is a number, its place in two arrays. Places are given out in a circle. Before a place is given out again,
    its task is checked, so a run of any length needs memory for the pending tasks only.

    A byte counts the ends of its task. Two ends at exactly the same moment may be counted as one.
    """

    def __init__(self, places):
        self.ends = bytearray(places)
        self.deadlines = memoryview(np.full(places, 0.0)).cast("B").cast("d")
        self.added = self.lost = self.doubled = self.early = 0
        self._ends = np.frombuffer(self.ends, np.uint8)
        self._deadlines = np.asarray(self.deadlines)
        self._used = np.full(places, False)
        self._next = 0
        self._make_lock()
        os.register_at_fork(after_in_child=self._make_lock)

    def _make_lock(self):
        self._lock = threading.Lock()

    def places(self, count):
        """Return places for so many new tasks."""
        with self._lock:
            if self._next + count > len(self.ends):
                self._next = 0
            first, self._next = self._next, self._next + count
            self.settle(first, first + count, PATIENCE_S)
            self._used[first : first + count] = True
            self.added += count
        return range(first, first + count)

    def end(self, place):
        """Record that a task was cancelled or returned."""
        self.ends[place] += 1

    def end_many(self, places):
        """Do the same for an array of places."""
        np.add.at(self._ends, places, 1)

    def run(self, place, now_s):
        """Record that a task runs now."""
        self.ends[place] += 1
        if now_s + ROUNDING_S < self.deadlines[place]:
            self.early += 1

    def run_many(self, places, now_s):
        """Do the same for an array of places."""
        self.end_many(places)
        self.early += int(np.count_nonzero(now_s + ROUNDING_S < self._deadlines[places]))

    def expect(self, first, deadlines):
        """Set the deadlines of the places from ``first`` on."""
        self._deadlines[first : first + len(deadlines)] = deadlines

    def settle(self, begin, end, patience_s=0):
        """Count what became of the tasks in these places, after waiting for those that are pending, and clear them."""
        used = self._used[begin:end]
        give_up = time.monotonic() + patience_s
        while (self._ends[begin:end][used] == 0).any() and time.monotonic() < give_up:
            time.sleep(0.01)
        ends = self._ends[begin:end][used]
        self.lost += int(np.count_nonzero(ends == 0))
        self.doubled += int(np.count_nonzero(ends > 1))
        self._ends[begin:end] = 0
        used[:] = False

    @property
    def faults(self):
        """Return {fault: number of tasks}."""
        counts = {"lost": self.lost, "doubled": self.doubled, "early": self.early}
        return {fault: count for fault, count in counts.items() if count}


class Samples:
    """Memory in MB and open file descriptors over time. Nothing is judged before the warm-up has passed."""

    def __init__(self, warm_up_s):
        self.warm_up_s = warm_up_s
        self.begin = time.monotonic()
        self.seconds, self.rss_mb, self.descriptors = [], [], []

    def take(self):
        """Record the present values."""
        self.seconds.append(time.monotonic() - self.begin)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.rss_mb.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
        self.descriptors.append(len(os.listdir("/proc/self/fd")))

    def growth(self, values):
        """Return the growth since the warm-up along a fitted line; 0 if there are too few samples."""
        warm = int(np.searchsorted(self.seconds, self.warm_up_s))
        if len(values) - warm < FEWEST_SAMPLES:
            return 0.0
        slope = float(np.polyfit(self.seconds[warm:], values[warm:], 1)[0])
        return slope * (self.seconds[-1] - self.seconds[warm])

    @property
    def faults(self):
        """Return {resource: growth} for growth beyond chance."""
        most_mb = max(GROWTH_MB, GROWTH_SHARE * max(self.rss_mb, default=0))
        limits = {"MB of memory grown": (self.rss_mb, most_mb), "descriptors grown": (self.descriptors, 5)}
        grown = {fault: self.growth(values) for fault, (values, most) in limits.items() if self.growth(values) > most}
        return {fault: round(growth, 1) for fault, growth in grown.items()}
