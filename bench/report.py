"""`make bench`: measure everything in one run, print tables, write JSON, and draw pictures. See README.md."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from typing import Any

try:
    import numpy  # noqa: F401
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
except ImportError as missing:
    sys.exit(f"{missing}. The benchmarks need: pip install --group bench (make bench does that)")

from containers import delaying, expiring
from core import (
    groups,
    idle,
    lateness,
    memory,
    pause,
    slack,
    targets,
    threads,
    wheel_sizes,
    workload,
)
from core.operation_table import show_growth, show_notes, show_operations
from core.references import references
from core.rounds import measure, turns_of
from implementations import available
from kafka import timer as kafka_timer
from lib.machine import load_average, machine
from lib.pictures import NoMatplotlib, draw
from lib.settings import ALL, FULL, Settings

OUT = Path(__file__).parents[1] / "build" / "bench"


def run_operations(settings: Settings, console: Console, bar: "Bar") -> Any:
    """Measure and print the operations of all implementations, and growth."""
    implementations, notes = available()
    extra, more_notes = references()
    turns = turns_of(implementations, settings.sizes, extra)
    cells = measure(turns, settings.rounds, bar.of(len(turns) * settings.rounds))
    show_operations(cells, console)
    show_notes(implementations, console)
    show_growth(cells, console)
    for note in notes + more_notes:
        console.print(note, style="yellow")
    return {"cells": [asdict(cell) for cell in cells], "left_out": notes + more_notes}


def run_workload(settings: Settings, console: Console, bar: "Bar") -> Any:
    totals = workload.measure(available()[0], settings.connections, settings.rounds, bar.of())
    workload.show(totals, console)
    return [asdict(total) for total in totals]


def run_memory(settings: Settings, console: Console, bar: "Bar") -> Any:
    part = memory.measure(settings.memory_timers, bar.of())
    memory.show(part, console)
    return part


def run_pause(settings: Settings, console: Console, bar: "Bar") -> Any:
    bar.of()("pause of an add")
    part = pause.measure(settings.pause_timers, settings.rounds)
    pause.show(part, console)
    return part


def run_wheel_sizes(settings: Settings, console: Console, bar: "Bar") -> Any:
    part = wheel_sizes.measure(settings.wheel_timers, settings.rounds, on_turn=bar.of())
    wheel_sizes.show(part, settings.wheel_timers, console)
    return part


def run_lateness(settings: Settings, console: Console, bar: "Bar") -> Any:
    part = lateness.measure(settings.lateness_rate, settings.lateness_s, settings.lateness_rounds, bar.of())
    lateness.show(part, console)
    return part


def run_idle(settings: Settings, console: Console, bar: "Bar") -> Any:
    bar.of()("an idle timer")
    part = idle.measure(settings.idle_tasks, settings.idle_s)
    idle.show(part, console)
    return part


def run_slack(settings: Settings, console: Console, bar: "Bar") -> Any:
    part = slack.measure(settings.slack_connections, settings.slack_s, bar.of(len(slack.SLACKS_S)))
    slack.show(part, console)
    return part


def run_containers(settings: Settings, console: Console, bar: "Bar") -> Any:
    part = expiring.measure(settings.container_entries, settings.rounds, bar.of())
    expiring.show(part, console)
    return part


def run_queues(settings: Settings, console: Console, bar: "Bar") -> Any:
    part = delaying.measure(settings.container_entries, settings.rounds, bar.of())
    delaying.show(part, console)
    return part


def run_groups(settings: Settings, console: Console, bar: "Bar") -> Any:
    part = groups.measure(settings.group_timers, settings.rounds, bar.of(settings.rounds))
    groups.show(part, console)
    return part


def run_threads(settings: Settings, console: Console, bar: "Bar") -> Any:
    part = threads.measure(settings.thread_pairs, settings.rounds, bar.of())
    threads.show(part, console)
    return part


def run_kafka(settings: Settings, console: Console, bar: "Bar") -> Any:
    try:
        part = kafka_timer.measure(settings.sizes, settings.rounds, OUT / "kafka-jars", bar.of())
    except kafka_timer.NoKafka as reason:
        console.print(str(reason), style="yellow")
        return None
    kafka_timer.show(part, console)
    return part


class Bar:
    """The progress bar of one section, which disappears at the end."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def of(self, total: int | None = None) -> Callable[[str], None]:
        """Start a bar for `total` turns. Return a function to call with the name of each turn when it starts."""
        task = self.progress.add_task("", total=total)

        def on_turn(what: str) -> None:
            self.progress.update(task, description=what, advance=1)

        return on_turn


SECTIONS: dict[str, Callable[[Settings, Console, Bar], Any]] = {
    "operations": run_operations,
    "workload": run_workload,
    "memory": run_memory,
    "pause": run_pause,
    "wheel_sizes": run_wheel_sizes,
    "lateness": run_lateness,
    "idle": run_idle,
    "slack": run_slack,
    "containers": run_containers,
    "queues": run_queues,
    "groups": run_groups,
    "threads": run_threads,
    "kafka": run_kafka,
}
ON_DEMAND = {"kafka"}  # KAFKA=1, because it downloads a jar


def wanted(name: str) -> bool:
    """Return True if the environment variable is set."""
    return os.environ.get(name, "") not in ("", "0")


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    usual_size = "quick" if wanted("QUICK") else "full"
    parser.add_argument("--size", choices=ALL, default=usual_size, help="how much to measure")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="this part; may be given several times")
    parser.add_argument("--out", type=Path, default=OUT, help="where to put the JSON and the pictures")
    options = parser.parse_args(arguments)
    settings = ALL[options.size]
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # so that a log shows progress
    console = Console(width=None if sys.stdout.isatty() else 160)
    result: dict[str, Any] = {"settings": asdict(settings), "machine": machine()}
    about = result["machine"]
    console.print(
        f"hwheel {about['hwheel']} ({about['commit']}), {about['python']}, {about['processors']} processors "
        f"of {about['processor']}, load average {about['load_average'][0]}; {settings.name} run\n"
    )
    if about["hwheel_debug_build"]:
        console.print("This is a debug build of hwheel: its figures mean nothing.", style="red")
    usual = [name for name in SECTIONS if name not in ON_DEMAND or wanted(name.upper())]
    for name in options.only or usual:
        if not console.is_terminal:
            console.print(f"measuring: {name}")
        with Progress(
            TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console, transient=True
        ) as progress:
            result[name] = SECTIONS[name](settings, console, Bar(progress))
    targets.show(result, console, judged=settings is FULL)
    result["machine"]["load_average_at_end"] = load_average()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(json.dumps(result, indent=1))
    console.print(f"\n{options.out / 'bench.json'}: all figures, round by round")
    try:
        for file in draw(result, options.out):
            console.print(str(file))
    except NoMatplotlib as missing:
        console.print(str(missing), style="yellow")
    return 0


if __name__ == "__main__":
    sys.exit(main())
