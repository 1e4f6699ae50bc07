"""The costs of a log on one wheel or on several."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from hwheel_core import Lateness, lateness_of

BUCKET_BYTES = 128 + 8
ENTRY_BYTES = 32
SUMMED = ("timers", "fired", "wakeups", "cascaded", "peak_pending", "wheels", "memory_bytes")


@dataclass(frozen=True)
class ReplayCosts:
    """The costs of a log. ``merged`` adds up the costs of its parts, each on a wheel of its own."""

    __module__ = "hwheel.replay"

    tick_ms: int
    wheel_size: int
    timeout_ms: int | None
    """The timeout of all timers; None: their own timeouts."""
    timers: int
    fired: int
    wakeups: int
    """Wake-ups of the reaper: the number of times at which a bucket expired."""
    cascaded: int
    """Moves of timers to a finer level."""
    peak_pending: int
    """The most timers that were pending at once. For several wheels: the sum of their peaks."""
    levels: int
    """Levels of the wheel. For several wheels: the most."""
    late: npt.NDArray[np.int64] = field(repr=False, compare=False)
    """The histogram of lateness, in the core's format."""
    wheels: int = 1
    largest_peak: int = 0
    """The highest peak of a wheel."""
    memory_bytes: int = 0
    """Memory of wheels and entries at the peak, without callbacks and arguments."""

    @property
    def cancelled(self) -> int:
        return self.timers - self.fired

    @property
    def lateness(self) -> Lateness:
        """How long after their deadlines timers fired, in ms. The only cause is the rounding up to a tick."""
        return Lateness(*lateness_of(self.late))

    @classmethod
    def of_one_wheel(
        cls,
        tick_ms: int,
        wheel_size: int,
        timeout_ms: int | None,
        timers: int,
        costs: tuple[int, int, int, int, int, object],
    ) -> Self:
        """Return the costs from the result of the core."""
        fired, wakeups, cascaded, peak, levels, late = costs
        return cls(
            tick_ms,
            wheel_size,
            timeout_ms,
            timers,
            fired,
            wakeups,
            cascaded,
            peak,
            levels,
            np.frombuffer(late, np.int64),  # type: ignore[call-overload]
            largest_peak=peak,
            memory_bytes=levels * wheel_size * BUCKET_BYTES + peak * ENTRY_BYTES,
        )

    @classmethod
    def merged(cls, parts: Iterable["ReplayCosts"]) -> "ReplayCosts":
        """Return the sum over the parts of a log. Raise ValueError if their ticks, sizes, or timeouts differ."""
        costs = [*parts]
        if len({(part.tick_ms, part.wheel_size, part.timeout_ms) for part in costs}) != 1:
            raise ValueError("only costs with the same tick, wheel size, and timeout can be merged")
        late = np.sum([part.late for part in costs], axis=0)
        late[-1] = max(part.late[-1] for part in costs)
        sums = {name: sum(getattr(part, name) for part in costs) for name in SUMMED}
        levels, largest_peak = max(part.levels for part in costs), max(part.largest_peak for part in costs)
        return replace(costs[0], levels=levels, late=late, largest_peak=largest_peak, **sums)
