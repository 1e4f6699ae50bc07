"""Breaks the wheel in each way in which a slip of the pen could, and looks whether a test notices.

Every statement of hwheel_core/wheel becomes others: a comparison its neighbour, a plus a minus, a number the next one;
a condition always or never true; a statement nothing (operators.py). All of these are compiled into one module, of
which a run chooses one (schemata.py). Tests of the core that reach the statement are run on it, until one fails,
crashes or hangs: first on a release build; what these do not notice, on a build that checks its invariants after each
test, with more tests.

What survives has a reason in explained.toml, or is a test that is missing. An explanation that is none any more is an
error.
"""

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))
from campaign import OUT, Campaign, Ended
from explained import LIST, explained
from schemata import Mutant, all_mutants

OF_THE_WHEEL = [
    "tests/unit",
    "tests/model",
    "tests/threads/test_clock_set_back.py",
    "tests/containers/test_delay_queue_times.py",
]
# What kills, one after the other: whether that is on the debug build, and the tests.
PHASES = {
    "behaviour": (False, OF_THE_WHEEL),
    "invariants": (True, OF_THE_WHEEL),
    "other tests": (
        True,
        [
            "tests/containers",
            "tests/c_api",
            "tests/threads/test_look.py",
            "tests/lifetime/test_idle.py",
            "tests/promises/test_no_memory.py",
            "tests/dropin/asyncio/test_model.py",
        ],
    ),
}
LAST = "other tests"
LEAST = 0.95  # of the mutants that are not explained


def main() -> int:
    """The command. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many mutants at a time")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="mutants whose name contains this, as 'queue.pxi queue_sink'"
    )
    parser.add_argument("--unexplained", action="store_true", help="without those that explained.toml names")
    parser.add_argument("--phases", nargs="+", choices=PHASES, default=[*PHASES], help="not all of them")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="in the first two phases only with the tests that kill most: what survives all three may not without this",
    )
    parser.add_argument("--again", action="store_true", help="those that the last run, whole or not, has not killed")
    options = parser.parse_args()
    console = Console(soft_wrap=True)
    reasons = explained()
    everything = all_mutants()
    chosen = [
        mutant
        for mutant in everything
        if options.only in mutant.name and not (options.unexplained and mutant.name in reasons)
    ]
    OUT.mkdir(parents=True, exist_ok=True)
    ends: dict[str, tuple[str, Ended]] = {}
    if options.again:
        last = json.loads((OUT / "ends.json").read_text())
        ends = {name: (kind, Ended(how, test)) for name, (kind, how, test) in last.items() if how}
    for kind in options.phases:
        left = [mutant for mutant in chosen if mutant.name not in ends or not ends[mutant.name][1].how]
        if left:
            run(left, kind, options, ends, console)
    return report(chosen, ends, reasons, {mutant.name for mutant in everything}, console)


def run(
    mutants: list[Mutant], kind: str, options: argparse.Namespace, ends: dict[str, tuple[str, Ended]], console: Console
) -> None:
    """Notes in `ends`, and in ends.json, how each of them ends in one phase."""
    with console.status(f"{kind}: building, and running the tests without a mutant"):
        campaign = Campaign(*PHASES[kind], options.jobs, options.quick and kind != LAST)
    with Progress(
        *Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn(), console=console
    ) as shown:
        task = shown.add_task(kind, total=len(mutants))

        def note(mutant: Mutant, ended: Ended) -> None:
            ends[mutant.name] = (kind, ended)
            said = {name: [kind, ended.how, ended.test] for name, (kind, ended) in ends.items()}
            (OUT / "ends.json").write_text(json.dumps(said, indent=1))  # each time, so that --again goes on from there
            shown.advance(task)

        campaign.run(mutants, note)


def report(
    mutants: list[Mutant],
    ends: dict[str, tuple[str, Ended]],
    reasons: dict[str, str],
    names: set[str],
    console: Console,
) -> int:
    counts: dict[str, Counter[str]] = {}
    faults = [f"{LIST.name} explains what is no mutant: {name}" for name in reasons if name not in names]
    for mutant in mutants:
        kind, ended = ends.get(mutant.name, ("", Ended("", "no test reaches it")))
        count = counts.setdefault(mutant.file, Counter())
        count["all"] += 1
        if ended.how:
            count[kind] += 1
            if mutant.name in reasons:
                faults.append(f"{LIST.name} explains what {ended.test} kills: {mutant.name}")
        elif mutant.name in reasons:
            count["explained"] += 1
        else:
            count["unexplained"] += 1
            reached = " (no test reaches it)" if ended.test == "no test reaches it" else ""
            faults.append(f"survives, line {mutant.line}{reached}: {mutant.name}")
    columns = ["all", *PHASES, "explained", "unexplained"]
    table = Table("file", "mutants", *(f"killed by {kind}" for kind in PHASES), "explained", "unexplained")
    for file, count in counts.items():
        table.add_row(file, *(str(count[column]) for column in columns))
    total = sum(counts.values(), Counter[str]())
    table.add_section()
    table.add_row("all", *(str(total[column]) for column in columns))
    console.print(table)
    killed = sum(total[kind] for kind in PHASES)
    share = killed / max(1, total["all"] - total["explained"])
    console.print(
        f"killed {killed} of {total['all']}, {killed / max(1, total['all']):.1%}; "
        f"of those that are not explained {share:.1%}; survived {total['explained'] + total['unexplained']}"
    )
    if share < LEAST and len(mutants) == len(names):
        faults.append(f"fewer than {LEAST:.0%} are killed")
    for fault in faults:
        console.print(fault, markup=False, highlight=False)
    if not faults:
        console.print("nothing found: every mutant that survives is explained")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
