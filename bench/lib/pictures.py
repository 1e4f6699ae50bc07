"""Draws the pictures of a run. To draw again: `python bench/lib/pictures.py build/bench/bench.json`."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

COLOURS = {  # the palette of Okabe and Ito, for color-blind readers
    "hwheel": "#0072B2",
    "hwheel bulk": "#56B4E9",
    "asyncio": "#D55E00",
    "uvloop": "#E69F00",
    "heapq": "#009E73",
    "sortedcontainers": "#CC79A7",
    "sched": "#000000",
    "threading.Timer": "#7F7F7F",
}
PANELS = (("add", "bulk add"), ("add + cancel", None), ("cancel", "bulk cancel"), ("expire", "bulk expire"))


class NoMatplotlib(Exception):
    """matplotlib is not installed."""


def draw(result: dict[str, Any], out: Path) -> list[Path]:
    """Draw the pictures into a directory and return the files.

    Raises:
        NoMatplotlib: matplotlib is missing. The message has the command that installs it.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise NoMatplotlib("no pictures: matplotlib is not installed; to have them: pip install matplotlib") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "figure.dpi": 110,
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": "#E5E5E5",
            "axes.axisbelow": True,
            "legend.frameon": False,
            "axes.titlesize": 10,
            "axes.titleweight": "bold",
            "figure.constrained_layout.use": True,
        }
    )
    files = []
    for part, (name, picture) in PICTURES.items():
        if part in result:
            figure = picture(plt, result[part])
            about = result["machine"]
            figure.text(
                0.995,
                -0.005,
                f"{result['settings']['name']} run of hwheel {about['hwheel']} ({about['commit']}), {about['python']}, "
                f"{about['processors']} processors of {about['processor']}",
                ha="right",
                va="top",
                fontsize=6,
                color="#888888",
            )
            files.append(out / f"{name}.png")
            figure.savefig(files[-1], bbox_inches="tight")
            plt.close(figure)
    return files


def cost(plt: Any, part: dict[str, Any]) -> Any:
    """Plot the cost per timer by the number of pending timers, without the garbage collector."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 7.2), sharex=True, sharey=True)
    lines: dict[str, Any] = {}
    of_operation: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for cell in part["cells"]:
        if not cell["collector"]:
            of_operation.setdefault((cell["implementation"], cell["operation"]), []).append(cell)
    for axis, operations in zip(axes.flat, PANELS, strict=True):
        for name, colour in COLOURS.items():
            cells = of_operation.get((name, operations[name == "hwheel bulk"]), [])
            if cells:
                sizes, ns = [cell["pending"] for cell in cells], [cell["ns"] for cell in cells]
                [lines[name]] = axis.loglog(
                    sizes,
                    [median(values) for values in ns],
                    color=colour,
                    marker="o",
                    markersize=4,
                    linewidth=2.5 if "hwheel" in name else 1.5,
                    zorder=3 if "hwheel" in name else 2,
                )
                axis.fill_between(
                    sizes,
                    [min(values) for values in ns],
                    [max(values) for values in ns],
                    color=colour,
                    alpha=0.15,
                    linewidth=0,
                )
        axis.set_title(operations[0])
    figure.supylabel("ns a timer, without the garbage collector", fontsize=9)
    figure.supxlabel("timers pending", fontsize=9)
    figure.legend(lines.values(), lines.keys(), loc="outside upper center", ncols=5)
    return figure


def memory(plt: Any, part: list[dict[str, Any]]) -> Any:
    """Plot bytes per timer."""
    figure, axis = plt.subplots(figsize=(8, 3.8))
    rows = sorted(part, key=lambda row: row["allocated_bytes"], reverse=True)
    most = max(row["timers"] for row in rows)
    bars = axis.barh(
        [
            row["implementation"] if row["timers"] == most else f"{row['implementation']} ({row['timers']:,})"
            for row in rows
        ],
        [row["allocated_bytes"] for row in rows],
        color=[COLOURS[row["implementation"]] for row in rows],
    )
    axis.bar_label(
        bars,
        [
            f"{row['allocated_bytes']:,.0f}"
            + (
                f"  ({row['resident_bytes']:,.0f} with its thread)"
                if row["implementation"] == "threading.Timer"
                else ""
            )
            for row in rows
        ],
        padding=4,
    )
    axis.set_xlim(0, 1.3 * rows[0]["allocated_bytes"])
    axis.set_title(f"{most:,} timers pending")
    axis.set_xlabel("bytes allocated a pending timer, without its callback")
    axis.grid(axis="y", visible=False)
    return figure


def lateness(plt: Any, part: list[dict[str, Any]]) -> Any:
    """Plot the share of later runs by lateness."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True)
    lines: dict[str, Any] = {}
    for axis, busy in zip(axes, (False, True), strict=True):
        for row in part:
            if row["busy"] == busy:
                late, shares = zip(*row["late_ms"]["curve"], strict=True)
                [line] = axis.loglog(
                    [max(value, 0.01) for value in late],
                    shares,
                    color=COLOURS[row["implementation"]],
                    linewidth=2.5 if row["implementation"] == "hwheel" else 1.5,
                )
                lines[f"{row['implementation']}, {row['rate']:,} a second"] = line
        axis.set_title("beside a thread that never stops computing" if busy else "otherwise idle")
        axis.set_xlabel("ms late (what ran early stands at the left edge)")
    axes[0].set_ylabel("share of callbacks that were later")
    figure.legend(lines.values(), lines.keys(), loc="outside upper center", ncols=4)
    return figure


