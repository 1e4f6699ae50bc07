"""Pending timers over time, and the distribution of timeouts. Curves of the parts of a log can be added up."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hwheel.replay import NEVER, Log, Replayed

Counts = npt.NDArray[np.int64]

STEPS = 1024  # the most steps of a PendingCurve
HOUR_MS = 3_600_000
# The edges of the steps in which durations are counted: numbers of one or two digits and zeros, because most timeouts
# are such numbers, and hours up to a year. From 10 ms to 114 days, a step is at most 10 % wide. Below 1 ms and above a
# year there is one step each.
EDGES_MS: npt.NDArray[np.int64] = np.unique(
    [digits * 10**zeros for zeros in range(9) for digits in range(1, 100)]
    + [hours * HOUR_MS for hours in (6, 12, 24, 48, 168, 720, 8760)]
)


@dataclass(frozen=True)
class PendingCurve:
    """The starts and ends of timers in steps of ``2**shift`` ms. The first step begins at ``first << shift``."""

    shift: int
    first: int
    started: Counts
    ended: Counts

    @classmethod
    def of(cls, starts_ms: Counts, ends_ms: Counts) -> "PendingCurve":
        """Count times, in any order. There must be at least one."""
        first_ms = int(min(starts_ms.min(), ends_ms.min()))
        last_ms = int(max(starts_ms.max(), ends_ms.max()))
        shift = 0
        while (last_ms >> shift) - (first_ms >> shift) >= STEPS:
            shift += 1
        first = first_ms >> shift
        steps = (last_ms >> shift) - first + 1
        return cls(
            shift,
            first,
            np.bincount((starts_ms >> shift) - first, minlength=steps),
            np.bincount((ends_ms >> shift) - first, minlength=steps),
        )

    def spread(self, shift: int, first: int, steps: int) -> tuple[Counts, Counts]:
        """Return the counts in other steps, which must not be finer and must cover these."""
        targets = ((self.first + np.arange(len(self.started))) >> (shift - self.shift)) - first
        started, ended = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
        np.add.at(started, targets, self.started)
        np.add.at(ended, targets, self.ended)
        return started, ended

    @staticmethod
    def merged(curves: Sequence["PendingCurve"]) -> "PendingCurve":
        shift = max(curve.shift for curve in curves)
        while True:
            first = min(curve.first >> (shift - curve.shift) for curve in curves)
            last = max((curve.first + len(curve.started) - 1) >> (shift - curve.shift) for curve in curves)
            if last - first < STEPS:
                break
            shift += 1
        parts = [curve.spread(shift, first, last - first + 1) for curve in curves]
        started, ended = np.sum(parts, axis=0)
        return PendingCurve(shift, first, started, ended)

    @property
    def times_ms(self) -> Counts:
        """The end of each step."""
        return (self.first + 1 + np.arange(len(self.started))) << self.shift

    @property
    def pending(self) -> Counts:
        """The number of pending timers at the end of each step."""
        return np.cumsum(self.started - self.ended)


@dataclass(frozen=True)
class Lengths:
    """The timers by timeout, and the cancelled timers by the time until the cancel.

    Item 0 counts durations below 1 ms, and item n counts those from ``EDGES_MS[n - 1]`` to the next edge.
    """

    timeouts: Counts
    until_cancelled: Counts
    never: int
    """Timers that were never cancelled."""

    @classmethod
    def of(cls, log: Log) -> "Lengths":
        ended = log.ends_ms != NEVER
        return cls(
            counted(log.timeouts_ms),
            counted(log.ends_ms[ended] - log.starts_ms[ended]),
            int(len(log) - np.count_nonzero(ended)),
        )

    @staticmethod
    def merged(parts: Sequence["Lengths"]) -> "Lengths":
        return Lengths(
            np.sum([part.timeouts for part in parts], axis=0),
            np.sum([part.until_cancelled for part in parts], axis=0),
            sum(part.never for part in parts),
        )

    @property
    def would_expire(self) -> npt.NDArray[np.float64]:
        """The share of timers that would expire with each of EDGES_MS as the timeout of all, with a tick of 1 ms."""
        at_least = np.cumsum(self.until_cancelled[::-1])[::-1][1:] + self.never
        share: npt.NDArray[np.float64] = at_least / (self.until_cancelled.sum() + self.never)
        return share

    def timeout_quantile_ms(self, quantile: float) -> int:
        """Return a quantile of the timers' own timeouts, rounded down to an edge."""
        step = int(np.searchsorted(np.cumsum(self.timeouts), quantile * self.timeouts.sum()))
        return int(EDGES_MS[max(step - 1, 0)])


def counted(lengths_ms: Counts) -> Counts:
    return np.bincount(np.searchsorted(EDGES_MS, lengths_ms, side="right"), minlength=len(EDGES_MS) + 1)


@dataclass(frozen=True)
class Curves:
    """The curves of a log."""

    pending: PendingCurve
    lengths: Lengths

    @classmethod
    def of(cls, log: Log, replayed: Replayed) -> "Curves":
        return cls(PendingCurve.of(log.starts_ms, replayed.at_ms), Lengths.of(log))

    @staticmethod
    def merged(parts: Sequence["Curves"]) -> "Curves":
        return Curves(
            PendingCurve.merged([part.pending for part in parts]), Lengths.merged([part.lengths for part in parts])
        )
