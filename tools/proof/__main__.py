"""Check every state of small wheels, in some minutes; with --quick in some seconds.

The head of wheel_order.py lists the invariants.
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
import wheel_order
from search import search

SMALL = [wheel_order.Rules(size=2, tasks=4), wheel_order.Rules(size=3, tasks=2)]
LARGE = [wheel_order.Rules(size=2, levels=4, tasks=4), wheel_order.Rules(size=3, tasks=4)]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="proof", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the smaller bounds")
    options = parser.parse_args()
    console = Console()
    for rules in SMALL if options.quick else SMALL + LARGE:
        begin = time.monotonic()
        with console.status(str(rules)) as status:
            states = search(
                wheel_order.START,
                partial(wheel_order.steps_from, rules=rules),
                lambda count: status.update(f"{rules}, {count:,} states so far"),  # noqa: B023
            )
        console.print(f"{rules}: {states:,} states, {time.monotonic() - begin:.0f} s", soft_wrap=True)


if __name__ == "__main__":
    main()
