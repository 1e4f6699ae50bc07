"""The options of ``hwheel trace``."""

import argparse
import json
from datetime import timedelta
from typing import Any

from hwheel.cli.common import INT64_MAX, MAX_WHEEL_SIZE, add_subcommand, whole_number
from hwheel.cli.trace.clock_time import looks_like_wall_clock, utc_offset
from hwheel.cli.trace.steps import trace, trace_as_json
from hwheel.extras import require

CLASSIC_TICK_MS = 1000
CLASSIC_WHEEL_SIZE = 3
CLASSIC_START_MS = 1_675_752_020_558
CLASSIC_DELAYS_MS = [1000, 2000, 3000, 4000, 5000, 6000, 7000]
CLASSIC_UTC_OFFSET = timedelta(hours=8)  # in which the classic start is 14:40:20

DESCRIPTION = """\
Adds tasks to a wheel and follows them down its levels. The trace shows the
buckets, the clock of each level, and the delay queue: at the start, after the
adds, and after each advance to the next bucket that expires. The default is
the classic example: seven tasks with delays of 1 to 7 seconds, on a wheel of
three buckets with a tick of one second.
"""

EPILOG = """\
examples:
  hwheel trace
  hwheel trace --tick 20 --wheel-size 10 --start 0 --delays 5 23 230
  hwheel trace --tick 1 --wheel-size 20 --start 0 --delays 450,446,455,473
  hwheel trace --utc-offset=-05:00
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
    parser = add_subcommand(
        commands,
        "trace",
        help="print how tasks travel down the levels of a wheel",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    add = parser.add_argument
    text = "tick of the finest level, in ms (default: %(default)s)"
    add("--tick", "--tick-ms", dest="tick_ms", metavar="MS", type=whole_number(1), default=CLASSIC_TICK_MS, help=text)
    text = "buckets per level (default: %(default)s)"
    size = whole_number(2, MAX_WHEEL_SIZE)
    add("--wheel-size", metavar="N", type=size, default=CLASSIC_WHEEL_SIZE, help=text)
    text = "first time of the clock, in ms (default: %(default)s)"
    start = whole_number(0)
    add("--start", "--start-ms", dest="start_ms", metavar="MS", type=start, default=CLASSIC_START_MS, help=text)
    text = "delays of the tasks in ms, separated by spaces or commas (default: 1000 2000 ... 7000)"
    add("--delays", metavar="MS", nargs="+", type=_delays, default=[CLASSIC_DELAYS_MS], help=text)
    text = "show the time of day at this offset from UTC (default: +08:00 if --start is a time since 1970)"
    add("--utc-offset", metavar="HH:MM", type=utc_offset, default=None, help=text)
    add("--json", action="store_true", help="print the steps as JSON, which does not need rich")
    parser.set_defaults(run=run, prog=parser.prog)


def run(options: argparse.Namespace) -> int:
    """Compute the trace and print it."""
    if not options.json:
        require(options.prog, "cli")
    delays_ms = [delay_ms for group in options.delays for delay_ms in group]
    steps = trace(options.tick_ms, options.wheel_size, options.start_ms, delays_ms)
    if options.json:
        print(json.dumps(trace_as_json(steps)))
        return 0

    from rich.console import Console

    from hwheel.cli.trace.draw import draw_trace

    offset = options.utc_offset
    if offset is None and looks_like_wall_clock(options.start_ms):
        offset = CLASSIC_UTC_OFFSET
    draw_trace(steps, offset, Console(highlight=False))
    return 0


def _delays(text: str) -> list[int]:
    delay = whole_number(-INT64_MAX)
    return [delay(part) for part in text.split(",")]
