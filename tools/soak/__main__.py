"""Run timers under load, with forks, and account for every task.

It keeps a million tasks pending for some minutes, and until so many forked children have exited. It reports tasks that
were lost, ended twice, or ran early, children that hang, and whether memory grows. It prints its seed and exits with
status 1 if it finds a fault.
"""

import argparse
import random
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from load import Load, Plan


def main():
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--seed", default="random", help="a number, or random (default)")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--pending", type=int, default=1_000_000, help="tasks pending at a time")
    parser.add_argument("--rate", type=int, default=200_000, help="operations per second")
    parser.add_argument("--forks", type=int, default=0, help="fork so often without a pause; by default, every 5 s")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed == "random" else int(options.seed)
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    print(f"seed {seed}", flush=True)
    pause_s = 0.001 if options.forks else Plan.fork_every_s
    plan = Plan(options.minutes * 60, options.pending, options.rate, seed, fork_every_s=pause_s, forks=options.forks)
    load = Load(plan)
    load.run()
    print(load.progress())
    print(", ".join(f"{count:,} {name}" for name, count in sorted(load.counts.items())))
    for seconds, pending, mb, descriptors in load.samples[:: max(1, len(load.samples) // 10)]:
        print(f"{seconds:,.0f} s: {pending:,} pending, {mb:,.1f} MB, {descriptors} descriptors")
    clean = "nothing found: each task ended once, none before its deadline"
    print(f"FOUND: {dict(load.faults)}" if load.faults else clean, flush=True)
    return int(bool(load.faults))


if __name__ == "__main__":
    sys.exit(main())
