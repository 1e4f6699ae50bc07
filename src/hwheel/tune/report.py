"""The report: an HTML page, the figures as JSON, and pictures."""

import json
from html import escape
from pathlib import Path
from typing import Any

from hwheel.replay.costs import ReplayCosts
from hwheel.tune.advice import Advice
from hwheel.tune.curves import EDGES_MS
from hwheel.tune.pictures import draw
from hwheel.tune.study import Study
from hwheel.tune.units import bytes_text, ms_text, share_text
from hwheel.version import __version__

PAGE = "report.html"
STYLE = """body { font: 16px/1.5 sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 } th, td { padding: .2em .8em; text-align: right }
th { border-bottom: 1px solid #888 } tr.chosen { background: #dff0ff; font-weight: bold } img { max-width: 100% }"""
POINT = ("tick_ms", "wheel_size", "timeout_ms", "timers", "fired", "cancelled", "wakeups", "cascaded", "peak_pending",
         "largest_peak", "levels", "memory_bytes")  # fmt: skip
COLUMNS = ("tick", "wheel size", "levels", "wake-ups", "moves per timer", "late p50/p99/max, ms", "memory")


def write_report(out: Path, name: str, study: Study, advice: Advice, what_if: list[ReplayCosts]) -> list[Path]:
    """Write the report into a directory, which is created, and return the files, the page first.

    Raises:
        OSError: A file cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    out.mkdir(parents=True, exist_ok=True)
    pictures = draw(study, advice, out)
    figures = out / "report.json"
    figures.write_text(json.dumps(figures_of(name, study, advice, what_if), indent=1) + "\n", encoding="utf-8")
    page = out / PAGE
    page.write_text(page_of(name, study, advice, what_if, pictures), encoding="utf-8")
    return [page, figures, *pictures]


def figures_of(name: str, study: Study, advice: Advice, what_if: list[ReplayCosts]) -> dict[str, Any]:
    """Return the figures for JSON. Times are in ms."""
    found: dict[str, Any] = {
        "hwheel": __version__,
        "log": name,
        "timers": study.timers,
        "wheels": study.wheels,
        "dropped": study.dropped,
        "advice": {
            "tick_ms": advice.costs.tick_ms,
            "wheel_size": advice.costs.wheel_size,
            "late_ms": advice.late_ms,
            "reasons": advice.reasons,
        },
        "points": [*map(point, study.costs)],
        "what_if": [*map(point, what_if)],
    }
    if study.curves is not None:
        curve, lengths = study.curves.pending, study.curves.lengths
        found["pending"] = {"at_ms": curve.times_ms.tolist(), "timers": curve.pending.tolist()}
        found["would_expire"] = {"timeout_ms": EDGES_MS.tolist(), "share": lengths.would_expire.tolist()}
    return found


def point(costs: ReplayCosts) -> dict[str, Any]:
    return {**{name: getattr(costs, name) for name in POINT}, "lateness_ms": costs.lateness._asdict()}


def cells(costs: ReplayCosts) -> list[str]:
    """Return the cells of a row, in the order of COLUMNS."""
    late = costs.lateness
    return [
        ms_text(costs.tick_ms),
        f"{costs.wheel_size:,}",
        str(costs.levels),
        f"{costs.wakeups:,}",
        f"{costs.cascaded / costs.timers:.2f}",
        f"{late.p50:.2g} / {late.p99:.3g} / {late.max:.3g}",
        bytes_text(costs.memory_bytes),
    ]


def headline(study: Study, advice: Advice) -> str:
    costs = advice.costs
    wheels = "" if study.wheels == 1 else f" on {study.wheels:,} wheels"
    return (
        f"{study.timers:,} timers{wheels}: {share_text(costs.fired / study.timers)} expired, the others were "
        f"cancelled; at most {costs.peak_pending:,} were pending at once"
        + (" if all wheels peaked at the same time." if study.wheels > 1 else ".")
    )


def what_if_text(costs: ReplayCosts) -> str:
    share = share_text(costs.fired / costs.timers)
    return (
        f"With a timeout of {ms_text(costs.timeout_ms or 0)} for all, {share} would expire ({costs.fired:,}), and "
        f"at most {costs.peak_pending:,} would be pending."
    )


def page_of(name: str, study: Study, advice: Advice, what_if: list[ReplayCosts], pictures: list[Path]) -> str:
    """Return the page."""
    choice = f"tick {ms_text(advice.costs.tick_ms)}, wheel size {advice.costs.wheel_size:,}"
    rows = []
    for costs in study.costs:
        kind = ' class="chosen"' if costs == advice.costs else ""
        rows.append(f"<tr{kind}>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells(costs)) + "</tr>")
    parts = [
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>hwheel tune: {escape(name)}</title>",
        f"<style>{STYLE}</style></head><body><h1>{escape(name)}</h1>",
        f"<p>{escape(headline(study, advice))}</p>",
        f"<h2>Choose: {escape(choice)}</h2><ul>",
        *(f"<li>{escape(reason)}</li>" for reason in advice.reasons),
        "</ul>",
    ]
    if study.dropped:
        parts.append(f"<p>The log lacks {study.dropped:,} timers that the recorder dropped.</p>")
    if what_if:
        parts += [
            "<h2>Other timeouts</h2><ul>",
            *(f"<li>{escape(what_if_text(costs))}</li>" for costs in what_if),
            "</ul>",
        ]
    parts += [f'<p><img src="{picture.name}" alt="{picture.stem}"></p>' for picture in pictures]
    parts += [
        "<h2>All settings</h2><table><tr>",
        *(f"<th>{name}</th>" for name in COLUMNS),
        "</tr>",
        *rows,
        "</table>",
        "<p>A timer fires at the first tick at or after its deadline, never early. Lateness is the result of this "
        "rounding alone, on a machine without delays. Memory excludes callbacks and their arguments. report.json has "
        "the same figures.</p>",
        f"<p>hwheel {__version__}</p></body></html>",
    ]
    return "\n".join(parts) + "\n"
