"""The operations of all implementations. Each round has a trial of each, so that a slow moment affects all of them.

Single timers are measured twice: without and with Python's garbage collector. With it, a collection visits the pending
timers of most implementations, so that their figures grow with the number of objects in the program.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from rich.console import Console

from core.trials import BulkLife, Life, SingleLife, garbage_collector, inputs_of
from implementations import available
from implementations.base import BULK, SINGLE, Implementation, TooSlow
from lib.figures import Cell, median_and_range, ratios, show_rows
from lib.settings import Settings

SMALL = 20_000  # with fewer timers, a trial has several repetitions, because one would be too short to measure
MOST_REPETITIONS = 20
HWHEEL_OF = {**dict.fromkeys(SINGLE, "hwheel"), **dict.fromkeys(BULK, "hwheel bulk")}


class Trial(NamedTuple):
    """The measurement of an implementation in one round."""

    implementation: type[Implementation]
    life: type[Life]
    pending: int
    collector: bool  # True: with the garbage collector


def measure(settings: Settings, on_trial: Callable[[str], object]) -> dict[str, Any]:
    """Measure ns of processor time per timer of each operation in each round.

    Raises:
        WrongWork: An implementation fired the wrong timers.
    """
    implementations, left_out = available()
    trials = [*trials_of(implementations, settings.sizes)]
    cells: dict[tuple[str, str, int, bool], Cell] = {}
    for number in range(settings.rounds):
        for trial in trials:
            name = trial.implementation.name
            on_trial(f"round {number + 1} of {settings.rounds}: {name}, {trial.pending:,} timers")
            ns, checksum = run_trial(trial)
            for operation, value in ns.items():
                place = operation, name, trial.pending, trial.collector
                cell = cells.setdefault(place, Cell(*place))
                cell.ns.append(value)
                cell.checksum = checksum
    return {"cells": [asdict(cell) for cell in cells.values()], "notes": notes_of(implementations) + left_out}


def trials_of(implementations: Sequence[type[Implementation]], sizes: Iterable[int]) -> Iterator[Trial]:
    """Yield the trials of a round: all lives that the implementations support at these sizes."""
    for pending in sizes:
        for implementation in implementations:
            if pending <= implementation.most and "add" not in implementation.lacks:
                yield Trial(implementation, SingleLife, pending, collector=False)
                yield Trial(implementation, SingleLife, pending, collector=True)
            if pending <= implementation.most_bulk and "bulk add" not in implementation.lacks:
                yield Trial(implementation, BulkLife, pending, collector=False)


def run_trial(trial: Trial) -> tuple[dict[str, float], int]:
    """Run one trial. Return ns per timer of each operation, and the checksum of the fired timers."""
    implementation, life, pending, collector = trial
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    checksum = 0
    repetitions = min(MOST_REPETITIONS, max(1, SMALL // pending)) if implementation.is_quick else 1
    while repetitions:
        one = life(implementation, inputs_of(pending))
        try:
            with garbage_collector(on=collector):
                measured = one.run()
            checksum = one.check()
        except TooSlow:
            continue
        finally:
            one.close()
        repetitions -= 1
        for operation, value in measured.items():
            seconds[operation] += value
            counts[operation] += one.counts[operation]
    ns = {name: seconds[name] / counts[name] * 1e9 for name in seconds if name not in implementation.lacks}
    return ns, checksum


def notes_of(implementations: Sequence[type[Implementation]]) -> list[str]:
    """Return the operations that implementations lack, with substitutes, and notes on measurements."""
    notes: dict[str, list[str]] = {}
    for implementation in implementations:
        for before, of_it in (("no ", implementation.lacks), ("", implementation.remarks)):
            for note in dict.fromkeys(of_it.values()):
                operations = ", ".join(f"{before}{operation}" for operation, why in of_it.items() if why == note)
                notes.setdefault(f"{operations} ({note})", []).append(implementation.name)
    return [f"{', '.join(names)}: {note}" for note, names in notes.items()]


def show(part: dict[str, Any], console: Console) -> None:
    """Print a table per operation, with a row per implementation and a column per number of pending timers."""
    cells = {(cell.operation, cell.implementation, cell.pending): cell for cell in cells_of(part, collector=False)}
    sizes = sorted({pending for _, _, pending in cells})
    console.print("Median (minimum–maximum) over the rounds: hwheel in ns a timer, the others in times that.")
    console.print("Processor time, without the garbage collector, and with a running event loop.\n")
    for operation, ours in HWHEEL_OF.items():
        names = [ours, *dict.fromkeys(name for one, name, _ in cells if one == operation and name != ours)]
        rows = [
            [name, *(text_of(cells, (operation, name, size), (operation, ours, size)) for size in sizes)]
            for name in names
        ]
        show_rows(operation, ["pending timers", *(f"{size:,}" for size in sizes)], rows, console)
    for note in part["notes"]:
        console.print(note, style="dim")
    console.print("–: too many timers to measure in reasonable time\n", style="dim")


def cells_of(part: dict[str, Any], *, collector: bool) -> list[Cell]:
    """Return the figures with or without the garbage collector."""
    return [Cell(**cell) for cell in part["cells"] if cell["collector"] == collector]


def text_of(cells: dict[tuple[str, str, int], Cell], place: tuple[str, str, int], ours: tuple[str, str, int]) -> str:
    """Format ns per timer in our row, and ratios of the same rounds in the others."""
    if place not in cells:
        return "–"
    return median_and_range(cells[place].ns if place == ours else ratios(cells[place], cells[ours]))
