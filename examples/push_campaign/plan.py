"""A synthetic day of a marketing campaign: coupons, users who unsubscribe, and faults of the senders.

All times are milliseconds from the start of the played day, which takes `seconds` seconds. Records that are sent
before, "the night before", have a time of -1.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

MARGIN_MS = 3000  # the least time between sending a record and its due time: see README.md
NIGHT_BEFORE = -1
COUPONS_A_USER = 5
ZIPF = 0.7  # the busiest of 200,000 users gets 0.7 percent of a million coupons
PLANNED_AHEAD = 0.7  # of the coupons are sent the night before, the others during the day
UNSUBSCRIBING = 0.04  # of the users, each at a random time of the day
RETRIED = 0.02  # of the records are repeated within seconds, by a producer without an acknowledgement
REPLAYED = 0.005  # of the records are repeated at any later time of the day
MALFORMED = 0.001  # of the records

# (share, hour, spread in hours). A spread of 0 is one burst. The other coupons are due at any time from 7 to 23.
PEAKS = ((0.10, 9.0, 0.0), (0.10, 20.0, 0.0), (0.15, 9.0, 1.0), (0.20, 12.5, 1.0), (0.25, 19.5, 1.5))


class Kind(IntEnum):
    """The kind of a record."""

    MESSAGE = 0
    CANCEL = 1
    NO_ID = 2
    NO_DUE = 3
    ABSURD_DUE = 4
    NO_JSON = 5


@dataclass(frozen=True)
class Plan:
    """The day: user, due_ms, and cancelled by coupon; at_ms, coupon, and kind by record, in sending order."""

    seconds: float
    user: Int64s
    due_ms: Int64s
    cancelled: Bools
    at_ms: Int64s
    coupon: Int64s
    kind: Int64s

    def count(self, kind: Kind) -> int:
        """Return the number of records of a kind."""
        return int((self.kind == kind).sum())


def make_plan(coupons: int, seconds: float, seed: int) -> Plan:
    """Return a plan. Equal arguments give equal plans."""
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
    # Cancels are sent at once; coupons for that user that are not yet sent follow later.
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
    """Return which records repeat an earlier one."""
    _, first = np.unique(plan.coupon * len(Kind) + plan.kind, return_index=True)
    again = plan.coupon >= 0  # malformed ones are all different
    again[first] = False
    return again


def hours(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Draw hours of the day, rounded to seconds."""
    shares = np.array([share for share, _, _ in PEAKS])
    peak = rng.choice(len(PEAKS) + 1, count, p=[*shares, 1 - shares.sum()])
    centre = np.array([hour for _, hour, _ in PEAKS] + [0.0])[peak]
    spread = np.array([width for _, _, width in PEAKS] + [0.0])[peak]
    drawn = np.where(peak < len(PEAKS), rng.normal(centre, spread), rng.uniform(7, 23, count))
    return np.round(np.clip(drawn, 0, 23.99) * 3600) / 3600
