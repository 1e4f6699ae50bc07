"""What came out, against what was planned."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from feed import REHEARSAL, Feeder, message
from plan import Bools, Int64s, Kind, repeated

SETTLED_MS = 2000  # what is in its place so long before it matters is seen in time, by a slow machine too

REASONS = {
    Kind.NO_ID: "id is null",
    Kind.NO_DUE: "due is null",
    Kind.ABSURD_DUE: "due is not between",
    Kind.NO_JSON: "not a JSON object",
}


@dataclass(frozen=True)
class Sent:
    """By row, in the order of sending."""

    coupon: Int64s
    due_ms: Int64s
    sent_ms: Int64s

    @property
    def lag_ms(self) -> Int64s:
        return self.sent_ms - self.due_ms


@dataclass(frozen=True)
class Account:
    """The sums. `faults` should be all zero."""

    sums: dict[str, int]
    faults: dict[str, int]


def read_sent(directory: Path, feeder: Feeder) -> tuple[Sent, int]:
    """The rows of `hwheel deliver`'s files, and how many of them are not what was sent in."""
    coupons, sent_ms, changed = [], [], 0
    for file in sorted(directory.glob("*.json")):  # by batch, and each user in one file of a batch
        written_ms = file.stat().st_mtime_ns // 1_000_000
        for text in file.read_text().splitlines():
            row = json.loads(text)
            if row["id"].startswith(REHEARSAL):
                continue
            coupon = int(row["id"].removeprefix("coupon-"))
            changed += row != message(feeder.plan, coupon, feeder.start_ms)
            coupons.append(coupon)
            sent_ms.append(written_ms)
    coupon_column = np.array(coupons, np.int64)
    due_ms = feeder.start_ms + feeder.plan.due_ms[coupon_column]
    return Sent(coupon_column, due_ms, np.array(sent_ms, np.int64)), changed


def make_account(feeder: Feeder, sent: Sent, changed: int, dead_letters: list[str]) -> Account:
    """Counts everything that was promised. `dead_letters`: their reasons."""
    plan = feeder.plan
    coupons = len(plan.user)
    message_at, cancel_at = first_landed(feeder, Kind.MESSAGE), first_landed(feeder, Kind.CANCEL)
    settled_ms = feeder.start_ms + plan.due_ms - SETTLED_MS
    in_time, taken_back = message_at <= settled_ms, cancel_at <= settled_ms
    times = np.bincount(sent.coupon, minlength=coupons)

    # The order of each user: a stable sort by user leaves the order of sending within one.
    counted = sent.coupon[in_time[sent.coupon]]
    by_user = counted[np.argsort(plan.user[counted], kind="stable")]
    same_user = np.diff(plan.user[by_user]) == 0
    malformed: Counter[str] = Counter()
    for kind, reason in REASONS.items():
        malformed[reason] += plan.count(kind)
    found = Counter(next((one for one in malformed if reason.startswith(one)), "?") for reason in dead_letters)
    return Account(
        sums={
            "coupons planned": coupons,
            "users": len(np.unique(plan.user)),
            "coupons of the busiest user": int(np.bincount(plan.user).max()),
            "records sent in": len(plan.kind),
            "of them sent again by a producer": int(repeated(plan).sum()),
            "coupons taken back, since a user unsubscribed": int(plan.cancelled.sum()),
            "of them before the coupon itself came": int((plan.cancelled & (cancel_at < message_at)).sum()),
            "of them too late to count on it": int((plan.cancelled & ~taken_back).sum()),
            "malformed records": malformed.total(),
            "coupons sent": len(sent.coupon),
        },
        faults={
            "lost": int(((times == 0) & ~plan.cancelled).sum()),
            "sent twice": int((times > 1).sum()),
            "sent early": int((sent.lag_ms < 0).sum()),
            "sent although taken back": int((taken_back & (times > 0)).sum()),
            "out of order for a user": int((same_user & (np.diff(plan.due_ms[by_user]) < 0)).sum()),
            "not as they were written": changed,
            "malformed records not accounted for": (malformed - found).total() + (found - malformed).total(),
        },
    )


def first_landed(feeder: Feeder, kind: Kind) -> Int64s:
    """When the first record of a kind was in its place, by coupon; far away for coupons that have none."""
    never = np.int64(2**60)
    landed = np.full(len(feeder.plan.user), never)
    chosen: Bools = (feeder.plan.kind == kind) & (feeder.landed_ms > 0)
    np.minimum.at(landed, feeder.plan.coupon[chosen], feeder.landed_ms[chosen])
    return landed


def reasons(directory: Path) -> list[str]:
    """Those of all dead letters."""
    return [json.loads(text)["reason"] for file in directory.glob("*.json") for text in file.read_text().splitlines()]
