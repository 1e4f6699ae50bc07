"""Compares the output with the plan."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from feed import REHEARSAL, Feeder, message
from plan import Bools, Int64s, Kind, repeated

SETTLED_MS = 2000  # even a slow machine reads a file within this time

REASONS = {
    Kind.NO_ID: "id is null",
    Kind.NO_DUE: "due is null",
    Kind.ABSURD_DUE: "due is not between",
    Kind.NO_JSON: "not a JSON object",
}


@dataclass(frozen=True)
class Sent:
    """The delivered coupons, in the order of delivery."""

    coupon: Int64s
    due_ms: Int64s
    sent_ms: Int64s

    @property
    def lag_ms(self) -> Int64s:
        return self.sent_ms - self.due_ms


@dataclass(frozen=True)
class Account:
    """The counts. All faults should be zero."""

    sums: dict[str, int]
    faults: dict[str, int]


def read_sent(directory: Path, feeder: Feeder) -> tuple[Sent, int]:
    """Read the output of `hwheel deliver`; also return the number of rows that differ from the input."""
    coupons, sent_ms, changed = [], [], 0
    for file in sorted(directory.glob("*.json")):  # in order of batches; each user is in one file of a batch
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
    """Count the coupons and the faults.

    Args:
        dead_letters: The reasons of the dead letters.
    """
    plan = feeder.plan
    coupons = len(plan.user)
    message_at, cancel_at = first_landed(feeder, Kind.MESSAGE), first_landed(feeder, Kind.CANCEL)
    settled_ms = feeder.start_ms + plan.due_ms - SETTLED_MS
    in_time, taken_back = message_at <= settled_ms, cancel_at <= settled_ms
    times = np.bincount(sent.coupon, minlength=coupons)

    # A stable sort by user keeps the order of delivery for each user.
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
            "repeated by a producer": int(repeated(plan).sum()),
            "coupons cancelled by unsubscribing": int(plan.cancelled.sum()),
            "cancelled before the coupon arrived": int((plan.cancelled & (cancel_at < message_at)).sum()),
            "cancelled too late to be certain": int((plan.cancelled & ~taken_back).sum()),
            "malformed records": malformed.total(),
            "coupons sent": len(sent.coupon),
        },
        faults={
            "lost": int(((times == 0) & ~plan.cancelled).sum()),
            "sent twice": int((times > 1).sum()),
            "sent early": int((sent.lag_ms < 0).sum()),
            "sent although cancelled": int((taken_back & (times > 0)).sum()),
            "out of order for a user": int((same_user & (np.diff(plan.due_ms[by_user]) < 0)).sum()),
            "changed": changed,
            "malformed records not accounted for": (malformed - found).total() + (found - malformed).total(),
        },
    )


def first_landed(feeder: Feeder, kind: Kind) -> Int64s:
    """Return when the first record of a kind was in the input, by coupon; a late time if there is no record."""
    never = np.int64(2**60)
    landed = np.full(len(feeder.plan.user), never)
    chosen: Bools = (feeder.plan.kind == kind) & (feeder.landed_ms > 0)
    np.minimum.at(landed, feeder.plan.coupon[chosen], feeder.landed_ms[chosen])
    return landed


def reasons(directory: Path) -> list[str]:
    """Return the reasons of all dead letters."""
    return [json.loads(text)["reason"] for file in directory.glob("*.json") for text in file.read_text().splitlines()]
