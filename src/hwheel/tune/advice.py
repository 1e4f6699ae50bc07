"""Which tick and wheel size to choose, and why."""

from dataclasses import dataclass

from hwheel.replay.costs import ReplayCosts
from hwheel.tune.study import Study
from hwheel.tune.units import bytes_text, ms_text, share_text

LATE_SHARE = 0.01  # of the median timeout: how late a timer may be when nobody says
WORTH_WAKEUPS = 1.1  # a coarser tick must save at least this factor of wake-ups
WORTH_WORK = 0.05  # a larger wheel so many moves and wake-ups a timer


@dataclass(frozen=True)
class Advice:
    """A point of the grid, and the sentences that say why it is this one."""

    costs: ReplayCosts
    late_ms: int
    """How late a timer may be."""
    reasons: tuple[str, ...]


def advise(study: Study, late_ms: int | None = None) -> Advice:
    """The choice among the points with the timers' own timeouts (the first timeout of the grid).

    The tick: of those by which no timer is later than late_ms (one is late by less than a tick), the coarsest, unless a
    finer one takes hardly more wake-ups. The wheel size: the smallest with hardly more moves and wake-ups than the
    best.

    Arguments:
        late_ms: None: 1 % of the median timeout. The study then has curves.
    """
    points = [costs for costs in study.costs if costs.timeout_ms == study.costs[0].timeout_ms]
    ticks = sorted({costs.tick_ms for costs in points})
    sizes = sorted({costs.wheel_size for costs in points})
    at = {(costs.tick_ms, costs.wheel_size): costs for costs in points}
    allowed = "is allowed"
    if late_ms is None:
        assert study.curves is not None
        median_ms = study.curves.lengths.timeout_quantile_ms(0.5)
        late_ms = max(1, round(median_ms * LATE_SHARE))
        allowed = f"is 1 % of the median timeout, {ms_text(median_ms)}"

    fine = [tick for tick in ticks if tick - 1 <= late_ms] or ticks[:1]
    wakeups = {tick: at[tick, sizes[-1]].wakeups for tick in ticks}
    tick = next(tick for tick in fine if wakeups[tick] <= WORTH_WAKEUPS * wakeups[fine[-1]])
    work = {size: at[tick, size].wakeups + at[tick, size].cascaded for size in sizes}
    size = next(size for size in sizes if work[size] <= min(work.values()) + WORTH_WORK * study.timers)

    chosen = at[tick, size]
    reasons = [tick_reason(chosen, late_ms, allowed)]
    if tick != ticks[0]:
        saved = 1 - chosen.wakeups / at[ticks[0], size].wakeups
        if saved > 0:
            reasons.append(f"It takes {share_text(saved)} fewer wake-ups than a tick of {ms_text(ticks[0])}.")
    if tick != fine[-1]:
        # With a coarser tick timers may lie on other levels of a wheel of this size, and move more often.
        more = 1 - at[fine[-1], size].wakeups / chosen.wakeups
        if more > 0:
            reasons.append(f"A tick of {ms_text(fine[-1])} would save no more than another {share_text(more)}.")
        else:
            reasons.append(f"A tick of {ms_text(fine[-1])} would save nothing.")
    reasons.append(size_reason(chosen, [at[tick, one] for one in sizes]))
    return Advice(chosen, late_ms, tuple(reasons))


def tick_reason(chosen: ReplayCosts, late_ms: int, allowed: str) -> str:
    bound = f"{ms_text(late_ms)} {allowed}"
    if chosen.tick_ms - 1 > late_ms:
        return f"A tick of {ms_text(chosen.tick_ms)} is the finest that was tried, and too coarse: {bound}."
    if chosen.tick_ms == 1:
        return f"A tick of 1 ms makes no timer late; {bound}."
    return f"A tick of {ms_text(chosen.tick_ms)} makes a timer at most {ms_text(chosen.tick_ms - 1)} late; {bound}."


def size_reason(chosen: ReplayCosts, sizes: list[ReplayCosts]) -> str:
    moves = chosen.cascaded / chosen.timers
    several = chosen.wheels > 1
    text = (
        f"With {chosen.wheel_size:,} buckets a level a timer moves {moves:.2f} times on average, on "
        f"{chosen.levels} level{'s' * (chosen.levels > 1)}, and the wheel{'s' * several} with all that is pending "
        f"at the peak take{'s' * (not several)} {bytes_text(chosen.memory_bytes)}"
    )
    least = min(sizes, key=lambda costs: costs.cascaded)
    if least.wheel_size > chosen.wheel_size:
        return (
            f"{text}; {least.wheel_size:,} buckets would make it {least.cascaded / least.timers:.2f} times, and "
            f"{bytes_text(least.memory_bytes)}."
        )
    return text + "."