def pause(plt: Any, part: dict[str, Any]) -> Any:
    """Plot the share of slower adds by duration."""
    figure, axis = plt.subplots(figsize=(7, 4.2))
    for key, label, colour in (
        ("at_rest_us", "with nothing going on", "#7F7F7F"),
        ("during_us", "while the entries of one bucket cascade", COLOURS["hwheel"]),
    ):
        took, shares = zip(*part[key]["curve"], strict=True)
        axis.loglog(took, shares, label=label, color=colour, linewidth=2)
    axis.axhline(0.001, color="#AAAAAA", linewidth=0.8, linestyle=":")
    axis.annotate("p99.9", (0.99, 0.001), xycoords=("axes fraction", "data"), ha="right", va="bottom", color="#666666")
    axis.set_xlabel("us for one add")
    axis.set_ylabel("share of adds that took longer")
    axis.set_title(f"an add during a cascade of {part['entries']:,} entries")
    axis.legend()
    return figure


def wheel_sizes(plt: Any, part: list[dict[str, Any]]) -> Any:
    """Plot expiry, memory, and pauses by wheel size."""
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.8))
    figure.suptitle(f"{part[0]['timers']:,} timers over 100 s; tasks: {part[0]['timers'] // 5:,}", fontsize=9)
    sizes = [row["wheel_size"] for row in part]
    for key, label, colour in (
        ("bulk_expire_ns", "bulk", COLOURS["hwheel bulk"]),
        ("expire_ns", "tasks", COLOURS["hwheel"]),
    ):
        axes[0].plot(sizes, [median(row[key]) for row in part], marker="o", markersize=4, label=label, color=colour)
        axes[0].plot(sizes, [min(row[key]) for row in part], linestyle=":", color=colour, label=f"{label}, minimum")
    axes[0].set_title("expiry, ns a timer")
    axes[0].legend()
    axes[1].plot(sizes, [row["wheel_bytes"] / 1024 for row in part], marker="o", markersize=4, color=COLOURS["hwheel"])
    axes[1].set_title("memory of the wheel, KiB")
    axes[1].set_ylim(bottom=0)
    axes[2].plot(sizes, [median(row["pause_us"]) for row in part], marker="o", markersize=4, color=COLOURS["hwheel"])
    axes[2].set_title("p99.9 of an add during expiry, us")
    for axis in axes:
        axis.set_xscale("log", base=2)
        axis.set_xticks([size for size in sizes if size != 20][::2], [str(size) for size in sizes if size != 20][::2])
        axis.set_xlabel("wheel_size")
    axes[0].set_ylim(bottom=0)
    axes[2].set_ylim(bottom=0)
    return figure


PICTURES: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "operations": ("cost", cost),
    "memory": ("memory", memory),
    "lateness": ("lateness", lateness),
    "pause": ("pause", pause),
    "wheel_sizes": ("wheel_sizes", wheel_sizes),
}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} bench.json")
    try:
        drawn = draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[1]).parent)
    except NoMatplotlib as missing:
        sys.exit(str(missing))
    print(*drawn, sep="\n")
