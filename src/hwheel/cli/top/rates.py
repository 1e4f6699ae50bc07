"""What two looks say of the time between them."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

COUNTED = ("added", "cancelled", "expired", "wakeups")


class Rates(NamedTuple):
    """Of one timer, a second; and how late what expired meanwhile was, in ms, within 6 %: None if nothing did."""

    added: float
    cancelled: float
    expired: float
    wakeups: float
    late_p50_ms: float | None
    late_p99_ms: float | None


def rates_between(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Rates]:
    """{name of the timer: its rates}, without those that were not there before."""
    seconds = after["time"] - before["time"]
    if before["pid"] != after["pid"] or seconds <= 0:
        return {}
    earlier = {timer["name"]: timer for timer in before["timers"]}
    found = {}
    for timer in after["timers"]:
        was = earlier.get(timer["name"])
        if was is None or any(timer[name] < was[name] for name in COUNTED):
            continue  # it is new, or another one has this name now
        added, cancelled, expired, wakeups = ((timer[name] - was[name]) / seconds for name in COUNTED)
        steps = new_steps(was["lateness"]["histogram_us"], timer["lateness"]["histogram_us"])
        late = quantile_ms(steps, 0.5), quantile_ms(steps, 0.99)
        found[timer["name"]] = Rates(added, cancelled, expired, wakeups, *late)
    return found


def new_steps(before: Iterable[tuple[int, int]], after: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The steps of a histogram that have grown, and by how much."""
    earlier = dict(before)
    grown = [(upper, count - earlier.get(upper, 0)) for upper, count in after]
    return [(upper, count) for upper, count in grown if count > 0]


def quantile_ms(steps: list[tuple[int, int]], quantile: float) -> float | None:
    """The upper edge of the step that the quantile falls into."""
    rank = math.ceil(quantile * sum(count for _, count in steps))
    for upper_us, count in steps:
        rank -= count
        if rank <= 0:
            return upper_us / 1000
    return None


def octaves(steps: Iterable[tuple[int, int]]) -> list[tuple[float, int]]:
    """(ms, how many were as late as that at most), a power of two in us to each, from the first that holds something to
    the last; 128 us is the first.

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
