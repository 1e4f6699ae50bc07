"""Run timers under load, with forks and exits, and account for every task.

`load` keeps a million tasks pending for some minutes. It reports tasks that were lost, ended twice, or ran early, and
whether memory grows. `ends` forks and exits many times under load. Both print their seed and exit with status 1 if they
find a fault.
"""

import argparse
import random
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import children
from load import Load, Plan

PROGRESS_S = 30  # between two lines
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
    print(f"seed {seed}", flush=True)
    if options.command == "load":
        return run(Plan(options.minutes * 60, options.pending, options.rate, seed))
    return run(Plan(forks=options.forks, fork_every_s=0.001, seed=seed, **SMALL)) | exits(options.exits, seed)


def run(plan):
    """Run a plan and report its results. Return 1 if there are faults, else 0."""
    load, printed_s = Load(plan), 0.0

    def on_progress(load):
        nonlocal printed_s
        if load.seconds > printed_s + PROGRESS_S:
            printed_s = load.seconds
            print(progress(load), flush=True)

    load.run(on_progress)
    print(progress(load))
    names = ("cancelled", "rescheduled", "returned", "slow", "errors", "forks", "jumps", "signals")
    print(", ".join(f"{load.counts[name]:,} {name}" for name in names))
    grown_mb, more = load.samples.growth(load.samples.rss_mb), load.samples.growth(load.samples.descriptors)
    print(f"at most {load.most_pending:,} pending; growth since the warm-up: {grown_mb:.1f} MB, {more:.1f} descriptors")
    clean = "nothing found: each task ended once, none before its deadline"
    print(f"FOUND: {dict(load.faults)}" if load.faults else clean, flush=True)
    return int(bool(load.faults))


def progress(load):
    """Return a line about a run."""
    rss_mb = load.samples.rss_mb[-1:] or [0]
    faults = "".join(f", {count} {fault}" for fault, count in (load.account.faults | load.faults).items())
    return (
        f"{load.seconds:,.0f} s, {load.account.added:,} tasks, {load.operations / load.seconds:,.0f} operations/s, "
        f"{load.counts['forks']:,} forks, {load.pending:,} pending, {rss_mb[0]:,.0f} MB{faults}"
    )


def exits(count, seed):
    """Run programs that exit under load. Return 1 if there are faults, else 0."""
    faults, begin = Counter(), time.monotonic()
    chance = random.Random(seed)
    for number in range(count):
        name = [*children.PROGRAM_EXITS][number % len(children.PROGRAM_EXITS)]
        command = [sys.executable, "-P", str(Path(__file__).parent), "--seed", str(chance.getrandbits(32)), "exit"]
        if fault := children.fault_of_exit(command, name):
            faults[f"{name}: {fault}"] += 1
    verdict = f"FOUND: {dict(faults)}" if faults else "nothing found"
    print(f"{count:,} exits in {time.monotonic() - begin:.0f} s: {verdict}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
