"""`make bench`: measures everything in one run, prints tables, writes JSON, draws pictures. See README.md beside this file."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

try:
    import numpy  # noqa: F401
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
except ImportError as missing:
    sys.exit(f"{missing}. The benchmarks need: pip install --group bench (make bench does that)")

from implementations import available
from machine import load_average, machine
from references import references
from rounds import measure, turns_of
from settings import ALL, Settings
from table import show_lacks, show_operations

OUT = Path(__file__).parents[1] / "build" / "bench"

Section = Callable[[Settings, Console], Any]


def operations(settings: Settings, console: Console) -> Any:
    """The table of operations and implementations."""
    implementations, notes = available()
    extra, more_notes = references()
    for note in notes + more_notes:
        console.print(note, style="yellow")
    turns = turns_of(implementations, settings.sizes, extra)
    with progress(console) as bar:
        task = bar.add_task("", total=len(turns) * settings.rounds)

        def on_turn(what: str) -> None:
            bar.update(task, description=what, advance=1)

        cells = measure(turns, settings.rounds, on_turn)
    show_operations(cells, console)
    show_lacks({make.name: make.lacks for make in implementations}, console)
    return {"cells": [asdict(cell) for cell in cells], "left_out": notes + more_notes}


SECTIONS: dict[str, Section] = {"operations": operations}


def progress(console: Console) -> Progress:
    """A bar that goes away when its work is done."""
    return Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console, transient=True)


def main(arguments: list[str] | None = None) -> int:
    """The command. Returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    quick = os.environ.get("QUICK", "") not in ("", "0")
    parser.add_argument("--size", choices=ALL, default="quick" if quick else "full", help="how much to measure")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="this part; may be given several times")
    parser.add_argument("--out", type=Path, default=OUT, help="where to put the JSON and the pictures")
    options = parser.parse_args(arguments)
    settings = ALL[options.size]
    console = Console(width=None if sys.stdout.isatty() else 140)
    result: dict[str, Any] = {"settings": asdict(settings), "machine": machine()}
    about = result["machine"]
    console.print(f"hwheel {about['hwheel']} ({about['commit']}), {about['python']}, {about['processors']} processors "
                  f"of {about['processor']}, load average {about['load_average'][0]}; {settings.name} run\n")
    if about["hwheel_debug_build"]:
        console.print("This is a debug build of hwheel: its figures mean nothing.", style="red")
    for name in options.only or SECTIONS:
        result[name] = SECTIONS[name](settings, console)
    result["machine"]["load_average_at_end"] = load_average()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(json.dumps(result, indent=1))
    console.print(f"\n{options.out / 'bench.json'}: all figures, round by round")
    return 0


if __name__ == "__main__":
    sys.exit(main())
