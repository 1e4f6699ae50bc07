"""What the process has of the system's: memory and descriptors, and whether they grow."""

import math
import os
import time
from pathlib import Path

import numpy as np

FEWEST = 20  # samples that say anything
GROWTH_MB = 30  # what may come in by chance, also in a short run
GROWTH_SHARE = 0.1


class Samples:
    """Memory in MB and open descriptors, as time goes by. Empty where there is no /proc.

    warm_up_s: so long it takes until as much is pending as will be, and nothing can be said of growth.
    """

    def __init__(self, warm_up_s: float) -> None:
        self.warm_up_s = warm_up_s
        self.begin = time.monotonic()
        self.seconds: list[float] = []
        self.rss_mb: list[float] = []
        self.descriptors: list[int] = []

    def take(self) -> None:
        """Now."""
        if not Path("/proc/self/statm").exists():
            return
        self.seconds.append(time.monotonic() - self.begin)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.rss_mb.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
        self.descriptors.append(len(os.listdir("/proc/self/fd")))

    def _slope_per_minute(self, values: list) -> float:
        """Of the straight line through what follows the warm-up; NaN: too little does."""
        warm = int(np.searchsorted(self.seconds, self.warm_up_s))
        if len(values) - warm < FEWEST:
            return math.nan
        return float(np.polyfit(self.seconds[warm:], values[warm:], 1)[0]) * 60

    @property
    def rss_slope(self) -> float:
        """MB a minute."""
        return self._slope_per_minute(self.rss_mb)

    @property
    def descriptors_slope(self) -> float:
        """A minute."""
        return self._slope_per_minute(self.descriptors)

    def faults(self) -> dict[str, float]:
        """What has grown by more than chance, over the time after the warm-up."""
        minutes = (self.seconds[-1] - self.warm_up_s if self.seconds else 0) / 60
        grown_mb, more = self.rss_slope * minutes, self.descriptors_slope * minutes
        found = {}
        if grown_mb > max(GROWTH_MB, GROWTH_SHARE * max(self.rss_mb, default=0)):
            found["MB of memory grown"] = round(grown_mb, 1)
        if more > 5:
            found["descriptors grown"] = round(more, 1)
        return found
