"""What is counted of a log beside its costs. Curves of the parts of a log can be added up to those of the whole."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hwheel.replay import NEVER, Log, Replayed

Counts = npt.NDArray[np.int64]

STEPS = 1024  # of a PendingCurve, at most
HOUR_MS = 3_600_000
# Lengths of time are counted in steps that begin at numbers of two digits, which is what people set timeouts to, and at
# hours, up to a year: 10 % or finer. Below 1 ms and above a year is one step each.
EDGES_MS: npt.NDArray[np.int64] = np.unique(
    [digits * 10**zeros for zeros in range(9) for digits in range(1, 100)]
    + [hours * HOUR_MS for hours in (6, 12, 24, 48, 168, 720, 8760)]
)


@dataclass(frozen=True)
class PendingCurve:
    """How many timers were pending in the course of time: counts of starts and ends in steps of 2**shift ms, the first
    of which begins at first << shift."""

    shift: int
    first: int
    started: Counts
    over: Counts

    @classmethod
    def of(cls, starts_ms: Counts, over_ms: Counts) -> "PendingCurve":
        """Times may come in any order; there is at least one of each."""
        first_ms = int(min(starts_ms.min(), over_ms.min()))
        last_ms = int(max(starts_ms.max(), over_ms.max()))
        shift = 0
        while (last_ms >> shift) - (first_ms >> shift) >= STEPS:
            shift += 1
        first = first_ms >> shift
        steps = (last_ms >> shift) - first + 1
        return cls(
            shift,
            first,
            np.bincount((starts_ms >> shift) - first, minlength=steps),
            np.bincount((over_ms >> shift) - first, minlength=steps),
        )

    def spread(self, shift: int, first: int, steps: int) -> tuple[Counts, Counts]:
        """The counts in other steps, not finer ones, which reach as far or farther."""
        place = ((self.first + np.arange(len(self.started))) >> (shift - self.shift)) - first
        wide = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
        np.add.at(wide[0], place, self.started)
        np.add.at(wide[1], place, self.over)
        return wide

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
        started, over = np.sum(parts, axis=0)
        return PendingCurve(shift, first, started, over)

    @property
    def times_ms(self) -> Counts:
        """The end of each step."""
        return (self.first + 1 + np.arange(len(self.started))) << self.shift

    @property
    def pending(self) -> Counts:
        """How many were pending at the end of each step."""
        return np.cumsum(self.started - self.over)


@dataclass(frozen=True)
class Lengths:
    """How many timers had a timeout of such a length, how many were cancelled so long after their start, and how many
    never: items of EDGES_MS, each with what is from this edge to the next. The first item is what is below 1 ms."""

    timeouts: Counts
    until_cancelled: Counts
    never: int

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
        """For each of EDGES_MS as the timeout of all: the share of timers that would expire, with a tick of 1 ms."""
        at_least = np.cumsum(self.until_cancelled[::-1])[::-1][1:] + self.never
        share: npt.NDArray[np.float64] = at_least / (self.until_cancelled.sum() + self.never)
        return share

    def timeout_quantile_ms(self, quantile: float) -> int:
        """A quantile of the timers' own timeouts, to a step."""
        step = int(np.searchsorted(np.cumsum(self.timeouts), quantile * self.timeouts.sum()))
        return int(EDGES_MS[max(step - 1, 0)])


def counted(lengths_ms: Counts) -> Counts:
    return np.bincount(np.searchsorted(EDGES_MS, lengths_ms, side="right"), minlength=len(EDGES_MS) + 1)


@dataclass(frozen=True)
class Curves:
    """What is counted beside the costs: pending timers over time, and how long timers took to be cancelled."""

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
