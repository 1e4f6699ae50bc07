"""Run timers under load, with forks and exits, and account for every task.

`load` keeps a million tasks pending for some minutes. It reports tasks that were lost, ended twice, or ran early, how
late callbacks were, and whether memory grows. `ends` forks and exits many times under load. Both print their seed and
exit with status 1 if they find a fault.
"""

import argparse
import random
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))
import children
from load import Load, Plan

PROGRESS_S = 30  # between two lines where there is no terminal
BAR = 32
SMALL = {"seconds": 0, "pending": 5_000, "operations_per_s": 20_000}


def main():
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--seed", default="random", help="a number, or random (default)")
    commands = parser.add_subparsers(dest="command", required=True)
    load = commands.add_parser("load", help="timers under load")
    load.add_argument("--minutes", type=float, default=60)
    load.add_argument("--pending", type=int, default=1_000_000, help="tasks pending at a time")
    load.add_argument("--rate", type=int, default=200_000, help="operations per second")
    ends = commands.add_parser("ends", help="forks and exits under load")
    ends.add_argument("--forks", type=int, default=1000)
    ends.add_argument("--exits", type=int, default=200)
    commands.add_parser("exit").add_argument("name")  # one program of `ends`
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed == "random" else int(options.seed)
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    if options.command == "exit":
        children.run_program(Load(Plan(seed=seed, **SMALL)), options.name)
        return 0
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"seed {seed}")
    if options.command == "load":
        plan = Plan(options.minutes * 60, options.pending, options.rate, seed)
        return run(plan, console)
    plan = Plan(forks=options.forks, fork_every_s=0.001, seed=seed, **SMALL)
    return run(plan, console) | exits(options.exits, seed, console)


def run(plan, console):
    """Run a plan and report its results. Return 1 if there are faults, else 0."""
    load, printed_s = Load(plan), 0.0
    with console.status("starting") as status:

        def on_progress(load):
            nonlocal printed_s
            if console.is_terminal:
                status.update(progress(load))
            elif load.seconds > printed_s + PROGRESS_S:
                printed_s = load.seconds
                console.print(progress(load))

        load.run(on_progress)
    report(load, console)
    return int(bool(load.faults))


def progress(load):
    """Return a line about a run that goes on."""
    rss_mb = load.samples.rss_mb[-1:] or [0]
    faults = "".join(f", {count} {fault}" for fault, count in (load.account.faults | load.faults).items())
    return (
        f"{load.seconds:,.0f} s, {load.account.added:,} tasks, {load.operations / load.seconds:,.0f} operations/s, "
        f"{load.counts['forks']:,} forks, {load.pending:,} pending, {rss_mb[0]:,.0f} MB{faults}"
    )


def report(load, console):
    """Print the histogram, the counts, and the faults."""
    rows, counts, samples = load.lateness.rows(), load.counts, load.samples
    total, highest = sum(count for _, count in rows) or 1, max(count for _, count in rows) or 1
    table = Table("late by", "", "share", "callbacks", box=None, pad_edge=False)
    for name, count in rows:
        table.add_row(name, "█" * round(BAR * count / highest), f"{count / total:.3%}", f"{count:,}")
    console.print(table)
    names = ("cancelled", "rescheduled", "returned", "slow", "errors", "forks", "jumps", "signals", "timers closed")
    console.print(f"{load.account.added:,} tasks, {load.operations / load.seconds:,.0f} operations/s")
    console.print(", ".join(f"{counts[name]:,} {name}" for name in names))
    if samples.rss_mb:
        grown_mb, more = samples.growth(samples.rss_mb), samples.growth(samples.descriptors)
        console.print(f"at most {load.most_pending:,} pending and {max(samples.rss_mb):,.0f} MB")
        console.print(f"growth since the warm-up: {grown_mb:.1f} MB, {more:.1f} descriptors")
    if load.faults:
        console.print(f"FOUND: {dict(load.faults)}")
    else:
        console.print("nothing found: each task ended once, none before its deadline")


def exits(count, seed, console):
    """Run programs that exit under load. Return 1 if there are faults, else 0."""
    faults, begin = Counter(), time.monotonic()
    chance = random.Random(seed)
    for number in range(count):
        name = [*children.PROGRAM_EXITS][number % len(children.PROGRAM_EXITS)]
        command = [sys.executable, "-P", str(Path(__file__).parent), "--seed", str(chance.getrandbits(32)), "exit"]
        if fault := children.fault_of_exit(command, name):
            faults[f"{name}: {fault}"] += 1
    verdict = f"FOUND: {dict(faults)}" if faults else "nothing found"
    console.print(f"{count:,} exits in {time.monotonic() - begin:.0f} s: {verdict}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
