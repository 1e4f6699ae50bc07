"""`hwheel trace`: how tasks travel down a wheel."""

import argparse
import json
from datetime import timedelta
from typing import Any

from hwheel.cli.common import INT64_MOST, WHEEL_SIZE_MOST, add_subcommand, whole_number
from hwheel.cli.trace.as_json import trace_as_json
from hwheel.cli.trace.clock_time import looks_like_wall_clock, utc_offset
from hwheel.cli.trace.steps import trace
from hwheel.extras import require

CLASSIC_TICK_MS = 1000
CLASSIC_WHEEL_SIZE = 3
CLASSIC_START_MS = 1_675_752_020_558
CLASSIC_DELAYS_MS = [1000, 2000, 3000, 4000, 5000, 6000, 7000]
CLASSIC_UTC_OFFSET = timedelta(hours=8)  # where that start reads 14:40:20

DESCRIPTION = """\
Adds tasks to a wheel and follows them down its levels: what sits in which bucket, what the clock of each level says,
and what the delay queue holds, at the start, after the adds, and after each advance, which goes to the next bucket
that falls due. Without options it is the classic walk-through: seven tasks of 1 to 7 seconds on a wheel of three
buckets with a tick of one second.
"""

EPILOG = """\
examples:
  hwheel trace
  hwheel trace --tick 20 --wheel-size 10 --start 0 --delays 5 23 230
  hwheel trace --tick 1 --wheel-size 20 --start 0 --delays 450,446,455,473
  hwheel trace --utc-offset=-05:00
  hwheel trace --json | python -m json.tool

--json prints one object: version, tick_ms, wheel_size, start_ms, tasks (task, delay_ms, expiration_ms) and steps. A
step has step ("start", "add" or "poll"), time_ms, task (which one was added), due (which tasks fell due, in order),
moved (task, from, to), levels (level, tick_ms, interval_ms, current_time_ms, and the non-empty buckets) and queue (the
same buckets as they fall due). A bucket is level, bucket, expiration_ms, tasks. Tasks are numbers from 1, in the order
of the adds.
"""


def add_to(commands: Any) -> None:
    """Adds `trace` to the subcommands."""
    parser = add_subcommand(
        commands,
        "trace",
        help="print how tasks travel down the levels of a wheel",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument(
        "--tick",
        "--tick-ms",
        dest="tick_ms",
        metavar="MS",
        type=whole_number(1),
        default=CLASSIC_TICK_MS,
        help="tick of the finest level, in ms (default: %(default)s)",
    )
    parser.add_argument(
        "--wheel-size",
        metavar="N",
        type=whole_number(2, WHEEL_SIZE_MOST),
        default=CLASSIC_WHEEL_SIZE,
        help="buckets a level (default: %(default)s)",
    )
    parser.add_argument(
        "--start",
        "--start-ms",
        dest="start_ms",
        metavar="MS",
        type=whole_number(0),
        default=CLASSIC_START_MS,
        help="where the clock starts, in ms (default: %(default)s)",
    )
    parser.add_argument(
        "--delays",
        metavar="MS",
        nargs="+",
        type=_delays,
        default=[CLASSIC_DELAYS_MS],
        help="delays of the tasks in ms, by spaces or commas (default: 1000 2000 ... 7000)",
    )
    parser.add_argument(
        "--utc-offset",
        metavar="HH:MM",
        type=utc_offset,
        default=None,
        help="show times of day so many hours from UTC (default: +08:00 if the start looks like ms since 1970, as the "
        "classic one does, else only ms)",
    )
    parser.add_argument("--json", action="store_true", help="print the steps as JSON; needs no rich")
    parser.set_defaults(run=run, prog=parser.prog)


def run(options: argparse.Namespace) -> int:
    """Computes the trace and prints it."""
    if not options.json:
        require(options.prog, "cli")
    delays_ms = [delay_ms for some in options.delays for delay_ms in some]
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
    delay = whole_number(-INT64_MOST)
    return [delay(part) for part in text.split(",")]
