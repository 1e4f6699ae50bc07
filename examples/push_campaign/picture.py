"""Draws the planned and the delivered coupons over time, and the lag."""

from pathlib import Path
from typing import Any

import numpy as np

from account import Account, Sent
from plan import Plan

BLUE, LIGHT_BLUE, GREY, RED = "#0072B2", "#56B4E9", "#BBBBBB", "#D55E00"  # distinct for color-blind readers


class NoMatplotlib(Exception):
    """Matplotlib is not installed."""


def draw(plan: Plan, start_ms: int, sent: Sent, account: Account, path: Path) -> None:
    """Draw the day. Raise NoMatplotlib if it is not installed."""
    try:
        import matplotlib
    except ImportError as error:
        raise NoMatplotlib("no picture: matplotlib is not installed; run pip install matplotlib") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": "#EBEBEB",
            "axes.axisbelow": True,
            "axes.titlesize": 10.5,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "legend.frameon": False,
            "figure.constrained_layout.use": True,
        }
    )
    figure, (rates, lags) = plt.subplots(2, 1, figsize=(9, 6.2), sharex=True, height_ratios=[3, 2])
    last_s = (sent.sent_ms.max(initial=start_ms) - start_ms) / 1000
    seconds = np.arange(int(max(plan.seconds, last_s)) + 2)
    draw_rates(rates, plan, start_ms, sent, account, seconds)
    draw_lags(lags, start_ms, sent, seconds)
    clock_axis(rates, plan)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_rates(axis: Any, plan: Plan, start_ms: int, sent: Sent, account: Account, seconds: Any) -> None:
    """Draw the planned and the delivered coupons per second."""
    planned = np.histogram(plan.due_ms[~plan.cancelled] / 1000, seconds)[0]
    went = np.histogram((sent.sent_ms - start_ms) / 1000, seconds)[0]
    axis.stairs(planned, seconds, fill=True, color=GREY, label="planned (without cancelled ones)")
    axis.stairs(went, seconds, color=BLUE, linewidth=1.6, label="sent")
    if faults := sum(account.faults.values()):
        axis.set_title(f"{faults:,} faults among {len(sent.coupon):,} coupons", color=RED)
    else:
        axis.set_title(f"{len(sent.coupon):,} coupons delivered, each once, none early, in order for each user")
    axis.set_ylabel("coupons a second")
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.legend(loc="upper left")


def draw_lags(axis: Any, start_ms: int, sent: Sent, seconds: Any) -> None:
    """Draw the lag of the coupons by the second of their due time."""
    due_s = ((sent.due_ms - start_ms) // 1000).astype(int)
    order = np.argsort(due_s, kind="stable")
    edges = np.searchsorted(due_s[order], seconds)
    lag_s = sent.lag_ms[order] / 1000
    spans = zip(seconds[:-1], edges[:-1], edges[1:], strict=True)
    parts = [(second, lag_s[begin:end]) for second, begin, end in spans if end > begin]
    at = [second + 0.5 for second, _ in parts]
    half, most = ([float(np.percentile(part, share)) for _, part in parts] for share in (50, 99))
    axis.fill_between(at, half, most, color=LIGHT_BLUE, alpha=0.35, linewidth=0)
    axis.plot(at, most, color=LIGHT_BLUE, linewidth=1.4, label="99 of 100 within")
    axis.plot(at, half, color=BLUE, linewidth=1.6, label="half within")
    p50, p99 = np.percentile(sent.lag_ms, [50, 99]) / 1000
    axis.set_title(f"Half were in a file {p50:.1f} s after their time, 99 of 100 within {p99:.1f} s")
    axis.set_ylabel("seconds late, by due time")
    axis.set_xlabel("seconds, as played")
    axis.set_ylim(bottom=0)
    axis.legend(loc="upper left")


def clock_axis(axis: Any, plan: Plan) -> None:
    """Add the time of day of the campaign at the top."""
    hour_s = plan.seconds / 24
    above = axis.secondary_xaxis("top", functions=(lambda s: s / hour_s, lambda hour: hour * hour_s))
    above.set_xticks(range(0, 25, 3), [f"{hour:02d}:00" for hour in range(0, 25, 3)])
    above.set_xlabel("time of day of the campaign", color="#666666")
    above.tick_params(colors="#666666")
    above.spines["top"].set_visible(True)
    above.spines["top"].set_color("#CCCCCC")
