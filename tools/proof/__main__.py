"""Check every state of small wheels and timers, in some minutes; with --quick in some seconds.

The heads of wheel_order.py, wake_up.py, and inboxes.py list the invariants.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
import inboxes
import wake_up
import wheel_order
from search import search

PROOFS: dict[str, tuple[Any, Callable[..., Iterable[Any]], list[Any], list[Any]]] = {
    "the wheel keeps the order and is never early": (
        wheel_order.START,
        wheel_order.steps_from,
        [wheel_order.Rules(size=2, tasks=4), wheel_order.Rules(size=3, tasks=2)],
        [wheel_order.Rules(size=2, levels=4, tasks=4), wheel_order.Rules(size=3, tasks=4)],
    ),
    "no wake-up is lost": (
        wake_up.Timer(),
        wake_up.steps_from,
        [wake_up.Rules(last=4)],
        [wake_up.Rules(last=7)],
    ),
    "inboxes keep the order and lose no wake-up": (
        inboxes.Timer(),
        inboxes.steps_from,
        [inboxes.Rules(tasks=1), inboxes.Rules(last=1)],
        [inboxes.Rules(cancels=2), inboxes.Rules(last=3), inboxes.Rules(last=1, tasks=3)],
    ),
}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="proof", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the smaller bounds")
    options = parser.parse_args()
    console = Console()
    for what, (first, steps_from, small, large) in PROOFS.items():
        for rules in small if options.quick else small + large:
            begin = time.monotonic()
            with console.status(f"{what}: {rules}") as status:
                states = search(
                    first,
                    partial(steps_from, rules=rules),
                    lambda count: status.update(f"{what}: {rules}, {count:,} states so far"),  # noqa: B023
                )
            console.print(f"{what}: {rules}: {states:,} states, {time.monotonic() - begin:.0f} s", soft_wrap=True)


if __name__ == "__main__":
    main()
