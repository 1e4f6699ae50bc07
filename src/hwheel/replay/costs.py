"""What a log costs a wheel, or many wheels together."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from hwheel_core import Lateness, lateness_of

BUCKET_BYTES = 128 + 8
ENTRY_BYTES = 32


@dataclass(frozen=True)
class ReplayCosts:
    """What a log costs a wheel. `merged` adds up what the parts of a log cost, each on a wheel of its own."""

    __module__ = "hwheel.replay"

    tick_ms: int
    wheel_size: int
    timeout_ms: int | None
    """The timeout that all timers had instead of their own; None: their own."""
    timers: int
    fired: int
    wakeups: int
    """How often a reaper would have woken up: instants at which a bucket fell due."""
    cascaded: int
    """How many times a timer was moved to a finer level."""
    peak_pending: int
    """How many timers were pending at once, at most. Of several wheels: the sum of their peaks, which they need not
    have reached at once."""
    levels: int
    """Of several wheels: the most."""
    late: npt.NDArray[np.int64] = field(repr=False, compare=False)
    """The core's histogram of lateness."""
    wheels: int = 1
    largest_peak: int = 0
    """The peak of the wheel that had the most pending."""
    memory_bytes: int = 0
    """What wheels and entries take at the peak, without what a program hangs on its timers."""

    @property
    def cancelled(self) -> int:
        return self.timers - self.fired

    @property
    def lateness(self) -> Lateness:
        """How long after its deadline each timer fired, in ms: what rounding up to a tick does, on a machine without
        delays."""
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
        """From what the core returns."""
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
        """The sum over the parts of a log. ValueError: they differ in tick, size or timeout, or there are none."""
        costs = [*parts]
        if len({(one.tick_ms, one.wheel_size, one.timeout_ms) for one in costs}) != 1:
            raise ValueError("only costs of one tick, wheel size and timeout can be added up")
        late = np.sum([one.late for one in costs], axis=0)
        late[-1] = max(one.late[-1] for one in costs)
        return cls(
            costs[0].tick_ms,
            costs[0].wheel_size,
            costs[0].timeout_ms,
            timers=sum(one.timers for one in costs),
            fired=sum(one.fired for one in costs),
            wakeups=sum(one.wakeups for one in costs),
            cascaded=sum(one.cascaded for one in costs),
            peak_pending=sum(one.peak_pending for one in costs),
            levels=max(one.levels for one in costs),
            late=late,
            wheels=sum(one.wheels for one in costs),
            largest_peak=max(one.largest_peak for one in costs),
            memory_bytes=sum(one.memory_bytes for one in costs),
        )
