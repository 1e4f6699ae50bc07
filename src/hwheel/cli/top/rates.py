"""Rates and lateness between two snapshots."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

COUNTERS = ("added", "cancelled", "expired", "wakeups")


class Rates(NamedTuple):
    """The rates of a timer per second, and the lateness of the timers that expired between two snapshots.

    Lateness is in ms, within 6 %, or None if no timer expired.
    """

    added: float
    cancelled: float
    expired: float
    wakeups: float
    late_p50_ms: float | None
    late_p99_ms: float | None


def rates_between(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Rates]:
    """Return the rates by the timer's name, without timers that the first snapshot lacks."""
    seconds = after["time"] - before["time"]
    if before["pid"] != after["pid"] or seconds <= 0:
        return {}
    earlier = {timer["name"]: timer for timer in before["timers"]}
    rates = {}
    for timer in after["timers"]:
        old = earlier.get(timer["name"])
        if old is None or any(timer[name] < old[name] for name in COUNTERS):
            continue  # the timer is new, or another timer has this name now
        added, cancelled, expired, wakeups = ((timer[name] - old[name]) / seconds for name in COUNTERS)
        steps = new_steps(old["lateness"]["histogram_us"], timer["lateness"]["histogram_us"])
        late = quantile_ms(steps, 0.5), quantile_ms(steps, 0.99)
        rates[timer["name"]] = Rates(added, cancelled, expired, wakeups, *late)
    return rates


def new_steps(before: Iterable[tuple[int, int]], after: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the steps of a histogram that have grown, with the growth."""
    earlier = dict(before)
    grown = [(upper, count - earlier.get(upper, 0)) for upper, count in after]
    return [(upper, count) for upper, count in grown if count > 0]


def quantile_ms(steps: list[tuple[int, int]], quantile: float) -> float | None:
    """Return the upper edge of the step that holds the quantile."""
    rank = math.ceil(quantile * sum(count for _, count in steps))
    for upper_us, count in steps:
        rank -= count
        if rank <= 0:
            return upper_us / 1000
    return None


def octaves(steps: Iterable[tuple[int, int]]) -> list[tuple[float, int]]:
    """Return (upper edge in ms, count) for each power of two in us, from 128 us and without empty ends.

    >>> octaves([(90, 1), (200, 2), (900, 3)])
    [(0.128, 1), (0.256, 2), (0.512, 0), (1.024, 3)]
    """
    groups: dict[int, int] = {}
    for upper_us, count in steps:
        edge = max(7, upper_us.bit_length())
        groups[edge] = groups.get(edge, 0) + count
    if not groups:
        return []
    return [(2**edge / 1000, groups.get(edge, 0)) for edge in range(min(groups), max(groups) + 1)]
