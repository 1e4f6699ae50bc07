"""`hwheel tune`: which tick, wheel size and timeout suit a log of timers."""

import argparse
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hwheel.cli.common import WHEEL_SIZE_MOST, CommandError, add_subcommand, whole_number
from hwheel.extras import require

DESCRIPTION = """\
Replays a log of timers in virtual time, with many ticks and wheel sizes: how often the reaper would have woken up, how
often a timer would have been moved, how late it would have fired, and what memory it would have taken. Says which tick
and size to choose, and why; what other timeouts would have done; and writes a report with pictures.
"""

EPILOG = """\
a log is Parquet, files or directories of them, JSON lines (.jsonl, .ndjson, .json) or CSV with a first line of names
(.csv), with a row a timer in any order, and at least these columns:
  start    when it was started: a number of ms, from anywhere, or a timestamp
  timeout  for how long: a number of ms, or a duration
  end      when it was cancelled, as start; null, or in CSV nothing: never
hwheel.recorder writes such a log from a running program; of hwheel demo --log it takes the same.

examples:
  hwheel tune log/                            a table, and what to choose
  hwheel tune examples/requests.jsonl         a log of another program
  hwheel tune log/ --out report               a page with pictures as well, and the figures as JSON
  hwheel tune log/ --timeout 5000 30000       what if the timeout were 5 s, or 30 s?
  hwheel tune log/ --late 20                  no timer may be more than 20 ms late
  hwheel tune log/ --ticks 1 10 --sizes 64 512 4096
  hwheel tune hosts/ --per-file               a log of each host: each has a wheel of its own
  hwheel tune hdfs:///logs --spark --master yarn --key user --wheels 64

Without --spark all of it is held in memory, some 150 bytes a timer; with --per-file one file at a time.
"""


def add_to(commands: Any) -> None:
    """Adds `tune` to the subcommands."""
    parser = add_subcommand(
        commands,
        "tune",
        help="which tick, wheel size and timeout suit a log of timers",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("log", metavar="LOG", nargs="+", help="a file, or a directory of Parquet")
    parser.add_argument("--out", metavar="DIR", type=Path, help="write report.html, report.json and pictures into it")
    parser.add_argument("--json", action="store_true", help="write the figures to standard output, and nothing else")
    parser.add_argument(
        "--per-file", action="store_true", help="each file has a wheel of its own (default: one for all)"
    )
    parser.add_argument(
        "--columns",
        metavar=("START", "TIMEOUT", "END"),
        nargs=3,
        default=["start", "timeout", "end"],
        help="the names of the columns (default: start timeout end)",
    )
    tried = parser.add_argument_group("what is tried")
    tried.add_argument(
        "--ticks", metavar="MS", nargs="+", type=whole_number(1), help="ticks (default: 1 2 5 10 20 50 100)"
    )
    tried.add_argument(
        "--sizes",
        metavar="N",
        nargs="+",
        type=whole_number(2, WHEEL_SIZE_MOST),
        help="wheel sizes (default: 20 64 256 512 1024)",
    )
    tried.add_argument(
        "--timeout",
        metavar="MS",
        nargs="+",
        type=whole_number(1),
        default=[],
        help="timeouts for all timers instead of their own, with the tick and size that are chosen",
    )
    tried.add_argument(
        "--late",
        metavar="MS",
        type=whole_number(0),
        help="how late a timer may be (default: 1%% of the median timeout)",
    )
    spark = parser.add_argument_group("Spark, for what is too big for this")
    spark.add_argument(
        "--spark", action="store_true", help="replay on Spark: a task for each file, which has a wheel of its own"
    )
    spark.add_argument("--key", metavar="COLUMN", help="spread the timers by this column, instead of a wheel a file,")
    spark.add_argument("--wheels", metavar="N", type=whole_number(1, 4096), help="over so many wheels")
    spark.add_argument("--master", metavar="URL", help="default: local[*], or what spark-submit says")
    spark.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help="a setting; may be repeated")
    parser.set_defaults(run=run, prog=parser.prog)


def run(options: argparse.Namespace) -> int:
    """Replays the log, shows what was found, and writes the report."""
    check_together(options)
    spared = [name for name, wanted in (("rich", not options.json), ("matplotlib", options.out)) if not wanted]
    require(options.prog, "tune", *(["spark"] if options.spark else []), without=spared)
    from hwheel.logs.columns import LogError

    try:
        return tune(options)
    except (LogError, OverflowError) as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{error.filename or options.out}: {error.strerror or error}") from None


def check_together(options: argparse.Namespace) -> None:
    if not options.spark and (options.master or options.conf):
        raise CommandError("--master and --conf need --spark")
    if not options.spark and (options.key or options.wheels):
        raise CommandError("--key and --wheels need --spark")
    if (options.key is None) != (options.wheels is None):
        raise CommandError("--key and --wheels go together")
    if options.spark and options.per_file:
        raise CommandError("--per-file has no meaning with --spark, where each file has a wheel of its own anyway")
    if options.out and options.out.exists() and not options.out.is_dir():
        raise CommandError(f"--out: {options.out} is no directory")


def tune(options: argparse.Namespace) -> int:
    from hwheel.cli.tune.source import Silence, source
    from hwheel.logs.columns import LogColumns
    from hwheel.tune.advice import advise
    from hwheel.tune.grid import TICKS, WHEEL_SIZES, Grid
    from hwheel.tune.report import figures_of, write_report

    grid = Grid(unique(options.ticks or TICKS), unique(options.sizes or WHEEL_SIZES))
    columns = LogColumns(*options.columns)
    name = " ".join(options.log)
    with ExitStack() as stack:
        progress: Any = Silence()
        if not options.json:
            from hwheel.cli.tune.draw import Board

            progress = stack.enter_context(Board())
        replay = stack.enter_context(source(options, columns, progress))
        found = replay(grid, True)
        advice = advise(found, options.late)
        what_if = []
        if options.timeout:
            at = Grid((advice.costs.tick_ms,), (advice.costs.wheel_size,), unique(options.timeout))
            what_if = [*replay(at, False).costs]
    files = write_report(options.out, name, found, advice, what_if) if options.out else []
    if options.json:
        print(json.dumps(figures_of(name, found, advice, what_if)))
    else:
        from hwheel.cli.tune.draw import show

        show(found, advice, what_if, files)
    return 0


def unique(numbers: Any) -> tuple[int, ...]:
    return tuple(sorted(set(numbers)))
