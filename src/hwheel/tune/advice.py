"""The recommended tick and wheel size, with reasons."""

from dataclasses import dataclass

from hwheel.replay.costs import ReplayCosts
from hwheel.tune.study import Study
from hwheel.tune.units import bytes_text, ms_text, share_text

LATE_SHARE = 0.01  # the default lateness limit, as a share of the median timeout
WORTH_WAKEUPS = 1.1  # a finer tick may have this multiple of the wake-ups of the coarsest allowed one
WORTH_WORK = 0.05  # a smaller wheel may have this many more moves and wake-ups per timer than the best one


@dataclass(frozen=True)
class Advice:
    """The recommended point of the grid, and the reasons as sentences."""

    costs: ReplayCosts
    late_ms: int
    """The lateness limit."""
    reasons: tuple[str, ...]


def advise(study: Study, late_ms: int | None = None) -> Advice:
    """Recommend a tick and a wheel size for the timers with their own timeouts (the grid's first timeout).

    The tick is the coarsest one that keeps lateness within the limit, unless a finer tick has about as few wake-ups.
    The wheel size is the smallest one with about as few moves and wake-ups as the best.

    Args:
        late_ms: The lateness limit. Default: 1 % of the median timeout, for which the study needs curves.
    """
    points = [costs for costs in study.costs if costs.timeout_ms == study.costs[0].timeout_ms]
    ticks = sorted({costs.tick_ms for costs in points})
    sizes = sorted({costs.wheel_size for costs in points})
    at = {(costs.tick_ms, costs.wheel_size): costs for costs in points}
    limit = "is allowed"
    if late_ms is None:
        assert study.curves is not None
        median_ms = study.curves.lengths.timeout_quantile_ms(0.5)
        late_ms = max(1, round(median_ms * LATE_SHARE))
        limit = f"is 1 % of the median timeout, {ms_text(median_ms)}"

    allowed = [tick for tick in ticks if tick - 1 <= late_ms] or ticks[:1]
    wakeups = {tick: at[tick, sizes[-1]].wakeups for tick in ticks}
    tick = next(tick for tick in allowed if wakeups[tick] <= WORTH_WAKEUPS * wakeups[allowed[-1]])
    work = {size: at[tick, size].wakeups + at[tick, size].cascaded for size in sizes}
    size = next(size for size in sizes if work[size] <= min(work.values()) + WORTH_WORK * study.timers)

    chosen = at[tick, size]
    reasons = [tick_reason(chosen, late_ms, limit)]
    if tick != ticks[0]:
        reasons += finer_tick_reason(chosen, at[ticks[0], size])
    if tick != allowed[-1]:
        reasons.append(coarser_tick_reason(chosen, at[allowed[-1], size]))
    reasons.append(size_reason(chosen, [at[tick, wheel_size] for wheel_size in sizes]))
    return Advice(chosen, late_ms, tuple(reasons))


def tick_reason(chosen: ReplayCosts, late_ms: int, limit: str) -> str:
    bound = f"{ms_text(late_ms)} {limit}"
    if chosen.tick_ms - 1 > late_ms:
        return f"A tick of {ms_text(chosen.tick_ms)} is the finest one that was tried, and too coarse: {bound}."
    if chosen.tick_ms == 1:
        return f"A tick of 1 ms makes no timer late; {bound}."
    return f"A tick of {ms_text(chosen.tick_ms)} makes a timer at most {ms_text(chosen.tick_ms - 1)} late; {bound}."


def finer_tick_reason(chosen: ReplayCosts, finest: ReplayCosts) -> list[str]:
    saved = 1 - chosen.wakeups / finest.wakeups
    return [f"It has {share_text(saved)} fewer wake-ups than a tick of {ms_text(finest.tick_ms)}."] if saved > 0 else []


def coarser_tick_reason(chosen: ReplayCosts, coarser: ReplayCosts) -> str:
    # With a coarser tick, timers can be on other levels of a wheel of this size and move more often.
    saved = 1 - coarser.wakeups / chosen.wakeups
    amount = f"only another {share_text(saved)}" if saved > 0 else "nothing"
    return f"A tick of {ms_text(coarser.tick_ms)} would save {amount}."


def size_reason(chosen: ReplayCosts, sizes: list[ReplayCosts]) -> str:
    moves = chosen.cascaded / chosen.timers
    wheels_take = "the wheels take" if chosen.wheels > 1 else "the wheel takes"
    text = (
        f"With {chosen.wheel_size:,} buckets per level a timer moves {moves:.2f} times on average, on "
        f"{chosen.levels} level{'s' * (chosen.levels > 1)}, and {wheels_take} {bytes_text(chosen.memory_bytes)} "
        "at the peak of pending timers"
    )
    best = min(sizes, key=lambda costs: costs.cascaded)
    if best.wheel_size > chosen.wheel_size:
        return (
            f"{text}. With {best.wheel_size:,} buckets it would be {best.cascaded / best.timers:.2f} moves and "
            f"{bytes_text(best.memory_bytes)}."
        )
    return f"{text}."
