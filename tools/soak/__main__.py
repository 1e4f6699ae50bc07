"""Timers under load for as long as you like, and many forks and exits; every task is accounted for.

`load` runs for some minutes with a million tasks pending and says what was lost, ended twice or came early, how late
callbacks came, and whether memory grows. `ends` forks and exits many times under load. Both print their seed, and end
with a status of 1 if anything was found.
"""

import argparse
import random
import sys
import time
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
import ends
import report
from load import Load
from plan import Plan

EVERY_S = 30  # a line, where there is no terminal


def seed_of(text: str) -> int:
    """A number, or "random"."""
    return random.SystemRandom().randrange(2**32) if text == "random" else int(text)


def run_load(options: argparse.Namespace, console: Console) -> bool:
    """True: nothing was found."""
    plan = Plan(options.minutes * 60, options.pending, options.rate, options.seed)
    load = Load(plan)
    said = 0.0
    with console.status("begins") as status:

        def on_progress(load: Load) -> None:
            nonlocal said
            if console.is_terminal:
                status.update(report.line(load))
            elif load.seconds > said + EVERY_S:
                said = load.seconds
                console.print(report.line(load), soft_wrap=True, highlight=False)

        load.run(on_progress)
    report.say(load, console)
    if options.picture:
        report.draw(load, options.picture)
        console.print(f"see {options.picture}", soft_wrap=True)
    return not load.faults


def run_ends(options: argparse.Namespace, console: Console) -> bool:
    """True: nothing was found."""
    begin = time.monotonic()
    with console.status("begins") as status:
        forked = ends.forks(options.forks, options.seed, lambda n: status.update(f"{n:,} forks"))
        took_s, begin = time.monotonic() - begin, time.monotonic()
        console.print(f"{options.forks:,} forks under load, {took_s:.0f} s: {forked}", soft_wrap=True, highlight=False)
        wrong = ends.exits(options.exits, options.seed, lambda n: status.update(f"{n:,} exits"))
    took_s = time.monotonic() - begin
    console.print(f"{options.exits:,} exits, {took_s:.0f} s: wrong {dict(wrong)}", soft_wrap=True, highlight=False)
    found = wrong or ends.is_wrong(forked)
    console.print(f"{'FOUND, see above' if found else 'nothing found: none hung, none ended otherwise than it should'}")
    return not found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--seed", type=seed_of, default="random", help="a number, or random")
    commands = parser.add_subparsers(required=True)
    load = commands.add_parser("load", help="timers under load")
    load.add_argument("--minutes", type=float, default=60)
    load.add_argument("--pending", type=int, default=1_000_000, help="at once")
    load.add_argument("--rate", type=int, default=200_000, help="operations a second")
    load.add_argument("--picture", type=Path, help="a file for the histogram and the memory")
    load.set_defaults(run=run_load)
    end = commands.add_parser("ends", help="forks and exits under load")
    end.add_argument("--forks", type=int, default=1000)
    end.add_argument("--exits", type=int, default=200)
    end.set_defaults(run=run_ends)
    options = parser.parse_args()
    console = Console()
    console.print(f"seed {options.seed}", highlight=False)
    sys.exit(0 if options.run(options, console) else 1)


if __name__ == "__main__":
    main()
