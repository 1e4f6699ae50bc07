"""The pictures of a report. Each title states the finding."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hwheel.extras import require
from hwheel.tune.advice import Advice
from hwheel.tune.curves import EDGES_MS, Curves
from hwheel.tune.study import Study
from hwheel.tune.units import bytes_text, ms_text, share_text

# The palette of Okabe and Ito, for color-blind readers.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#7F7F7F"
STYLE: Any = {
    "figure.dpi": 110,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E5E5E5",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "figure.constrained_layout.use": True,
}
TIME_TICKS = (1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000, 30 * 86_400_000)


def draw(study: Study, advice: Advice, out: Path) -> list[Path]:
    """Draw all pictures into a directory and return the files. Raise MissingExtraError without matplotlib."""
    require("hwheel.tune", "tune", without=("rich",))
    import matplotlib
    from matplotlib.figure import Figure  # unlike pyplot, it opens no window and has no global state

    assert study.curves is not None
    files = []
    with matplotlib.rc_context(STYLE):
        for picture in (lateness, cost, pending, timeouts):
            figure = Figure(figsize=(9, 4))
            picture(figure, study, advice)
            files.append(out / f"{picture.__name__}.png")
            figure.savefig(files[-1])
    return files


def costs_by_setting(study: Study, advice: Advice) -> dict[tuple[int, int], Any]:
    return {
        (costs.tick_ms, costs.wheel_size): costs for costs in study.costs if costs.timeout_ms == advice.costs.timeout_ms
    }


def lateness(figure: Any, study: Study, advice: Advice) -> None:
    """Plot lateness and wake-ups by tick, with the recommended wheel size."""
    size = advice.costs.wheel_size
    points = costs_by_setting(study, advice)
    rows = [costs for (_, wheel_size), costs in sorted(points.items()) if wheel_size == size]
    ticks = [costs.tick_ms for costs in rows]
    late, woken = figure.subplots(1, 2)
    for name, colour, width in (("max", ORANGE, 5), ("p99", BLUE, 2), ("p50", GREEN, 2)):  # max and p99 often coincide
        late_ms = [getattr(costs.lateness, name) for costs in rows]
        late.plot(ticks, late_ms, marker="o", color=colour, label=name, linewidth=width)
    late.axhline(advice.late_ms, color=GREY, linestyle="--", label=f"allowed: {ms_text(advice.late_ms)}")
    late.set_yscale("symlog", linthresh=1)
    late.set_ylim(bottom=0)
    late.yaxis.set_major_formatter(lambda value, _: ms_text(value) if value else "0")
    late.set_ylabel("lateness")
    late.legend()
    late.set_title("Lateness of timers")
    woken.plot(ticks, [costs.wakeups for costs in rows], marker="o", color=BLUE)
    woken.set_ylim(bottom=0)
    woken.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    woken.set_ylabel("wake-ups of the reaper")
    woken.set_title("Wake-ups")
    for axis in (late, woken):
        axis.set_xscale("log")
        mark_settings(axis, ticks, advice.costs.tick_ms, f"tick in ms (with wheel size {size:,})")
    saved = 1 - advice.costs.wakeups / max(1, rows[0].wakeups)
    title = f"A tick of {ms_text(advice.costs.tick_ms)}: at most {ms_text(advice.costs.lateness.max)} late"
    if saved > 0:
        title += f", and {share_text(saved)} fewer wake-ups than with {ms_text(ticks[0])}"
    figure.suptitle(title, fontweight="bold")


def cost(figure: Any, study: Study, advice: Advice) -> None:
    """Plot moves and memory by wheel size."""
    points = costs_by_setting(study, advice)
    ticks = sorted({tick for tick, _ in points})
    shown = [tick for tick in ticks if tick in (ticks[0], advice.costs.tick_ms, ticks[-1])]
    sizes = sorted({size for _, size in points})
    moves, memory = figure.subplots(1, 2)
    for tick, colour in zip(shown, (ORANGE, BLUE, GREEN), strict=False):
        rows = [points[tick, size] for size in sizes]
        each = [costs.cascaded / costs.timers for costs in rows]
        moves.plot(sizes, each, marker="o", color=colour, label=f"tick {ms_text(tick)}")
        memory.plot(sizes, [costs.memory_bytes for costs in rows], marker="o", color=colour)
    moves.set_ylabel("moves of a timer to a finer level")
    moves.set_title("Work")
    moves.legend()
    memory.yaxis.set_major_formatter(lambda value, _: bytes_text(value))
    memory.set_ylabel("wheel and entries at the peak")
    memory.set_title("Memory")
    for axis in (moves, memory):
        axis.set_ylim(bottom=0)
        axis.set_xscale("log", base=2)
        mark_settings(axis, sizes, advice.costs.wheel_size, "wheel size (buckets per level)")
    chosen = advice.costs
    title = f"A wheel size of {chosen.wheel_size:,}: {chosen.cascaded / chosen.timers:.2f} moves per timer"
    figure.suptitle(f"{title}, {bytes_text(chosen.memory_bytes)}", fontweight="bold")


def mark_settings(axis: Any, values: list[int], chosen: int, label: str) -> None:
    """Label the settings that were tried, and highlight the chosen one."""
    axis.set_xticks(values, [f"{value:,}" for value in values], rotation=45 if len(values) > 7 else 0)
    axis.minorticks_off()
    axis.set_xlabel(label)
    axis.axvline(chosen, color=GREY, linewidth=6, alpha=0.25)


def pending(figure: Any, study: Study, advice: Advice) -> None:
    """Plot the pending timers over time."""
    curve = curves_of(study).pending
    times_ms, counts = curve.times_ms, curve.pending
    since_ms = times_ms - (curve.first << curve.shift)
    unit, length = next(
        (unit, length)
        for unit, length in (("days", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))
        if since_ms[-1] >= 3 * length or length == 1
    )
    axis = figure.subplots()
    axis.fill_between(since_ms / length, counts, step="pre", color=BLUE, alpha=0.25, linewidth=0)
    axis.step(since_ms / length, counts, where="pre", color=BLUE)
    axis.set_ylim(bottom=0)
    axis.set_xlim(0, since_ms[-1] / length)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.set_xlabel(f"{unit} since the start of the log (steps of {ms_text(1 << curve.shift)})")
    axis.set_ylabel("timers pending")
    most = f"At most {study.costs[0].peak_pending:,} timers are pending at once"
    if study.wheels > 1:  # the peaks of several wheels need not coincide
        most = f"Up to {int(counts.max()):,} timers are pending on {study.wheels:,} wheels together"
    axis.set_title(f"{most}, and at most {int(np.median(counts)):,} for half of the time")


def timeouts(figure: Any, study: Study, advice: Advice) -> None:
    """Plot the share of timers that would expire, for each timeout."""
    lengths = curves_of(study).lengths
    share = lengths.would_expire
    now = advice.costs.fired / advice.costs.timers
    frequent = np.flatnonzero(lengths.timeouts >= lengths.timeouts.max() / 20)
    own = EDGES_MS[np.maximum(frequent - 1, 0)].tolist()
    falls_until = np.flatnonzero(share > share[-1])
    last_ms = 2 * max([1000, *own, *EDGES_MS[falls_until[-1:]].tolist()])
    axis = figure.subplots()
    axis.step(EDGES_MS, share, where="post", color=BLUE, linewidth=2, label="one timeout for all")
    axis.axhline(now, color=ORANGE, linestyle="--", label=f"with their own timeouts: {share_text(now)}")
    label = "their own timeouts: " + ", ".join(map(ms_text, own))
    for number, timeout_ms in enumerate(own if len(own) <= 8 else []):
        axis.axvline(timeout_ms, color=GREEN, linewidth=6, alpha=0.25, label="" if number else label)
    axis.set_xscale("log")
    axis.set_xlim(1, last_ms)
    shown = [tick for tick in TIME_TICKS if tick <= last_ms]
    axis.set_xticks(shown, [ms_text(tick) for tick in shown])
    axis.minorticks_off()
    axis.set_yscale("log")
    axis.set_ylim(max(min(share[share > 0].min(initial=1), now or 1) / 2, 1e-6), 1.1)
    axis.yaxis.set_major_formatter(lambda value, _: share_text(value))
    axis.set_xlabel("timeout")
    axis.set_ylabel("share of timers that would expire")
    axis.legend()
    axis.set_title(finding(share, now))


def finding(share: npt.NDArray[np.float64], now: float) -> str:
    """Describe the shortest common timeout with about as many expiries as now."""
    enough = np.flatnonzero(share <= now * 1.1 + 1e-6)
    step = int(enough[0]) if len(enough) else len(share) - 1
    return (
        f"With their own timeouts {share_text(now)} of the timers expire; "
        f"with {ms_text(int(EDGES_MS[step]))} for all it would be {share_text(float(share[step]))}"
    )


def curves_of(study: Study) -> Curves:
    assert study.curves is not None
    return study.curves
