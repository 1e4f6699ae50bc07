"""A day of a marketing campaign, made up: who gets which coupon when, who unsubscribes, and what goes wrong on the way.

All times are milliseconds from the start of the day as it is played: a day of `seconds` seconds. What is sent before
that, "the night before", has a time of -1.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

MARGIN_MS = 3000  # a message and its cancel are sent so long before the due time, at least: see README.md
NIGHT_BEFORE = -1
COUPONS_A_USER = 5
ZIPF = 0.7  # of a million coupons the busiest of 200,000 users gets 0.7 percent
PLANNED_AHEAD = 0.7  # is known the night before; the rest comes up in the course of the day
UNSUBSCRIBING = 0.04  # of the users, each at some moment of the day
RETRIED = 0.02  # of the records, within seconds, by a producer that has seen no acknowledgement
REPLAYED = 0.005  # of the records, at any later time of the day, also when the coupon is long out
MALFORMED = 0.001  # of the records

# (share, hour, spread in hours): a spread of 0 is a push to all at one moment. The rest: at any time from 7 to 23.
PEAKS = ((0.10, 9.0, 0.0), (0.10, 20.0, 0.0), (0.15, 9.0, 1.0), (0.20, 12.5, 1.0), (0.25, 19.5, 1.5))


class Kind(IntEnum):
    """What a record is."""

    MESSAGE = 0
    CANCEL = 1
    NO_ID = 2
    NO_DUE = 3
    ABSURD_DUE = 4
    NO_JSON = 5


@dataclass(frozen=True)
class Plan:
    """`user`, `due_ms` and `cancelled` by coupon; `at_ms`, `coupon` and `kind` by record, in the order of sending."""

    seconds: float
    user: Int64s
    due_ms: Int64s
    cancelled: Bools
    at_ms: Int64s
    coupon: Int64s
    kind: Int64s

    def count(self, kind: Kind) -> int:
        """How many records of a kind are sent."""
        return int((self.kind == kind).sum())


def make_plan(coupons: int, seconds: float, seed: int) -> Plan:
    """A day's plan: the same for the same arguments."""
    rng = np.random.default_rng(seed)
    day_ms = seconds * 1000
    users = max(1, coupons // COUPONS_A_USER)
    weights = np.cumsum(np.arange(1, users + 1) ** -ZIPF)
    user = np.searchsorted(weights, rng.random(coupons) * weights[-1])
    due_ms = (hours(rng, coupons) / 24 * day_ms).astype(np.int64)

    ahead_ms = MARGIN_MS + (rng.random(coupons) * day_ms / 4).astype(np.int64)
    known_ms = np.where(rng.random(coupons) < PLANNED_AHEAD, NIGHT_BEFORE, due_ms - ahead_ms).clip(NIGHT_BEFORE)

    leaves = rng.random(users) < UNSUBSCRIBING
    leaving_ms = np.where(leaves, rng.random(users) * day_ms, np.inf)[user]
    cancelled = leaving_ms <= due_ms - MARGIN_MS
    # Who unsubscribes is heard of at once; a coupon that is being made for that user comes up later all the same.
    cancels = np.flatnonzero(cancelled)

    at_ms = np.concatenate([known_ms, leaving_ms[cancels].astype(np.int64)])
    coupon = np.concatenate([np.arange(coupons), cancels])
    kind = np.repeat([Kind.MESSAGE, Kind.CANCEL], [coupons, len(cancels)])
    records = [(at_ms, coupon, kind)]
    for share, later_ms in ((RETRIED, 2000.0), (REPLAYED, (day_ms - at_ms).clip(0))):
        again = np.flatnonzero(rng.random(len(at_ms)) < share)
        again_ms = (at_ms + later_ms * rng.random(len(at_ms))).astype(np.int64)
        records.append((again_ms[again], coupon[again], kind[again]))
    broken = max(4, round(len(at_ms) * MALFORMED))
    kinds = np.resize([Kind.NO_ID, Kind.NO_DUE, Kind.ABSURD_DUE, Kind.NO_JSON], broken)
    records.append(((rng.random(broken) * day_ms * 0.8).astype(np.int64), np.full(broken, -1), kinds))

    columns: list[Any] = [np.concatenate(column) for column in zip(*records, strict=True)]
    order = np.lexsort((rng.random(len(columns[0])), columns[0]))
    return Plan(seconds, user, due_ms, cancelled, *(column[order].astype(np.int64) for column in columns))


def repeated(plan: Plan) -> Bools:
    """Which records have come before."""
    _, first = np.unique(plan.coupon * len(Kind) + plan.kind, return_index=True)
    again = plan.coupon >= 0  # malformed ones are all different
    again[first] = False
    return again


def hours(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Hours of the day, to the second."""
    shares = np.array([share for share, _, _ in PEAKS])
    peak = rng.choice(len(PEAKS) + 1, count, p=[*shares, 1 - shares.sum()])
    centre = np.array([hour for _, hour, _ in PEAKS] + [0.0])[peak]
    spread = np.array([width for _, _, width in PEAKS] + [0.0])[peak]
    drawn = np.where(peak < len(PEAKS), rng.normal(centre, spread), rng.uniform(7, 23, count))
    return np.round(np.clip(drawn, 0, 23.99) * 3600) / 3600
