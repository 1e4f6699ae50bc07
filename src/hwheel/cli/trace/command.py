"""The options of ``hwheel trace``."""

import argparse
import json
from typing import Any

from hwheel.cli.common import INT64_MAX, MAX_WHEEL_SIZE, add_subcommand, whole_number
from hwheel.cli.trace.steps import trace
from hwheel.extras import require

DELAYS_MS = [1000, 2000, 3000, 5000, 8000, 13_000, 21_000]

DESCRIPTION = """\
Adds tasks to a wheel and follows them down its levels. The trace shows the
buckets, the clock of each level, and the delay queue: after the adds, and after
each advance to the next bucket that expires. By default, seven tasks with
delays of 1 to 21 seconds travel on a wheel of three buckets with a tick of one
second.
"""

EPILOG = """\
examples:
  hwheel trace
  hwheel trace --tick 20 --wheel-size 10 --delays 5 23 230
  hwheel trace --tick 1 --wheel-size 20 --delays 450,446,455,473
  hwheel trace --json | python -m json.tool

--json prints one object: version, tick_ms, wheel_size, start_ms, tasks (task,
delay_ms, expiration_ms), and steps. A step has step ("start", "add", or
"poll"), time_ms, task (the added task), due (expired tasks in order), moved
(task, from, to), levels (level, tick_ms, interval_ms, current_time_ms, and the
non-empty buckets), and queue (the same buckets in order of expiration). A
bucket has level, bucket, expiration_ms, and tasks. Tasks are numbered from 1
in the order of the adds.
"""


def add_to(commands: Any) -> None:
    """Add ``trace`` to the subcommands."""
    help = "print how tasks travel down the levels of a wheel"
    add = add_subcommand(commands, "trace", run, help, (DESCRIPTION, EPILOG)).add_argument
    text = "tick of the finest level, in ms (default: %(default)s)"
    add("--tick", "--tick-ms", dest="tick_ms", metavar="MS", type=whole_number(1), default=1000, help=text)
    text = "buckets per level (default: %(default)s)"
    add("--wheel-size", metavar="N", type=whole_number(2, MAX_WHEEL_SIZE), default=3, help=text)
    text = "first time of the clock, in ms (default: %(default)s)"
    add("--start", "--start-ms", dest="start_ms", metavar="MS", type=whole_number(0), default=0, help=text)
    text = "delays of the tasks in ms, separated by spaces or commas (default: 1000 2000 3000 5000 8000 13000 21000)"
    add("--delays", metavar="MS", nargs="+", type=delays, default=[DELAYS_MS], help=text)
    add("--json", action="store_true", help="print the steps as JSON, which does not need rich")


def run(options: argparse.Namespace) -> int:
    """Compute the trace and print it."""
    if not options.json:
        require(options.prog, "cli")
    delays_ms = [delay_ms for group in options.delays for delay_ms in group]
    found = trace(options.tick_ms, options.wheel_size, options.start_ms, delays_ms)
    if options.json:
        print(json.dumps(found))
        return 0

    from rich.console import Console

    from hwheel.cli.trace.draw import draw_trace

    draw_trace(found, Console(highlight=False))
    return 0


def delays(text: str) -> list[int]:
    delay = whole_number(-INT64_MAX)
    return [delay(part) for part in text.split(",")]
